"""Turn the typed fleet into plain facts, once. Everything downstream only spells what stands here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from hyperpod_config.model import Allocation, Cluster, Department, Fleet, Governance, InstanceGroup, Team
from hyperpod_governance import catalog, naming, quota, service
from hyperpod_governance.model import (
    Backend,
    ClusterQueue,
    Cohort,
    ComputeQuota,
    Flavor,
    FlavorCapacity,
    FlavorQuota,
    LocalQueue,
    Namespace,
    Owner,
    Pool,
    QuotaRow,
    ResolvedCluster,
    ResolvedFleet,
    ResolvedGovernance,
    ResourceQuota,
    Taint,
    Topology,
    WorkloadPriorityClass,
)


@dataclass(frozen=True, slots=True)
class _Member:
    """A team on one cluster, with its quota worked out."""

    team: Team
    allocation: Allocation
    grants: tuple[quota.Grant, ...]
    borrow_grants: tuple[quota.Grant, ...]
    flavors: tuple[FlavorQuota, ...]


def resolve(fleet: Fleet) -> ResolvedFleet:
    """Resolve a fleet that the rules found no error in.

    Raises:
        KeyError: an instance type is not in the catalog (a rule refuses it before).
    """
    on_cluster: dict[str, list[tuple[Team, Allocation]]] = {}
    for team in fleet.teams:
        for allocation in team.spec.allocations:
            on_cluster.setdefault(allocation.cluster, []).append((team, allocation))
    clusters = (_cluster(fleet, cluster, on_cluster.get(cluster.name, [])) for cluster in fleet.clusters)
    return ResolvedFleet(fleet.name, fleet, tuple(clusters))


def _cluster(fleet: Fleet, cluster: Cluster, members: Sequence[tuple[Team, Allocation]]) -> ResolvedCluster:
    aws_name = cluster.spec.cluster_name or naming.aws_name(fleet.name, cluster.name)
    groups = sorted(cluster.spec.instance_groups, key=lambda group: group.name)
    pools = tuple(_pool(cluster, aws_name, group) for group in groups)
    capacity = _capacity(pools)
    governance = cluster.spec.governance
    resolved = None
    if governance is not None:
        resolved = _Resolver(fleet, cluster, governance, pools, capacity).governance(members)
    return ResolvedCluster(cluster.name, aws_name, cluster, pools, capacity, resolved)


def _pool(cluster: Cluster, aws_name: str, group: InstanceGroup) -> Pool:
    types = group.instance_types
    asked = dict(group.kubernetes_config.labels) if cluster.spec.orchestrator.eks else {}
    if cluster.spec.orchestrator.eks:
        asked[naming.INSTANCE_GROUP_LABEL] = group.name
        labels = {catalog.instance_type(name).topology_labels for name in types}
        # A group of types with different network labels has no one Topology to name.
        if len(labels) == 1 and any(labels) and cluster.spec.governance is not None:
            asked[naming.TOPOLOGY_LABEL] = naming.topology(cluster.spec.governance.owner, labels.pop())
    known = {
        service.INSTANCE_TYPE_LABEL: types[0],
        service.CLUSTER_NAME_LABEL: aws_name,
        service.INSTANCE_GROUP_NAME_LABEL: group.name,
    }
    return Pool(
        name=group.name,
        instance_type=types[0],
        instance_types=types,
        target=group.instance_count,
        minimum=_minimum(cluster, group),
        kubernetes_labels=dict(sorted(asked.items())),
        labels=dict(sorted({**asked, **known}.items())),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in group.kubernetes_config.taints),
    )


def _minimum(cluster: Cluster, group: InstanceGroup) -> int:
    """Instances without which the group does not become InService.

    Without Continuous provisioning all of them. With it, what is stated; if nothing is, none, or one for the
    Controller and Login groups of Slurm (scaling of Slurm clusters, SageMaker AI developer guide).
    """
    if cluster.spec.node_provisioning_mode is None:
        return group.instance_count
    if group.min_instance_count is not None:
        return group.min_instance_count
    single = group.slurm_config is not None and group.slurm_config.node_type != "Compute"
    return min(1, group.instance_count) if single else 0


def _capacity(pools: Sequence[Pool]) -> tuple[FlavorCapacity, ...]:
    nodes: dict[str, list[int]] = {}
    for pool in pools:
        counts = nodes.setdefault(pool.instance_type, [0, 0])
        counts[0] += pool.target
        counts[1] += pool.minimum
    return tuple(
        FlavorCapacity(
            flavor=naming.flavor(name),
            nodes=nodes[name][0],
            minimum_nodes=nodes[name][1],
            target=quota.instance_amounts(catalog.instance_type(name), nodes[name][0]),
            minimum=quota.instance_amounts(catalog.instance_type(name), nodes[name][1]),
        )
        for name in sorted(nodes)
    )


def flavor_quotas(
    allocation: Allocation, nodes: Mapping[str, int]
) -> tuple[list[quota.Grant], list[quota.Grant], tuple[FlavorQuota, ...]]:
    """Grants, absolute borrow limits and queue figures of one allocation.

    Args:
        allocation: The allocation.
        nodes: Instances at target count by instance type of the cluster.
    """
    grants = [grant for item in allocation.quota for grant in quota.grants(item, nodes)]
    sharing = allocation.resource_sharing_config
    borrow_grants = [grant for item in sharing.absolute_borrow_limits for grant in quota.grants(item, nodes)]
    nominal, absolute = quota.total(grants), quota.total(borrow_grants)
    strategy, percentage = sharing.strategy, borrow_limit(allocation)
    quotas = []
    for flavor in sorted({*nominal, *absolute}):
        own, limits = nominal.get(flavor, {}), absolute.get(flavor, {})
        resources = [
            _resource_quota(strategy, percentage, resource, own.get(resource, 0), limits.get(resource))
            for resource in (sorted({*own, *limits}) if limits else own)
        ]
        quotas.append(FlavorQuota(naming.flavor(flavor), tuple(resources)))
    return grants, borrow_grants, tuple(quotas)


def _resource_quota(
    strategy: str, percentage: int, resource: str, nominal: int, absolute: int | None
) -> ResourceQuota:
    """Limits of one resource.

    [I] Lend is "borrow nothing", DontLend is "borrow and lend nothing". [I] an absolute limit stands in for
    the percentage where it names the resource; where it does not, a percentage applies only if it is stated.
    """
    if strategy != "LendAndBorrow":
        return ResourceQuota(resource, nominal, 0, 0 if strategy == "DontLend" else None)
    if absolute is not None:
        return ResourceQuota(resource, nominal, absolute, None)
    return ResourceQuota(resource, nominal, quota.percent(nominal, resource, percentage), None)


def borrow_limit(allocation: Allocation) -> int:
    """Percent of its own nominal quota that an allocation may borrow."""
    sharing = allocation.resource_sharing_config
    if sharing.borrow_limit is not None:
        return sharing.borrow_limit
    return 0 if sharing.absolute_borrow_limits else service.DEFAULT_BORROW_LIMIT


def backend(governance: Governance, region: str, listed: Collection[str]) -> Backend:
    """What makes a type in a Region.

    Args:
        governance: The governance of a cluster there.
        region: The Region.
        listed: Regions whose CloudFormation has the type.
    """
    if governance.backend != "auto":
        return governance.backend
    return "native" if region in listed else "custom-resource"


class _Resolver:
    """Works out the governance of one cluster."""

    def __init__(
        self,
        fleet: Fleet,
        cluster: Cluster,
        governance: Governance,
        pools: Sequence[Pool],
        capacity: Sequence[FlavorCapacity],
    ) -> None:
        self.fleet = fleet
        self.cluster = cluster
        self.config = governance
        self.owner: Owner = governance.owner
        self.pools = pools
        self.capacity = capacity
        self.nodes = {entry.flavor: entry.nodes for entry in capacity}
        self.root = naming.root_cohort(self.owner, cluster.name)
        self.fair = governance.scheduler_config.fair_share == "Enabled"

    def governance(self, allocations: Sequence[tuple[Team, Allocation]]) -> ResolvedGovernance:
        members = [self.member(team, allocation) for team, allocation in allocations]
        flavors = self.flavors(members)
        idle = self.idle_capacity(members)
        region = self.cluster.spec.region
        return ResolvedGovernance(
            owner=self.owner,
            scheduler_config_backend=backend(self.config, region, service.SCHEDULER_CONFIG_REGIONS),
            compute_quota_backend=backend(self.config, region, service.COMPUTE_QUOTA_REGIONS),
            fair_sharing=self.fair,
            topologies=self.topologies(flavors),
            flavors=flavors,
            cohorts=self.cohorts(members, idle),
            cluster_queues=self.cluster_queues(members, flavors, idle),
            local_queues=tuple(self.local_queue(member) for member in members),
            priority_classes=self.priority_classes(),
            namespaces=tuple(self.namespace(member) for member in members),
            compute_quotas=tuple(map(_compute_quota, members)) if self.owner == "sagemaker" else (),
            rows=tuple(row for member in members for row in self.rows(member)),
        )

    def member(self, team: Team, allocation: Allocation) -> _Member:
        grants, borrow_grants, flavors = flavor_quotas(allocation, self.nodes)
        return _Member(team, allocation, tuple(grants), tuple(borrow_grants), flavors)

    def rows(self, member: _Member) -> Iterable[QuotaRow]:
        cluster, team = self.cluster.name, member.team.name
        for flavor in member.flavors:
            name = flavor.flavor
            for entry in flavor.resources:
                limits = (entry.nominal, entry.borrowing_limit, entry.lending_limit)
                yield QuotaRow(cluster, team, name, entry.resource, *limits)

    # --- flavors and topologies

    def flavors(self, members: Sequence[_Member]) -> tuple[Flavor, ...]:
        in_groups = {name for pool in self.pools for name in pool.instance_types}
        in_quotas = {flavor.flavor for member in members for flavor in member.flavors}
        return tuple(self.flavor(name) for name in sorted(in_groups | in_quotas))

    def flavor(self, instance_type: str) -> Flavor:
        taints = {
            (taint.key, taint.value or "", taint.effect): taint
            for pool in self.pools
            if instance_type in pool.instance_types
            for taint in pool.taints
        }
        levels = self.topology_levels(instance_type)
        labels = catalog.instance_type(instance_type).topology_labels
        return Flavor(
            name=naming.flavor(instance_type),
            instance_type=instance_type,
            node_labels={service.INSTANCE_TYPE_LABEL: instance_type},
            tolerations=tuple(taints[key] for key in sorted(taints)),
            topology=naming.topology(self.owner, labels) if levels else None,
        )

    def topology_levels(self, instance_type: str) -> tuple[str, ...]:
        """Levels of the flavor's Topology; the add-on gives every flavor the same one [F]."""
        if self.owner == "sagemaker":
            return service.TOPOLOGY_LEVELS
        labels = catalog.instance_type(instance_type).topology_labels
        if not labels or (self.config.kueue and self.config.kueue.topology_aware_scheduling == "Disabled"):
            return ()
        return (*labels, service.HOSTNAME_LABEL)

    def topologies(self, flavors: Sequence[Flavor]) -> tuple[Topology, ...]:
        levels = {flavor.topology: self.topology_levels(flavor.instance_type) for flavor in flavors}
        return tuple(Topology(name, levels[name]) for name in sorted(name for name in levels if name))

    # --- queues and cohorts

    def cluster_queues(
        self, members: Sequence[_Member], flavors: Sequence[Flavor], idle: tuple[FlavorQuota, ...]
    ) -> tuple[ClusterQueue, ...]:
        asked: list[tuple[str, _Member | None, tuple[FlavorQuota, ...]]] = [
            (naming.cluster_queue(self.owner, member.team.name), member, member.flavors) for member in members
        ]
        if self.owner == "sagemaker":
            if idle:
                asked.append((naming.SAGEMAKER_IDLE_QUEUE, None, idle))
            # A live ClusterQueue lists every flavor of the cluster, with nothing in those it has no quota of.
            resources = _every_resource(flavors, (quotas for _, _, quotas in asked))
            asked = [(name, member, _covering(quotas, flavors, resources)) for name, member, quotas in asked]
        return tuple(sorted((self.queue(*each) for each in asked), key=lambda queue: queue.name))

    def queue(self, name: str, member: _Member | None, flavors: tuple[FlavorQuota, ...]) -> ClusterQueue:
        allocation = member.allocation if member else None
        weight = (
            (allocation.fair_share_weight if allocation else 0)
            if self.fair
            else service.WEIGHT_WITHOUT_FAIR_SHARE
        )
        department = member.team.spec.department if member and self.owner == "kueue" else None
        resources = _resources(flavors)
        return ClusterQueue(
            name=name,
            team=member.team.name if member else None,
            namespace=naming.namespace(self.owner, member.team.name) if member else None,
            cohort=self.cohort(department),
            resources=resources,
            flavors=_align(flavors, resources),
            queueing_strategy=self.config.kueue.queueing_strategy if self.config.kueue else "BestEffortFIFO",
            within_cluster_queue=allocation.preempt_team_tasks if allocation else "Never",
            reclaim_within_cohort=service.RECLAIM_WITHIN_COHORT if member else "Never",
            fair_share_weight=weight,
            stop_policy="Hold" if allocation and allocation.activation_state == "Disabled" else "None",
        )

    def cohorts(self, members: Sequence[_Member], idle: tuple[FlavorQuota, ...]) -> tuple[Cohort, ...]:
        """The root Cohort and, in kueue mode, those of the departments that have teams here."""
        # Kueue refuses limits on a Cohort without a parent.
        pool = _align(idle, _resources(idle), borrowing_limit=None) if self.owner == "kueue" else ()
        departments = self.departments(members) if self.owner == "kueue" else []
        below = [
            Cohort(
                name=naming.department_cohort(department.name),
                parent=self.cohort(department.spec.parent),
                fair_share_weight=department.spec.fair_share_weight if self.fair else None,
                flavors=(),
            )
            for department in departments
        ]
        return (Cohort(self.root, None, None, pool), *below)

    def cohort(self, department: str | None) -> str:
        return naming.department_cohort(department) if department else self.root

    def departments(self, members: Sequence[_Member]) -> list[Department]:
        by_name = {department.name: department for department in self.fleet.departments}
        used: set[str] = set()
        for member in members:
            name = member.team.spec.department
            while name is not None and name not in used:
                used.add(name)
                name = by_name[name].spec.parent
        return [by_name[name] for name in sorted(used)]

    def idle_capacity(self, members: Sequence[_Member]) -> tuple[FlavorQuota, ...]:
        """What no team was promised at target count, if the policy lends it; see ``IdleResourceSharing``."""
        if self.config.scheduler_config.idle_resource_sharing == "Disabled":
            return ()
        promised: dict[tuple[str, str], int | Fraction] = defaultdict(int)
        for row in (row for member in members for row in self.rows(member)):
            resource, amount = quota.of_whole_devices(row.resource, row.nominal)
            promised[row.flavor, resource] += amount

        def left(entry: FlavorCapacity) -> Iterable[ResourceQuota]:
            for resource, amount in sorted(entry.target.items()):
                # A GPU of which one slice is promised is not idle.
                taken = math.ceil(promised[entry.flavor, resource])
                yield ResourceQuota(resource, max(0, amount - taken), None, None)

        return tuple(FlavorQuota(entry.flavor, tuple(left(entry))) for entry in self.capacity)

    # --- what belongs to a team or to the cluster

    def local_queue(self, member: _Member) -> LocalQueue:
        team = member.team.name
        return LocalQueue(
            name=naming.local_queue(self.owner, team),
            namespace=naming.namespace(self.owner, team),
            team=team,
            cluster_queue=naming.cluster_queue(self.owner, team),
        )

    def namespace(self, member: _Member) -> Namespace:
        team, access = member.team.name, member.team.spec.access
        if self.owner == "sagemaker":
            labels = {
                service.ACTIVATE_QUOTA_LABEL: member.allocation.activation_state,
                service.MANAGED_QUEUE_LABEL: "true",
            }
        else:
            labels = {naming.MANAGED_LABEL: naming.MANAGED_BY, naming.TEAM_LABEL: team}
        return Namespace(
            name=naming.namespace(self.owner, team),
            team=team,
            labels=labels,
            groups=(naming.team_group(team), *sorted(set(access.groups))),
            principal_arns=tuple(sorted(set(access.principal_arns))),
        )

    def priority_classes(self) -> tuple[WorkloadPriorityClass, ...]:
        classes = sorted(
            (entry.name, entry.weight) for entry in self.config.scheduler_config.priority_classes
        )
        return tuple(
            WorkloadPriorityClass(naming.priority_class(self.owner, name), weight) for name, weight in classes
        )


def _resources(flavors: Iterable[FlavorQuota]) -> tuple[str, ...]:
    return tuple(sorted({entry.resource for flavor in flavors for entry in flavor.resources}))


def _align(
    flavors: Iterable[FlavorQuota], resources: tuple[str, ...], borrowing_limit: int | None = 0
) -> tuple[FlavorQuota, ...]:
    """Give every flavor all the resources in one order; Kueue refuses anything else."""
    return tuple(
        flavor
        if len(flavor.resources) == len(resources)  # sorted and among them: the same
        else FlavorQuota(flavor.flavor, _with_nothing(flavor.resources, resources, borrowing_limit))
        for flavor in flavors
    )


def _with_nothing(
    own: Iterable[ResourceQuota], resources: tuple[str, ...], borrowing_limit: int | None
) -> tuple[ResourceQuota, ...]:
    by_name = {entry.resource: entry for entry in own}
    return tuple([by_name.get(name) or _nothing(name, borrowing_limit) for name in resources])


@cache
def _nothing(resource: str, borrowing_limit: int | None) -> ResourceQuota:
    return ResourceQuota(resource, 0, borrowing_limit, None)


def _every_resource(flavors: Iterable[Flavor], quotas: Iterable[tuple[FlavorQuota, ...]]) -> tuple[str, ...]:
    """Every resource that any queue or flavor has."""
    resources = {entry.resource for queue in quotas for flavor in queue for entry in flavor.resources}
    for flavor in flavors:
        resources.update(quota.instance_amounts(catalog.instance_type(flavor.instance_type)))
    return tuple(sorted(resources))


def _covering(
    quotas: tuple[FlavorQuota, ...], flavors: Sequence[Flavor], resources: tuple[str, ...]
) -> tuple[FlavorQuota, ...]:
    """The quotas of a queue with every flavor of the cluster, and those resources in each."""
    own = {flavor.flavor: flavor for flavor in quotas}
    return _align([own.get(flavor.name) or FlavorQuota(flavor.name, ()) for flavor in flavors], resources)


def _compute_quota(member: _Member) -> ComputeQuota:
    allocation = member.allocation
    sharing = allocation.resource_sharing_config
    borrows = sharing.strategy == "LendAndBorrow"
    return ComputeQuota(
        name=member.team.name,
        team=member.team.name,
        resources=quota.api_resources(member.grants),
        strategy=sharing.strategy,
        borrow_limit=borrow_limit(allocation) if borrows else None,
        absolute_borrow_limits=quota.api_resources(member.borrow_grants) if borrows else (),
        preempt_team_tasks=allocation.preempt_team_tasks,
        fair_share_weight=allocation.fair_share_weight,
        activation_state=allocation.activation_state,
    )
