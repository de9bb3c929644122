"""Fake nodes of a cluster: as many as its instance groups ask for, in a network of a given shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hyperpod_governance import catalog
from hyperpod_governance.allocatable import MIG_CONFIG_LABEL, allocatable
from hyperpod_governance.model import Pool, ResolvedCluster, Taint
from hyperpod_governance.quantity import format_quantity
from hyperpod_governance.service import HOSTNAME_LABEL

At = Literal["target", "minimum"]

DEFAULT_SHAPE = (2, 2, 4)


@dataclass(frozen=True, slots=True)
class Network:
    """Where the nodes of one instance type stand; the first node of a type is at the first place.

    ``shape`` (2, 2, 4): each domain of the widest layer has 2 of the next, each of these 2 of the lowest, and
    each of these 4 nodes; there are as many of the widest as it takes. ``layout`` ((3, 2), (2,)) names each
    domain instead; more nodes than it has begin a copy of it. A Topology with more layers than were given
    has one domain in each of its widest layers; with fewer, the widest given are taken together.
    """

    shape: tuple[int, ...] = DEFAULT_SHAPE
    layout: tuple[Any, ...] | None = None

    def path(self, index: int) -> tuple[int, ...]:
        """Number of each domain, the widest first, that the node of that index is in; all count from 1."""
        if self.layout is None:
            path = []
            for size in reversed(self.shape):
                index //= size
                path.append(index)
            # Within its parent, but for the widest layer.
            inner = [number % size for number, size in zip(path, reversed(self.shape[:-1]), strict=False)]
            return tuple(number + 1 for number in reversed([*inner, path[-1]]))
        places = list(_places(self.layout, ()))
        copy, place = divmod(index, len(places))
        first, *rest = places[place]
        return (first + copy * len(self.layout), *rest)

    def domains(self, levels: tuple[str, ...], index: int, prefix: str) -> dict[str, str]:
        """Label of each level for the node of that index."""
        path = [str(number) for number in self.path(index)]
        extra = len(path) - len(levels)
        if extra > 0:
            path = ["-".join(path[: extra + 1]), *path[extra + 1 :]]
        path = ["1"] * (len(levels) - len(path)) + path
        return {level: "-".join([prefix, *path[: depth + 1]]) for depth, level in enumerate(levels)}


def _places(layout: tuple[Any, ...], above: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for number, item in enumerate(layout, 1):
        if isinstance(item, int):
            yield from [(*above, number)] * item
        else:
            yield from _places(item, (*above, number))


@dataclass(frozen=True, slots=True)
class FakeNode:
    """A node before it is made; ``allocatable`` in base units."""

    name: str
    group: str
    instance_type: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, int]

    def quantities(self) -> dict[str, str]:
        """What pods can have of it, as Kubernetes quantities."""
        return {name: format_quantity(name, amount) for name, amount in sorted(self.allocatable.items())}


def counts(cluster: ResolvedCluster, at: At) -> dict[str, int]:
    """Nodes of each instance group at target or at minimum count."""
    return {pool.name: pool.target if at == "target" else pool.minimum for pool in cluster.pools}


def fake_nodes(
    cluster: ResolvedCluster, numbers: Mapping[str, int], network: Network
) -> tuple[FakeNode, ...]:
    """The nodes of a cluster with so many of each instance group.

    Every node has all labels of its flavor's Topology: Kueue leaves out a node that lacks one. [F] the
    add-on's Topology counts nodes of types without EC2 network topology too, so these get the labels as well.
    """
    nodes: list[FakeNode] = []
    of_type: dict[str, int] = {}
    for pool in cluster.pools:
        for number in range(numbers.get(pool.name, 0)):
            index = of_type.get(pool.instance_type, 0)
            of_type[pool.instance_type] = index + 1
            nodes.append(_node(cluster, pool, number, network, index))
    return tuple(nodes)


def _node(cluster: ResolvedCluster, pool: Pool, number: int, network: Network, index: int) -> FakeNode:
    name = f"{pool.name.lower()}-{number + 1}"
    kind = catalog.instance_type(pool.instance_type)
    levels = network_levels(cluster, pool.instance_type)
    domains = network.domains(levels, index, "nn-" + kind.name.removeprefix("ml.").replace(".", "-"))
    return FakeNode(
        name=name,
        group=pool.name,
        instance_type=kind.name,
        labels={**pool.labels, **domains, HOSTNAME_LABEL: name},
        taints=pool.taints,
        allocatable=allocatable(kind, _threads(cluster, pool.name), mig_profile(pool)),
    )


def network_levels(cluster: ResolvedCluster, instance_type: str) -> tuple[str, ...]:
    """Network labels of an instance type's nodes, the widest domain first; those of its flavor's Topology."""
    governance = cluster.governance
    if governance is None:
        return ()
    names = {flavor.topology for flavor in governance.flavors if flavor.instance_type == instance_type}
    levels = {topology.name: topology.levels for topology in governance.topologies}
    found = next((levels[name] for name in names if name), ())
    return tuple(level for level in found if level != HOSTNAME_LABEL)


def mig_profile(pool: Pool) -> str | None:
    """MIG profile that all GPUs of a group are cut into, by the label that the GPU operator reads."""
    config = pool.labels.get(MIG_CONFIG_LABEL, "")
    return f"mig-{config.removeprefix('all-')}" if config.startswith("all-") and "g." in config else None


def _threads(cluster: ResolvedCluster, group: str) -> int | None:
    for entry in cluster.config.spec.instance_groups:
        if entry.name == group:
            return entry.threads_per_core
    return None
