"""Instance groups as frozen dataclasses, and their spelling as `AWS::SageMaker::Cluster` properties.

Field names are the API's own in snake case; ranges are those of the botocore sagemaker model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from aws_cdk import CfnTag
from aws_cdk import aws_sagemaker as sagemaker

from ._checks import check_length, check_name, check_range, check_unique

MAX_INSTANCES = 6758
"""Largest InstanceCount and MinInstanceCount the API takes."""

DeepHealthCheck = Literal["InstanceStress", "InstanceConnectivity"]
"""The two checks that the CloudFormation type takes; the API's third has no CloudFormation spelling yet."""


@dataclass(frozen=True, kw_only=True)
class EbsVolume:
    """An EBS volume of each instance of a group.

    Args:
        volume_size_in_gb: 1 to 16384 GB. None on the root volume, whose size the service decides.
        volume_kms_key_id: KMS key for the volume. None: the service's key.
        root_volume: True configures the root volume, False (default) adds one at /opt/sagemaker.

    Raises:
        ValueError: the size is out of range.
    """

    volume_size_in_gb: int | None = None
    volume_kms_key_id: str | None = None
    root_volume: bool = False

    def __post_init__(self) -> None:
        if (self.volume_size_in_gb is None) != self.root_volume:
            raise ValueError(
                f"volume_size_in_gb {self.volume_size_in_gb!r} with root_volume {self.root_volume}: an extra "
                "volume needs a size and the root volume takes none; set one of them"
            )
        check_range("volume_size_in_gb", self.volume_size_in_gb, 1, 16384)


@dataclass(frozen=True, kw_only=True)
class FsxLustreMount:
    """An FSx for Lustre file system mounted on each instance of a group.

    Args:
        dns_name: DNS name of the file system.
        mount_name: the file system's mount name (at most 8 characters).
        mount_path: where it appears, default /fsx.
    """

    dns_name: str
    mount_name: str
    mount_path: str = "/fsx"


@dataclass(frozen=True, kw_only=True)
class FsxOpenZfsMount:
    """An FSx for OpenZFS file system mounted on each instance of a group.

    Args:
        dns_name: DNS name of the file system.
        mount_path: where it appears, default /home.
    """

    dns_name: str
    mount_path: str = "/home"


Storage = EbsVolume | FsxLustreMount | FsxOpenZfsMount


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """How the instances of a group are set up.

    Args:
        mode: `OnCreate`: your script does the set-up (customer managed). `OnInitComplete`: the AMI does it,
            then your script runs (extended). `Bootstrap`: no script; LifeCycleConfig is omitted.
        script: file name under the source. None: `on_create.sh` or `on_init_complete.sh`.
        source_s3_uri: your own S3 prefix. None: the scripts that the cluster construct uploads.

    Raises:
        ValueError: a script or source with `Bootstrap`, or a source that is not an S3 URI.
    """

    mode: Literal["OnCreate", "OnInitComplete", "Bootstrap"]
    script: str | None = None
    source_s3_uri: str | None = None

    def __post_init__(self) -> None:
        if self.mode == "Bootstrap" and (self.script or self.source_s3_uri):
            raise ValueError(
                f"lifecycle mode Bootstrap with script {self.script or self.source_s3_uri!r}: "
                "that mode runs no script; use OnCreate or OnInitComplete"
            )
        if self.source_s3_uri and not self.source_s3_uri.startswith(("s3://", "${Token")):
            raise ValueError(
                f"source_s3_uri {self.source_s3_uri!r}: it must begin with s3://; give an S3 prefix"
            )

    @property
    def file_name(self) -> str:
        """The script's name under the source."""
        defaults = {"OnCreate": "on_create.sh", "OnInitComplete": "on_init_complete.sh", "Bootstrap": ""}
        return self.script or defaults[self.mode]


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A Kubernetes taint on the nodes of a group."""

    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str | None = None


@dataclass(frozen=True, kw_only=True)
class SlurmGroup:
    """The part of a group in a Slurm cluster.

    Args:
        node_type: `Controller` (exactly one group, one instance), `Login` or `Compute`.
        partition_names: at most one, and only on `Compute`.

    Raises:
        ValueError: a partition on a node that is not Compute, or more than one.
    """

    node_type: Literal["Controller", "Login", "Compute"]
    partition_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_length("partition_names", self.partition_names, 0, 1)
        if self.partition_names and self.node_type != "Compute":
            raise ValueError(
                f"partition {self.partition_names[0]!r} on node type {self.node_type}: partitions can only "
                "be assigned to Compute node types; move it to a Compute group"
            )


@dataclass(frozen=True, kw_only=True)
class VpcOverride:
    """Subnets and security groups of one group, instead of the cluster's. Immutable once the group exists.

    Args:
        subnet_ids: 1 to 16, of the cluster's VPC.
        security_group_ids: 1 to 5.
    """

    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str]

    def __post_init__(self) -> None:
        check_length("subnet_ids", self.subnet_ids, 1, 16)
        check_length("security_group_ids", self.security_group_ids, 1, 5)


@dataclass(frozen=True, kw_only=True)
class BatchSize:
    """How many instances an update may touch at once.

    Args:
        type: `INSTANCE_COUNT` or `CAPACITY_PERCENTAGE`.
        value: instances, or percent of the group.
    """

    type: Literal["INSTANCE_COUNT", "CAPACITY_PERCENTAGE"]
    value: int


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """How software updates roll over a group.

    Args:
        maximum_batch_size: instances updated at once.
        rollback_maximum_batch_size: instances rolled back at once. None: the service decides.
        wait_interval_in_seconds: pause between batches, 0 to 3600 seconds.
        auto_rollback_alarms: names of CloudWatch alarms that roll the update back.
    """

    maximum_batch_size: BatchSize | None = None
    rollback_maximum_batch_size: BatchSize | None = None
    wait_interval_in_seconds: int | None = None
    auto_rollback_alarms: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_range("wait_interval_in_seconds", self.wait_interval_in_seconds, 0, 3600)
        if self.rollback_maximum_batch_size and not self.maximum_batch_size:
            raise ValueError(
                "rollback_maximum_batch_size without maximum_batch_size: a rolling policy needs both or only "
                "the latter; add maximum_batch_size"
            )


@dataclass(frozen=True, kw_only=True)
class ScheduledUpdate:
    """When the AMI of a group is updated.

    Args:
        schedule_expression: a `cron(...)` expression in UTC.
        deployment: how the update rolls. None: all at once.
    """

    schedule_expression: str
    deployment: Deployment | None = None


@dataclass(frozen=True, kw_only=True)
class AutoPatch:
    """Automatic patching of a group.

    Args:
        patching_strategy: `WhenIdle` or `WhenAllIdle` (CloudFormation has no `DrainFirst` yet).
        deployment: how patches roll.
    """

    patching_strategy: Literal["WhenIdle", "WhenAllIdle"]
    deployment: Deployment | None = None


@dataclass(frozen=True, kw_only=True)
class InstanceGroup:
    """One instance group of a HyperPod cluster.

    Args:
        name: unique in the cluster, 1 to 63 letters, digits and hyphens.
        instance_count: target number of instances, 0 to 6758.
        instance_type: such as `ml.p5.48xlarge`; exactly one of this and instance_types.
        instance_types: 1 to 20 types in the order of preference (InstanceRequirements; Continuous only).
        min_instance_count: instances needed before the group becomes InService, 0 to instance_count.
            None: the service's default (0; 1 for Controller and Login). If it is not met within 3 hours, the
            group rolls back, a new one to zero instances; it is not a floor afterwards. Continuous only.
        execution_role_arn: role of the instances. None: the cluster's.
        threads_per_core: 1 (no hyper-threading) or 2. None: the type's default.
        storage: at most 4, of them at most one Lustre and one OpenZFS.
        lifecycle: None: the cluster's default.
        on_start_deep_health_checks: checks before an instance takes work; EKS only.
        labels: Kubernetes labels, at most 50; EKS only.
        taints: Kubernetes taints, at most 50; EKS only, and not together with deep health checks.
        training_plan_arn: flexible training plan that supplies the capacity.
        network_interface: `efa` or `efa-only`. None: the type's default.
        capacity: `Spot` or `OnDemand`. None: on-demand.
        override_vpc: own subnets and security groups. None: the cluster's.
        scheduled_update: when the AMI is updated.
        auto_patch: automatic patching.
        image_id: custom AMI (`ami-...`) or `default`.
        image_release_version: pinned HyperPod AMI release; EKS only.
        slurm: required on Slurm, refused on EKS.

    Raises:
        ValueError: with the value, the limit and the next step.
    """

    name: str
    instance_count: int
    instance_type: str | None = None
    instance_types: Sequence[str] = ()
    min_instance_count: int | None = None
    execution_role_arn: str | None = None
    threads_per_core: int | None = None
    storage: Sequence[Storage] = ()
    lifecycle: Lifecycle | None = None
    on_start_deep_health_checks: Sequence[DeepHealthCheck] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    training_plan_arn: str | None = None
    network_interface: Literal["efa", "efa-only"] | None = None
    capacity: Literal["Spot", "OnDemand"] | None = None
    override_vpc: VpcOverride | None = None
    scheduled_update: ScheduledUpdate | None = None
    auto_patch: AutoPatch | None = None
    image_id: str | None = None
    image_release_version: str | None = None
    slurm: SlurmGroup | None = None

    def __post_init__(self) -> None:
        check_name("instance group", self.name)
        self._check_counts()
        if (self.instance_type is None) == (not self.instance_types):
            raise ValueError(
                f"group {self.name!r} has instance_type {self.instance_type!r} and instance_types "
                f"{list(self.instance_types)!r}: exactly one is allowed; keep one of them"
            )
        check_length(f"group {self.name!r} instance_types", self.instance_types, 0, 20)
        check_range(f"group {self.name!r} threads_per_core", self.threads_per_core, 1, 2)
        check_length(f"group {self.name!r} labels", self.labels, 0, 50)
        check_length(f"group {self.name!r} taints", self.taints, 0, 50)
        check_storage(self.name, self.storage)
        if self.taints and self.on_start_deep_health_checks:
            raise ValueError(
                f"group {self.name!r} has taint {self.taints[0].key!r} and deep health checks: HyperPod "
                "allows only one of them; remove the taints or the checks"
            )

    def _check_counts(self) -> None:
        check_range(f"group {self.name!r} instance_count", self.instance_count, 0, MAX_INSTANCES)
        check_range(
            f"group {self.name!r} min_instance_count (at most instance_count)",
            self.min_instance_count,
            0,
            self.instance_count,
        )


@dataclass(frozen=True, kw_only=True)
class RestrictedLustre:
    """Service-owned Lustre storage of restricted groups.

    Args:
        size_in_gib: capacity, 1200 to 100800 GiB.
        per_unit_storage_throughput: 125 to 1000 MB/s per TiB.
    """

    size_in_gib: int
    per_unit_storage_throughput: int

    def __post_init__(self) -> None:
        check_range("size_in_gib", self.size_in_gib, 1200, 100800)
        check_range("per_unit_storage_throughput", self.per_unit_storage_throughput, 125, 1000)


@dataclass(frozen=True, kw_only=True)
class RestrictedInstanceGroup:
    """A restricted instance group (for Amazon Nova customization); EKS only, not with Continuous or
    Karpenter.

    Args: as of InstanceGroup, which it resembles; `environment_lustre` is the group's own storage. A
    restricted group has no minimum count and no lifecycle script.
    """

    name: str
    instance_count: int
    instance_type: str
    execution_role_arn: str | None = None
    threads_per_core: int | None = None
    storage: Sequence[Storage] = ()
    on_start_deep_health_checks: Sequence[DeepHealthCheck] = ()
    training_plan_arn: str | None = None
    override_vpc: VpcOverride | None = None
    environment_lustre: RestrictedLustre | None = None

    def __post_init__(self) -> None:
        check_name("restricted instance group", self.name)
        check_range(f"group {self.name!r} instance_count", self.instance_count, 0, MAX_INSTANCES)
        check_range(f"group {self.name!r} threads_per_core", self.threads_per_core, 1, 2)
        check_storage(self.name, self.storage)


@dataclass(frozen=True, kw_only=True)
class RestrictedGroupsConfig:
    """What all restricted groups of a cluster share.

    Args:
        deletion_policy: what becomes of the shared file system when its groups are deleted: `Keep`, or
            `DeleteIfNotUsed` once no restricted group refers to it.
        shared_lustre: their shared Lustre file system.
    """

    deletion_policy: Literal["Keep", "DeleteIfNotUsed"]
    shared_lustre: RestrictedLustre | None = None


def check_storage(group: str, storage: Sequence[Storage]) -> None:
    """Refuse more than 4 storage configs, or two file systems of one kind, on a group."""
    check_length(f"group {group!r} storage", storage, 0, 4)
    for kind in (FsxLustreMount, FsxOpenZfsMount):
        check_length(f"group {group!r} {kind.__name__}", [s for s in storage if isinstance(s, kind)], 0, 1)


def check_groups(groups: Sequence[InstanceGroup | RestrictedInstanceGroup]) -> None:
    """Refuse a cluster with no group, more than 100, or two of one name."""
    check_length("instance groups", groups, 1, 100)
    check_unique("instance group", (group.name for group in groups))


def render_group(
    group: InstanceGroup,
    *,
    execution_role_arn: str,
    lifecycle: Lifecycle,
    script_uri: str | None,
    shared_storage: Sequence[Storage] = (),
) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
    """Spell one group for CfnCluster.

    Args:
        group: the group.
        execution_role_arn: role for a group that names none.
        lifecycle: set-up for a group that names none.
        script_uri: S3 prefix of the uploaded scripts; None if no group uses them.
        shared_storage: mounted on the group besides its own storage.
    """
    check_storage(group.name, storage := [*group.storage, *shared_storage])
    cluster = sagemaker.CfnCluster
    return cluster.ClusterInstanceGroupProperty(
        instance_group_name=group.name,
        instance_count=group.instance_count,
        execution_role=group.execution_role_arn or execution_role_arn,
        instance_type=group.instance_type,
        instance_requirements=cluster.InstanceRequirementsProperty(instance_types=list(group.instance_types))
        if group.instance_types
        else None,
        min_instance_count=group.min_instance_count,
        threads_per_core=group.threads_per_core,
        instance_storage_configs=[_storage(s) for s in storage] or None,
        life_cycle_config=_lifecycle(group.lifecycle or lifecycle, script_uri),
        on_start_deep_health_checks=list(group.on_start_deep_health_checks) or None,
        kubernetes_config=_kubernetes(group),
        training_plan_arn=group.training_plan_arn,
        network_interface=cluster.ClusterNetworkInterfaceProperty(interface_type=group.network_interface)
        if group.network_interface
        else None,
        capacity_requirements=_capacity(group.capacity),
        override_vpc_config=_vpc(group.override_vpc),
        scheduled_update_config=_scheduled(group.scheduled_update),
        auto_patch_config=_auto_patch(group.auto_patch),
        image_id=group.image_id,
        image_release_version=group.image_release_version,
        slurm_config=cluster.ClusterSlurmConfigProperty(
            node_type=group.slurm.node_type, partition_names=list(group.slurm.partition_names) or None
        )
        if group.slurm
        else None,
    )


def render_restricted_group(
    group: RestrictedInstanceGroup, *, execution_role_arn: str
) -> sagemaker.CfnCluster.ClusterRestrictedInstanceGroupProperty:
    """Spell one restricted group for CfnCluster."""
    cluster = sagemaker.CfnCluster
    lustre = _restricted_lustre(group.environment_lustre)
    return cluster.ClusterRestrictedInstanceGroupProperty(
        instance_group_name=group.name,
        instance_count=group.instance_count,
        instance_type=group.instance_type,
        execution_role=group.execution_role_arn or execution_role_arn,
        threads_per_core=group.threads_per_core,
        instance_storage_configs=[_storage(s) for s in group.storage] or None,
        on_start_deep_health_checks=list(group.on_start_deep_health_checks) or None,
        training_plan_arn=group.training_plan_arn,
        override_vpc_config=_vpc(group.override_vpc),
        environment_config=cluster.EnvironmentConfigProperty(f_sx_lustre_config=lustre) if lustre else None,
    )


def render_restricted_config(
    config: RestrictedGroupsConfig | None,
) -> sagemaker.CfnCluster.RestrictedInstanceGroupsConfigProperty | None:
    """Spell what restricted groups share for CfnCluster."""
    if config is None:
        return None
    cluster = sagemaker.CfnCluster
    return cluster.RestrictedInstanceGroupsConfigProperty(
        shared_environment_config=cluster.SharedEnvironmentConfigProperty(
            f_sx_lustre_config=_restricted_lustre(config.shared_lustre),
            f_sx_lustre_deletion_policy=config.deletion_policy,
        )
    )


def render_tags(tags: Mapping[str, str]) -> list[CfnTag] | None:
    """Spell tags for an L1 in the order of their keys; at most 50."""
    check_length("tags", tags, 0, 50)
    return [CfnTag(key=key, value=tags[key]) for key in sorted(tags)] or None


def _restricted_lustre(
    lustre: RestrictedLustre | None,
) -> sagemaker.CfnCluster.FSxLustreConfigProperty | None:
    if lustre is None:
        return None
    return sagemaker.CfnCluster.FSxLustreConfigProperty(
        size_in_gib=lustre.size_in_gib, per_unit_storage_throughput=lustre.per_unit_storage_throughput
    )


def _storage(storage: Storage) -> sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty:
    cluster = sagemaker.CfnCluster
    match storage:
        case EbsVolume():
            ebs = cluster.ClusterEbsVolumeConfigProperty(
                volume_size_in_gb=storage.volume_size_in_gb,
                volume_kms_key_id=storage.volume_kms_key_id,
                root_volume=storage.root_volume or None,
            )
            return cluster.ClusterInstanceStorageConfigProperty(ebs_volume_config=ebs)
        case FsxLustreMount():
            lustre = cluster.ClusterFsxLustreConfigProperty(
                dns_name=storage.dns_name, mount_name=storage.mount_name, mount_path=storage.mount_path
            )
            return cluster.ClusterInstanceStorageConfigProperty(fsx_lustre_config=lustre)
        case FsxOpenZfsMount():
            zfs = cluster.ClusterFsxOpenZfsConfigProperty(
                dns_name=storage.dns_name, mount_path=storage.mount_path
            )
            return cluster.ClusterInstanceStorageConfigProperty(fsx_open_zfs_config=zfs)


def _lifecycle(
    lifecycle: Lifecycle, script_uri: str | None
) -> sagemaker.CfnCluster.ClusterLifeCycleConfigProperty | None:
    if lifecycle.mode == "Bootstrap":
        return None
    return sagemaker.CfnCluster.ClusterLifeCycleConfigProperty(
        source_s3_uri=lifecycle.source_s3_uri or script_uri,
        on_create=lifecycle.file_name if lifecycle.mode == "OnCreate" else None,
        on_init_complete=lifecycle.file_name if lifecycle.mode == "OnInitComplete" else None,
    )


def _kubernetes(group: InstanceGroup) -> sagemaker.CfnCluster.ClusterKubernetesConfigProperty | None:
    if not group.labels and not group.taints:
        return None
    taints = [
        sagemaker.CfnCluster.ClusterKubernetesTaintProperty(key=t.key, effect=t.effect, value=t.value)
        for t in group.taints
    ]
    return sagemaker.CfnCluster.ClusterKubernetesConfigProperty(
        labels=dict(sorted(group.labels.items())) or None, taints=taints or None
    )


def _capacity(
    capacity: str | None,
) -> sagemaker.CfnCluster.ClusterCapacityRequirementsProperty | None:
    match capacity:
        case "Spot":
            return sagemaker.CfnCluster.ClusterCapacityRequirementsProperty(spot={})
        case "OnDemand":
            return sagemaker.CfnCluster.ClusterCapacityRequirementsProperty(on_demand={})
        case _:
            return None


def _vpc(override: VpcOverride | None) -> sagemaker.CfnCluster.VpcConfigProperty | None:
    if override is None:
        return None
    return sagemaker.CfnCluster.VpcConfigProperty(
        security_group_ids=list(override.security_group_ids), subnets=list(override.subnet_ids)
    )


def _batch(size: BatchSize) -> sagemaker.CfnCluster.CapacitySizeConfigProperty:
    return sagemaker.CfnCluster.CapacitySizeConfigProperty(type=size.type, value=size.value)


def _deployment(deployment: Deployment | None) -> sagemaker.CfnCluster.DeploymentConfigProperty | None:
    if deployment is None:
        return None
    cluster = sagemaker.CfnCluster
    rolling = None
    rollback = deployment.rollback_maximum_batch_size
    if deployment.maximum_batch_size:
        rolling = cluster.RollingUpdatePolicyProperty(
            maximum_batch_size=_batch(deployment.maximum_batch_size),
            rollback_maximum_batch_size=_batch(rollback) if rollback else None,
        )
    alarms = [cluster.AlarmDetailsProperty(alarm_name=name) for name in deployment.auto_rollback_alarms]
    return cluster.DeploymentConfigProperty(
        rolling_update_policy=rolling,
        wait_interval_in_seconds=deployment.wait_interval_in_seconds,
        auto_rollback_configuration=alarms or None,
    )


def _scheduled(
    update: ScheduledUpdate | None,
) -> sagemaker.CfnCluster.ScheduledUpdateConfigProperty | None:
    if update is None:
        return None
    return sagemaker.CfnCluster.ScheduledUpdateConfigProperty(
        schedule_expression=update.schedule_expression, deployment_config=_deployment(update.deployment)
    )


def _auto_patch(patch: AutoPatch | None) -> sagemaker.CfnCluster.AutoPatchConfigProperty | None:
    if patch is None:
        return None
    return sagemaker.CfnCluster.AutoPatchConfigProperty(
        patching_strategy=patch.patching_strategy, deployment_config=_deployment(patch.deployment)
    )
