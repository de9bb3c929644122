"""A Slurm-orchestrated HyperPod cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from ._checks import check_range
from ._cluster import ClusterParts, ClusterSpec, ProvisioningMode, TieredStorage
from .capacity import GatedGroup, gated_groups
from .groups import InstanceGroup, Lifecycle, Storage
from .network import HyperPodNetworkBase


@dataclass(frozen=True, kw_only=True)
class AccountingDatabase:
    """An existing MySQL-compatible database for Slurm accounting; continuous provisioning only.

    Args:
        endpoint: host name of the database, reachable from the instances.
        secret_arn: Secrets Manager secret with its user name and password.
        port: TCP port. None: the service's default, 3306.
        name: name of the database. None: the service's default.
    """

    endpoint: str
    secret_arn: str
    port: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_range("port", self.port, 1, 65535)


class HyperPodSlurmCluster(Construct):
    """A HyperPod cluster orchestrated by Slurm, continuously provisioned by default.

    The AMI sets Slurm up and then runs `on_init_complete.sh` (extended mode). No
    `provisioning_parameters.json` is ever uploaded: HyperPod refuses it together with Slurm groups.

    Args:
        cluster_name: 1 to 63 letters, digits and hyphens; a change replaces the cluster.
        network: HyperPodNetwork or ExistingNetwork.
        instance_groups: each with `slurm`; exactly one Controller group, of one instance.
        node_provisioning_mode: `Continuous`, or None for all-or-nothing. Cannot change later.
        node_recovery: `Automatic` replaces or reboots faulty instances; `None` only labels them.
        shared_storage: file systems mounted on every group, such as `LustreFileSystem(...).mount()`.
        slurm_config_strategy: how HyperPod treats changes of slurm.conf that are not its own; only without
            continuous provisioning, which always merges.
        accounting_database: for `sacct`. None: no accounting.
        lifecycle: set-up of groups that name none.
        lifecycle_directory: your own scripts. None: this library's.
        execution_role_arn: role of the instances. None: one is created.
        tiered_storage: managed tiered checkpointing.
        update_guard: whether updates that the service refuses are refused before they begin. False: not; no
            function and no custom resource are made for it.
        tags: at most 50.

    Attributes:
        cluster: the L1 resource.
        cluster_arn: its ARN.
        cluster_name: its name.

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
        instance_groups: Sequence[InstanceGroup],
        node_provisioning_mode: ProvisioningMode | None = "Continuous",
        node_recovery: Literal["Automatic", "None"] = "Automatic",
        shared_storage: Sequence[Storage] = (),
        slurm_config_strategy: Literal["Overwrite", "Managed", "Merge"] | None = None,
        accounting_database: AccountingDatabase | None = None,
        lifecycle: Lifecycle = Lifecycle(mode="OnInitComplete"),  # noqa: B008 (frozen)
        lifecycle_directory: Path | None = None,
        execution_role_arn: str | None = None,
        tiered_storage: TieredStorage | None = None,
        update_guard: bool = True,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        _check_slurm(instance_groups)
        if accounting_database and node_provisioning_mode is None:
            raise ValueError(
                f"accounting_database {accounting_database.endpoint!r} without continuous provisioning: only "
                "node_provisioning_mode 'Continuous' takes it; set the mode or remove it"
            )
        if slurm_config_strategy and node_provisioning_mode == "Continuous":
            raise ValueError(
                f"slurm_config_strategy {slurm_config_strategy!r} with continuous provisioning, which always "
                "merges: remove it"
            )
        spec = ClusterSpec(
            cluster_name=cluster_name,
            orchestrator="slurm",
            network=network,
            instance_groups=instance_groups,
            node_provisioning_mode=node_provisioning_mode,
            node_recovery=node_recovery,
            lifecycle=lifecycle,
            lifecycle_directory=lifecycle_directory,
            execution_role_arn=execution_role_arn,
            tags=tags or {},
            tiered_storage=tiered_storage,
            shared_storage=shared_storage,
            # [I] That the instances (slurmdbd on the controller) read the secret with their own role follows
            # from the API taking a secret's ARN and no other role; the documentation does not say it.
            secret_arns=[accounting_database.secret_arn] if accounting_database else [],
            update_guard=update_guard,
        )
        parts = ClusterParts(self, "HyperPod", spec=spec)
        self.cluster = parts.build(
            orchestrator=_orchestrator(accounting_database, slurm_config_strategy), after=[]
        )
        self.cluster_arn = self.cluster.attr_cluster_arn
        self.cluster_name = cluster_name

    @property
    def gated_groups(self) -> list[GatedGroup]:
        """The groups, as HyperPodCapacity takes them."""
        return gated_groups(self.cluster)


def _orchestrator(
    database: AccountingDatabase | None, strategy: str | None
) -> sagemaker.CfnCluster.OrchestratorProperty:
    cluster = sagemaker.CfnCluster
    accounting = (
        cluster.ClusterAccountingDatabaseProperty(
            endpoint=database.endpoint,
            secret_arn=database.secret_arn,
            port=database.port,
            name=database.name,
        )
        if database
        else None
    )
    return cluster.OrchestratorProperty(
        slurm=cluster.ClusterOrchestratorSlurmConfigProperty(
            accounting_database=accounting, slurm_config_strategy=strategy
        )
    )


def _check_slurm(groups: Sequence[InstanceGroup]) -> None:
    controllers = [group for group in groups if group.slurm and group.slurm.node_type == "Controller"]
    if len(controllers) != 1 or controllers[0].instance_count != 1:
        found = {group.name: group.instance_count for group in controllers}
        raise ValueError(
            f"Controller groups {found}: a Slurm cluster has exactly one, with instance_count 1; fix "
            "node_type or the count"
        )
    for group in groups:
        if group.slurm is None:
            raise ValueError(
                f"group {group.name!r} has no slurm: every group of a Slurm cluster needs it; add it"
            )
        _check_no_eks_fields(group)


def _check_no_eks_fields(group: InstanceGroup) -> None:
    for what, value in (
        ("labels", dict(group.labels)),
        ("taints", list(group.taints)),
        ("image_release_version", group.image_release_version),
        ("on_start_deep_health_checks", list(group.on_start_deep_health_checks)),
    ):
        if value:
            raise ValueError(
                f"group {group.name!r} has {what} {value!r}: only EKS clusters take it; remove it"
            )
