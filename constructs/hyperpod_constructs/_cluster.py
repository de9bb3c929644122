"""What the EKS and the Slurm cluster constructs share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from ._checks import check_name, check_range
from .groups import (
    InstanceGroup,
    Lifecycle,
    RestrictedGroupsConfig,
    RestrictedInstanceGroup,
    Storage,
    check_groups,
    render_group,
    render_restricted_config,
    render_restricted_group,
    render_tags,
)
from .network import HyperPodNetworkBase
from .roles import NodeRole
from .scripts import LifecycleScripts, foreign_buckets, packaged_scripts, uploads_needed
from .update_guard import ClusterUpdateGuard

Orchestrator = Literal["eks", "slurm"]
ProvisioningMode = Literal["Continuous"]


@dataclass(frozen=True, kw_only=True)
class TieredStorage:
    """Managed tiered checkpointing.

    Args:
        mode: `Enable` or `Disable`.
        instance_memory_allocation_percentage: share of each instance's memory, 0 to 100 percent. None: the
            service's default.
    """

    mode: Literal["Enable", "Disable"]
    instance_memory_allocation_percentage: int | None = None

    def __post_init__(self) -> None:
        check_range(
            "instance_memory_allocation_percentage", self.instance_memory_allocation_percentage, 0, 100
        )


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """Props common to both orchestrators, checked and ready to be spelled. Not part of the public API."""

    cluster_name: str
    orchestrator: Orchestrator
    network: HyperPodNetworkBase
    instance_groups: Sequence[InstanceGroup]
    node_provisioning_mode: ProvisioningMode | None
    node_recovery: Literal["Automatic", "None"]
    lifecycle: Lifecycle
    lifecycle_directory: Path | None
    execution_role_arn: str | None
    tags: Mapping[str, str]
    restricted_instance_groups: Sequence[RestrictedInstanceGroup] = ()
    restricted_groups_config: RestrictedGroupsConfig | None = None
    tiered_storage: TieredStorage | None = None
    shared_storage: Sequence[Storage] = ()
    secret_arns: Sequence[str] = ()
    container_insights: bool = False
    eks_cluster_name: str | None = None
    update_guard: bool = True

    def __post_init__(self) -> None:
        check_name("cluster_name", self.cluster_name)
        check_groups([*self.instance_groups, *self.restricted_instance_groups])
        if self.node_provisioning_mode is None:
            for group in self.instance_groups:
                _check_not_continuous(group)


def _check_not_continuous(group: InstanceGroup) -> None:
    for what, value in (
        ("min_instance_count", group.min_instance_count),
        ("instance_types", list(group.instance_types)),
    ):
        if value:
            raise ValueError(
                f"group {group.name!r} has {what} {value!r} without continuous provisioning: only "
                "node_provisioning_mode 'Continuous' takes it; set the mode or remove it"
            )


class ClusterParts(Construct):
    """Role and lifecycle scripts of a cluster, and the cluster itself once `build` is called."""

    def __init__(self, scope: Construct, construct_id: str, *, spec: ClusterSpec) -> None:
        super().__init__(scope, construct_id)
        self.spec = spec
        self.scripts = self._scripts()
        self.role = None if spec.execution_role_arn else self._role()
        self.guard = self._guard()

    def _scripts(self) -> LifecycleScripts | None:
        spec = self.spec
        names = uploads_needed(spec.instance_groups, spec.lifecycle)
        if not names:
            return None
        directory = spec.lifecycle_directory or packaged_scripts(spec.orchestrator)
        for name in names:
            if not (directory / name).is_file():
                raise ValueError(
                    f"lifecycle script {name!r} is not in {directory}: add the file, or name another script"
                )
        return LifecycleScripts(self, "Lifecycle", directory=directory)

    def _role(self) -> NodeRole:
        return NodeRole(
            self,
            "NodeRole",
            orchestrator=self.spec.orchestrator,
            script_buckets=foreign_buckets(self.spec.instance_groups, self.spec.lifecycle),
            secret_arns=self.spec.secret_arns,
            container_insights=self.spec.container_insights,
        )

    def build(
        self,
        *,
        orchestrator: sagemaker.CfnCluster.OrchestratorProperty,
        after: Sequence[IDependable],
        auto_scaling: sagemaker.CfnCluster.ClusterAutoScalingConfigProperty | None = None,
        cluster_role: str | None = None,
    ) -> sagemaker.CfnCluster:
        """Create the cluster after everything that must outlive it: role, network, scripts, and `after`."""
        spec = self.spec
        role = spec.execution_role_arn or (self.role.role_arn if self.role else "")
        restricted = [
            render_restricted_group(group, execution_role_arn=role)
            for group in spec.restricted_instance_groups
        ]
        cluster = sagemaker.CfnCluster(
            self,
            "Cluster",
            cluster_name=spec.cluster_name,
            orchestrator=orchestrator,
            instance_groups=self._groups(role) or None,
            restricted_instance_groups=restricted or None,
            restricted_instance_groups_config=render_restricted_config(spec.restricted_groups_config),
            node_provisioning_mode=spec.node_provisioning_mode,
            node_recovery=spec.node_recovery,
            auto_scaling=auto_scaling,
            cluster_role=cluster_role,
            tiered_storage_config=_tiered(spec.tiered_storage),
            vpc_config=sagemaker.CfnCluster.VpcConfigProperty(
                security_group_ids=spec.network.security_group_ids, subnets=spec.network.node_subnet_ids
            ),
            tags=render_tags(spec.tags),
        )
        owned = [part for part in (self.role, self.scripts) if part is not None]
        cluster.node.add_dependency(spec.network, *owned, *after, *self.guard)
        return cluster

    def _guard(self) -> list[IDependable]:
        spec = self.spec
        if not spec.update_guard:
            return []
        guard = ClusterUpdateGuard(
            self,
            "UpdateGuard",
            cluster_name=spec.cluster_name,
            eks_cluster_name=spec.eks_cluster_name,
            subnet_ids=spec.network.node_subnet_ids,
            security_group_ids=spec.network.security_group_ids,
            node_provisioning_mode=spec.node_provisioning_mode,
            instance_groups=spec.instance_groups,
            restricted_instance_groups=spec.restricted_instance_groups,
        )
        return [guard.resource]

    def _groups(self, role: str) -> list[sagemaker.CfnCluster.ClusterInstanceGroupProperty]:
        spec = self.spec
        return [
            render_group(
                group,
                execution_role_arn=role,
                lifecycle=spec.lifecycle,
                script_uri=self.scripts.source_s3_uri if self.scripts else None,
                shared_storage=spec.shared_storage,
            )
            for group in spec.instance_groups
        ]


def _tiered(storage: TieredStorage | None) -> sagemaker.CfnCluster.TieredStorageConfigProperty | None:
    if storage is None:
        return None
    return sagemaker.CfnCluster.TieredStorageConfigProperty(
        mode=storage.mode,
        instance_memory_allocation_percentage=storage.instance_memory_allocation_percentage,
    )
