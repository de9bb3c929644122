"""Files that the config names: lifecycle scripts and the dependencies chart."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hyperpod_config import load
from hyperpod_config.assets import check

CONFIG = """\
apiVersion: hyperpod-fleet/v1alpha1
kind: Fleet
metadata: {name: example}
spec: {}
---
apiVersion: hyperpod-fleet/v1alpha1
kind: Cluster
metadata: {name: research}
spec:
  region: us-east-1
  orchestrator: {eks: {version: "1.34", dependencies: {path: ../chart}}}
  instanceGroups:
    - name: g5
      instanceType: ml.g5.2xlarge
      instanceCount: 1
      lifeCycleConfig:
        sourcePath: scripts
        onCreate: setup.sh
---
apiVersion: hyperpod-fleet/v1alpha1
kind: Cluster
metadata: {name: pretrain}
spec:
  region: us-east-1
  orchestrator: {slurm: {}}
  instanceGroups:
    - name: head
      instanceType: ml.m5.xlarge
      instanceCount: 1
      slurmConfig: {nodeType: Controller}
      lifeCycleConfig:
        sourcePath: slurm
        onInitComplete: setup.sh
"""


SECOND_GROUP = """\
    - name: train
      instanceType: ml.g5.2xlarge
      instanceCount: 1
      slurmConfig: {nodeType: Compute}
      lifeCycleConfig: {sourcePath: slurm, onInitComplete: setup.sh}
"""


def prepare(base: Path) -> Path:
    directory = base / "config"
    for name in ("scripts", "slurm"):
        (directory / name).mkdir(parents=True)
        (directory / name / "setup.sh").write_text("#!/bin/bash\n")
    (directory / "fleet.yaml").write_text(CONFIG)
    (base / "chart").mkdir()
    (base / "chart" / "Chart.yaml").write_text("name: chart\n")
    return directory


def no_directory(directory: Path) -> None:
    (directory / "scripts" / "setup.sh").unlink()
    (directory / "scripts").rmdir()


def lower_script(directory: Path) -> None:
    (directory / "scripts" / "lib").mkdir()
    (directory / "scripts" / "lib" / "helper.sh").write_text("echo\n")


MISTAKES: dict[str, tuple[Callable[[Path], object], str, int, str]] = {
    "no chart": (
        lambda it: (it.parent / "chart" / "Chart.yaml").unlink(),
        "HPF020",
        11,
        "it has no Chart.yaml",
    ),
    "no directory of scripts": (no_directory, "HPF020", 17, "is not a directory"),
    "no script": (lambda it: (it / "scripts" / "setup.sh").unlink(), "HPF020", 18, "is not a file"),
    "Windows line ends": (
        lambda it: (it / "scripts" / "setup.sh").write_bytes(b"#!/bin/bash\r\n"),
        "HPF021",
        18,
        "CRLF",
    ),
    "no interpreter": (
        lambda it: (it / "scripts" / "setup.sh").write_text("echo\n"),
        "HPF021",
        18,
        "does not begin with #!",
    ),
    "Windows line ends in a script beside the one that is named": (
        lambda it: (it / "scripts" / "helper.sh").write_bytes(b"#!/bin/bash\r\n"),
        "HPF021",
        17,
        "helper.sh has CRLF",
    ),
    "no interpreter in a script below the one that is named": (
        lower_script,
        "HPF021",
        17,
        "helper.sh does not",
    ),
    "the older way to set up Slurm": (
        lambda it: (it / "slurm" / "provisioning_parameters.json").write_text("{}"),
        "HPF022",
        32,
        "provisioning_parameters.json must not be uploaded",
    ),
}


@pytest.mark.parametrize(("spoil", "rule", "line", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_at_the_field_that_names_the_file(
    tmp_path: Path, spoil: Callable[[Path], object], rule: str, line: int, words: str
) -> None:
    directory = prepare(tmp_path)
    fleet = load(directory).fleet
    assert fleet is not None
    assert list(check(fleet, directory)) == []
    spoil(directory)
    found = list(check(fleet, directory))
    assert [(it.rule, it.place.line) for it in found] == [(rule, line)]
    assert words in found[0].message


def test_a_script_of_two_groups_is_spoken_of_once_and_other_files_not_at_all(tmp_path: Path) -> None:
    directory = prepare(tmp_path)
    config = directory / "fleet.yaml"
    first_names_another = config.read_text().replace("onInitComplete: setup.sh", "onInitComplete: other.sh")
    config.write_text(first_names_another + SECOND_GROUP)
    (directory / "slurm" / "setup.sh").write_text("echo\n")
    (directory / "slurm" / "other.sh").write_text("#!/bin/bash\n")
    (directory / "slurm" / "notes.txt").write_bytes(b"to do\r\n")
    (directory / "slurm" / "folder.sh").mkdir()
    fleet = load(directory).fleet
    assert fleet is not None
    found = list(check(fleet, directory))
    assert [(it.rule, it.place.line) for it in found] == [("HPF021", 38)]
