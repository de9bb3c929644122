"""The resolved model: what a fleet means, whatever the order in which it is written."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ryaml import dumps, loads_all  # type: ignore[attr-defined]  # its stub hides what it documents

from hyperpod_config.load import load
from hyperpod_config.model import KINDS, Fleet
from hyperpod_governance.model import GPU, ClusterQueue, QuotaRow, ResolvedFleet, ResolvedGovernance
from hyperpod_governance.quantity import format_quantity
from hyperpod_governance.resolve import resolve

EXAMPLE = Path(__file__).parents[2] / "config"


def document(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "hyperpod-fleet/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster(owner: str = "sagemaker", groups: Any = None, **governance: Any) -> dict[str, Any]:
    return document(
        "Cluster",
        "research",
        region="us-east-1",
        orchestrator={"eks": {"version": "1.34"}},
        instanceGroups=groups or [{"name": "g5", "instanceType": "ml.g5.2xlarge", "instanceCount": 8}],
        governance={"owner": owner, **governance},
    )


def team(name: str, quota: Any, department: str | None = None, **allocation: Any) -> dict[str, Any]:
    spec = {"allocations": [{"cluster": "research", "quota": quota, **allocation}]}
    return document("Team", name, **(spec | ({"department": department} if department else {})))


def resolved(*documents: dict[str, Any]) -> ResolvedFleet:
    models = [KINDS[it["kind"]].model_validate(it) for it in documents]

    def of(kind: str) -> tuple[Any, ...]:
        return tuple(sorted((it for it in models if it.kind == kind), key=lambda it: it.metadata.name))

    fleet = KINDS["Fleet"].model_validate(document("Fleet", "fleet"))
    return resolve(Fleet(fleet, of("Cluster"), of("Team"), of("Department")))


def governance(*documents: dict[str, Any]) -> ResolvedGovernance:
    found = resolved(*documents).clusters[0].governance
    assert found is not None
    return found


def shown(row: QuotaRow) -> tuple[str, str | None, str | None]:
    def text(amount: int | None) -> str | None:
        return None if amount is None else format_quantity(row.resource, amount)

    nominal = text(row.nominal)
    assert nominal is not None
    return nominal, text(row.borrowing_limit), text(row.lending_limit)


@pytest.mark.parametrize(
    ("region", "backend", "scheduler_config", "compute_quota"),
    [
        pytest.param("us-east-1", "auto", "native", "native", id="both types are listed"),
        pytest.param("us-west-2", "auto", "custom-resource", "native", id="only the quota is listed"),
        pytest.param(
            "us-west-1", "auto", "native", "custom-resource", id="only the scheduler config is listed"
        ),
        pytest.param("ap-south-2", "auto", "custom-resource", "custom-resource", id="neither is listed"),
        pytest.param("ap-south-2", "native", "native", "native", id="native is asked for all the same"),
        pytest.param(
            "us-east-1", "custom-resource", "custom-resource", "custom-resource", id="custom is asked"
        ),
    ],
)
def test_the_backend_is_what_the_region_has_unless_the_config_says(
    region: str, backend: str, scheduler_config: str, compute_quota: str
) -> None:
    document = cluster(backend=backend)
    document["spec"]["region"] = region
    found = governance(document)
    assert (found.scheduler_config_backend, found.compute_quota_backend) == (scheduler_config, compute_quota)


def test_onlygputeam_has_2_gpus_48_cpu_192gi_and_may_borrow_half_as_much() -> None:
    loaded = load(EXAMPLE)
    assert loaded.fleet is not None
    research = next(it for it in resolve(loaded.fleet).clusters if it.name == "research").governance
    assert research is not None
    rows = {row.resource: shown(row) for row in research.rows if row.team == "onlygputeam"}
    assert rows == {
        "nvidia.com/gpu": ("2", "1", None),
        "cpu": ("48", "24", None),
        "memory": ("192Gi", "96Gi", None),
    }
    queue = next(it for it in research.cluster_queues if it.team == "onlygputeam")
    assert queue.name == "hyperpod-ns-onlygputeam-clusterqueue"
    assert queue.fair_share_weight == 10
    assert queue.within_cluster_queue == "LowerPriority"
    quota = next(it for it in research.compute_quotas if it.team == "onlygputeam")
    assert (quota.strategy, quota.borrow_limit, quota.fair_share_weight) == ("LendAndBorrow", 50, 10)


SHARING: dict[str, tuple[dict[str, Any], tuple[str, str | None, str | None]]] = {
    "nothing said: lend and borrow half": ({}, ("4", "2", None)),
    "a percentage": (
        {"resourceSharingConfig": {"strategy": "LendAndBorrow", "borrowLimit": 150}},
        ("4", "6", None),
    ),
    "a percentage rounds down to whole devices": (
        {"resourceSharingConfig": {"strategy": "LendAndBorrow", "borrowLimit": 40}},
        ("4", "1", None),
    ),
    "Lend: nothing borrowed": ({"resourceSharingConfig": {"strategy": "Lend"}}, ("4", "0", None)),
    "DontLend: neither": ({"resourceSharingConfig": {"strategy": "DontLend"}}, ("4", "0", "0")),
    "an absolute limit stands in for the percentage": (
        {
            "resourceSharingConfig": {
                "strategy": "LendAndBorrow",
                "absoluteBorrowLimits": [{"instanceType": "ml.g5.2xlarge", "accelerators": 7}],
            }
        },
        ("4", "7", None),
    ),
    "an absolute limit beside a percentage": (
        {
            "resourceSharingConfig": {
                "strategy": "LendAndBorrow",
                "borrowLimit": 25,
                "absoluteBorrowLimits": [{"instanceType": "ml.p5.48xlarge", "accelerators": 8}],
            }
        },
        ("4", "1", None),
    ),
}


@pytest.mark.parametrize(("allocation", "expected"), SHARING.values(), ids=SHARING)
def test_sharing(allocation: dict[str, Any], expected: tuple[str, str | None, str | None]) -> None:
    quota = [{"instanceType": "ml.g5.2xlarge", "accelerators": 4}]
    found = governance(cluster(), team("a", quota, **allocation))
    row = next(row for row in found.rows if (row.flavor, row.resource) == ("ml.g5.2xlarge", GPU))
    assert shown(row) == expected


def test_a_team_may_borrow_a_type_it_owns_nothing_of_up_to_an_absolute_limit() -> None:
    sharing = {
        "strategy": "LendAndBorrow",
        "absoluteBorrowLimits": [{"instanceType": "ml.p5.48xlarge", "accelerators": 8}],
    }
    quota = [{"instanceType": "ml.g5.2xlarge", "accelerators": 4}]
    found = governance(cluster(), team("a", quota, resourceSharingConfig=sharing))
    row = next(row for row in found.rows if (row.flavor, row.resource) == ("ml.p5.48xlarge", GPU))
    assert shown(row) == ("0", "8", None)


def test_a_quota_above_capacity_is_kept_as_it_is() -> None:
    found = governance(cluster(), team("a", [{"instanceType": "ml.g5.2xlarge", "count": 1000}]))
    row = next(row for row in found.rows if row.resource == GPU)
    assert shown(row) == ("1k", "500", None)


def test_a_live_add_on_queue_lists_every_flavor_of_the_cluster_with_zero_where_nothing_is_owned() -> None:
    groups = [
        {"name": "a", "instanceType": "ml.g5.2xlarge", "instanceCount": 1},
        {"name": "b", "instanceType": "ml.m5.xlarge", "instanceCount": 1},
    ]
    queue = governance(
        cluster(groups=groups), team("a", [{"instanceFamily": "g5", "count": 1}])
    ).cluster_queues[0]
    assert [flavor.flavor for flavor in queue.flavors] == ["ml.g5.2xlarge", "ml.m5.xlarge"]
    assert all(entry.nominal == 0 for entry in queue.flavors[1].resources)


def test_our_own_queue_lists_only_the_flavors_of_its_quota() -> None:
    groups = [
        {"name": "a", "instanceType": "ml.g5.2xlarge", "instanceCount": 1},
        {"name": "b", "instanceType": "ml.m5.xlarge", "instanceCount": 1},
    ]
    found = governance(cluster("kueue", groups), team("a", [{"instanceFamily": "g5", "count": 1}]))
    assert [flavor.flavor for flavor in found.cluster_queues[0].flavors] == ["ml.g5.2xlarge"]
    assert [flavor.name for flavor in found.flavors] == ["ml.g5.2xlarge", "ml.m5.xlarge"]


def test_no_name_of_ours_is_one_that_the_add_on_manages() -> None:
    found = governance(
        cluster("kueue", schedulerConfig={"priorityClasses": [{"name": "training", "weight": 70}]}),
        team("a", [{"instanceFamily": "g5", "count": 1}]),
    )
    names = [
        item.name
        for items in (
            found.topologies,
            found.cohorts,
            found.cluster_queues,
            found.local_queues,
            found.priority_classes,
            found.namespaces,
        )
        for item in items
    ]
    assert not any(name.startswith("hyperpod-") or name.endswith("-priority") for name in names)


def test_idle_capacity_is_what_no_team_was_promised_and_never_negative() -> None:
    policy = {"idleResourceSharing": "Enabled"}
    found = governance(
        cluster("kueue", schedulerConfig=policy),
        team("a", [{"instanceType": "ml.g5.2xlarge", "accelerators": 3}]),
        team("b", [{"instanceType": "ml.g5.2xlarge", "memoryInGiB": 1000}]),
    )
    pool = {entry.resource: entry.nominal for entry in found.cohorts[0].flavors[0].resources}
    assert pool[GPU] == 5
    assert pool["memory"] == 0


def test_departments_are_a_tree_of_cohorts_and_only_those_in_use() -> None:
    found = governance(
        cluster("kueue"),
        document("Department", "science"),
        document("Department", "vision", parent="science", fairShareWeight=3),
        document("Department", "unused"),
        team("a", [{"instanceFamily": "g5", "count": 1}], department="vision"),
        team("b", [{"instanceFamily": "g5", "count": 1}]),
    )
    assert [(it.name, it.parent) for it in found.cohorts] == [
        ("cluster-research", None),
        ("department-science", "cluster-research"),
        ("department-vision", "department-science"),
    ]
    assert [(it.name, it.cohort) for it in found.cluster_queues] == [
        ("team-a", "department-vision"),
        ("team-b", "cluster-research"),
    ]


def test_taints_of_a_group_are_tolerations_of_its_flavor() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    groups = [
        {
            "name": "a",
            "instanceType": "ml.g5.2xlarge",
            "instanceCount": 1,
            "kubernetesConfig": {"taints": [taint]},
        }
    ]
    flavor = governance(cluster("kueue", groups)).flavors[0]
    assert [(it.key, it.value, it.effect) for it in flavor.tolerations] == [("gpu", "yes", "NoSchedule")]


def test_flavors_have_a_topology_exactly_when_their_nodes_carry_its_labels() -> None:
    groups = [
        {"name": "a", "instanceType": "ml.p5.48xlarge", "instanceCount": 1},
        {"name": "b", "instanceType": "ml.m5.xlarge", "instanceCount": 1},
    ]
    found = governance(cluster("kueue", groups))
    assert {it.name: it.topology for it in found.flavors} == {
        "ml.p5.48xlarge": "ec2-network-3",
        "ml.m5.xlarge": None,
    }
    assert found.topologies[0].levels[-1] == "kubernetes.io/hostname"


def test_a_disabled_allocation_holds_its_queue() -> None:
    quota = [{"instanceFamily": "g5", "count": 1}]
    assert (
        governance(cluster(), team("a", quota, activationState="Disabled")).cluster_queues[0].stop_policy
        == "Hold"
    )


# --- properties -------------------------------------------------------------------------------------------

TYPES = ["ml.g5.2xlarge", "ml.g5.12xlarge", "ml.p5.48xlarge", "ml.trn2.48xlarge", "ml.m5.2xlarge"]
SELECTORS = st.one_of(
    st.sampled_from(TYPES).map(lambda name: {"instanceType": name}),
    st.sampled_from(["g5", "p5", "trn2", "m5"]).map(lambda name: {"instanceFamily": name}),
    st.sampled_from(["nvidia", "trainium", "cpu"]).map(lambda name: {"hardware": name}),
)
AMOUNTS = st.one_of(
    st.integers(0, 50).map(lambda value: {"count": value}),
    st.fixed_dictionaries(
        {}, optional={"vCpu": st.integers(0, 500), "memoryInGiB": st.integers(0, 5000)}
    ).filter(bool),
)
ITEMS = st.builds(lambda selector, amount: {**selector, **amount}, SELECTORS, AMOUNTS)
TEAMS = st.lists(st.lists(ITEMS, max_size=4), max_size=5)
GROUPS = st.lists(st.tuples(st.sampled_from(TYPES), st.integers(0, 40)), min_size=1, max_size=7)


def fleet_documents(
    owner: str, groups: list[tuple[str, int]], quotas: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    members = [
        {"name": f"g{index}", "instanceType": name, "instanceCount": count}
        for index, (name, count) in enumerate([*groups, *((name, 0) for name in TYPES)])
    ]
    return [cluster(owner, members), *(team(f"team-{index}", quota) for index, quota in enumerate(quotas))]


OWNERS = st.sampled_from(["sagemaker", "kueue"])


@given(OWNERS, GROUPS, TEAMS)
def test_no_node_is_counted_twice(
    owner: str, groups: list[tuple[str, int]], quotas: list[list[dict[str, Any]]]
) -> None:
    cluster_ = resolved(*fleet_documents(owner, groups, quotas)).clusters[0]
    assert sum(entry.nodes for entry in cluster_.capacity) == sum(count for _, count in groups)


@given(OWNERS, GROUPS, TEAMS, st.randoms())
def test_the_order_of_documents_groups_items_and_keys_changes_nothing_but_the_typed_config(
    owner: str, groups: list[tuple[str, int]], quotas: list[list[dict[str, Any]]], order: random.Random
) -> None:
    documents = fleet_documents(owner, groups, quotas)
    again: Any = reordered(documents, order)
    assert resolved(*documents).clusters[0].governance == resolved(*again).clusters[0].governance


def reordered(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, reordered(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return order.sample([reordered(item, order) for item in value], len(value))
    return value


@settings(max_examples=50)
@given(OWNERS, GROUPS, TEAMS)
def test_every_queue_satisfies_what_kueue_asks_of_its_figures(
    owner: str, groups: list[tuple[str, int]], quotas: list[list[dict[str, Any]]]
) -> None:
    def consistent(queue: ClusterQueue) -> bool:
        return all(
            tuple(entry.resource for entry in flavor.resources) == queue.resources
            and all(
                entry.lending_limit is None or entry.lending_limit <= entry.nominal
                for entry in flavor.resources
            )
            for flavor in queue.flavors
        )

    found = governance(*fleet_documents(owner, groups, quotas))
    assert all(consistent(queue) for queue in found.cluster_queues)
    assert all(cohort.parent is None or not cohort.flavors for cohort in found.cohorts)


def test_the_example_is_the_same_fleet_however_its_files_are_arranged(tmp_path: Path) -> None:
    documents = [
        item
        for path in sorted(EXAMPLE.rglob("*.yaml"), reverse=True)
        for item in loads_all(path.read_text("utf-8"))
    ]
    one_file = tmp_path / "all.yaml"
    one_file.write_text("---\n".join(dumps(item) for item in documents), "utf-8")
    facts: Callable[[Path], Any] = lambda path: [  # noqa: E731
        (it.name, it.pools, it.capacity, it.governance)
        for it in resolve(load(path).fleet).clusters  # type: ignore[arg-type]
    ]
    assert facts(tmp_path) == facts(EXAMPLE)


def test_a_gpu_of_which_slices_are_promised_is_not_idle() -> None:
    groups = [{"name": "a", "instanceType": "ml.p5.48xlarge", "instanceCount": 1}]
    slices = {"acceleratorPartition": {"type": "mig-1g.10gb", "count": 15}}
    found = governance(
        cluster("kueue", groups, schedulerConfig={"idleResourceSharing": "Enabled"}),
        team("a", [{"instanceType": "ml.p5.48xlarge", **slices}]),
    )
    pool = {entry.resource: entry.nominal for entry in found.cohorts[0].flavors[0].resources}
    assert pool[GPU] == 5


MINIMUMS: dict[str, tuple[str | None, dict[str, Any], int]] = {
    "Continuous: what is stated": ("Continuous", {"minInstanceCount": 2}, 2),
    "Continuous: none if nothing is stated": ("Continuous", {}, 0),
    "without Continuous: all": (None, {}, 4),
    "Slurm: one controller": ("Continuous", {"slurmConfig": {"nodeType": "Controller"}}, 1),
    "Slurm: no compute node": ("Continuous", {"slurmConfig": {"nodeType": "Compute"}}, 0),
}


@pytest.mark.parametrize(("mode", "group", "expected"), MINIMUMS.values(), ids=MINIMUMS)
def test_the_minimum_of_a_group(mode: str | None, group: dict[str, Any], expected: int) -> None:
    it = document(
        "Cluster",
        "research",
        region="us-east-1",
        orchestrator={"slurm": {}} if "slurmConfig" in group else {"eks": {"version": "1.34"}},
        instanceGroups=[{"name": "a", "instanceType": "ml.g5.2xlarge", "instanceCount": 4, **group}],
        **({"nodeProvisioningMode": mode} if mode else {}),
    )
    assert resolved(it).clusters[0].pools[0].minimum == expected


def test_the_service_is_told_the_percentage_that_the_review_shows_beside_absolute_limits() -> None:
    limits = [{"instanceType": "ml.g5.2xlarge", "accelerators": 7}]
    sharing = {"strategy": "LendAndBorrow", "absoluteBorrowLimits": limits}
    quota = [{"instanceType": "ml.g5.2xlarge", "accelerators": 4}]
    assert (
        governance(cluster(), team("a", quota, resourceSharingConfig=sharing)).compute_quotas[0].borrow_limit
        == 0
    )


def test_a_group_of_types_with_different_network_labels_names_no_topology() -> None:
    types = {"instanceTypes": ["ml.p5.48xlarge", "ml.g5.2xlarge"]}
    groups = [{"name": "a", "instanceRequirements": types, "instanceCount": 1}]
    labels = resolved(cluster("kueue", groups)).clusters[0].pools[0].kubernetes_labels
    assert "hyperpod-fleet.io/topology" not in labels
