"""Task governance: the add-on, the cluster's scheduler config and the teams' compute quotas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aws_cdk import CfnResource, CustomResource, Duration, Stack
from aws_cdk import aws_eks as eks
from aws_cdk import aws_eks_v2 as eks_v2
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from ._acknowledge import acknowledge_unknown_type
from ._checks import check_length, check_name, check_new, check_range, check_short_name, check_unique
from ._functions import Lanes
from ._governance_backend import OWNER_TAG, QUOTA_TYPE, SCHEDULER_TYPE, TAG_LIMIT, GovernanceProvider
from .groups import render_tags

ADDON_NAME = "amazon-sagemaker-hyperpod-taskgovernance"
"""Name of the EKS add-on."""

DEFAULT_ADDON_VERSION = "v1.6.1-eksbuild.1"
"""Add-on version with Kueue 0.19.2. Pinned, because some upgrades in place fail on stored CRD versions."""

Backend = Literal["native", "custom-resource"]

_MAX_AMOUNT = 10_000_000
_KUEUE = ("kueue-system", "kueue-controller-manager")
# The handler of the wait is stopped after 15 minutes.
_KUEUE_WAIT = Duration.minutes(10)


@dataclass(frozen=True, kw_only=True)
class PriorityClass:
    """A priority class of the scheduler config.

    Args:
        name: 1 to 40 lower-case letters, digits and hyphens; the Kueue class is `<name>-priority`.
        weight: 0 to 100, more goes first.
    """

    name: str
    weight: int

    def __post_init__(self) -> None:
        check_short_name("priority class", self.name)
        check_range(f"priority class {self.name!r} weight", self.weight, 0, 100)


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """The scheduler config of a cluster; there is one.

    Args:
        name: 1 to 63 letters, digits and hyphens; a change replaces it.
        priority_classes: at most 10.
        fair_share: whether teams' weights decide who borrows.
        idle_resource_sharing: whether unallocated capacity is lent. None: the service's default, Disabled.
        description: free text.
        tags: at most 50.
    """

    name: str
    priority_classes: Sequence[PriorityClass] = ()
    fair_share: Literal["Enabled", "Disabled"] = "Disabled"
    idle_resource_sharing: Literal["Enabled", "Disabled"] | None = None
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("scheduler config", self.name)
        check_length("priority_classes", self.priority_classes, 0, 10)
        check_unique("priority class", (one.name for one in self.priority_classes))

    def render(self) -> dict[str, Any]:
        """Spell it for CloudFormation, without the cluster."""
        config: dict[str, Any] = {"FairShare": self.fair_share}
        if self.idle_resource_sharing is not None:
            config["IdleResourceSharing"] = self.idle_resource_sharing
        if self.priority_classes:
            config["PriorityClasses"] = [
                {"Name": one.name, "Weight": one.weight} for one in self.priority_classes
            ]
        properties: dict[str, Any] = {"Name": self.name, "SchedulerConfig": config}
        if self.description is not None:
            properties["Description"] = self.description
        if self.tags:
            properties["Tags"] = _tag_list(self.tags)
        return properties


@dataclass(frozen=True, kw_only=True)
class AcceleratorPartition:
    """MIG partitions of one profile.

    Args:
        type: such as `mig-1g.10gb`.
        count: 0 to 10,000,000.
    """

    type: str
    count: int

    def __post_init__(self) -> None:
        check_range("accelerator partition count", self.count, 0, _MAX_AMOUNT)


@dataclass(frozen=True, kw_only=True)
class QuotaResource:
    """An amount of one instance type; at least one amount, each 0 to 10,000,000.

    Args:
        instance_type: such as `ml.g5.2xlarge`.
        count: whole instances.
        accelerators: GPUs or Neuron devices.
        v_cpu: vCPUs.
        memory_in_gib: GiB.
        accelerator_partition: MIG partitions.

    Raises:
        ValueError: no amount, or one out of range.
    """

    instance_type: str
    count: int | None = None
    accelerators: int | None = None
    v_cpu: float | None = None
    memory_in_gib: float | None = None
    accelerator_partition: AcceleratorPartition | None = None

    def __post_init__(self) -> None:
        amounts = {
            "count": self.count,
            "accelerators": self.accelerators,
            "v_cpu": self.v_cpu,
            "memory_in_gib": self.memory_in_gib,
        }
        for what, value in amounts.items():
            check_range(f"{self.instance_type} {what}", value, 0, _MAX_AMOUNT)
        if self.accelerator_partition is None and all(value is None for value in amounts.values()):
            raise ValueError(
                f"quota of {self.instance_type} has no amount: at least one of {', '.join(amounts)} or "
                "accelerator_partition is needed; add one"
            )

    def render(self) -> dict[str, Any]:
        """Spell it for CloudFormation."""
        partition = self.accelerator_partition
        amounts = {
            "InstanceType": self.instance_type,
            "Count": self.count,
            "Accelerators": self.accelerators,
            "VCpu": self.v_cpu,
            "MemoryInGiB": self.memory_in_gib,
            "AcceleratorPartition": {"Type": partition.type, "Count": partition.count} if partition else None,
        }
        return {key: value for key, value in amounts.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ComputeQuota:
    """The compute quota of one team.

    Args:
        name: 1 to 63 letters, digits and hyphens; a change replaces the quota.
        team_name: 1 to 40 lower-case letters, digits and hyphens; a change deletes the team's queue and makes
            another.
        resources: at most 15.
        strategy: whether idle quota is lent, and borrowed from others.
        borrow_limit: percent of the own quota, 0 to 10000; LendAndBorrow only. None: the service's default.
        absolute_borrow_limits: limits by instance type, at most 15; LendAndBorrow only.
        preempt_team_tasks: whether a task preempts those of its own team with lower priority.
        fair_share_weight: 0 to 100.
        activation_state: whether the quota applies.
        description: at most 1024 characters.
        tags: at most 50.

    Raises:
        ValueError: with the value, the limit and the next step.
    """

    name: str
    team_name: str
    resources: Sequence[QuotaResource]
    strategy: Literal["Lend", "DontLend", "LendAndBorrow"] = "LendAndBorrow"
    borrow_limit: int | None = None
    absolute_borrow_limits: Sequence[QuotaResource] = ()
    preempt_team_tasks: Literal["Never", "LowerPriority"] = "LowerPriority"
    fair_share_weight: int = 0
    activation_state: Literal["Enabled", "Disabled"] = "Enabled"
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("compute quota", self.name)
        check_short_name("team", self.team_name)
        check_length(f"quota {self.name!r} resources", self.resources, 0, 15)
        check_length(f"quota {self.name!r} absolute_borrow_limits", self.absolute_borrow_limits, 0, 15)
        check_range(f"quota {self.name!r} borrow_limit (percent)", self.borrow_limit, 0, 10000)
        check_range(f"quota {self.name!r} fair_share_weight", self.fair_share_weight, 0, 100)
        if self.strategy != "LendAndBorrow" and (
            self.borrow_limit is not None or self.absolute_borrow_limits
        ):
            raise ValueError(
                f"quota {self.name!r} has a borrow limit with strategy {self.strategy!r}: only LendAndBorrow "
                "takes one; remove the limit or change the strategy"
            )

    def render(self) -> dict[str, Any]:
        """Spell it for CloudFormation, without the cluster."""
        sharing: dict[str, Any] = {"Strategy": self.strategy}
        if self.borrow_limit is not None:
            sharing["BorrowLimit"] = self.borrow_limit
        if self.absolute_borrow_limits:
            sharing["AbsoluteBorrowLimits"] = [one.render() for one in self.absolute_borrow_limits]
        properties: dict[str, Any] = {
            "Name": self.name,
            "ComputeQuotaConfig": {
                "ComputeQuotaResources": [one.render() for one in self.resources],
                "ResourceSharingConfig": sharing,
                "PreemptTeamTasks": self.preempt_team_tasks,
            },
            "ComputeQuotaTarget": {"TeamName": self.team_name, "FairShareWeight": self.fair_share_weight},
            "ActivationState": self.activation_state,
        }
        if self.description is not None:
            properties["Description"] = self.description
        if self.tags:
            properties["Tags"] = _tag_list(self.tags)
        return properties


def _owned(tags: Mapping[str, str], scope: Construct, name: str) -> list[dict[str, str]]:
    """Add the tag by which the custom resources of other stacks see whose a quota is.

    CloudFormation itself puts no tags on these types (registry schema, cloudFormationSystemTags).
    """
    return _tag_list({**tags, OWNER_TAG: _owner(scope, name)})


def _owner(scope: Construct, name: str) -> str:
    return f"{Stack.of(scope).stack_name}/{name}"


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


class TaskGovernance(Construct):
    """Task governance of one EKS-orchestrated HyperPod cluster.

    Created in the order add-on, Kueue's controller, scheduler config, quotas, and deleted in the reverse
    one. A scheduler config that is created before the add-on runs fails and must be deleted by hand; a
    cluster whose quotas are still there cannot be deleted.

    AWS::SageMaker::ClusterSchedulerConfig and AWS::SageMaker::ComputeQuota are not in every region. The
    backend `custom-resource` makes the same by functions that call the API: they find what is there by its
    exact name, take over what was made by hand, refuse what another stack owns, repair what failed, and
    delete only what they tagged as theirs. A change of the backend in place is refused by CloudFormation,
    before anything is touched: remove the quotas and the scheduler config in a deployment of its own first.

    Args:
        cluster_arn: ARN of the HyperPod cluster.
        eks_cluster_name: EKS cluster under it.
        scheduler_config: None: the cluster has no priority classes and no fair sharing.
        quotas: one a team.
        addon_version: pinned version of the add-on. None: the add-on is there already.
        after: what the add-on needs, such as HyperPodCapacity.first_node. With continuous provisioning, the
            add-on's pods stay pending until a node is there.
        scheduler_config_backend: `native`, or `custom-resource` for a region without the type.
        compute_quota_backend: likewise.
        kubectl_cluster: EKS cluster with a kubectl provider, by which to wait up to 10 minutes for Kueue's
            controller before the scheduler config is made, again after each change of addon_version. None: no
            wait.

    Attributes:
        addon: the add-on, or None.
        scheduler_config: the L1 or the custom resource of the scheduler config, or None.
        service_token: what custom resources in other stacks import; None if both backends are native. Export
            it (Stack.export_value) if such a stack may go, and this one stays.

    Raises:
        ValueError: two quotas of one name or team; a kubectl_cluster without a kubectl provider; more than 48
            tags on a custom resource.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_arn: str,
        eks_cluster_name: str,
        scheduler_config: SchedulerConfig | None = None,
        quotas: Sequence[ComputeQuota] = (),
        addon_version: str | None = DEFAULT_ADDON_VERSION,
        after: Sequence[IDependable] = (),
        scheduler_config_backend: Backend = "native",
        compute_quota_backend: Backend = "native",
        kubectl_cluster: eks_v2.ICluster | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._cluster_arn = cluster_arn
        self._teams: set[str] = set()
        self._names: set[str] = set()
        self._containers: dict[Construct, Construct] = {}
        self._before_quotas: list[IDependable] = list(after)
        self._custom_quotas = compute_quota_backend == "custom-resource"
        self._custom_scheduler = scheduler_config_backend == "custom-resource"
        self._provider: GovernanceProvider | None = None
        self._lanes: dict[Stack, Lanes] = {}
        if self._custom_quotas or (self._custom_scheduler and scheduler_config is not None):
            self._provider = GovernanceProvider(
                self, "Backend", cluster_arn=cluster_arn, eks_cluster_name=eks_cluster_name
            )
        self.service_token = self._provider.service_token if self._provider else None
        self.addon = self._addon(eks_cluster_name, addon_version)
        if kubectl_cluster is not None:
            self._wait_for_kueue(kubectl_cluster, addon_version)
        self.scheduler_config = self._scheduler(scheduler_config)
        for quota in quotas:
            self.add_quota(quota)

    def add_quota(
        self, quota: ComputeQuota, *, scope: Construct | None = None
    ) -> CfnResource | CustomResource:
        """Add the quota of one team.

        Args:
            quota: the quota.
            scope: where its resource lies. None: here. Another stack, when a stack's 500 resources do not
                hold all teams; that stack then depends on this one.

        Raises:
            ValueError: a quota of this name or team is there already, or has too many tags.
        """
        check_new("compute quota", quota.name, self._names)
        check_new("team", quota.team_name, self._teams)
        self._names.add(quota.name)
        self._teams.add(quota.team_name)
        container = self._container(scope or self)
        properties = {"ClusterArn": self._cluster_arn, **quota.render()}
        resource: CfnResource | CustomResource
        if self._custom_quotas:
            resource = self._custom(container, quota.team_name, QUOTA_TYPE, properties)
        else:
            properties["Tags"] = _owned(quota.tags, container, quota.team_name)
            resource = CfnResource(
                container, quota.team_name, type="AWS::SageMaker::ComputeQuota", properties=properties
            )
        if self._before_quotas:
            resource.node.add_dependency(*self._before_quotas)
        return resource

    def _container(self, scope: Construct) -> Construct:
        """Give the construct under scope that holds quotas only.

        An acknowledgement on it is as exact as one on each quota, which would cost as much as the quota.
        """
        if scope not in self._containers:
            container = Construct(scope, "Quotas" if scope is self else f"{self.node.id}Quotas")
            if not self._custom_quotas:
                acknowledge_unknown_type(container)
            self._containers[scope] = container
        return self._containers[scope]

    def _custom(
        self, scope: Construct, construct_id: str, kind: str, properties: Mapping[str, Any]
    ) -> CustomResource:
        check_length(f"tags of {properties['Name']!r}", properties.get("Tags", ()), 0, TAG_LIMIT)
        assert self._provider is not None
        resource = self._provider.resource(scope, construct_id, kind, properties)
        self._lanes.setdefault(Stack.of(scope), Lanes()).add(resource)
        return resource

    def _addon(self, eks_cluster_name: str, version: str | None) -> eks.CfnAddon | None:
        if version is None:
            return None
        # No configuration_values: the add-on's schema is empty and takes none.
        addon = eks.CfnAddon(
            self,
            "Addon",
            cluster_name=eks_cluster_name,
            addon_name=ADDON_NAME,
            addon_version=version,
            resolve_conflicts="OVERWRITE",
        )
        if self._before_quotas:
            addon.node.add_dependency(*self._before_quotas)
        self._before_quotas = [addon]
        return addon

    def _wait_for_kueue(self, cluster: eks_v2.ICluster, addon_version: str | None) -> None:
        """Wait until Kueue answers. An add-on is active before its controller is available.

        While none of its pods is available, the value waited for is absent. What fails after the time names
        the command it waited for.
        """
        if cluster.kubectl_provider is None:
            raise ValueError(
                "kubectl_cluster has no kubectl provider to ask for Kueue's controller; set kubectl_layer on "
                "NewEks or ExistingEks, or leave kubectl_cluster out"
            )
        namespace, deployment = _KUEUE
        wait = eks_v2.KubernetesObjectValue(
            self,
            "KueueController",
            cluster=cluster,
            object_type="deployment",
            object_name=deployment,
            object_namespace=namespace,
            json_path=".status.availableReplicas",
            timeout=_KUEUE_WAIT,
        )
        resource = wait.node.find_child("Resource").node.default_child
        assert isinstance(resource, CfnResource)
        # A property that the handler ignores: another version is waited for again.
        resource.add_property_override("AddonVersion", addon_version)
        if self._before_quotas:
            wait.node.add_dependency(*self._before_quotas)
        self._before_quotas = [*self._before_quotas, wait]

    def _scheduler(
        self, config: SchedulerConfig | None
    ) -> sagemaker.CfnClusterSchedulerConfig | CustomResource | None:
        if config is None:
            return None
        resource: sagemaker.CfnClusterSchedulerConfig | CustomResource
        if self._custom_scheduler:
            properties = {"ClusterArn": self._cluster_arn, **config.render()}
            resource = self._custom(self, "SchedulerConfig", SCHEDULER_TYPE, properties)
        else:
            resource = self._native_scheduler(config)
        if self._before_quotas:
            resource.node.add_dependency(*self._before_quotas)
        self._before_quotas = [*self._before_quotas, resource]
        return resource

    def _native_scheduler(self, config: SchedulerConfig) -> sagemaker.CfnClusterSchedulerConfig:
        l1 = sagemaker.CfnClusterSchedulerConfig
        classes = [
            l1.PriorityClassProperty(name=one.name, weight=one.weight) for one in config.priority_classes
        ]
        return l1(
            self,
            "SchedulerConfig",
            name=config.name,
            cluster_arn=self._cluster_arn,
            scheduler_config=l1.SchedulerConfigProperty(
                fair_share=config.fair_share,
                idle_resource_sharing=config.idle_resource_sharing,
                priority_classes=classes or None,
            ),
            description=config.description,
            tags=render_tags({**config.tags, OWNER_TAG: _owner(self, config.name)}),
        )
