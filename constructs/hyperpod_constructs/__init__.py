"""L3 CDK constructs for Amazon SageMaker HyperPod: clusters, network, storage, task governance."""

from ._cluster import TieredStorage
from .capacity import GatedGroup, HyperPodCapacity, gated_groups
from .control_plane import (
    BASE_ADDONS,
    KUBERNETES_VERSIONS,
    EksControlPlane,
    ExistingEks,
    NewEks,
    SystemNodeGroup,
    acknowledge_kubectl,
)
from .dependencies import PINNED_COMMIT, DependenciesChart, HyperPodDependencies
from .eks import HyperPodEksCluster
from .governance import (
    DEFAULT_ADDON_VERSION,
    AcceleratorPartition,
    ComputeQuota,
    PriorityClass,
    QuotaResource,
    SchedulerConfig,
    TaskGovernance,
)
from .groups import (
    AutoPatch,
    BatchSize,
    Deployment,
    EbsVolume,
    FsxLustreMount,
    FsxOpenZfsMount,
    InstanceGroup,
    Lifecycle,
    RestrictedGroupsConfig,
    RestrictedInstanceGroup,
    RestrictedLustre,
    ScheduledUpdate,
    SlurmGroup,
    Storage,
    Taint,
    VpcOverride,
)
from .monitoring import HyperPodMonitoring
from .network import CLOSED_NETWORK_ENDPOINTS, ExistingNetwork, HyperPodNetwork, HyperPodNetworkBase
from .roles import AutoscalerRole, NodeRole
from .scripts import LifecycleScripts, packaged_scripts
from .slurm import AccountingDatabase, HyperPodSlurmCluster
from .storage import LustreFileSystem, OpenZfsFileSystem
from .update_guard import ClusterUpdateGuard, GovernanceUpdateGuard, KueueOwnerGuard

__all__ = [
    "BASE_ADDONS",
    "CLOSED_NETWORK_ENDPOINTS",
    "DEFAULT_ADDON_VERSION",
    "KUBERNETES_VERSIONS",
    "PINNED_COMMIT",
    "AcceleratorPartition",
    "AccountingDatabase",
    "AutoPatch",
    "AutoscalerRole",
    "BatchSize",
    "ClusterUpdateGuard",
    "ComputeQuota",
    "DependenciesChart",
    "Deployment",
    "EbsVolume",
    "EksControlPlane",
    "ExistingEks",
    "ExistingNetwork",
    "FsxLustreMount",
    "FsxOpenZfsMount",
    "GatedGroup",
    "GovernanceUpdateGuard",
    "HyperPodCapacity",
    "HyperPodDependencies",
    "HyperPodEksCluster",
    "HyperPodMonitoring",
    "HyperPodNetwork",
    "HyperPodNetworkBase",
    "HyperPodSlurmCluster",
    "InstanceGroup",
    "KueueOwnerGuard",
    "Lifecycle",
    "LifecycleScripts",
    "LustreFileSystem",
    "NewEks",
    "NodeRole",
    "OpenZfsFileSystem",
    "PriorityClass",
    "QuotaResource",
    "RestrictedGroupsConfig",
    "RestrictedInstanceGroup",
    "RestrictedLustre",
    "ScheduledUpdate",
    "SchedulerConfig",
    "SlurmGroup",
    "Storage",
    "SystemNodeGroup",
    "Taint",
    "TaskGovernance",
    "TieredStorage",
    "VpcOverride",
    "acknowledge_kubectl",
    "gated_groups",
    "packaged_scripts",
]
