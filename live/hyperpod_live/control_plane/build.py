"""Build the programs of the control plane once, into a cache keyed by what they are built from."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from hyperpod_live.control_plane.errors import ControlPlaneError, disk_errors
from hyperpod_live.control_plane.toolchain import Go, environment, find_go

Progress = Callable[[str], None]
"""What is told, line by line, while something long goes on."""

KUBERNETES_VERSION = "v1.36.3"
"""The version of k8s.io/kubernetes in go.mod; without it in ldflags Kueue cannot parse /version and exits."""

BINARIES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    # Its main.go with the edits below, in our module.
    "kueue": "./kueue",
}
"""The programs, and the Go packages that they are built from, in the order of building."""

KUEUE = "sigs.k8s.io/kueue"
KUEUE_EDITS = {
    # main.go exits unless certificates lie there, where only root can put them. The new place is relative to
    # the folder that the process is started in.
    "cmd/kueue/main.go": ('"/etc/kueue/metrics/certs"', '"certs"'),
}
"""By file of Kueue's module: the literal that must stand there exactly once, and what takes its place."""

CRDS = {
    KUEUE: "config/components/crd/bases/*.yaml",
    "sigs.k8s.io/jobset": "config/components/crd/bases/*.yaml",
    "sigs.k8s.io/lws": "config/crd/bases/leaderworkerset*.yaml",
    # Its mpijobs are v1; Kueue runs those of mpi-operator, v2beta1.
    "github.com/kubeflow/training-operator": "manifests/base/crds/kubeflow.org_[!m]*.yaml",
    "github.com/kubeflow/mpi-operator": "manifests/base/kubeflow.org_mpijobs.yaml",
    "github.com/kubeflow/trainer/v2": "manifests/base/crds/trainer*.yaml",
    "github.com/ray-project/kuberay/ray-operator": "config/crd/bases/*.yaml",
}
"""By Go module: where its CustomResourceDefinitions are. All are modules that Kueue itself is built with."""

KWOK = "sigs.k8s.io/kwok"
STAGES = "kustomize/stage/*/fast/*.yaml"
"""What kwok does to nodes and pods. It runs no pod unless there is a stage for nodes too."""

NEEDED_SPACE = 7 * 2**30
"""Bytes of a cold build: module cache 1.2 GB, build cache 3.4 GB, binaries 0.5 GB, and some to spare."""

_HEARTBEAT_SECONDS = 30


@dataclass(frozen=True)
class Files:
    """The cache entry of one build."""

    home: Path

    def binary(self, name: str) -> Path:
        """Return the path of one of `BINARIES`."""
        return self.home / "bin" / name

    def read(self, name: str) -> list[dict[str, Any]]:
        """Return the Kubernetes objects of `crds`, `webhooks` or `stages`, as their projects publish them."""
        objects: list[dict[str, Any]] = json.loads((self.home / f"{name}.json").read_bytes())
        return objects


def to_stderr(line: str) -> None:
    """Show progress to whoever runs the command."""
    print(line, file=sys.stderr, flush=True)


def cache_dir() -> Path:
    """Return where builds are kept: `HPF_CACHE_DIR`, else the platform's cache folder of this user."""
    if named := os.environ.get("HPF_CACHE_DIR"):
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "hyperpod-fleet"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperpod-fleet"


def ensure_built(progress: Progress = to_stderr) -> Files:
    """Return the programs; the first time they are built, which takes about seven minutes on two cores.

    Two processes that ask at once build once. Raises `ControlPlaneError` without Go, network or disk space.
    """
    go = find_go()
    root = cache_dir() / "control-plane"
    home = root / cache_key(go)
    if not home.is_dir():
        with disk_errors(f"keep the control plane's programs in {root}", "HPF_CACHE_DIR"):
            root.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(root / "build.lock", progress):
                if not home.is_dir():
                    _build(go, home, progress)
    return Files(home)


def cache_key(go: Go) -> str:
    """Return the name of the cache entry: a hash of all that the programs are built from."""
    digest = hashlib.sha256()
    recipe = [KUBERNETES_VERSION, BINARIES, KUEUE_EDITS, CRDS, STAGES, go.version]
    machine = [sys.platform, platform.machine()]
    for part in (_gomod("go.mod"), _gomod("go.sum"), json.dumps([recipe, machine]).encode()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def _gomod(name: str) -> bytes:
    return resources.files(__package__).joinpath("gomod", name).read_bytes()


@contextmanager
def _one_at_a_time(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of builds; it goes with the process, so that a killed build blocks nobody."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Another process is building the control plane; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(go: Go, home: Path, progress: Progress) -> None:
    """Build beside the cache entry and rename: what has the entry's name is complete."""
    caches = _go_caches(home.parent)
    ours = [Path(path) for name, path in caches.items() if name not in os.environ]
    _require_space(home.parent)
    progress(f"Building the control plane with {go.version}: once, some minutes, into {home}")
    part = home.with_name(f".{home.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    builder = _Builder(go.path, part, environment(caches), progress)
    try:
        for path in ours:
            path.mkdir(parents=True, exist_ok=True)
        builder.run()
        part.rename(home)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    # Only now: a build that failed goes on from there the next time.
    shutil.rmtree(home.parent / "go", ignore_errors=True)


def _go_caches(root: Path) -> dict[str, str]:
    """Return Go's own caches: the user's if set in the environment, else ours, which a good build removes."""
    names = {"GOMODCACHE": "modules", "GOCACHE": "objects", "GOTMPDIR": "tmp"}
    return {name: os.environ.get(name) or str(root / "go" / folder) for name, folder in names.items()}


def _require_space(place: Path) -> None:
    free = shutil.disk_usage(place).free
    if free < NEEDED_SPACE:
        raise ControlPlaneError(
            f"Building the control plane takes {NEEDED_SPACE / 2**30:.0f} GiB for some minutes, and {place} "
            f"has {free / 2**30:.1f} GiB. Free some space, or set HPF_CACHE_DIR to a folder with more."
        )


@dataclass(frozen=True)
class _Builder:
    go: Path
    part: Path
    env: Mapping[str, str]
    progress: Progress

    def run(self) -> None:
        source = self.part / "source"
        source.mkdir(parents=True)
        for name in ("go.mod", "go.sum"):
            (source / name).write_bytes(_gomod(name))
        self.progress("downloading sources")
        folders = self._download(source)
        _edit_kueue(folders[KUEUE], source)
        for number, (name, package) in enumerate(BINARIES.items(), 1):
            self._compile(source, name, package, f"{name} ({number} of {len(BINARIES)})")
        _write(self.part / "crds.json", _crds(folders))
        _write(
            self.part / "webhooks.json",
            _documents(folders[KUEUE], "config/components/webhook/manifests.yaml"),
        )
        _write(
            self.part / "stages.json", [s for s in _documents(folders[KWOK], STAGES) if s["kind"] == "Stage"]
        )
        shutil.rmtree(source)

    def _download(self, source: Path) -> dict[str, Path]:
        said = self._go(source, "downloading sources", "mod", "download", "-json", KWOK, *CRDS)
        decoder, folders, rest = json.JSONDecoder(), dict[str, Path](), said.strip()
        while rest:
            module, end = decoder.raw_decode(rest)
            folders[module["Path"]] = Path(module["Dir"])
            rest = rest[end:].lstrip()
        return folders

    def _compile(self, source: Path, name: str, package: str, label: str) -> None:
        major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
        version = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
        flags = [f"-X k8s.io/component-base/version.{key}={value}" for key, value in version.items()]
        output = self.part / "bin" / name
        start = time.monotonic()
        self.progress(f"compiling {label}")
        options = ["-trimpath", "-ldflags", " ".join(["-s", "-w", *flags])]
        self._go(source, f"compiling {label}", "build", *options, "-o", str(output), package)
        self.progress(
            f"compiled {label}: {time.monotonic() - start:.0f} s, {output.stat().st_size / 1e6:.0f} MB"
        )

    def _go(self, source: Path, doing: str, *words: str) -> str:
        """Run Go and return its standard output; say every half minute that it still runs."""
        pipe = subprocess.PIPE
        command = [str(self.go), *words]
        start = time.monotonic()
        with subprocess.Popen(  # noqa: S603 - the Go that find_go found, with words from this file
            command, cwd=source, env=self.env, stdout=pipe, stderr=pipe, text=True
        ) as process:
            while True:
                try:
                    said, complaints = process.communicate(timeout=_HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    self.progress(f"  still {doing}, {time.monotonic() - start:.0f} s")
                except BaseException:
                    process.kill()
                    raise
        if process.returncode:
            raise ControlPlaneError(_go_failed(doing, complaints, said))
        return said


_CAUSES = (
    (
        ("no space left on device", "disk quota exceeded"),
        "The disk is full. Free some space, or set HPF_CACHE_DIR to a folder with more.",
    ),
    (
        ("checksum mismatch", "SECURITY ERROR"),
        "What was downloaded is not what this release was tested with. A proxy that changes files is the "
        "usual cause: ask for it to leave Go modules alone, or set GOPROXY to one that does.",
    ),
    (
        (
            "dial tcp",
            "no such host",
            "i/o timeout",
            "TLS handshake",
            "connection re",
            "x509:",
            "proxyconnect",
            "EOF",
        ),
        "Go could not download its modules. Check the network; behind a proxy set HTTPS_PROXY, with a mirror "
        "GOPROXY.",
    ),
    (
        ("signal: killed", "cannot allocate memory"),
        "The compiler was killed, most likely for want of memory: 4 GB are enough.",
    ),
)
"""Words in what Go says, and what the user can do about them."""


def _go_failed(doing: str, complaints: str, said: str) -> str:
    """Return the sentence for a failed Go command; what was built so far stays in Go's cache."""
    text = complaints + said
    default = "This release and this Go do not go together; please report it with the lines above."
    advice = next((then for words, then in _CAUSES if any(word in text for word in words)), default)
    lines = [line for line in text.splitlines() if not line.startswith("go: downloading")]
    shown = "\n".join(f"  {line}" for line in lines[-20:])
    again = "Then run the same command again; it goes on from here."
    return f"{doing[0].upper()}{doing[1:]} failed:\n{shown}\n{advice} {again}"


def _edit_kueue(module: Path, source: Path) -> None:
    """Put Kueue's main package into our module, with `KUEUE_EDITS` made."""
    for name, (old, new) in KUEUE_EDITS.items():
        text = (module / name).read_text()
        if text.count(old) != 1:
            raise ControlPlaneError(
                f"{name} of this Kueue does not hold {old} once, so it cannot be made to run without root. "
                "This release was made for another version of Kueue; please report it."
            )
        target = source / "kueue" / Path(name).name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text.replace(old, new))


def _documents(folder: Path, pattern: str) -> list[dict[str, Any]]:
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise ControlPlaneError(
            f"{folder} has no {pattern}. This release was made for another version of it."
        )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for path in paths for each in yaml.load_all(path.read_bytes(), loader) if each]


def _crds(folders: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Return all CRDs, Kueue's with the conversion webhooks that its kustomization adds."""
    crds = [each for module, pattern in CRDS.items() for each in _documents(folders[module], pattern)]
    by_name = {crd["metadata"]["name"]: crd for crd in crds if crd["kind"] == "CustomResourceDefinition"}
    base = folders[KUEUE] / "config" / "components" / "crd"
    (kustomization,) = _documents(base, "kustomization.yaml")
    for patch in kustomization["patches"]:
        (conversion,) = _documents(base, patch["path"])
        by_name[conversion["metadata"]["name"]]["spec"]["conversion"] = conversion["spec"]["conversion"]
    return list(by_name.values())


def _write(path: Path, objects: list[dict[str, Any]]) -> None:
    # YAML timestamps do not occur in these files; JSON is read twenty times as fast at each start.
    path.write_text(json.dumps(objects))
