"""An EKS-orchestrated HyperPod cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from aws_cdk import aws_eks_v2 as eks_v2
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from ._cluster import ClusterParts, ClusterSpec, ProvisioningMode, TieredStorage
from .capacity import GatedGroup, gated_groups
from .control_plane import EksControlPlane, ExistingEks, NewEks
from .dependencies import DependenciesChart, HyperPodDependencies
from .groups import InstanceGroup, Lifecycle, RestrictedGroupsConfig, RestrictedInstanceGroup
from .network import HyperPodNetworkBase
from .roles import AutoscalerRole


class HyperPodEksCluster(Construct):
    """A HyperPod cluster orchestrated by EKS, continuously provisioned by default.

    Created in this order, and deleted in the reverse one: network, EKS cluster, vpc-cni, kube-proxy and
    eks-pod-identity-agent, system node group with coredns, dependencies chart, role and lifecycle scripts,
    HyperPod cluster, and coredns here if there are no system nodes and `coredns` is not False.

    Args:
        cluster_name: 1 to 63 letters, digits and hyphens; a change replaces the cluster.
        network: HyperPodNetwork or ExistingNetwork.
        eks: NewEks or ExistingEks.
        dependencies: where the HyperPod dependencies chart comes from; default the pinned commit.
        instance_groups: ordinary groups; up to 100 with the restricted ones.
        restricted_instance_groups: restricted groups; they need node_provisioning_mode None and no Karpenter.
        restricted_groups_config: what they share.
        node_provisioning_mode: `Continuous`, or None for all-or-nothing.
        node_recovery: `Automatic` replaces or reboots faulty instances; `None` only labels them.
        karpenter: whether HyperPod scales the groups by Karpenter; True needs Continuous and Automatic. False
            switches it off where it was on. None: not said.
        cluster_role_arn: role with which Karpenter adds and removes nodes. None: one is created.
        tiered_storage: managed tiered checkpointing.
        lifecycle: set-up of groups that name none.
        lifecycle_directory: your own scripts. None: this library's.
        execution_role_arn: role of the instances. None: one is created.
        container_insights: whether instances may write CloudWatch metrics and logs; for HyperPodMonitoring.
        update_guard: whether updates that the service refuses are refused before they begin. False: not; no
            function and no custom resource are made for it.
        coredns: False: you place coredns behind the first node by `add_coredns`. True: it comes right after
            the cluster, and fails if no node comes while EKS waits for it.
        tags: at most 50.

    Attributes:
        cluster: the L1 resource.
        cluster_arn: its ARN.
        cluster_name: its name.
        eks_cluster: the EKS cluster as an L2.
        eks_cluster_name: its name.
        ready: the HyperPod cluster, for what only needs it to exist. With continuous provisioning it can be
            InService before its first node; what needs nodes depends on HyperPodCapacity.first_node.

    Raises:
        ValueError: with the value, the limit and the next step.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        network: HyperPodNetworkBase,
        eks: NewEks | ExistingEks,
        dependencies: DependenciesChart | None = None,
        instance_groups: Sequence[InstanceGroup] = (),
        restricted_instance_groups: Sequence[RestrictedInstanceGroup] = (),
        restricted_groups_config: RestrictedGroupsConfig | None = None,
        node_provisioning_mode: ProvisioningMode | None = "Continuous",
        node_recovery: Literal["Automatic", "None"] = "Automatic",
        karpenter: bool | None = None,
        cluster_role_arn: str | None = None,
        tiered_storage: TieredStorage | None = None,
        lifecycle: Lifecycle = Lifecycle(mode="OnCreate"),  # noqa: B008 (frozen)
        lifecycle_directory: Path | None = None,
        execution_role_arn: str | None = None,
        container_insights: bool = False,
        update_guard: bool = True,
        coredns: bool = True,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        _check_groups(instance_groups)
        _check_restricted(restricted_instance_groups, node_provisioning_mode, karpenter)
        _check_karpenter(karpenter, node_provisioning_mode, node_recovery)
        spec = ClusterSpec(
            cluster_name=cluster_name,
            orchestrator="eks",
            network=network,
            instance_groups=instance_groups,
            node_provisioning_mode=node_provisioning_mode,
            node_recovery=node_recovery,
            lifecycle=lifecycle,
            lifecycle_directory=lifecycle_directory,
            execution_role_arn=execution_role_arn,
            tags=tags or {},
            restricted_instance_groups=restricted_instance_groups,
            restricted_groups_config=restricted_groups_config,
            tiered_storage=tiered_storage,
            container_insights=container_insights,
            # Not the resource's: the guard would wait for an EKS cluster that it may have to refuse.
            eks_cluster_name=eks.cluster_name if isinstance(eks, ExistingEks) else eks.name or cluster_name,
            update_guard=update_guard,
        )
        control_plane = EksControlPlane(self, "Eks", eks=eks, name=cluster_name, network=network)
        self._control_plane, self._places_coredns = control_plane, not coredns
        self.eks_cluster: eks_v2.ICluster = control_plane.cluster
        self.eks_cluster_name = control_plane.cluster_name
        chart = HyperPodDependencies(
            self,
            "Dependencies",
            control_plane=control_plane,
            chart=dependencies or DependenciesChart.pinned(),
        )
        parts = ClusterParts(self, "HyperPod", spec=spec)
        control_plane.update_after(parts.guard)
        autoscaler = AutoscalerRole(self, "AutoscalerRole") if karpenter and not cluster_role_arn else None
        self.cluster = parts.build(
            orchestrator=_orchestrator(control_plane.cluster_arn),
            after=[*control_plane.foundation, *chart.installed, *([autoscaler] if autoscaler else [])],
            auto_scaling=_auto_scaling(karpenter),
            cluster_role=autoscaler.role.role_arn if autoscaler else cluster_role_arn,
        )
        self.cluster_arn = self.cluster.attr_cluster_arn
        self.cluster_name = cluster_name
        self.ready: IDependable = self.cluster
        if coredns:
            control_plane.add_coredns([self.ready])

    @property
    def gated_groups(self) -> list[GatedGroup]:
        """The groups, as HyperPodCapacity takes them."""
        return gated_groups(self.cluster)

    def add_coredns(self, scope: Construct, after: Sequence[IDependable]) -> None:
        """Create coredns after the first node, where the cluster was made with coredns=False.

        A cluster with system nodes and one that was there already have it; nothing is created then.

        Args:
            scope: where, such as the stack of the HyperPodCapacity.
            after: such as `[capacity.first_node]`.

        Raises:
            ValueError: coredns was not set to False.
        """
        if not self._places_coredns:
            raise ValueError(
                f"cluster {self.cluster_name!r} has coredns right after it: make it with coredns=False to "
                "place it elsewhere"
            )
        self._control_plane.add_coredns(after, scope=scope)


def _orchestrator(cluster_arn: str) -> sagemaker.CfnCluster.OrchestratorProperty:
    return sagemaker.CfnCluster.OrchestratorProperty(
        eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=cluster_arn)
    )


def _auto_scaling(karpenter: bool | None) -> sagemaker.CfnCluster.ClusterAutoScalingConfigProperty | None:
    if karpenter is None:
        return None
    return sagemaker.CfnCluster.ClusterAutoScalingConfigProperty(
        mode="Enable" if karpenter else "Disable", auto_scaler_type="Karpenter" if karpenter else None
    )


def _check_groups(groups: Sequence[InstanceGroup]) -> None:
    for group in groups:
        if group.slurm is not None:
            raise ValueError(
                f"group {group.name!r} has slurm node_type {group.slurm.node_type!r}: an EKS cluster refuses "
                "it; remove it or use HyperPodSlurmCluster"
            )


def _check_restricted(
    groups: Sequence[RestrictedInstanceGroup], mode: ProvisioningMode | None, karpenter: bool | None
) -> None:
    if groups and (mode is not None or karpenter):
        raise ValueError(
            f"restricted group {groups[0].name!r} with node_provisioning_mode {mode!r}, karpenter "
            f"{karpenter}: HyperPod allows neither; set node_provisioning_mode=None and no karpenter"
        )


def _check_karpenter(karpenter: bool | None, mode: ProvisioningMode | None, recovery: str) -> None:
    if karpenter and (mode != "Continuous" or recovery != "Automatic"):
        raise ValueError(
            f"karpenter with node_provisioning_mode {mode!r}, node_recovery {recovery!r}: it needs "
            "'Continuous' and 'Automatic'; set both"
        )
