"""Quota arithmetic: from what a team was promised to amounts by instance type and resource.

Sources: the announcement of fine-grained quotas (2 GPUs of an 8-GPU p5.48xlarge are 48 vCPU and 512 GiB), the
API reference of ComputeQuotaResourceConfig (which value follows which), and measured ClusterQueues. Figures
are the nominal ones of EC2, not what a node can allocate.

A selector of a family or of a kind of hardware is split over the instance types of that kind that the cluster
has, in proportion to their capacity at target count, by the D'Hondt method in whole units (instances,
devices, vCPUs, GiB); a fraction of a unit goes to the type that is next in line. D'Hondt, unlike rounding
shares, never gives a type less when more is asked. A node counts for one type only: that of its group, or the
first of the group's instance requirements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from hyperpod_config.model import QuotaItem
from hyperpod_governance import catalog
from hyperpod_governance.catalog import InstanceType
from hyperpod_governance.model import CPU, EFA, GPU, MEMORY, ComputeQuotaResource
from hyperpod_governance.quantity import GIB, MIB, MILLI

_MIG_PREFIX = "nvidia.com/mig-"

Amounts = dict[str, int]
"""Base units by resource name."""


class Grant(NamedTuple):
    """A quota item, or its share, on one instance type. ``whole`` marks a grant of whole instances."""

    instance_type: str
    whole: int | None
    partition: tuple[str, int] | None
    amounts: Mapping[str, int]


def instance_amounts(kind: InstanceType, count: int = 1) -> Amounts:
    """Resources of ``count`` whole instances, EFA included."""
    amounts = {CPU: kind.vcpus * MILLI * count, MEMORY: kind.memory_mib * MIB * count}
    if kind.accelerator_resource:
        amounts[kind.accelerator_resource] = kind.accelerators * count
    if kind.efa_interfaces:
        amounts[EFA] = kind.efa_interfaces * count
    return amounts


def matches(kind: InstanceType, item: QuotaItem) -> bool:
    """Whether the item's selector covers an instance type."""
    if item.instance_type is not None:
        return kind.name == item.instance_type
    if item.instance_family is not None:
        return kind.family == item.instance_family
    return kind.hardware == item.hardware


def split(amount: int, unit: int, weights: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Share ``amount`` base units among names by weight, in whole ``unit``s, by the D'Hondt method.

    The shares add up to ``amount``; none shrinks when ``amount`` grows. Equal claims go to the earlier name.
    """
    if len(weights) == 1:
        return {weights[0][0]: amount}
    if not any(weight for _, weight in weights):
        weights = [(name, 1) for name, _ in weights]
    units, rest = divmod(amount, unit)
    total = sum(weight for _, weight in weights)
    # D'Hondt never gives less than the rounded-down share: only the last few units need its one-by-one rule.
    seats = {name: units * weight // total for name, weight in weights}

    def next_in_line() -> str:
        """The name with the largest weight / (seats + 1), compared crosswise so that it is exact."""
        first, claim, places = "", -1, 1
        for name, weight in sorted(weights):
            if weight * places > claim * (seats[name] + 1):
                first, claim, places = name, weight, seats[name] + 1
        return first

    for _ in range(units - sum(seats.values())):
        seats[next_in_line()] += 1
    shares = {name: count * unit for name, count in seats.items()}
    if rest:
        shares[next_in_line()] += rest
    return shares


def grants(item: QuotaItem, nodes: Mapping[str, int]) -> list[Grant]:
    """Grants of one quota item.

    Args:
        item: The item; its selector must cover at least one type.
        nodes: Instances at target count by instance type of the cluster; a node is counted once.
    """
    kinds = covered_types(item, nodes)
    counts = {kind.name: nodes.get(kind.name, 0) for kind in kinds}
    if item.count is not None:
        shares = split(item.count, 1, list(counts.items()))
        return [_whole(kind, shares[kind.name]) for kind in kinds if shares[kind.name] or len(kinds) == 1]
    found = [_fine(kind, item, shares) for kind, shares in _fine_shares(item, kinds, counts)]
    return [grant for grant in found if any(grant.amounts.values()) or len(kinds) == 1]


def covered_types(item: QuotaItem, nodes: Iterable[str]) -> list[InstanceType]:
    """Instance types that an item covers, by name; a type that is named need not be in the cluster."""
    if item.instance_type is not None:
        return [catalog.instance_type(item.instance_type)]
    kinds = (catalog.instance_type(name) for name in sorted(nodes))
    covered = [kind for kind in kinds if matches(kind, item)]
    if item.accelerator_partition is not None:
        return [kind for kind in covered if item.accelerator_partition.type in kind.mig_profiles]
    return covered


def _whole(kind: InstanceType, count: int) -> Grant:
    return Grant(kind.name, count, None, instance_amounts(kind, count))


_Shares = dict[str, int]
_ACCELERATORS, _PARTITION = "accelerators", "partition"


def _fine_shares(
    item: QuotaItem, kinds: Sequence[InstanceType], counts: Mapping[str, int]
) -> list[tuple[InstanceType, _Shares]]:
    """Share of each type in every figure that the item states."""
    stated = {
        _ACCELERATORS: (item.accelerators, 1),
        CPU: (None if item.v_cpu is None else _floor(item.v_cpu, MILLI), MILLI),
        MEMORY: (None if item.memory_in_gib is None else _floor(item.memory_in_gib, GIB, MIB), GIB),
        _PARTITION: (item.accelerator_partition.count if item.accelerator_partition else None, 1),
    }
    shares: dict[str, _Shares] = {kind.name: {} for kind in kinds}
    # When no node of the kind is there yet, one of each type stands for the proportion.
    present = counts if any(counts.values()) else dict.fromkeys(counts, 1)
    for figure, (amount, unit) in stated.items():
        if amount is None:
            continue
        weights = [(kind.name, present[kind.name] * _weight(kind, figure)) for kind in kinds]
        for name, share in split(amount, unit, weights).items():
            shares[name][figure] = share
    return [(kind, shares[kind.name]) for kind in kinds]


def _weight(kind: InstanceType, figure: str) -> int:
    if figure == CPU:
        return kind.vcpus
    return kind.memory_mib if figure == MEMORY else kind.accelerators


def _fine(kind: InstanceType, item: QuotaItem, shares: _Shares) -> Grant:
    """Fill in what the item leaves out, by the ratio that the API documents.

    Memory follows vCPU when vCPU is stated (one data point: 2 GPUs and 48 vCPU of a g6.12xlarge gave
    192 GiB), else the accelerators. [I] vCPU follows the accelerators when they are stated, else memory;
    the API reference is silent on accelerators together with memory.
    """
    # All in whole numbers: devices are counted in MIG slices, and every division comes last.
    slices_per_gpu = catalog.MIG_SLICES_PER_GPU
    partition = item.accelerator_partition
    slices = shares.get(_PARTITION, 0)
    devices, all_devices = 0, 1
    if kind.accelerators:
        devices = shares.get(_ACCELERATORS, 0) * slices_per_gpu
        devices += slices * catalog.mig_slices(partition.type) if partition else 0
        all_devices = kind.accelerators * slices_per_gpu
    has_devices = _ACCELERATORS in shares or partition is not None
    all_cpu, all_memory = kind.vcpus * MILLI, kind.memory_mib * MIB

    cpu = shares.get(CPU)
    memory = shares.get(MEMORY)
    if cpu is None:
        part, whole = (devices, all_devices) if has_devices else (memory or 0, all_memory)
        cpu = part * all_cpu // whole
    if memory is None:
        part, whole = (cpu, all_cpu) if CPU in shares else (devices, all_devices)
        memory = part * all_memory // (whole * MIB) * MIB
    amounts = {CPU: cpu, MEMORY: memory}
    if kind.accelerator_resource and (partition is None or _ACCELERATORS in shares):
        amounts[kind.accelerator_resource] = shares.get(_ACCELERATORS, 0)
    if partition is None:
        return Grant(kind.name, None, None, amounts)
    amounts[catalog.mig_resource(partition.type)] = slices
    return Grant(kind.name, None, (partition.type, slices), amounts)


def _floor(value: float, scale: int, step: int = 1) -> int:
    """``value * scale`` rounded down to a multiple of ``step``; a decimal counts as written, not binary."""
    exact = Fraction(str(value)) if value % 1 else int(value)
    return int(exact * scale // step) * step


def total(found: Iterable[Grant]) -> dict[str, Amounts]:
    """Sum of grants: base units by instance type and resource, both sorted."""
    sums: dict[str, Amounts] = {}
    for grant in found:
        amounts = sums.get(grant.instance_type)
        if amounts is None:
            sums[grant.instance_type] = dict(grant.amounts)
            continue
        for resource, amount in grant.amounts.items():
            amounts[resource] = amounts.get(resource, 0) + amount
    return {name: dict(sorted(sums[name].items())) for name in sorted(sums)}


def of_whole_devices(resource: str, amount: int) -> tuple[str, int | Fraction]:
    """A quota as the resource that its node has: MIG slices are sevenths of a GPU."""
    if not resource.startswith(_MIG_PREFIX):
        return resource, amount
    slices = catalog.mig_slices(resource.removeprefix("nvidia.com/"))
    return GPU, Fraction(amount * slices, catalog.MIG_SLICES_PER_GPU)


def percent(amount: int, resource: str, limit: int) -> int:
    """``limit`` percent of an amount, rounded down to what the resource can express (memory: MiB)."""
    step = MIB if resource == MEMORY else 1
    return amount * limit // (100 * step) * step


def api_resources(found: Sequence[Grant]) -> tuple[ComputeQuotaResource, ...]:
    """Grants as ``ComputeQuotaResources`` entries, one for each type and way of stating it.

    Every figure is written out: the service would fill in what is left out, and would report it as drift.
    """
    keys = sorted({_entry_key(grant) for grant in found})
    return tuple(_entry([grant for grant in found if _entry_key(grant) == key]) for key in keys)


def _entry_key(grant: Grant) -> tuple[str, str]:
    way = "count" if grant.whole is not None else grant.partition[0] if grant.partition else "fine"
    return grant.instance_type, way


def _entry(same: Sequence[Grant]) -> ComputeQuotaResource:
    first = same[0]
    if first.whole is not None:
        return ComputeQuotaResource(first.instance_type, count=sum(grant.whole or 0 for grant in same))
    amounts = total(same)[first.instance_type]
    device = catalog.instance_type(first.instance_type).accelerator_resource
    return ComputeQuotaResource(
        first.instance_type,
        accelerators=amounts.get(device) if device else None,
        v_cpu=amounts[CPU] / MILLI,
        memory_in_gib=amounts[MEMORY] / GIB,
        partition_type=first.partition[0] if first.partition else None,
        partition_count=sum(grant.partition[1] for grant in same if grant.partition)
        if first.partition
        else None,
    )
