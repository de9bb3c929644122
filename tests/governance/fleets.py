"""A small fleet without findings, and ways to change one thing in it and see what the rules say."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hyperpod_config.findings import Finding
from hyperpod_config.load import load
from hyperpod_governance.review import Review, review

Documents = dict[str, Any]

API = "hyperpod-fleet/v1alpha1"
REMOVE = object()
"""Value of a change that takes the key, or the item, away."""


def _document(kind: str, name: str, spec: Any) -> Documents:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _group(name: str, instance_type: str, count: int, minimum: int, **more: Any) -> Documents:
    sizes = {"instanceCount": count, "minInstanceCount": minimum}
    return {"name": name, "instanceType": instance_type, **sizes, **more}


def _cluster(name: str, orchestrator: Documents, groups: list[Documents], **more: Any) -> Documents:
    spec = {
        "region": "us-east-1",
        "orchestrator": orchestrator,
        "network": {"create": {"cidr": "10.192.0.0/16"}},
        "nodeProvisioningMode": "Continuous",
        "nodeRecovery": "Automatic",
        "instanceGroups": groups,
        **more,
    }
    return _document("Cluster", name, spec)


def _governance(owner: str, **more: Any) -> Documents:
    classes = [{"name": "inference", "weight": 90}, {"name": "training", "weight": 70}]
    scheduler = {"fairShare": "Enabled", "idleResourceSharing": "Disabled", "priorityClasses": classes}
    return {"owner": owner, **more, "schedulerConfig": scheduler}


def _team(name: str, **more: Any) -> Documents:
    research: Documents = {
        "cluster": "research",
        "quota": [{"instanceType": "ml.g6.12xlarge", "accelerators": 2}],
    }
    studio: Documents = {"cluster": "studio", "quota": [{"instanceType": "ml.p5.48xlarge", "count": 1}]}
    for allocation in (research, studio):
        allocation["fairShareWeight"] = 10
    return _document("Team", name, {**more, "allocations": [research, studio]})


def documents() -> Documents:
    """Documents by file name: an EKS cluster of each owner, a Slurm cluster, two teams, a department."""
    compute = {"nodeType": "Compute", "partitionNames": ["train"]}
    return {
        "fleet": _document("Fleet", "fleet", {"tags": {"owner": "ml-platform"}}),
        "research": _cluster(
            "research",
            {"eks": {"version": "1.34"}},
            [_group("system", "ml.m5.2xlarge", 2, 1), _group("gpu", "ml.g6.12xlarge", 4, 2)],
            governance=_governance("sagemaker", addonVersion="v1.6.1-eksbuild.1"),
        ),
        "studio": _cluster(
            "studio",
            {"eks": {"version": "1.34"}},
            [_group("system", "ml.m5.2xlarge", 2, 1), _group("gpu", "ml.p5.48xlarge", 4, 2)],
            governance=_governance("kueue"),
        ),
        "pretrain": _cluster(
            "pretrain",
            {"slurm": {}},
            [
                _group("head", "ml.m5.xlarge", 1, 1, slurmConfig={"nodeType": "Controller"}),
                _group("train", "ml.p5.48xlarge", 8, 4, slurmConfig=compute),
            ],
        ),
        "llm": _team("llm", department="science"),
        "vision": _team("vision"),
        "science": _document("Department", "science", {"fairShareWeight": 2}),
    }


@dataclass(frozen=True)
class Case:
    """One change of the fleet and the only finding that it may cause.

    `changes` are values by file and path (`research/spec/region`); an index one past the end appends. `at` is
    the text of the line that the finding is at, behind its file's name.
    """

    about: str
    rule: str
    at: str
    words: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.rule} {self.about}"


def write(directory: Path, files: Documents) -> Path:
    """Write each document to a file of its own, one value a line, the way people do."""
    for name, document in files.items():
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        directory.joinpath(f"{name}.yaml").write_text(text, encoding="utf-8")
    return directory


def changed(changes: dict[str, Any]) -> Documents:
    """The fleet with some values changed."""
    files = documents()
    for path, value in changes.items():
        change(files, path, value)
    return files


def change(files: Documents, path: str, value: Any) -> None:
    """Set, append or remove one value; missing mappings on the way are made."""
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    node: Any = files
    for key in parents:
        node = node[key] if isinstance(key, int) else node.setdefault(key, {})
    if value is REMOVE:
        del node[last]
    elif isinstance(last, int) and last == len(node):
        node.append(deepcopy(value))
    else:
        # A later change may reach into this value, which other cases use as well.
        node[last] = deepcopy(value)


def reviewed(directory: Path, files: Documents) -> Review:
    """Write, load and review a fleet that loads without a finding."""
    loaded = load(write(directory, files))
    assert loaded.findings == ()
    assert loaded.fleet is not None
    return review(loaded.fleet)


def line_of(finding: Finding) -> str:
    """The line that a finding is at, behind its file's name: `research: region: eu-west-3`."""
    path = Path(finding.place.file)
    line = path.read_text(encoding="utf-8").splitlines()[finding.place.line - 1]
    return f"{path.stem}: {line.strip().removeprefix('- ')}"


def check(case: Case, directory: Path) -> None:
    """Assert that a change causes exactly its finding, at its place, with its words."""
    found = reviewed(directory, changed(case.changes)).findings
    assert [(finding.rule, line_of(finding)) for finding in found] == [(case.rule, case.at)], found
    missing = [word for word in case.words if word not in f"{found[0].message} | {found[0].hint}"]
    assert not missing, found[0]
