"""What a deployed fleet may not become: one change between two fleets, one finding."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.governance.fleets import REMOVE, Documents, changed, documents, line_of, write

from hyperpod_config.findings import Finding, Severity
from hyperpod_config.load import load
from hyperpod_config.model import Fleet
from hyperpod_governance import rules, service
from hyperpod_governance.updates import refused

ROOT = Path(__file__).parents[2]
RESEARCH = "research/spec"
GOVERNANCE = f"{RESEARCH}/governance"
EKS = f"{RESEARCH}/orchestrator/eks"
GROUP = f"{RESEARCH}/instanceGroups/1"
SLURM = "pretrain/spec"
EXISTING = {
    "vpcId": "vpc-1a",
    "subnetIds": ["subnet-1a", "subnet-2b"],
    "securityGroupIds": ["sg-1a"],
}
OVERRIDE = {"subnets": ["subnet-1a"], "securityGroupIds": ["sg-1a"]}
CREATE = f"{RESEARCH}/network/create"
TYPES = {"instanceTypes": ["ml.g6.12xlarge", "ml.g5.12xlarge"]}
HELD = {"vision/spec/allocations/0/activationState": "Disabled",
        "vision/spec/allocations/1/activationState": "Disabled"}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A change of the fleet, whose base is `documents()` with the changes of `base`, and what it causes.

    `at` is the text of the line that the finding is at, behind its file's name. `gone` are documents that are
    taken away, `new` others that are added.
    """

    about: str
    rule: str
    at: str
    words: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    new: dict[str, Documents] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.rule} {self.about}"


def renamed(name: str, file: str, **spec: Any) -> Documents:
    """A document of the fleet under another name."""
    document: Documents = deepcopy(documents()[file])
    document["metadata"]["name"] = name
    document["spec"].update(spec)
    return document


NOVA = {"name": "nova", "instanceType": "ml.p5.48xlarge", "instanceCount": 1}
OTHER_QUOTA = [
    {"cluster": "research", "quota": [{"instanceType": "ml.g6.12xlarge", "count": 1}], "fairShareWeight": 10}
]

CASES = [
    Case(
        "the fleet is renamed",
        "HPF150",
        "fleet: name: lab",
        ("from fleet to lab", "keep the name fleet"),
        {"fleet/metadata/name": "lab"},
    ),
    Case(
        "another region",
        "HPF150",
        "research: region: us-west-2",
        ("us-east-1", "us-west-2", "remove-cluster"),
        {f"{RESEARCH}/region": "us-west-2"},
    ),
    Case(
        "another account",
        "HPF150",
        "research: account: '222222222222'",
        ("111111111111", "222222222222"),
        {f"{RESEARCH}/account": "222222222222"},
        {f"{RESEARCH}/account": "111111111111"},
    ),
    Case(
        "another name in AWS",
        "HPF150",
        "research: clusterName: lab",
        ("fleet-research", "is now lab"),
        {f"{RESEARCH}/clusterName": "lab"},
    ),
    Case(
        "another document name for one name in AWS",
        "HPF150",
        "lab: name: lab",
        ("pretrain is renamed to lab", "big exists"),
        {},
        {f"{SLURM}/clusterName": "big"},
        ("pretrain",),
        {"lab": renamed("lab", "pretrain", clusterName="big")},
    ),
    Case(
        "another range of the VPC",
        "HPF151",
        "research: cidr: 10.64.0.0/16",
        ("10.192.0.0/16", "10.64.0.0/16"),
        {f"{CREATE}/cidr": "10.64.0.0/16"},
    ),
    Case(
        "other zones",
        "HPF151",
        "research: availabilityZones:",
        ("us-east-1a, us-east-1b", "us-east-1c"),
        {f"{CREATE}/availabilityZones": ["us-east-1a", "us-east-1c"]},
        {f"{CREATE}/availabilityZones": ["us-east-1a", "us-east-1b"]},
    ),
    Case(
        "another zone of the nodes",
        "HPF151",
        "research: nodeAvailabilityZone: us-east-1b",
        ("nodeAvailabilityZone", "was us-east-1a"),
        {f"{CREATE}/nodeAvailabilityZone": "us-east-1b"},
        {f"{CREATE}/availabilityZones": ["us-east-1a", "us-east-1b"]},
    ),
    Case(
        "a VPC of somebody else",
        "HPF151",
        "research: existing:",
        ("10.192.0.0/16", "the existing vpc-1a"),
        {f"{RESEARCH}/network": {"existing": EXISTING}},
    ),
    Case(
        "a VPC of its own",
        "HPF151",
        "research: create:",
        ("the existing vpc-1a", "10.192.0.0/16"),
        {},
        {f"{RESEARCH}/network": {"existing": EXISTING}},
    ),
    Case(
        "another subnet",
        "HPF151",
        "research: subnetIds:",
        ("subnet-1a, subnet-2b and is now subnet-1a",),
        {f"{RESEARCH}/network": {"existing": {**EXISTING, "subnetIds": ["subnet-1a"]}}},
        {f"{RESEARCH}/network": {"existing": EXISTING}},
    ),
    Case(
        "subnets in another order",
        "HPF151",
        "research: subnetIds:",
        ("subnet-2b, subnet-1a",),
        {f"{RESEARCH}/network": {"existing": {**EXISTING, "subnetIds": ["subnet-2b", "subnet-1a"]}}},
        {f"{RESEARCH}/network": {"existing": EXISTING}},
    ),
    Case(
        "another security group",
        "HPF151",
        "research: securityGroupIds:",
        ("sg-1a and is now sg-2b",),
        {f"{RESEARCH}/network": {"existing": {**EXISTING, "securityGroupIds": ["sg-2b"]}}},
        {f"{RESEARCH}/network": {"existing": EXISTING}},
    ),
    Case(
        "own subnets for a group",
        "HPF152",
        "research: overrideVpcConfig:",
        ("not set", "subnet-1a, sg-1a"),
        {f"{GROUP}/overrideVpcConfig": OVERRIDE},
    ),
    Case(
        "own subnets taken from a group",
        "HPF152",
        "research: name: gpu",
        ("group gpu", "not set"),
        {},
        {f"{GROUP}/overrideVpcConfig": OVERRIDE},
    ),
    Case(
        "EKS instead of Slurm",
        "HPF153",
        "pretrain: orchestrator:",
        ("was Slurm and is now an EKS cluster of its own",),
        {f"{SLURM}/orchestrator": {"eks": {"version": "1.34"}}},
    ),
    Case(
        "Slurm instead of EKS",
        "HPF153",
        "research: orchestrator:",
        ("is now Slurm",),
        {f"{RESEARCH}/orchestrator": {"slurm": {}}},
    ),
    Case(
        "another existing EKS cluster",
        "HPF153",
        "research: orchestrator:",
        ("cluster one", "cluster two"),
        {EKS: {"existing": {"clusterName": "two"}}},
        {EKS: {"existing": {"clusterName": "one"}}},
    ),
    Case(
        "an existing EKS cluster instead of one of its own",
        "HPF153",
        "research: orchestrator:",
        ("of its own", "existing EKS cluster one"),
        {EKS: {"existing": {"clusterName": "one"}}},
    ),
    Case(
        "two Kubernetes versions at once",
        "HPF154",
        "research: version: '1.34'",
        ("1.32 and is now 1.34", "deploy 1.33, 1.34 one after the other"),
        {},
        {f"{EKS}/version": "1.32"},
    ),
    Case(
        "an older Kubernetes version",
        "HPF154",
        "research: version: '1.33'",
        ("1.34", 'keep "1.34"'),
        {f"{EKS}/version": "1.33"},
    ),
    Case(
        "another instance type",
        "HPF155",
        "research: instanceType: ml.g5.12xlarge",
        ("group gpu", "ml.g6.12xlarge", "another name"),
        {f"{GROUP}/instanceType": "ml.g5.12xlarge"},
    ),
    Case(
        "types to choose from instead of one",
        "HPF155",
        "research: instanceRequirements:",
        ("of one of ml.g6.12xlarge, ml.g5.12xlarge",),
        {f"{GROUP}/instanceType": REMOVE, f"{GROUP}/instanceRequirements": TYPES},
    ),
    Case(
        "one type instead of types to choose from",
        "HPF155",
        "research: instanceType: ml.g6.12xlarge",
        ("was of one of ml.g6.12xlarge", "now of ml.g6.12xlarge"),
        {},
        {f"{GROUP}/instanceType": REMOVE, f"{GROUP}/instanceRequirements": TYPES},
    ),
    Case(
        "a restricted group instead of an ordinary one",
        "HPF155",
        "research: instanceType: ml.p5.48xlarge",
        ("ml.p5.48xlarge (restricted)",),
        {f"{RESEARCH}/restrictedInstanceGroups": [NOVA]},
        {f"{RESEARCH}/instanceGroups/2": NOVA},
    ),
    Case(
        "Continuous for a Slurm cluster",
        "HPF156",
        "pretrain: nodeProvisioningMode: Continuous",
        ("Slurm cluster pretrain", "not set and is now Continuous"),
        {},
        {f"{SLURM}/nodeProvisioningMode": REMOVE},
    ),
    Case(
        "no Continuous for a Slurm cluster that has it",
        "HPF156",
        "pretrain: spec:",
        ("set nodeProvisioningMode: Continuous",),
        {f"{SLURM}/nodeProvisioningMode": REMOVE},
    ),
    Case(
        "no Continuous for an EKS cluster that has it",
        "HPF156",
        "research: spec:",
        ("EKS cluster research",),
        {f"{RESEARCH}/nodeProvisioningMode": REMOVE},
    ),
    Case(
        "a team renamed in another file",
        "HPF157",
        "sight: name: sight",
        ("vision became sight", "research, studio", "renamedFrom: vision", "hpf remove-team vision"),
        {},
        {},
        ("vision",),
        {"sight": renamed("sight", "vision")},
    ),
    Case(
        "a team renamed in its file, with another quota",
        "HPF157",
        "vision: name: sight",
        ("vision became sight",),
        {"vision/metadata/name": "sight", "vision/spec/allocations": OTHER_QUOTA},
    ),
    Case(
        "a team renamed with a word of consent",
        "HPF158",
        "vision: renamedFrom: vision",
        ("team vision on research, studio", "team sight gets a new one"),
        {"vision/metadata/name": "sight", "vision/spec/renamedFrom": "vision"},
    ),
    Case(
        "a team removed",
        "HPF159",
        "vision: name: vision",
        ("team vision was here and is gone", "research, studio", "not held", "hpf remove-team vision"),
        {},
        {},
        ("vision",),
    ),
    Case(
        "an allocation removed",
        "HPF159",
        "vision: cluster: studio",
        ("the allocation of team vision", "studio", "run hpf remove-team vision --cluster studio"),
        {"vision/spec/allocations/1": REMOVE},
    ),
    Case(
        "all allocations removed, and the team stays",
        "HPF159",
        "vision: cluster: research",
        ("research, studio", "hpf remove-team vision --cluster studio"),
        {"vision/spec/allocations": []},
    ),
    Case(
        "a team held on one of two clusters",
        "HPF159",
        "vision: name: vision",
        ("its queue on studio was",),
        {},
        {"vision/spec/allocations/0/activationState": "Disabled"},
        ("vision",),
    ),
    Case(
        "a jump of the add-on",
        "HPF160",
        "research: addonVersion: v1.6.1-eksbuild.1",
        ("v1.3.0-eksbuild.1", "delete stack fleet-research-governance"),
        {},
        {f"{GOVERNANCE}/addonVersion": "v1.3.0-eksbuild.1"},
    ),
    Case(
        "a jump of the add-on to the version that is not said",
        "HPF160",
        "research: governance:",
        ("v1.2.2-eksbuild.1", service.DEFAULT_ADDON_VERSION),
        {f"{GOVERNANCE}/addonVersion": REMOVE},
        {f"{GOVERNANCE}/addonVersion": "v1.2.2-eksbuild.1"},
    ),
    Case(
        "the add-on back to CRDs that lack what is stored",
        "HPF160",
        "research: addonVersion: v1.4.0-eksbuild.1",
        ("v1.6.1-eksbuild.1",),
        {f"{GOVERNANCE}/addonVersion": "v1.4.0-eksbuild.1"},
    ),
    Case(
        "an older add-on",
        "HPF161",
        "research: addonVersion: v1.6.0-eksbuild.1",
        ("back from v1.6.1-eksbuild.1 to v1.6.0-eksbuild.1",),
        {f"{GOVERNANCE}/addonVersion": "v1.6.0-eksbuild.1"},
    ),
    Case(
        "another backend",
        "HPF162",
        "research: backend: custom-resource",
        ("scheduler config: native to custom-resource", "compute quotas: native", "keep backend: auto"),
        {f"{GOVERNANCE}/backend": "custom-resource"},
    ),
    Case(
        "another backend for what the Region lacks",
        "HPF162",
        "research: backend: native",
        ("(scheduler config: custom-resource to native)",),
        {f"{GOVERNANCE}/backend": "native", f"{RESEARCH}/region": "us-west-2"},
        {f"{RESEARCH}/region": "us-west-2"},
    ),
    Case(
        "the add-on gives the queues up",
        "HPF163",
        "research: owner: kueue",
        ("was sagemaker and is now kueue", "fleet-research-governance"),
        {f"{GOVERNANCE}/owner": "kueue", f"{GOVERNANCE}/addonVersion": REMOVE},
    ),
    Case(
        "the add-on takes the queues",
        "HPF163",
        "studio: owner: sagemaker",
        ("fleet-studio-queues",),
        {"studio/spec/governance/owner": "sagemaker"},
    ),
    Case(
        "teams are spread over more stacks",
        "HPF164",
        "research: teamStacks: 4",
        ("was 1 and is now 4",),
        {f"{GOVERNANCE}/teamStacks": 4},
    ),
    Case(
        "a cluster is gone",
        "HPF165",
        "pretrain: name: pretrain",
        ("fleet-pretrain-*", "hpf remove-cluster pretrain"),
        {},
        {},
        ("pretrain",),
    ),
    Case(
        "governance is gone",
        "HPF165",
        "research: governance:",
        ("fleet-research-governance",),
        {GOVERNANCE: REMOVE, "vision/spec/allocations/0": REMOVE, "llm/spec/allocations/0": REMOVE},
    ),
    Case(
        "monitoring is switched off",
        "HPF165",
        "pretrain: state: Disabled",
        ("monitoring of cluster pretrain", "fleet-pretrain-monitoring", "aws cloudformation delete-stack"),
        {f"{SLURM}/monitoring": {"state": "Disabled"}},
    ),
    Case(
        "nothing is waited for any more",
        "HPF165",
        "pretrain: waitFor: None",
        ("capacityGate of cluster pretrain", "fleet-pretrain-capacity"),
        {f"{SLURM}/capacityGate": {"waitFor": "None"}},
    ),
]

GROUP_OF_G5 = {"name": "new", "instanceType": "ml.g5.8xlarge", "instanceCount": 1}
NO_ALLOCATION = {"vision/spec/allocations/0": REMOVE, "llm/spec/allocations/0": REMOVE}

ALLOWED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("another number of instances", {f"{GROUP}/instanceCount": 8, f"{GROUP}/minInstanceCount": 3}, {}),
    ("a new group", {f"{RESEARCH}/instanceGroups/2": GROUP_OF_G5}, {}),
    ("a group less", {GROUP: REMOVE}, {}),
    (
        "other types to choose from",
        {
            f"{GROUP}/instanceRequirements": {"instanceTypes": ["ml.g6.12xlarge"]},
            f"{GROUP}/instanceType": REMOVE,
        },
        {f"{GROUP}/instanceRequirements": TYPES, f"{GROUP}/instanceType": REMOVE},
    ),
    ("the next Kubernetes version", {f"{EKS}/version": "1.35"}, {}),
    ("Continuous for an EKS cluster without", {}, {f"{RESEARCH}/nodeProvisioningMode": REMOVE}),
    (
        "zones that were the first ones of the Region",
        {f"{CREATE}/availabilityZones": ["us-east-1a", "us-east-1b"]},
        {},
    ),
    ("an account where none was said", {f"{RESEARCH}/account": "111111111111"}, {}),
    ("the name in AWS, written out", {f"{RESEARCH}/clusterName": "fleet-research"}, {}),
    ("no NAT gateway", {f"{CREATE}/natGateway": "Disabled"}, {}),
    (
        "an override in another order",
        {f"{GROUP}/overrideVpcConfig": {**OVERRIDE, "subnets": ["subnet-2", "subnet-1"]}},
        {f"{GROUP}/overrideVpcConfig": {**OVERRIDE, "subnets": ["subnet-1", "subnet-2"]}},
    ),
    ("a newer add-on", {}, {f"{GOVERNANCE}/addonVersion": "v1.5.0-eksbuild.1"}),
    (
        "the first step of an old add-on",
        {f"{GOVERNANCE}/addonVersion": "v1.4.0-eksbuild.1"},
        {f"{GOVERNANCE}/addonVersion": "v1.3.0-eksbuild.1"},
    ),
    ("the backend, written out", {f"{GOVERNANCE}/backend": "native"}, {}),
    ("a queue held", {"vision/spec/allocations/0/activationState": "Disabled"}, {}),
    ("a team held before it goes", {"vision": REMOVE}, HELD),
    ("a team held before it is renamed", {"vision/metadata/name": "sight"}, HELD),
    ("a team without allocations goes", {"vision": REMOVE}, {"vision/spec/allocations": []}),
    ("an old word of consent", {"vision/spec/renamedFrom": "sight"}, {}),
    ("governance for a cluster without", {}, {GOVERNANCE: REMOVE, **NO_ALLOCATION}),
    ("other stacks for no teams", {f"{GOVERNANCE}/teamStacks": 2, **NO_ALLOCATION}, NO_ALLOCATION),
]


def fleet(directory: Path, files: Documents) -> Fleet:
    directory.mkdir(parents=True, exist_ok=True)
    loaded = load(write(directory, files))
    assert loaded.fleet is not None, loaded.findings
    return loaded.fleet


def compared(directory: Path, base: Documents, new: Documents) -> tuple[Finding, ...]:
    return refused(fleet(directory / "base", base), fleet(directory / "new", new))


def after(case: Case) -> Documents:
    files = {**changed(case.changes), **deepcopy(case.new)}
    return {name: document for name, document in files.items() if name not in case.gone}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_change_that_is_refused_or_worth_a_word(case: Case, tmp_path: Path) -> None:
    found = compared(tmp_path, changed(case.base), after(case))
    assert [(finding.rule, line_of(finding)) for finding in found] == [(case.rule, case.at)], found
    missing = [word for word in case.words if word not in f"{found[0].message} | {found[0].hint}"]
    assert not missing, found[0]


@pytest.mark.parametrize(("about", "changes", "base"), ALLOWED, ids=[about for about, _, _ in ALLOWED])
def test_a_change_that_goes_on(
    about: str, changes: dict[str, Any], base: dict[str, Any], tmp_path: Path
) -> None:
    gone = [path for path in changes if "/" not in path]
    new = changed({path: value for path, value in changes.items() if path not in gone})
    assert compared(tmp_path, changed(base), {name: it for name, it in new.items() if name not in gone}) == ()


FLEETS = sorted((ROOT / "tests" / "fixtures" / "fleets").iterdir())


@pytest.mark.parametrize("directory", FLEETS, ids=lambda it: it.name)
def test_a_fleet_may_become_what_it_is(directory: Path) -> None:
    one, other = load(directory).fleet, load(directory).fleet
    assert one is not None
    assert other is not None
    assert refused(one, other) == ()


def test_what_was_removed_has_its_place_in_the_base_and_all_else_in_the_new_config(tmp_path: Path) -> None:
    new = changed({f"{RESEARCH}/region": "us-west-2", "vision/spec/allocations/1": REMOVE})
    found = compared(tmp_path, documents(), new)
    places = {finding.rule: Path(finding.place.file).parent.name for finding in found}
    assert places == {"HPF150": "new", "HPF159": "base"}


def test_one_mistake_is_one_finding_when_everything_gets_another_name(tmp_path: Path) -> None:
    """A fleet of another name has no cluster in common with the old one; nothing else need be said."""
    new = changed({"fleet/metadata/name": "lab", f"{RESEARCH}/region": "us-west-2"})
    del new["vision"], new["pretrain"]
    assert [finding.rule for finding in compared(tmp_path, documents(), new)] == ["HPF150"]


def test_teams_that_share_a_file_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """One team of the file goes, another comes: that is no new name."""

    def all_in_one_file(directory: Path, files: Documents) -> Fleet:
        teams = [files.pop(name) for name in list(files) if files[name]["kind"] == "Team"]
        directory.mkdir()
        text = yaml.safe_dump_all(teams, sort_keys=False)
        directory.joinpath("teams.yaml").write_text(text, encoding="utf-8")
        return fleet(directory, files)

    new = changed({"vision/metadata/name": "sight", "vision/spec/allocations": OTHER_QUOTA})
    found = refused(all_in_one_file(tmp_path / "base", documents()), all_in_one_file(tmp_path / "new", new))
    assert [finding.rule for finding in found] == ["HPF159"]


def test_findings_are_sorted_by_place(tmp_path: Path) -> None:
    changes = {path: value for case in CASES[:8] for path, value in case.changes.items()}
    found = compared(tmp_path, documents(), changed({**changes, "fleet/metadata/name": "fleet"}))
    assert len(found) > 1
    assert list(found) == sorted(found, key=lambda it: (it.place, it.rule, it.message))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=4, unique_by=str), st.booleans())
def test_any_two_fleets_can_be_compared(cases: list[Case], back: bool) -> None:
    """Also when rules over the config find errors in one of them, and from the new one to the old one."""
    try:
        before = changed({path: value for case in cases for path, value in case.base.items()})
        new = changed({path: value for case in cases for path, value in case.changes.items()})
    except (KeyError, IndexError, TypeError):
        assume(False)  # one change takes away what the other one is about
    for case in cases:
        new = {**new, **deepcopy(case.new)}
        for name in case.gone:
            new.pop(name, None)
    with tempfile.TemporaryDirectory() as directory:
        places = [Path(directory) / name for name in ("one", "other")]
        for place, files in zip(places, (before, new), strict=True):
            place.mkdir()
            write(place, files)
        one, other = (load(place).fleet for place in places)
        assume(one is not None and other is not None)  # changes that exclude each other
        assert one is not None
        assert other is not None
        found = refused(other, one) if back else refused(one, other)
        assert all(Path(finding.place.file).is_file() for finding in found)
        assert refused(one, one) == refused(other, other) == ()


def test_a_page_says_what_the_severity_is_about() -> None:
    """A warning lets the deployment go on: what deletes something without a word is an error."""
    warnings = {rule.id for rule in rules.UPDATES if rule.severity is not Severity.ERROR}
    assert warnings == {"HPF158", "HPF161", "HPF164", "HPF165"}
