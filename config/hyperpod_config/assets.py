"""Files that a fleet config points at: lifecycle scripts and the dependencies chart.

Paths are relative to the config directory. What is wrong with a file is said when the config is checked, not
when a node runs it an hour later.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hyperpod_config.findings import Finding, Place, rule
from hyperpod_config.model import Cluster, Fleet, LifeCycleConfig

FORBIDDEN = "provisioning_parameters.json"


@rule("HPF020", "A file that the config names is not there")
def missing_file(place: Place, path: Path, wanted: str) -> Finding:
    """**What it means.** The path, taken from the config directory, is not what the field asks for.

    **Why it matters.** The file is uploaded when the cluster is made; without it nodes do not start.

    **Example.** `lifeCycleConfig: {sourcePath: scripts, onCreate: setup.sh}` without `scripts/setup.sh`.

    **Fix.** Correct the path, or add the file.
    """
    return missing_file.finding(
        place, f"{path} is not {wanted}", "paths are relative to the config directory"
    )


@rule("HPF021", "A lifecycle script that cannot run")
def bad_script(place: Place, path: Path, problem: str, hint: str) -> Finding:
    """**What it means.** The script, or another `*.sh` file of its directory, has Windows line ends, or does
    not begin with `#!`.

    **Why it matters.** It fails on every node, and the instance group with it, after 20 minutes or more.
    Every `*.sh` file of the directory is checked again, and refused, when templates are made.

    **Example.** A script saved with CRLF line ends: `/bin/bash^M: bad interpreter`.

    **Fix.** Save it with LF line ends and begin it with `#!/bin/bash`.
    """
    return bad_script.finding(place, f"{path} {problem}", hint)


@rule("HPF022", "provisioning_parameters.json beside a lifecycle script")
def provisioning_parameters(place: Place, path: Path) -> Finding:
    """**What it means.** The directory that is uploaded holds a file of the older way to set up Slurm.

    **Why it matters.** The API refuses a cluster that has both this file and a Slurm orchestrator: "The
    LifeCycleConfig cannot include both a SLURM Orchestrator Config and a provisioning_parameters.json file
    simultaneously." On EKS it has no meaning.

    **Example.** A copy of the published base config as `sourcePath`.

    **Fix.** Remove the file; `slurmConfig` of each group says what it said.
    """
    return provisioning_parameters.finding(place, f"{path} must not be uploaded", "remove the file")


def check(fleet: Fleet, directory: Path) -> Iterator[Finding]:
    """Find what is wrong with the files that a fleet's config names, given the config directory."""
    for cluster in fleet.clusters:
        yield from _chart(cluster, directory)
        checked: set[Path] = set()
        uploads = list(_uploads(cluster, directory))
        for index, life_cycle, source in uploads:
            yield from _entry_script(cluster, index, life_cycle, source, checked)
        # After every entry script, so that what is wrong with one is said at the field that names it.
        for index, _, source in uploads:
            yield from _beside(cluster.place(*_at(index), "sourcePath"), source, checked)


def _uploads(cluster: Cluster, directory: Path) -> Iterator[tuple[int, LifeCycleConfig, Path]]:
    """Every group with scripts of its own: its index, its lifecycle config and the directory uploaded."""
    for index, group in enumerate(cluster.spec.instance_groups):
        life_cycle = group.life_cycle_config
        if life_cycle is not None and life_cycle.source_path is not None:
            yield index, life_cycle, directory / life_cycle.source_path


def _at(index: int) -> tuple[str | int, ...]:
    return "spec", "instanceGroups", index, "lifeCycleConfig"


def _chart(cluster: Cluster, directory: Path) -> Iterator[Finding]:
    eks = cluster.spec.orchestrator.eks
    if eks is None or eks.dependencies.path is None:
        return
    path = directory / eks.dependencies.path
    if not (path / "Chart.yaml").is_file():
        place = cluster.place("spec", "orchestrator", "eks", "dependencies", "path")
        yield missing_file(place, path, "a Helm chart: it has no Chart.yaml")


def _entry_script(
    cluster: Cluster, index: int, life_cycle: LifeCycleConfig, source: Path, checked: set[Path]
) -> Iterator[Finding]:
    if not source.is_dir():
        yield missing_file(cluster.place(*_at(index), "sourcePath"), source, "a directory")
        return
    place = cluster.place(*_at(index), "onCreate" if life_cycle.on_create else "onInitComplete")
    script = source / str(life_cycle.on_create or life_cycle.on_init_complete)
    if not script.is_file():
        yield missing_file(place, script, "a file")
    elif script not in checked:
        checked.add(script)
        yield from _script(place, script)


def _beside(place: Place, source: Path, checked: set[Path]) -> Iterator[Finding]:
    """What is wrong with the other files of a directory; each file is spoken of once."""
    for path in sorted(source.rglob("*")):
        if path in checked or not path.is_file():
            continue
        checked.add(path)
        if path.name == FORBIDDEN:
            yield provisioning_parameters(place, path)
        elif path.suffix == ".sh":
            yield from _script(place, path)


def _script(place: Place, path: Path) -> Iterator[Finding]:
    try:
        content = path.read_bytes()
    except OSError as error:
        yield missing_file(place, path, f"readable: {error.strerror}")
        return
    if not content.startswith(b"#!"):
        yield bad_script(place, path, "does not begin with #!", "begin it with #!/bin/bash")
    if b"\r" in content:
        yield bad_script(place, path, "has CRLF line ends", "save it with LF line ends")
