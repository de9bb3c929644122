"""Scenarios that follow from a config: what it promises each team, as jobs with expectations.

For every team and flavor with accelerators: its nominal quota fits; it may borrow up to its limit and not
beyond; a higher class preempts a lower one; what it lends comes back. For every flavor with a network
topology: a required domain holds. Jobs ask for accelerators only, so that what a node keeps of its CPU and
memory does not decide. What cannot be shown on the config's own nodes is said, not left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from hyperpod_governance import catalog
from hyperpod_governance.model import (
    CPU,
    EFA,
    MEMORY,
    ClusterQueue,
    ResolvedCluster,
    ResolvedGovernance,
    ResourceQuota,
)
from hyperpod_live.rehearsal.nodes import FakeNode, Network, fake_nodes, network_levels
from hyperpod_live.rehearsal.scenario import MAX_PODS, Job

_PARTIAL = frozenset({CPU, MEMORY, EFA})
"""Resources that a job takes along with its accelerators."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A scenario made from the config, about what one team was promised."""

    name: str
    team: str
    description: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Promises:
    """All that a cluster's config promises; ``unshown`` says which of it its nodes cannot show, and why."""

    promises: tuple[Promise, ...]
    unshown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Share:
    """One team's part in one flavor and accelerator resource, and what surrounds it."""

    queue: ClusterQueue
    team: str
    flavor: str
    resource: str
    nominal: int
    limit: int | None
    lends: int

    def job(self, name: str, amount: int, unit: int, **more: Any) -> dict[str, Any]:
        return {
            "name": name,
            "team": self.team,
            "instanceType": self.flavor,
            "pods": amount // unit,
            "resources": {self.resource: str(unit)},
            **more,
        }

    @property
    def title(self) -> str:
        short = self.flavor.removeprefix("ml.").replace(".", "-")
        return f"{self.team}-{short}-{self.resource.rpartition('/')[2].replace('.', '-')}"


def promises(cluster: ResolvedCluster, counts: Mapping[str, int], network: Network) -> Promises:
    """What the config of a governed cluster promises on so many nodes of each instance group."""
    if cluster.governance is None:
        raise ValueError(f"cluster {cluster.name} has no governance")
    maker = _Maker(cluster, cluster.governance, fake_nodes(cluster, counts, network))
    made = [*maker.all()]
    return Promises(tuple(made), tuple(maker.unshown))


class _Maker:
    def __init__(
        self, cluster: ResolvedCluster, governance: ResolvedGovernance, nodes: Sequence[FakeNode]
    ) -> None:
        self.cluster, self.governance, self.nodes = cluster, governance, nodes
        self.unshown: list[str] = []
        self.shares = [share for queue in governance.cluster_queues if queue.team for share in _shares(queue)]

    def all(self) -> Iterator[Promise]:
        for queue in self.governance.cluster_queues:
            if queue.team and not any(share.queue is queue for share in self.shares):
                self.unshown.append(f"team {queue.team}: it has no quota of accelerators")
        for share in self.shares:
            yield from self.own(share)
        for share in self.shares:
            yield from self.taken_back(share)
        yield from self.topologies()

    # --- amounts

    def capacity(self, share: _Share) -> int:
        return sum(node.allocatable.get(share.resource, 0) for node in self.of_flavor(share.flavor))

    def of_flavor(self, flavor: str) -> list[FakeNode]:
        return [node for node in self.nodes if node.instance_type == flavor]

    def unit(self, share: _Share, *amounts: int) -> int:
        """Devices of one pod: as many as fill nodes without a rest, so that packing never decides."""
        per_node = [node.allocatable.get(share.resource, 0) for node in self.of_flavor(share.flavor)]
        return gcd(*per_node, *amounts) or 1

    def lent(self, share: _Share) -> int:
        """What the team could borrow at most of all others together, its own limit aside."""
        others = sum(
            other.lends for other in self.shares if other.queue is not share.queue and _alike(other, share)
        )
        return others + self.idle(share)

    def idle(self, share: _Share) -> int:
        """What belongs to no team and is lent to all."""
        pools = [cohort.flavors for cohort in self.governance.cohorts]
        pools += [queue.flavors for queue in self.governance.cluster_queues if queue.team is None]
        return sum(
            entry.nominal
            for flavors in pools
            for flavor in flavors
            if flavor.flavor == share.flavor
            for entry in flavor.resources
            if entry.resource == share.resource
        )

    # --- a team by itself

    def own(self, share: _Share) -> Iterator[Promise]:
        """Nominal fits, borrowing has its limit, a higher class goes first."""
        capacity, topology = self.capacity(share), self.flavor_topology(share.flavor)
        if share.queue.stop_policy != "None":
            job = share.job("nominal", share.nominal, share.nominal, expect={"admitted": False})
            yield self.promise(share, "on-hold", "its queue is held: nothing is admitted", [job])
            return
        if share.nominal > capacity:
            yield self.above_capacity(share, capacity, topology)
            return
        borrowable = self.lent(share) if share.limit is None else min(share.limit, self.lent(share))
        borrow = min(borrowable, capacity - share.nominal)
        unit = self.unit(share, share.nominal, *([borrow] if borrow else []))
        jobs = [share.job("nominal", share.nominal, unit, expect=_runs(borrows=False))]
        if borrow:
            jobs.append(share.job("borrows", borrow, unit, expect=_runs(borrows=True)))
        jobs += self.beyond(share, borrow, borrowable, unit, topology is not None)
        self.add_priority(share, jobs, unit)
        text = f"its nominal {share.nominal} fit, it borrows {borrow} and no more"
        yield self.promise(share, "own", text, jobs)

    def beyond(
        self, share: _Share, borrow: int, borrowable: int, unit: int, by_nodes: bool
    ) -> list[dict[str, Any]]:
        if borrow < borrowable and not by_nodes:
            self.unshown.append(
                f"{share.title}: the nodes hold {borrow} of the {borrowable} that it may borrow, "
                "and Kueue does not count nodes of a flavor without topology"
            )
            return []
        # What the urgent job displaces must not make room for this one.
        amount = (borrow or share.nominal) + unit
        return [share.job("beyond", amount, unit, expect={"admitted": False, "atEnd": "pending"})]

    def add_priority(self, share: _Share, jobs: list[dict[str, Any]], unit: int) -> None:
        classes = self.cluster.config.spec.governance.scheduler_config.priority_classes  # type: ignore[union-attr]
        if not classes:
            self.unshown.append(f"{share.title}: no priority class, so no task goes before another")
            return
        low, high = (min(classes, key=lambda it: it.weight), max(classes, key=lambda it: it.weight))
        if high.weight == 0:
            self.unshown.append(f"{share.title}: all priority classes have weight 0")
            return
        # A job without a class has priority 0: below every class with a weight.
        lower = None if low.weight == high.weight else low.name
        for job in jobs:
            if lower is not None:
                job["priorityClass"] = lower
        victim = jobs[1] if jobs[1:] and jobs[1]["name"] == "borrows" else jobs[0]
        if share.queue.within_cluster_queue == "Never":
            expect: dict[str, Any] = {"admitted": False, "preempts": []}
        else:
            expect = {"admitted": True, "preempts": [victim["name"]]}
            victim["expect"] = {**victim["expect"], "preemptedBy": "urgent", "atEnd": "pending"}
        jobs.append(share.job("urgent", unit, unit, priorityClass=high.name, expect=expect))

    def above_capacity(self, share: _Share, capacity: int, topology: str | None) -> Promise:
        unit = self.unit(share, share.nominal)
        expect = (
            {"admitted": False, "atEnd": "pending"} if topology else {"admitted": True, "scheduled": False}
        )
        text = f"its nominal {share.nominal} are more than the {capacity} there are: it waits for nodes"
        return self.promise(share, "grows", text, [share.job("nominal", share.nominal, unit, expect=expect)])

    # --- a lender and a borrower

    def taken_back(self, share: _Share) -> Iterator[Promise]:
        """What the team lends comes back when it asks; shown with the first team that can borrow enough."""
        if not share.lends or share.queue.stop_policy != "None":
            return
        peers = [it for it in self.shares if it.queue is not share.queue and _alike(it, share)]
        if not peers:
            return
        total = sum(peer.nominal for peer in peers) + share.nominal + self.idle(share)
        if total > self.capacity(share):
            self.unshown.append(
                f"{share.title}: {total} are promised of {self.capacity(share)}, so nodes decide, not quota"
            )
            return
        for borrower in peers:
            needs = self.idle(share)
            may = share.lends + needs if borrower.limit is None else min(borrower.limit, share.lends + needs)
            if borrower.queue.stop_policy == "None" and may > needs:
                yield self.story(share, borrower, may, [it for it in peers if it is not borrower])
                return
        self.unshown.append(f"{share.title}: idle capacity covers all that another team may borrow")

    def story(self, owner: _Share, borrower: _Share, amount: int, others: Sequence[_Share]) -> Promise:
        unit = self.unit(owner, amount, *(it.nominal for it in (owner, borrower, *others) if it.nominal))
        jobs = [
            it.job(f"own-{it.team}", it.nominal, unit, expect=_runs(borrows=False))
            for it in (*others, borrower)
            if it.nominal and it.queue.stop_policy == "None"
        ]
        jobs.append(
            borrower.job(
                f"lent-{borrower.team}",
                amount,
                unit,
                expect={
                    "admitted": True,
                    "borrows": True,
                    "preemptedBy": f"owner-{owner.team}",
                    "atEnd": "pending",
                },
            )
        )
        reclaims = {"admitted": True, "preempts": [f"lent-{borrower.team}"], "borrows": False}
        jobs.append(owner.job(f"owner-{owner.team}", owner.nominal, unit, expect=reclaims))
        text = f"{borrower.team} borrows {amount}, {owner.team} takes its {owner.nominal} back"
        return self.promise(owner, "taken-back", text, jobs)

    # --- topology

    def flavor_topology(self, name: str) -> str | None:
        return next((flavor.topology for flavor in self.governance.flavors if flavor.name == name), None)

    def topologies(self) -> Iterator[Promise]:
        for flavor in sorted({share.flavor for share in self.shares}):
            levels = network_levels(self.cluster, flavor)
            if not levels or self.flavor_topology(flavor) is None:
                continue
            if not catalog.instance_type(flavor).topology_labels:
                continue  # EC2 gives no such labels to the type: the add-on's Topology only counts its nodes
            yield from self.domain(flavor, levels[-1])

    def domain(self, flavor: str, level: str) -> Iterator[Promise]:
        domains: dict[str, int] = {}
        for node in self.of_flavor(flavor):
            domains[node.labels[level]] = domains.get(node.labels[level], 0) + 1
        largest = max(domains.values(), default=0)
        share = max(
            (it for it in self.shares if it.flavor == flavor and it.queue.stop_policy == "None"),
            key=lambda it: it.nominal,
            default=None,
        )
        if share is None or not largest:
            return
        per_node = catalog.instance_type(flavor).accelerators
        fits = min(largest, share.nominal // per_node)
        if not fits:
            self.unshown.append(f"{flavor}: no team has a whole node, so a required domain shows nothing")
            return
        ask = {"topology": {"required": level}}
        near = {"admitted": True, "placement": {"sameDomain": level}}
        jobs = [share.job("one-domain", fits * per_node, per_node, **ask, expect=near)]
        if len(domains) > 1 and (largest + 1) * per_node <= share.nominal:
            more = (largest + 1) * per_node
            # The first job has ended by then: the domain, not the quota, is what is too small.
            jobs[0]["runTime"] = 1
            far = {"admitted": False, "reasonContains": "topology"}
            jobs.append(share.job("too-wide", more, per_node, **ask, arrival=5, expect=far))
        text = f"{fits} nodes of one {level.rpartition('/')[2]} hold a job that requires it"
        yield self.promise(share, "topology", text, jobs)

    def promise(self, share: _Share, what: str, text: str, jobs: Sequence[dict[str, Any]]) -> Promise:
        large = [job["name"] for job in jobs if job["pods"] > MAX_PODS]
        if large:
            self.unshown.append(f"{share.title}-{what}: {large[0]} would have more than {MAX_PODS} pods")
            jobs = []
        models = tuple(Job.model_validate(job, by_alias=True, by_name=False) for job in jobs)
        return Promise(f"{share.title}-{what}", share.team, f"{share.team}: {text}", models)


def _shares(queue: ClusterQueue) -> Iterator[_Share]:
    for flavor in queue.flavors:
        for entry in flavor.resources:
            if entry.nominal and entry.resource not in _PARTIAL:
                yield _share(queue, flavor.flavor, entry)


def _share(queue: ClusterQueue, flavor: str, entry: ResourceQuota) -> _Share:
    lends = entry.nominal if entry.lending_limit is None else min(entry.nominal, entry.lending_limit)
    return _Share(
        queue,
        str(queue.team),
        flavor,
        entry.resource,
        entry.nominal,
        entry.borrowing_limit,
        lends if queue.stop_policy == "None" else 0,
    )


def _alike(one: _Share, other: _Share) -> bool:
    return (one.flavor, one.resource) == (other.flavor, other.resource)


def _runs(**more: Any) -> dict[str, Any]:
    return {"admitted": True, "scheduled": True, **more}
