"""Quota arithmetic: the figures of the announcements by name, and what must hold for all."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperpod_config.model import QuotaItem
from hyperpod_governance import catalog, quota
from hyperpod_governance.model import CPU, EFA, GPU, MEMORY, NEURON_DEVICE, ComputeQuotaResource
from hyperpod_governance.quantity import format_quantity


def amounts(item: dict[str, Any], nodes: dict[str, int] | None = None) -> dict[str, dict[str, str]]:
    found = quota.total(quota.grants(QuotaItem.model_validate(item), nodes or {}))
    return {
        flavor: {resource: format_quantity(resource, amount) for resource, amount in resources.items()}
        for flavor, resources in found.items()
    }


FIGURES: dict[str, tuple[dict[str, Any], dict[str, int], dict[str, dict[str, str]]]] = {
    "2 GPUs of a p5.48xlarge are 48 vCPU and 512 GiB (announcement of fine-grained quotas)": (
        {"instanceType": "ml.p5.48xlarge", "accelerators": 2},
        {"ml.p5.48xlarge": 1},
        {"ml.p5.48xlarge": {GPU: "2", CPU: "48", MEMORY: "512Gi"}},
    ),
    "2 GPUs of two g5.2xlarge are 16 vCPU and 64 GiB (announcement of fine-grained quotas)": (
        {"instanceType": "ml.g5.2xlarge", "accelerators": 2},
        {"ml.g5.2xlarge": 2},
        {"ml.g5.2xlarge": {GPU: "2", CPU: "16", MEMORY: "64Gi"}},
    ),
    "onlygputeam: 2 GPUs and 48 vCPU of g6.12xlarge are 192Gi, memory follows vCPU": (
        {"instanceType": "ml.g6.12xlarge", "accelerators": 2, "vCpu": 48},
        {"ml.g6.12xlarge": 4},
        {"ml.g6.12xlarge": {GPU: "2", CPU: "48", MEMORY: "192Gi"}},
    ),
    "four m5.xlarge are 16 vCPU and 64 GiB (measured ClusterQueue)": (
        {"instanceType": "ml.m5.xlarge", "count": 4},
        {},
        {"ml.m5.xlarge": {CPU: "16", MEMORY: "64Gi"}},
    ),
    "a whole g5.12xlarge is 48 vCPU, 192 GiB and 4 GPUs, EFA included": (
        {"instanceType": "ml.g5.12xlarge", "count": 1},
        {},
        {"ml.g5.12xlarge": {CPU: "48", MEMORY: "192Gi", GPU: "4", EFA: "1"}},
    ),
    "only vCPU: memory by ratio, no accelerators": (
        {"instanceType": "ml.p5.48xlarge", "vCpu": 96},
        {},
        {"ml.p5.48xlarge": {GPU: "0", CPU: "96", MEMORY: "1Ti"}},
    ),
    "only memory: vCPU by ratio, no accelerators": (
        {"instanceType": "ml.p5.48xlarge", "memoryInGiB": 1024},
        {},
        {"ml.p5.48xlarge": {GPU: "0", CPU: "96", MEMORY: "1Ti"}},
    ),
    "all three stated are taken as they stand": (
        {"instanceType": "ml.g5.24xlarge", "accelerators": 16, "vCpu": 200, "memoryInGiB": 2},
        {},
        {"ml.g5.24xlarge": {GPU: "16", CPU: "200", MEMORY: "2Gi"}},
    ),
    "Neuron devices": (
        {"instanceType": "ml.trn2.48xlarge", "accelerators": 4},
        {},
        {"ml.trn2.48xlarge": {NEURON_DEVICE: "4", CPU: "48", MEMORY: "512Gi"}},
    ),
    "MIG: 14 slices of an eight-GPU p5 are two GPUs' worth of vCPU and memory": (
        {"instanceType": "ml.p5.48xlarge", "acceleratorPartition": {"type": "mig-1g.10gb", "count": 14}},
        {},
        {"ml.p5.48xlarge": {"nvidia.com/mig-1g.10gb": "14", CPU: "48", MEMORY: "512Gi"}},
    ),
    "a family in proportion to its GPUs": (
        {"instanceFamily": "g5", "accelerators": 9},
        {"ml.g5.2xlarge": 4, "ml.g5.12xlarge": 2, "ml.p5.48xlarge": 9},
        {
            "ml.g5.12xlarge": {GPU: "6", CPU: "72", MEMORY: "288Gi"},
            "ml.g5.2xlarge": {GPU: "3", CPU: "24", MEMORY: "96Gi"},
        },
    ),
    "hardware covers every family of its kind": (
        {"hardware": "nvidia", "count": 3},
        {"ml.g5.2xlarge": 4, "ml.p5.48xlarge": 2, "ml.m5.xlarge": 50},
        {
            "ml.g5.2xlarge": {GPU: "2", CPU: "16", MEMORY: "64Gi"},
            "ml.p5.48xlarge": {GPU: "8", CPU: "192", MEMORY: "2Ti", EFA: "32"},
        },
    ),
    "cpu is a kind of hardware": (
        {"hardware": "cpu", "vCpu": 6},
        {"ml.m5.xlarge": 2, "ml.c5.xlarge": 1, "ml.g5.2xlarge": 4},
        {"ml.c5.xlarge": {CPU: "2", MEMORY: "4Gi"}, "ml.m5.xlarge": {CPU: "4", MEMORY: "16Gi"}},
    ),
    "a quota above capacity plans for growth": (
        {"instanceType": "ml.g5.2xlarge", "accelerators": 40},
        {"ml.g5.2xlarge": 2},
        {"ml.g5.2xlarge": {GPU: "40", CPU: "320", MEMORY: "1280Gi"}},
    ),
    "a family whose groups are still empty is split evenly": (
        {"instanceFamily": "g5", "count": 2},
        {"ml.g5.2xlarge": 0, "ml.g5.xlarge": 0},
        {
            "ml.g5.2xlarge": {GPU: "1", CPU: "8", MEMORY: "32Gi"},
            "ml.g5.xlarge": {GPU: "1", CPU: "4", MEMORY: "16Gi"},
        },
    ),
    "decimals count as written: 0.3 vCPU are 300 millicores": (
        {"instanceType": "ml.m5.xlarge", "vCpu": 0.3, "memoryInGiB": 1.2},
        {},
        {"ml.m5.xlarge": {CPU: "300m", MEMORY: "1228Mi"}},
    ),
}


@pytest.mark.parametrize(("item", "nodes", "expected"), FIGURES.values(), ids=FIGURES)
def test_figures(item: dict[str, Any], nodes: dict[str, int], expected: dict[str, dict[str, str]]) -> None:
    assert amounts(item, nodes) == expected


def test_borrowing_is_a_percentage_of_the_own_quota_rounded_down() -> None:
    assert quota.percent(16_000, CPU, 50) == 8_000
    assert quota.percent(1, GPU, 50) == 0
    assert quota.percent(3, GPU, 150) == 4


def test_the_api_gets_every_figure_that_the_service_would_fill_in() -> None:
    item = QuotaItem.model_validate({"instanceType": "ml.g6.12xlarge", "accelerators": 2, "vCpu": 48})
    assert quota.api_resources(quota.grants(item, {})) == (
        ComputeQuotaResource("ml.g6.12xlarge", accelerators=2, v_cpu=48.0, memory_in_gib=192.0),
    )


def test_items_of_one_type_are_one_entry_for_each_way_of_stating_them() -> None:
    items = [{"count": 1}, {"accelerators": 2}, {"accelerators": 1}, {"count": 2}]
    found = [
        grant
        for item in items
        for grant in quota.grants(QuotaItem.model_validate({"instanceType": "ml.p5.48xlarge", **item}), {})
    ]
    assert quota.api_resources(found) == (
        ComputeQuotaResource("ml.p5.48xlarge", count=3),
        ComputeQuotaResource("ml.p5.48xlarge", accelerators=3, v_cpu=72.0, memory_in_gib=768.0),
    )


# --- properties -------------------------------------------------------------------------------------------

GPU_TYPES = sorted(kind.name for kind in catalog.instance_types().values() if kind.hardware == "nvidia")
CLUSTERS = st.dictionaries(st.sampled_from(GPU_TYPES), st.integers(0, 200), min_size=1, max_size=8)
FIGURE = st.sampled_from(["count", "accelerators", "vCpu", "memoryInGiB"])
WEIGHTS = st.lists(st.integers(0, 10_000), min_size=1, max_size=12).map(
    lambda weights: [(f"type-{index:02}", weight) for index, weight in enumerate(weights)]
)


@given(st.integers(0, 10**9), st.integers(1, 2**30), WEIGHTS)
def test_shares_add_up_exactly(amount: int, unit: int, weights: list[tuple[str, int]]) -> None:
    assert sum(quota.split(amount, unit, weights).values()) == amount


@given(st.integers(0, 5_000), st.integers(0, 5_000), st.integers(1, 9), WEIGHTS)
def test_no_share_shrinks_when_more_is_asked(
    amount: int, more: int, unit: int, weights: list[tuple[str, int]]
) -> None:
    before, after = quota.split(amount, unit, weights), quota.split(amount + more, unit, weights)
    assert all(after[name] >= before[name] for name in before)


@given(st.integers(0, 300), WEIGHTS)
def test_shares_are_those_of_dhondt_one_unit_at_a_time(amount: int, weights: list[tuple[str, int]]) -> None:
    if not any(weight for _, weight in weights):
        weights = [(name, 1) for name, _ in weights]
    seats = dict.fromkeys((name for name, _ in weights), 0)
    for _ in range(amount):
        claims = [(Fraction(weight, seats[name] + 1), name) for name, weight in weights]
        seats[min(name for claim, name in claims if claim == max(claims)[0])] += 1
    assert quota.split(amount, 1, weights) == seats


@given(CLUSTERS, FIGURE, st.integers(0, 3_000))
def test_a_selector_split_over_types_adds_up_to_what_was_asked(
    nodes: dict[str, int], figure: str, amount: int
) -> None:
    found = quota.grants(QuotaItem.model_validate({"hardware": "nvidia", figure: amount}), nodes)
    if figure == "count":
        assert sum(grant.whole or 0 for grant in found) == amount
    else:
        resource, unit = {"accelerators": (GPU, 1), "vCpu": (CPU, 1000), "memoryInGiB": (MEMORY, 2**30)}[
            figure
        ]
        assert sum(grant.amounts[resource] for grant in found) == amount * unit


@given(CLUSTERS, FIGURE, st.integers(0, 3_000), st.integers(0, 3_000))
def test_more_asked_never_gives_less_of_anything(
    nodes: dict[str, int], figure: str, amount: int, more: int
) -> None:
    def given_for(asked: int) -> dict[str, dict[str, int]]:
        return quota.total(
            quota.grants(QuotaItem.model_validate({"hardware": "nvidia", figure: asked}), nodes)
        )

    less, greater = given_for(amount), given_for(amount + more)
    for flavor, resources in less.items():
        for resource, value in resources.items():
            assert greater.get(flavor, {}).get(resource, 0) >= value


@given(CLUSTERS, FIGURE, st.integers(0, 3_000), st.randoms())
def test_the_order_of_types_changes_nothing(
    nodes: dict[str, int], figure: str, amount: int, random: Any
) -> None:
    item = QuotaItem.model_validate({"hardware": "nvidia", figure: amount})
    shuffled = list(nodes.items())
    random.shuffle(shuffled)
    assert quota.grants(item, nodes) == quota.grants(item, dict(shuffled))


@given(CLUSTERS)
def test_asking_for_all_nodes_of_a_kind_gives_each_type_exactly_its_nodes(nodes: dict[str, int]) -> None:
    found = quota.grants(
        QuotaItem.model_validate({"hardware": "nvidia", "count": sum(nodes.values())}), nodes
    )
    assert {grant.instance_type: grant.whole for grant in found if grant.whole} == {
        name: count for name, count in nodes.items() if count
    }
