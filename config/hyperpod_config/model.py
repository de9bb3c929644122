"""The typed fleet config: what product documents say, before anything is made of it.

Field names are those of the AWS API and of Kueue with the first letter lowered, so a reader can look each
one up. Limits come from the service model of botocore 1.44.5 unless a comment names another source. Shape
is checked here; what a value means for the fleet is checked by the rules of ``hyperpod_governance``.
"""

# Without `from __future__ import annotations`: pydantic would compile the text of every annotation again.
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, PydanticKnownError

from hyperpod_config.findings import Place

API_VERSION = "hyperpod-fleet/v1alpha1"

EntityName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$", max_length=63)]
"""Name of a HyperPod cluster or instance group."""
DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
"""Team, priority class, department: 40 characters, because ``hyperpod-ns-<team>-localqueue`` ends at 63."""
StackName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
"""Fleet and cluster documents: part of CloudFormation stack names and of Kubernetes names."""
InstanceTypeName = Annotated[str, StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$")]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$")]
AccountId = Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
RoleArn = Annotated[
    str,
    StringConstraints(
        pattern=r"^arn:aws[a-z\-]*:iam::[0-9]{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+$", max_length=2048
    ),
]
KmsKeyId = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9:/_-]+$", max_length=2048)]
VpcId = Annotated[str, StringConstraints(pattern=r"^vpc-[0-9a-f]+$")]
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]+$")]
SecurityGroupId = Annotated[str, StringConstraints(pattern=r"^sg-[0-9a-f]+$")]
MountPath = Annotated[str, StringConstraints(pattern=r"^/[a-zA-Z0-9._/-]+$", max_length=1024)]
FsxDnsName = Annotated[
    str, StringConstraints(pattern=r"^(fs|fc)i?-[0-9a-f]{8,}\..{4,253}$", min_length=16, max_length=275)
]
Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$")]


def _short_prefix(key: str) -> str:
    """Refuse a label key whose prefix is longer than a DNS subdomain; one pattern cannot say that too."""
    if len(key.rpartition("/")[0]) > 253:
        raise PydanticKnownError("string_pattern_mismatch", {"pattern": "^([^/]{1,253}/)?[^/]{1,63}$"})
    return key


LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        max_length=317,
    ),
    AfterValidator(_short_prefix),
]
LabelValue = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)
]
TagKey = Annotated[str, StringConstraints(pattern=r"^[\w\s.:/=+\-@]+$", min_length=1, max_length=128)]
TagValue = Annotated[str, StringConstraints(pattern=r"^[\w\s.:/=+\-@]*$", max_length=256)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=50)]
ServiceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]+$")]
"""An AWS service as its endpoint names it: ``ecr.api``."""
InstanceCount = Annotated[int, Field(ge=0, le=6758)]
QuotaInteger = Annotated[int, Field(ge=0, le=10_000_000)]
QuotaNumber = Annotated[float, Field(ge=0, le=10_000_000)]
Toggle = Literal["Enabled", "Disabled"]


class Model(BaseModel):
    """Base of every part of the config: immutable, no unknown fields, no silent conversion of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        defer_build=True,
    )


def _require_one(model: Model, *names: str, at_least: bool = False) -> None:
    """Raise unless exactly one (or, with ``at_least``, one or more) of the named fields is set."""
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) == 1 or (given and at_least):
        return
    fields = type(model).model_fields
    aliases = ", ".join(str(fields[name].alias) for name in names)
    if not given:
        amount = "at least one of" if at_least else "exactly one of"
        raise PydanticCustomError(
            "one_of_missing", "needs {amount} {names}", {"amount": amount, "names": aliases}
        )
    raise PydanticCustomError(
        "one_of_many",
        "{given} exclude each other: set exactly one of {names}",
        {
            "given": " and ".join(str(fields[name].alias) for name in given),
            "names": aliases,
            "field": (str(fields[given[1]].alias),),
        },
    )


class Origin(Protocol):
    """Where a document was read; answers for any path inside it."""

    def place(self, path: Sequence[str | int]) -> Place:
        """Place of the value at ``path``, or of its nearest parent that the file has."""


# --- network ----------------------------------------------------------------------------------------------


class CreateNetwork(Model):
    """A new VPC for this cluster."""

    cidr: Cidr = Field(description="IPv4 range of the VPC; an EKS p5 node takes 81 addresses of it.")
    availability_zones: list[str] | None = Field(
        None,
        min_length=2,
        max_length=4,
        description="Names of the zones to use; the first zones of the region if absent.",
    )
    node_availability_zone: str | None = Field(
        None,
        description="The one zone of the nodes (EFA stays in a zone); the first zone if absent.",
    )
    nat_gateway: Toggle = Field("Enabled", description="Disabled makes a network without a way out.")
    interface_endpoints: list[ServiceName] | None = Field(
        None,
        description="AWS services with an interface endpoint (ecr.api). If absent, none beside NAT, "
        "and without it all that nodes need.",
    )


class ExistingNetwork(Model):
    """A VPC that somebody else owns."""

    vpc_id: VpcId = Field(description="Id of the VPC.")
    subnet_ids: list[SubnetId] = Field(
        min_length=1, max_length=16, description="Private subnets of the nodes."
    )
    security_group_ids: list[SecurityGroupId] = Field(
        min_length=1,
        max_length=5,
        description="Security groups of the nodes; EFA needs all traffic to and from itself.",
    )
    control_plane_subnet_ids: list[SubnetId] | None = Field(
        None, min_length=2, description="Subnets in two or more zones for a new EKS control plane."
    )


class Network(Model):
    """The network of a cluster: a new one, or yours."""

    create: CreateNetwork | None = Field(None, description="Create a VPC.")
    existing: ExistingNetwork | None = Field(None, description="Use a VPC that exists.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _require_one(self, "create", "existing")
        return self


class VpcOverride(Model):
    """Subnets and security groups of one instance group instead of the cluster's; immutable per group."""

    subnets: list[SubnetId] = Field(min_length=1, max_length=16, description="Subnets of this group's nodes.")
    security_group_ids: list[SecurityGroupId] = Field(
        min_length=1, max_length=5, description="Security groups of this group's nodes."
    )


# --- orchestrators ----------------------------------------------------------------------------------------


class ExistingEks(Model):
    """An EKS cluster that somebody else owns; its authentication mode must include API.

    Charts are installed by access entries that are added to it.
    """

    cluster_name: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][A-Za-z0-9\-_]{0,99}$")] = Field(
        description="Name of the EKS cluster."
    )


class DependenciesChart(Model):
    """Source of the HyperPod dependencies Helm chart (aws/sagemaker-hyperpod-cli, ``HyperPodHelmChart``)."""

    path: str | None = Field(
        None,
        description="Directory of the chart, sub-charts in charts/, relative to the config directory.",
    )
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")] | None = Field(
        None, description="Commit of aws/sagemaker-hyperpod-cli that is fetched when deploying."
    )
    install: Toggle = Field(
        "Enabled", description="Disabled: you install the chart before the cluster is made."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.path is not None and self.commit is not None:
            _require_one(self, "path", "commit")
        return self


class Eks(Model):
    """EKS orchestration: a new EKS cluster, or yours."""

    version: Annotated[str, StringConstraints(pattern=r"^1\.[0-9]{2}$")] | None = Field(
        None, description='Kubernetes version of a new EKS cluster, quoted: "1.34".'
    )
    existing: ExistingEks | None = Field(None, description="Use an EKS cluster that exists.")
    endpoint_public_access: Toggle = Field(
        "Enabled", description="Whether the API server has a public endpoint."
    )
    public_access_cidrs: list[Cidr] | None = Field(
        None, min_length=1, description="Ranges that may reach the public endpoint."
    )
    admin_role_arns: list[RoleArn] = Field(
        default=[], description="Roles that get the cluster-admin access policy on a new EKS cluster."
    )
    dependencies: DependenciesChart = Field(
        default=DependenciesChart.model_construct(path=None, commit=None, install="Enabled"),
        description="The HyperPod dependencies chart.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        _require_one(self, "version", "existing")
        return self


class AccountingDatabase(Model):
    """MySQL-compatible database for Slurm accounting; Continuous provisioning only."""

    endpoint: str = Field(min_length=1, max_length=255, description="Host name of the database.")
    port: int = Field(3306, ge=1, le=65535, description="Port.")
    name: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9$_]+$", max_length=64)] | None = Field(
        None, description="Database name."
    )
    secret_arn: Annotated[
        str, StringConstraints(pattern=r"^arn:aws[a-z\-]*:secretsmanager:.+:secret:.+$")
    ] = Field(description="Secrets Manager secret with the credentials.")


class Slurm(Model):
    """Slurm orchestration."""

    accounting_database: AccountingDatabase | None = Field(None, description="Slurm accounting database.")
    slurm_config_strategy: Literal["Overwrite", "Managed", "Merge"] | None = Field(
        None, description="Only without Continuous provisioning; Continuous always merges."
    )


class Orchestrator(Model):
    """What runs jobs on the cluster."""

    eks: Eks | None = Field(None, description="Amazon EKS.")
    slurm: Slurm | None = Field(None, description="Slurm.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _require_one(self, "eks", "slurm")
        return self


# --- instance groups --------------------------------------------------------------------------------------


class LifeCycleConfig(Model):
    """Where a group's lifecycle script comes from; without it the script shipped with this tool is used."""

    source_s3_uri: Annotated[str, StringConstraints(pattern=r"^s3://[^/]+/?.*$", max_length=1024)] | None = (
        Field(None, description="Prefix in S3 that holds the scripts.")
    )
    source_path: str | None = Field(
        None,
        description="Directory with the scripts, relative to the config directory; uploaded as an asset.",
    )
    on_create: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        description="Script that sets the node up (customer managed mode).",
    )
    on_init_complete: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        description="Script that runs after HyperPod's own setup (extended mode).",
    )
    bootstrap: bool = Field(False, description="No script at all: the API's bootstrap mode.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        scripted = ("source_s3_uri", "source_path", "on_create", "on_init_complete")
        if self.bootstrap:
            if any(getattr(self, name) is not None for name in scripted):
                raise PydanticCustomError(
                    "bootstrap_script", "bootstrap: true excludes scripts", {"field": ("bootstrap",)}
                )
            return self
        _require_one(self, "source_s3_uri", "source_path")
        _require_one(self, "on_create", "on_init_complete")
        return self


class EbsVolumeConfig(Model):
    """An EBS volume of each node."""

    volume_size_in_gb: int | None = Field(
        None, alias="volumeSizeInGB", ge=1, le=16384, description="Size in GB (extra volume)."
    )
    volume_kms_key_id: KmsKeyId | None = Field(None, description="KMS key of the volume.")
    root_volume: bool | None = Field(
        None, description="This entry is the root volume: only its key can be set."
    )


class FsxLustreConfig(Model):
    """An FSx for Lustre file system that exists."""

    dns_name: FsxDnsName = Field(description="DNS name of the file system.")
    mount_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,8}$")] = Field(
        description="Mount name."
    )
    mount_path: MountPath | None = Field(None, description="Where nodes mount it.")


class FsxOpenZfsConfig(Model):
    """An FSx for OpenZFS file system that exists."""

    dns_name: FsxDnsName = Field(description="DNS name of the file system.")
    mount_path: MountPath | None = Field(None, description="Where nodes mount it.")


class FileSystemMount(Model):
    """A file system of this cluster's ``fileSystems``."""

    name: EntityName = Field(description="Name in fileSystems.")
    mount_path: MountPath | None = Field(None, description="Where nodes mount it.")


class InstanceStorageConfig(Model):
    """One storage of each node of a group."""

    ebs_volume_config: EbsVolumeConfig | None = Field(None, description="EBS volume.")
    fsx_lustre_config: FsxLustreConfig | None = Field(None, description="Existing FSx for Lustre.")
    fsx_open_zfs_config: FsxOpenZfsConfig | None = Field(None, description="Existing FSx for OpenZFS.")
    file_system: FileSystemMount | None = Field(None, description="A file system made with this cluster.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _require_one(self, "ebs_volume_config", "fsx_lustre_config", "fsx_open_zfs_config", "file_system")
        return self


class Taint(Model):
    """A Kubernetes taint on each node of a group."""

    key: LabelKey = Field(description="Key.")
    value: LabelValue | None = Field(None, description="Value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(description="Effect.")


class KubernetesConfig(Model):
    """Labels and taints that HyperPod puts on each node of a group (EKS only)."""

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=50)] = Field(
        default={}, description="Labels."
    )
    taints: list[Taint] = Field(default=[], max_length=50, description="Taints.")


class SlurmConfig(Model):
    """Part of a group in a Slurm cluster."""

    node_type: Literal["Controller", "Login", "Compute"] = Field(description="Role of the nodes.")
    partition_names: list[EntityName] = Field(
        default=[],
        max_length=1,
        description="Partition of a Compute group; without it the default partition.",
    )


class InstanceRequirements(Model):
    """Instance types to choose from, the first first; excludes instanceType."""

    instance_types: list[InstanceTypeName] = Field(
        min_length=1, max_length=20, description="Types by priority."
    )


class Empty(Model):
    """An object without fields."""


class CapacityRequirements(Model):
    """How capacity is bought."""

    spot: Empty | None = Field(None, description="Spot capacity.")
    on_demand: Empty | None = Field(None, description="On-demand capacity.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _require_one(self, "spot", "on_demand")
        return self


class NetworkInterface(Model):
    """Network interface of each node."""

    interface_type: Literal["efa", "efa-only"] = Field(description="Kind of EFA interface.")


class CapacitySize(Model):
    """A number of instances or a share of them."""

    type: Literal["INSTANCE_COUNT", "CAPACITY_PERCENTAGE"] = Field(description="Unit of value.")
    value: int = Field(ge=1, description="How many instances, or percent (at most 100).")

    @model_validator(mode="after")
    def _share(self) -> Self:
        if self.type == "CAPACITY_PERCENTAGE" and self.value > 100:
            raise PydanticCustomError(
                "percentage",
                "{value} with CAPACITY_PERCENTAGE is more than 100 percent",
                {"value": self.value, "field": ("value",), "hint": "take at most 100"},
            )
        return self


class RollingUpdatePolicy(Model):
    """How many instances change at a time."""

    maximum_batch_size: CapacitySize = Field(description="Largest batch of an update.")
    rollback_maximum_batch_size: CapacitySize | None = Field(None, description="Largest batch of a rollback.")


class Alarm(Model):
    """A CloudWatch alarm that stops an update."""

    alarm_name: str = Field(min_length=1, max_length=255, description="Name of the alarm.")


class DeploymentConfig(Model):
    """How an update of the AMI is rolled out."""

    rolling_update_policy: RollingUpdatePolicy | None = Field(None, description="Batches.")
    wait_interval_in_seconds: int | None = Field(None, ge=0, le=3600, description="Seconds between batches.")
    auto_rollback_configuration: list[Alarm] | None = Field(
        None, min_length=1, max_length=10, description="Alarms that roll the update back."
    )


class ScheduledUpdateConfig(Model):
    """When HyperPod updates the AMI by itself."""

    schedule_expression: Annotated[str, StringConstraints(pattern=r"^cron\(.+\)$", max_length=256)] = Field(
        description="cron(...) expression, UTC."
    )
    deployment_config: DeploymentConfig | None = Field(None, description="How the update is rolled out.")


class AutoPatchConfig(Model):
    """How security patches reach the nodes."""

    # CloudFormation has no DrainFirst yet (its schema lags the API), so neither has this field.
    patching_strategy: Literal["WhenIdle", "WhenAllIdle"] = Field(description="When a node is patched.")
    deployment_config: DeploymentConfig | None = Field(None, description="How patches are rolled out.")


class NodeGroup(Model):
    """What ordinary and restricted instance groups have in common."""

    name: EntityName = Field(description="Name of the group, unique in the cluster.")
    instance_count: InstanceCount = Field(description="Target number of instances.")
    execution_role: RoleArn | None = Field(None, description="Role of the nodes; one is created if absent.")
    threads_per_core: Literal[1, 2] | None = Field(None, description="1 turns hyper-threading off.")
    instance_storage_configs: list[InstanceStorageConfig] = Field(
        default=[], max_length=4, description="Storage of each node."
    )
    on_start_deep_health_checks: (
        Annotated[list[Literal["InstanceStress", "InstanceConnectivity"]], Field(min_length=1, max_length=3)]
        | None
    ) = Field(None, description="Checks that a new node must pass before it takes jobs.")
    training_plan_arn: Annotated[str, StringConstraints(pattern=r"^arn:aws.*:training-plan/.+$")] | None = (
        Field(None, description="Flexible training plan that pays for the group.")
    )
    override_vpc_config: VpcOverride | None = Field(None, description="Other subnets for this group.")


class InstanceGroup(NodeGroup):
    """One ``InstanceGroups`` entry of ``AWS::SageMaker::Cluster``."""

    instance_type: InstanceTypeName | None = Field(None, description="Instance type, with ml. prefix.")
    instance_requirements: InstanceRequirements | None = Field(None, description="Types to choose from.")
    min_instance_count: InstanceCount | None = Field(
        None,
        description="Instances that must be up before the group is InService; after 3 hours it rolls back.",
    )
    life_cycle_config: LifeCycleConfig | None = Field(None, description="Lifecycle script.")
    kubernetes_config: KubernetesConfig = Field(
        default=KubernetesConfig.model_construct(labels={}, taints=[]), description="Labels and taints (EKS)."
    )
    slurm_config: SlurmConfig | None = Field(None, description="Part in a Slurm cluster.")
    capacity_requirements: CapacityRequirements | None = Field(None, description="Spot or on-demand.")
    network_interface: NetworkInterface | None = Field(None, description="EFA interface.")
    # CloudFormation has no scheduled updates of restricted groups yet.
    scheduled_update_config: ScheduledUpdateConfig | None = Field(None, description="Scheduled AMI updates.")
    image_id: Annotated[str, StringConstraints(pattern=r"^(ami-[0-9a-fA-F]{8,17}|default)$")] | None = Field(
        None, description="AMI, or default."
    )
    image_release_version: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] | None = (
        Field(None, description="Release of the HyperPod AMI (EKS).")
    )
    auto_patch_config: AutoPatchConfig | None = Field(None, description="Automatic patching.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _require_one(self, "instance_type", "instance_requirements")
        return self

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Instance types of the group by priority; one, unless the group has requirements."""
        if self.instance_requirements is not None:
            return tuple(self.instance_requirements.instance_types)
        return (str(self.instance_type),)


class FsxLustreSize(Model):
    """FSx for Lustre of a restricted environment."""

    size_in_gib: int = Field(alias="sizeInGiB", ge=1200, le=100800, description="GiB.")
    per_unit_storage_throughput: int = Field(ge=125, le=1000, description="MB/s per TiB.")


class EnvironmentConfig(Model):
    """Environment of a restricted group."""

    fsx_lustre_config: FsxLustreSize | None = Field(None, description="Its file system.")


class RestrictedInstanceGroup(NodeGroup):
    """One ``RestrictedInstanceGroups`` entry: nodes for Nova customisation."""

    instance_type: InstanceTypeName = Field(description="Instance type, with ml. prefix.")
    environment_config: EnvironmentConfig | None = Field(None, description="Environment.")


class SharedEnvironmentConfig(Model):
    """Environment that restricted groups share."""

    fsx_lustre_deletion_policy: Literal["DeleteIfNotUsed", "Keep"] = Field(
        alias="fsxLustreDeletionPolicy", description="What becomes of the file system."
    )
    fsx_lustre_config: FsxLustreSize = Field(description="Its file system.")


class RestrictedInstanceGroupsConfig(Model):
    """Settings of all restricted groups."""

    shared_environment_config: SharedEnvironmentConfig = Field(description="Shared environment.")


class AutoScaling(Model):
    """Karpenter-based node autoscaling of HyperPod (EKS, Continuous)."""

    mode: Literal["Enable", "Disable"] = Field(description="Whether HyperPod scales groups by itself.")
    auto_scaler_type: Literal["Karpenter"] = Field("Karpenter", description="The autoscaler.")


class TieredStorageConfig(Model):
    """Managed tiered checkpointing in node memory."""

    mode: Literal["Enable", "Disable"] = Field(description="Whether it is on.")
    instance_memory_allocation_percentage: int | None = Field(
        None, ge=0, le=100, description="Percent of node memory for checkpoints."
    )


# --- file systems -----------------------------------------------------------------------------------------


class Lustre(Model):
    """A new FSx for Lustre file system (PERSISTENT_2)."""

    storage_capacity_gib: int = Field(
        alias="storageCapacityGiB", ge=1200, multiple_of=1200, description="GiB: 1200, or a multiple of 2400."
    )
    per_unit_storage_throughput: Literal[125, 250, 500, 1000] = Field(250, description="MB/s per TiB.")
    data_compression: Literal["LZ4", "NONE"] = Field("LZ4", description="Compression of data at rest.")
    kms_key_id: KmsKeyId | None = Field(None, description="KMS key; the AWS managed key if absent.")


class OpenZfs(Model):
    """A new FSx for OpenZFS file system (SINGLE_AZ_HA_2)."""

    storage_capacity_gib: int = Field(alias="storageCapacityGiB", ge=64, le=524288, description="GiB.")
    throughput_capacity: Literal[160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240] = Field(
        320, description="MB/s."
    )
    kms_key_id: KmsKeyId | None = Field(None, description="KMS key; the AWS managed key if absent.")


class FileSystem(Model):
    """A file system that is made with the cluster and kept when the cluster goes."""

    name: EntityName = Field(description="Name, for instanceStorageConfigs.")
    lustre: Lustre | None = Field(None, description="FSx for Lustre.")
    open_zfs: OpenZfs | None = Field(None, description="FSx for OpenZFS.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        _require_one(self, "lustre", "open_zfs")
        return self


# --- governance -------------------------------------------------------------------------------------------


class PriorityClass(Model):
    """A class of tasks; the higher weight goes first."""

    name: DnsLabel = Field(description="Name.")
    weight: int = Field(ge=0, le=100, description="0 to 100.")


class SchedulerConfig(Model):
    """``AWS::SageMaker::ClusterSchedulerConfig``: how tasks are ranked and idle capacity is shared."""

    fair_share: Toggle = Field("Enabled", description="Share idle capacity by the teams' weights.")
    idle_resource_sharing: Toggle = Field("Disabled", description="Lend what no team has been promised.")
    priority_classes: list[PriorityClass] = Field(default=[], max_length=10, description="Classes of tasks.")


class Kueue(Model):
    """Kueue of a cluster whose Kueue objects this tool owns."""

    install: Toggle = Field(
        "Enabled", description="Install Kueue's Helm chart; Disabled: it is there already."
    )
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = Field(
        "0.19.2", description="Version of Kueue: 0.17 or newer to install it, 0.16 if it is there already."
    )
    topology_aware_scheduling: Toggle = Field(
        "Enabled", description="Give flavors of instance types with network topology labels a Topology."
    )
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = Field(
        "BestEffortFIFO", description="Whether a waiting head blocks those behind it."
    )


class Governance(Model):
    """Who may use how much of an EKS cluster."""

    owner: Literal["sagemaker", "kueue"] = Field(
        description="Who owns the Kueue objects: the task governance add-on, or this tool."
    )
    addon_version: (
        Annotated[str, StringConstraints(pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+$")] | None
    ) = Field(
        None, description="Pinned version of amazon-sagemaker-hyperpod-taskgovernance (owner sagemaker)."
    )
    scheduler_config: SchedulerConfig = Field(
        default=SchedulerConfig.model_construct(
            fair_share="Enabled", idle_resource_sharing="Disabled", priority_classes=[]
        ),
        description="Cluster policy.",
    )
    backend: Literal["auto", "native", "custom-resource"] = Field(
        "auto",
        description="What makes the scheduler config and the quotas (owner sagemaker): CloudFormation's own"
        " types, a custom resource, or for each the one that the Region has.",
    )
    kueue: Kueue | None = Field(None, description="Settings of owner kueue.")
    team_stacks: int = Field(
        1,
        ge=1,
        le=64,
        description="Least number of stacks the teams are spread over, a power of two; raised as needed.",
    )


class CapacityGate(Model):
    """What a deployment waits for before it counts as done.

    The upper bound of the timeout leaves CloudFormation's own, 12 hours, some minutes to hear of a failure.
    """

    wait_for: Literal["None", "Minimum", "Target"] = Field(
        "Minimum",
        description="Minimum: minInstanceCount of each group; Target: instanceCount; None: nothing.",
    )
    timeout_in_minutes: int = Field(
        210, ge=10, le=700, description="HyperPod itself gives a minimum up after 3 hours."
    )


class Monitoring(Model):
    """Dashboard, alarms and metrics of a cluster."""

    state: Toggle = Field("Enabled", description="Whether there is a monitoring stack.")
    container_insights: Toggle = Field(
        "Enabled", description="CloudWatch add-on with Kueue metrics (EKS); it is billed by metric."
    )
    alarm_topic_arns: list[Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z\-]*:sns:.+$")]] = Field(
        default=[], max_length=5, description="SNS topics that alarms notify."
    )


# --- documents --------------------------------------------------------------------------------------------


class FleetMetadata(Model):
    """Metadata of a Fleet or Cluster document."""

    name: StackName = Field(description="Lower-case name; part of stack names.")


class TeamMetadata(Model):
    """Metadata of a Team or Department document."""

    name: DnsLabel = Field(description="Lower-case name, 40 characters at most.")


class Document(Model):
    """One YAML document of a fleet directory."""

    api_version: Literal["hyperpod-fleet/v1alpha1"] = Field(description="Version of the config language.")
    _origin: Origin | None = PrivateAttr(default=None)

    def place(self, *path: str | int) -> Place:
        """Place of the value at ``path`` (keys as in YAML) or of its nearest parent that the file has."""
        return self._origin.place(path) if self._origin is not None else Place("<memory>", 1, 1)


class FleetSpec(Model):
    """Settings of the whole fleet."""

    tags: Tags = Field(default={}, description="Tags of every AWS resource.")


class FleetDocument(Document):
    """The one document that makes a directory a fleet."""

    kind: Literal["Fleet"] = Field(description="Fleet.")
    metadata: FleetMetadata = Field(description="Name of the fleet.")
    spec: FleetSpec = Field(description="Settings of the fleet.")


class ClusterSpec(Model):
    """One HyperPod cluster and what it stands on."""

    region: Region = Field(description="AWS Region.")
    account: AccountId | None = Field(
        None, description="AWS account, quoted; without it templates fit any account."
    )
    cluster_name: EntityName | None = Field(None, description="Name in AWS; <fleet>-<cluster> if absent.")
    orchestrator: Orchestrator = Field(description="EKS or Slurm.")
    network: Network = Field(
        default=Network.model_construct(
            create=CreateNetwork.model_construct(
                cidr="10.192.0.0/16",
                availability_zones=None,
                node_availability_zone=None,
                nat_gateway="Enabled",
                interface_endpoints=None,
            ),
            existing=None,
        ),
        description="A new VPC (10.192.0.0/16 if nothing is said), or yours.",
    )
    node_provisioning_mode: Literal["Continuous"] | None = Field(
        None, description="Continuous: start with what is available and go on until the target is met."
    )
    node_recovery: Literal["Automatic", "None"] = Field(
        "Automatic", description="Automatic: reboot or replace faulty nodes; None: only label them."
    )
    instance_groups: list[InstanceGroup] = Field(default=[], max_length=100, description="Groups of nodes.")
    restricted_instance_groups: list[RestrictedInstanceGroup] = Field(
        default=[], max_length=100, description="Groups of restricted nodes (EKS)."
    )
    restricted_instance_groups_config: RestrictedInstanceGroupsConfig | None = Field(
        None, description="Settings of restricted groups."
    )
    auto_scaling: AutoScaling | None = Field(None, description="Node autoscaling.")
    cluster_role: RoleArn | None = Field(None, description="Role for autoscaling; one is created if needed.")
    tiered_storage_config: TieredStorageConfig | None = Field(None, description="Tiered checkpointing.")
    file_systems: list[FileSystem] = Field(default=[], max_length=10, description="File systems to create.")
    tags: Tags = Field(default={}, description="Tags of this cluster's resources.")
    capacity_gate: CapacityGate = Field(
        default=CapacityGate.model_construct(wait_for="Minimum", timeout_in_minutes=210),
        description="What a deployment waits for.",
    )
    update_guard: Toggle = Field(
        "Enabled", description="Whether a deployment refuses what the service would, or a queue in use to go."
    )
    governance: Governance | None = Field(None, description="Quotas and scheduling (EKS only).")
    monitoring: Monitoring = Field(
        default=Monitoring.model_construct(
            state="Enabled", container_insights="Enabled", alarm_topic_arns=[]
        ),
        description="Dashboard and alarms.",
    )


class Cluster(Document):
    """A HyperPod cluster."""

    kind: Literal["Cluster"] = Field(description="Cluster.")
    metadata: FleetMetadata = Field(description="Name of the cluster.")
    spec: ClusterSpec = Field(description="The cluster.")

    @property
    def name(self) -> str:
        """Name of the document."""
        return self.metadata.name


class AcceleratorPartition(Model):
    """MIG slices of a GPU."""

    type: Annotated[str, StringConstraints(pattern=r"^mig-[0-9]+g\.[0-9]+gb$")] = Field(
        description="MIG profile: mig-1g.10gb."
    )
    count: QuotaInteger = Field(description="Number of slices.")


class QuotaItem(Model):
    """One line of a quota: of what, and how much."""

    instance_type: InstanceTypeName | None = Field(None, description="Of one instance type.")
    instance_family: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")] | None = Field(
        None, description="Of every type of a family that the cluster has: g5."
    )
    hardware: Literal["nvidia", "trainium", "inferentia", "cpu"] | None = Field(
        None, description="Of every type with such hardware that the cluster has."
    )
    count: QuotaInteger | None = Field(None, description="Whole instances, EFA included.")
    accelerators: QuotaInteger | None = Field(None, description="GPUs or Neuron devices.")
    v_cpu: QuotaNumber | None = Field(None, description="vCPUs.")
    memory_in_gib: QuotaNumber | None = Field(None, alias="memoryInGiB", description="Memory in GiB.")
    accelerator_partition: AcceleratorPartition | None = Field(None, description="MIG slices.")

    SELECTORS: ClassVar[tuple[str, ...]] = ("instance_type", "instance_family", "hardware")

    @model_validator(mode="after")
    def _shape(self) -> Self:
        _require_one(self, *self.SELECTORS)
        fine = ("accelerators", "v_cpu", "memory_in_gib", "accelerator_partition")
        if self.count is None:
            _require_one(self, *fine, at_least=True)
            return self
        # The API accepts Count beside the others and does not say what that means, so it is refused here.
        for name in fine:
            if getattr(self, name) is not None:
                _require_one(self, "count", name)
        return self

    @property
    def selector(self) -> tuple[str, str]:
        """Alias and value of the one selector that is set."""
        name = next(name for name in self.SELECTORS if getattr(self, name) is not None)
        return str(type(self).model_fields[name].alias), getattr(self, name)


class ResourceSharingConfig(Model):
    """What a team lends and borrows."""

    strategy: Literal["LendAndBorrow", "Lend", "DontLend"] = Field(
        description="Lend, borrow, both or neither."
    )
    borrow_limit: int | None = Field(
        None, ge=0, le=10_000, description="Percent of the own quota that may be borrowed; 50 if absent."
    )
    absolute_borrow_limits: list[QuotaItem] = Field(
        default=[], max_length=15, description="Most that may be borrowed, in absolute figures."
    )


class Allocation(Model):
    """A team's part of one cluster: ``AWS::SageMaker::ComputeQuota``."""

    cluster: StackName = Field(description="Name of the Cluster document.")
    quota: list[QuotaItem] = Field(default=[], description="What the team is promised.")
    # The three defaults are the service's own, as the CloudFormation schema states them.
    resource_sharing_config: ResourceSharingConfig = Field(
        default=ResourceSharingConfig.model_construct(
            strategy="LendAndBorrow", borrow_limit=None, absolute_borrow_limits=[]
        ),
        description="Lending and borrowing; LendAndBorrow with 50 % if absent.",
    )
    preempt_team_tasks: Literal["LowerPriority", "Never"] = Field(
        "LowerPriority", description="Whether a task may evict lower-priority tasks of its own team."
    )
    fair_share_weight: int = Field(0, ge=0, le=100, description="Share of idle capacity; 0 is served last.")
    activation_state: Toggle = Field("Enabled", description="Disabled holds the team's queue.")


class Access(Model):
    """Who works in the team's namespaces."""

    groups: list[Annotated[str, StringConstraints(min_length=1, max_length=253)]] = Field(
        default=[], description="Kubernetes groups bound to the team's role."
    )
    principal_arns: list[
        Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z\-]*:iam::[0-9]{12}:(role|user)/.+$")]
    ] = Field(default=[], description="IAM roles or users that get an EKS access entry in the team's group.")


class TeamSpec(Model):
    """A team: its allocations and its people."""

    department: DnsLabel | None = Field(
        None, description="Department (Cohort) of the team, owner kueue only."
    )
    renamed_from: DnsLabel | None = Field(
        None,
        description="Name the team had before: consent to delete its old queues, with what waits in them, and"
        " make new ones.",
    )
    allocations: list[Allocation] = Field(default=[], description="One for each cluster.")
    access: Access = Field(
        default=Access.model_construct(groups=[], principal_arns=[]), description="People of the team."
    )


class Team(Document):
    """A team."""

    kind: Literal["Team"] = Field(description="Team.")
    metadata: TeamMetadata = Field(description="Name of the team.")
    spec: TeamSpec = Field(description="The team.")

    @property
    def name(self) -> str:
        """Name of the team."""
        return self.metadata.name


class DepartmentSpec(Model):
    """Place of a department in the tree of Cohorts."""

    parent: DnsLabel | None = Field(
        None, description="Department above; the cluster's root Cohort if absent."
    )
    fair_share_weight: int = Field(1, ge=0, le=100, description="Weight among its siblings.")


class Department(Document):
    """A group of teams that lend to each other before they lend to others: a Kueue Cohort."""

    kind: Literal["Department"] = Field(description="Department.")
    metadata: TeamMetadata = Field(description="Name of the department.")
    spec: DepartmentSpec = Field(
        default=DepartmentSpec.model_construct(parent=None, fair_share_weight=1),
        description="The department.",
    )

    @property
    def name(self) -> str:
        """Name of the department."""
        return self.metadata.name


KINDS: dict[str, type[Any]] = {
    "Fleet": FleetDocument,
    "Cluster": Cluster,
    "Team": Team,
    "Department": Department,
}
"""Model of each ``kind``."""


@dataclass(frozen=True)
class Fleet:
    """A whole fleet config: one Fleet document and the others, each kind sorted by name."""

    document: FleetDocument
    clusters: tuple[Cluster, ...]
    teams: tuple[Team, ...]
    departments: tuple[Department, ...]

    @property
    def name(self) -> str:
        """Name of the fleet."""
        return self.document.metadata.name
