"""The resolved model: plain facts that everything downstream only spells.

Amounts are integers in the base unit of their resource (see ``quantity``): millicores for cpu, bytes for
memory, pieces for everything else. ``None`` as a borrowing or lending limit means "no limit". Everything is
sorted, so that equal fleets are equal values whatever the order of their files. What a fleet has ten of for
each team is a named tuple, which is made three times as fast as a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hyperpod_config.model import Cluster, Fleet

CPU = "cpu"
MEMORY = "memory"
GPU = "nvidia.com/gpu"
NEURON_DEVICE = "aws.amazon.com/neurondevice"
EFA = "vpc.amazonaws.com/efa"

Owner = Literal["sagemaker", "kueue"]
Backend = Literal["native", "custom-resource"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, slots=True)
class Taint:
    """A Kubernetes taint."""

    key: str
    value: str | None
    effect: Effect


@dataclass(frozen=True, slots=True)
class Pool:
    """An instance group as the resolver sees it.

    ``instance_type`` is the type its nodes are counted as: the only one, or the first by priority of a group
    with instance requirements. ``kubernetes_labels`` are asked of HyperPod (KubernetesConfig); ``labels`` are
    all that is known of a node before it exists, those of the service included.
    """

    name: str
    instance_type: str
    instance_types: tuple[str, ...]
    target: int
    minimum: int
    kubernetes_labels: Mapping[str, str]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


class ResourceQuota(NamedTuple):
    """What one queue may use of one resource in one flavor, in base units."""

    resource: str
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None


class FlavorQuota(NamedTuple):
    """What one queue may use of one flavor; resources sorted by name."""

    flavor: str
    resources: tuple[ResourceQuota, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """A Kueue Topology: node labels, the widest domain first."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flavor:
    """A Kueue ResourceFlavor: nodes of one instance type."""

    name: str
    instance_type: str
    node_labels: Mapping[str, str]
    tolerations: tuple[Taint, ...]
    topology: str | None


@dataclass(frozen=True, slots=True)
class Cohort:
    """A Kueue Cohort; ``flavors`` are a shared pool of its own, beside what its queues bring."""

    name: str
    parent: str | None
    fair_share_weight: int | None
    flavors: tuple[FlavorQuota, ...]


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A Kueue ClusterQueue. ``resources`` are the covered ones; every flavor lists them in this order."""

    name: str
    team: str | None
    namespace: str | None
    cohort: str
    resources: tuple[str, ...]
    flavors: tuple[FlavorQuota, ...]
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"]
    within_cluster_queue: Literal["LowerPriority", "Never"]
    reclaim_within_cohort: Literal["Any", "Never"]
    fair_share_weight: int | None
    stop_policy: Literal["None", "Hold"]


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A Kueue LocalQueue."""

    name: str
    namespace: str
    team: str
    cluster_queue: str


@dataclass(frozen=True, slots=True)
class WorkloadPriorityClass:
    """A Kueue WorkloadPriorityClass; a higher value goes first."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class Namespace:
    """A team's namespace and who may work in it."""

    name: str
    team: str
    labels: Mapping[str, str]
    groups: tuple[str, ...]
    principal_arns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComputeQuotaResource:
    """One ``ComputeQuotaResources`` entry; ``None`` fields are left out of the request."""

    instance_type: str
    count: int | None = None
    accelerators: int | None = None
    v_cpu: float | None = None
    memory_in_gib: float | None = None
    partition_type: str | None = None
    partition_count: int | None = None


@dataclass(frozen=True, slots=True)
class ComputeQuota:
    """``AWS::SageMaker::ComputeQuota`` of a team, every value written out that the service would fill in."""

    name: str
    team: str
    resources: tuple[ComputeQuotaResource, ...]
    strategy: Literal["LendAndBorrow", "Lend", "DontLend"]
    borrow_limit: int | None
    absolute_borrow_limits: tuple[ComputeQuotaResource, ...]
    preempt_team_tasks: Literal["LowerPriority", "Never"]
    fair_share_weight: int
    activation_state: Literal["Enabled", "Disabled"]


class QuotaRow(NamedTuple):
    """One line of ``hpf quotas``."""

    cluster: str
    team: str
    flavor: str
    resource: str
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None


@dataclass(frozen=True, slots=True)
class ResolvedGovernance:
    """Everything that decides which job runs on a cluster.

    The Kueue parts are what this tool applies (owner kueue) or what the add-on is expected to make (owner
    sagemaker: a preview). ``compute_quotas`` is empty for owner kueue, which has no use for the backends.
    """

    owner: Owner
    scheduler_config_backend: Backend
    compute_quota_backend: Backend
    fair_sharing: bool
    topologies: tuple[Topology, ...]
    flavors: tuple[Flavor, ...]
    cohorts: tuple[Cohort, ...]
    cluster_queues: tuple[ClusterQueue, ...]
    local_queues: tuple[LocalQueue, ...]
    priority_classes: tuple[WorkloadPriorityClass, ...]
    namespaces: tuple[Namespace, ...]
    compute_quotas: tuple[ComputeQuota, ...]
    rows: tuple[QuotaRow, ...]


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """What a cluster's nodes of one instance type have, by resource, at target and at minimum counts."""

    flavor: str
    nodes: int
    minimum_nodes: int
    target: Mapping[str, int]
    minimum: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ResolvedCluster:
    """One cluster: the typed config it came from and what follows from it."""

    name: str
    aws_name: str
    config: Cluster
    pools: tuple[Pool, ...]
    capacity: tuple[FlavorCapacity, ...]
    governance: ResolvedGovernance | None


@dataclass(frozen=True, slots=True)
class ResolvedFleet:
    """The whole fleet, resolved."""

    name: str
    config: Fleet
    clusters: tuple[ResolvedCluster, ...]
