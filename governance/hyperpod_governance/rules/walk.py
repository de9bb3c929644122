"""Ways through a fleet that several rules take. A path is the YAML keys below a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hyperpod_config.findings import Place
from hyperpod_config.model import (
    Allocation,
    Cluster,
    Fleet,
    Governance,
    InstanceGroup,
    QuotaItem,
    RestrictedInstanceGroup,
    Team,
)
from hyperpod_governance import catalog
from hyperpod_governance.catalog import InstanceType

Path = tuple[str | int, ...]


@dataclass(slots=True)  # not frozen: that triples the time to make one, and rules make thousands
class Member:
    """A team's allocation on a cluster, with its index in the team's document."""

    team: Team
    index: int
    allocation: Allocation

    def place(self, *path: str | int) -> Place:
        """Place of what stands at a path below the allocation."""
        return self.team.place("spec", "allocations", self.index, *path)


def members(fleet: Fleet) -> Iterator[Member]:
    """Every allocation of every team."""
    for team in fleet.teams:
        for index, allocation in enumerate(team.spec.allocations):
            yield Member(team, index, allocation)


def members_by_name(fleet: Fleet) -> dict[tuple[str, str], Member]:
    """The allocations of a fleet without errors by cluster and team."""
    return {(member.allocation.cluster, member.team.name): member for member in members(fleet)}


def governed(fleet: Fleet) -> Iterator[tuple[Cluster, Governance]]:
    """Every EKS cluster with governance."""
    for cluster in fleet.clusters:
        if cluster.spec.governance is not None and cluster.spec.orchestrator.eks is not None:
            yield cluster, cluster.spec.governance


def governed_members(fleet: Fleet) -> Iterator[tuple[Cluster, Governance, list[Member]]]:
    """Every EKS cluster with governance, and the allocations on it."""
    by_cluster: dict[str, list[Member]] = {}
    for member in members(fleet):
        by_cluster.setdefault(member.allocation.cluster, []).append(member)
    for cluster, governance in governed(fleet):
        yield cluster, governance, by_cluster.get(cluster.name, [])


def items(allocation: Allocation) -> Iterator[tuple[Path, QuotaItem]]:
    """Every quota item of an allocation, those of its borrow limits included, with its path."""
    for index, item in enumerate(allocation.quota):
        yield ("quota", index), item
    for index, item in enumerate(allocation.resource_sharing_config.absolute_borrow_limits):
        yield ("resourceSharingConfig", "absoluteBorrowLimits", index), item


def instance_groups(cluster: Cluster) -> Iterator[tuple[Path, InstanceGroup]]:
    """Every ordinary instance group of a cluster with its path."""
    for index, group in enumerate(cluster.spec.instance_groups):
        yield ("spec", "instanceGroups", index), group


def groups(cluster: Cluster) -> Iterator[tuple[Path, InstanceGroup | RestrictedInstanceGroup]]:
    """Every instance group of a cluster, the restricted ones last, with its path."""
    yield from instance_groups(cluster)
    for index, group in enumerate(cluster.spec.restricted_instance_groups):
        yield ("spec", "restrictedInstanceGroups", index), group


def instance_types(group: InstanceGroup | RestrictedInstanceGroup) -> Iterator[tuple[Path, str]]:
    """Every instance type that a group names, with its path below the group."""
    if isinstance(group, InstanceGroup) and group.instance_requirements is not None:
        for index, name in enumerate(group.instance_requirements.instance_types):
            yield ("instanceRequirements", "instanceTypes", index), name
    else:
        yield ("instanceType",), str(group.instance_type)


def known(name: str | None) -> InstanceType | None:
    """The catalog's entry of an instance type; None for a name that it does not have (HPF101 says so)."""
    return catalog.instance_types().get(name) if name else None


def is_accelerated(group: InstanceGroup) -> bool:
    """Whether the nodes of a group have accelerators, whichever of its types they are."""
    kinds = [known(name) for name in group.instance_types]
    return any(kind is not None and kind.accelerators for kind in kinds)


def listing(names: Sequence[str], most: int = 5) -> str:
    """Names in one line: the first ones, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def release(version: str) -> tuple[int, ...]:
    """A release such as `0.19.2` or `v1.6.1-eksbuild.1` as numbers that compare."""
    return tuple(int(part) for part in version.removeprefix("v").replace("-eksbuild", "").split("."))
