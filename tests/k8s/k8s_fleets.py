"""Fleets for the tests of this directory: one that a person can survey, and any."""

from typing import Any

from hypothesis import strategies as st

from hyperpod_config.model import Cluster, Department, Fleet, FleetDocument, Team
from hyperpod_governance.model import Owner, ResolvedCluster
from hyperpod_governance.resolve import resolve

TYPES = ("ml.g5.8xlarge", "ml.g6.12xlarge", "ml.m5.2xlarge", "ml.p5.48xlarge", "ml.trn1.32xlarge")
# Names that some YAML reader takes for a boolean, a null, a number or a date.
NAMES = ("alpha", "beta", "no", "null", "on", "y", "1e3", "0o14", "0x1f", "12", "2026-11-21", "x" * 40)


def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "hyperpod-fleet/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def team(name: str, allocation: dict[str, Any], **spec: Any) -> Team:
    allocations = [{"cluster": "research", **allocation}]
    return Team.model_validate(document("Team", name, {"allocations": allocations, **spec}))


def department(name: str, spec: dict[str, Any]) -> Department:
    return Department.model_validate(document("Department", name, spec))


def cluster(
    owner: Owner,
    teams: list[Team],
    departments: list[Department] | None = None,
    *,
    groups: list[dict[str, Any]] | None = None,
    scheduler: dict[str, Any] | None = None,
) -> ResolvedCluster:
    """Resolve one EKS cluster called research."""
    spec = {
        "region": "us-east-1",
        "orchestrator": {"eks": {"version": "1.34"}},
        "instanceGroups": groups or [{"name": "g6", "instanceType": "ml.g6.12xlarge", "instanceCount": 4}],
        "governance": {"owner": owner, "schedulerConfig": scheduler or {}},
    }
    fleet = Fleet(
        FleetDocument.model_validate(document("Fleet", "example", {})),
        (Cluster.model_validate(document("Cluster", "research", spec)),),
        tuple(teams),
        tuple(departments or []),
    )
    return resolve(fleet).clusters[0]


def example(owner: Owner) -> ResolvedCluster:
    """A cluster with a taint, a topology, a department, idle capacity to lend and one team."""
    quota = [{"instanceType": "ml.g6.12xlarge", "accelerators": 2, "vCpu": 48}]
    only_gpu = {
        "quota": quota,
        "resourceSharingConfig": {"strategy": "LendAndBorrow", "borrowLimit": 50},
        "fairShareWeight": 10,
    }
    vision = department("vision", {"fairShareWeight": 3})
    return cluster(
        owner,
        [team("onlygputeam", only_gpu, department="vision", access={"groups": ["sso:{{vision}}"]})],
        [vision],
        groups=[
            {
                "name": "g6",
                "instanceType": "ml.g6.12xlarge",
                "instanceCount": 4,
                "kubernetesConfig": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            },
            {"name": "h100", "instanceType": "ml.p5.48xlarge", "instanceCount": 2},
        ],
        scheduler={"idleResourceSharing": "Enabled", "priorityClasses": [{"name": "training", "weight": 70}]},
    )


@st.composite
def clusters(draw: st.DrawFn) -> ResolvedCluster:
    """Any cluster of either owner, as ``resolve`` makes it."""
    owner: Owner = draw(st.sampled_from(["kueue", "sagemaker"]))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True))
    effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    taints = st.fixed_dictionaries(
        {"key": st.sampled_from(["gpu", "example.com/team"]), "effect": effects},
        optional={"value": st.sampled_from(["", "no", "true"])},
    )
    groups = [
        {
            "name": f"group-{number}",
            "instanceType": name,
            "instanceCount": draw(st.integers(0, 6758)),
            "kubernetesConfig": {"taints": draw(st.lists(taints, max_size=2))},
        }
        for number, name in enumerate(types)
    ]
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    departments = [
        department("science", {}),
        department("vision", {"parent": "science", "fairShareWeight": 7}),
    ]
    toggles = st.sampled_from(["Enabled", "Disabled"])
    scheduler = {
        "fairShare": draw(toggles),
        "idleResourceSharing": draw(toggles),
        "priorityClasses": [{"name": name, "weight": 70} for name in names],
    }
    teams = [
        team(name, draw(_allocations(types)), department=draw(st.sampled_from([None, "science", "vision"])))
        for name in names
    ]
    return cluster(owner, teams, departments, groups=groups, scheduler=scheduler)


@st.composite
def _allocations(draw: st.DrawFn, types: list[str]) -> dict[str, Any]:
    amounts = st.one_of(
        st.fixed_dictionaries({"count": st.integers(0, 10_000)}),
        st.fixed_dictionaries({"vCpu": st.sampled_from([0.5, 1.0, 7.25, 48.0, 100_000.0])}),
        st.fixed_dictionaries({"memoryInGiB": st.sampled_from([0.5, 1.0, 192.0, 1024.0])}),
    )
    # A family or a team may ask for a type that the cluster does not have yet.
    asked = draw(st.lists(st.sampled_from([*types, "ml.g5.48xlarge"]), max_size=3, unique=True))
    sharing: dict[str, Any] = {"strategy": draw(st.sampled_from(["LendAndBorrow", "Lend", "DontLend"]))}
    if sharing["strategy"] == "LendAndBorrow":
        sharing["borrowLimit"] = draw(st.integers(0, 500))
    return {
        "quota": [{"instanceType": name, **draw(amounts)} for name in asked],
        "resourceSharingConfig": sharing,
        "preemptTeamTasks": draw(st.sampled_from(["LowerPriority", "Never"])),
        "fairShareWeight": draw(st.integers(0, 100)),
        "activationState": draw(st.sampled_from(["Enabled", "Disabled"])),
    }
