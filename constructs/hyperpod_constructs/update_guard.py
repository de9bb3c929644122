"""Guards that fail an update before CloudFormation touches what the update would break."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import ArnFormat, CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from ._functions import handler_function, provider
from .governance import ADDON_NAME
from .groups import InstanceGroup, RestrictedInstanceGroup, VpcOverride

RESOURCE_TYPE = "Custom::HyperPodUpdateGuard"
"""Type of all guards."""


class _Guard(Construct):
    """A custom resource that reads what is live and changes nothing; `resource` is what others depend on."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        description: str,
        statements: Sequence[iam.PolicyStatement],
        wildcards: str,
        properties: Mapping[str, Any],
    ) -> None:
        super().__init__(scope, construct_id)
        # An update that is taken back must pass whatever it looks like, which the stack's status tells.
        own_stack = iam.PolicyStatement(
            actions=["cloudformation:DescribeStacks"], resources=[Stack.of(self).stack_id]
        )
        function = handler_function(
            self,
            "Function",
            entry="update_guard.on_event",
            description=description,
            statements=[*statements, own_stack],
            wildcards=wildcards,
            timeout=Duration.minutes(2),
        )
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type=RESOURCE_TYPE,
            service_token=provider(self, "Provider", on_event=function).service_token,
            properties=_without_none(properties),
        )


class ClusterUpdateGuard(_Guard):
    """Refuses updates of a HyperPod cluster that the service does not make, before they begin.

    They are another VPC, another orchestrator, another instance type or VPC override of a group that is
    there, another provisioning mode, and another name, which would delete the cluster. The cluster must
    depend on `resource`; HyperPodEksCluster and HyperPodSlurmCluster do that by themselves.

    Args:
        cluster_name: as the cluster's.
        eks_cluster_name: EKS cluster under it; give a literal name, so that the guard does not wait for the
            EKS cluster. None: Slurm.
        subnet_ids: of the cluster.
        security_group_ids: of the cluster.
        node_provisioning_mode: of the cluster.
        instance_groups: of the cluster.
        restricted_instance_groups: of the cluster.

    Attributes:
        resource: what the cluster depends on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        eks_cluster_name: str | None,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str],
        node_provisioning_mode: str | None,
        instance_groups: Sequence[InstanceGroup],
        restricted_instance_groups: Sequence[RestrictedInstanceGroup] = (),
    ) -> None:
        # The ARN has an id that the service gives, so no statement can name one cluster.
        arn = Stack.of(scope).format_arn(service="sagemaker", resource="cluster", resource_name="*")
        super().__init__(
            scope,
            construct_id,
            description=f"Refuses updates that HyperPod cluster {cluster_name} does not survive",
            statements=[iam.PolicyStatement(actions=["sagemaker:DescribeCluster"], resources=[arn])],
            wildcards="The ARN of a cluster has an id that is not known before the cluster is there.",
            properties={
                "Guards": "Cluster",
                "ClusterName": cluster_name,
                "EksClusterName": eks_cluster_name,
                "VpcConfig": {"SecurityGroupIds": security_group_ids, "Subnets": subnet_ids},
                "NodeProvisioningMode": node_provisioning_mode,
                "Groups": {group.name: _group(group) for group in instance_groups},
                "RestrictedGroups": {group.name: _group(group) for group in restricted_instance_groups},
            },
        )


class GovernanceUpdateGuard(_Guard):
    """Refuses to delete the queue of a team in use, and add-on updates that its CRDs do not survive.

    A team may go when its quota is held (`activation_state` Disabled), is not there, or is named in
    `renamed_from`. The add-on and the quotas must depend on `resource`.

    Args:
        cluster_arn: ARN of the HyperPod cluster.
        eks_cluster_name: EKS cluster under it.
        teams: teams whose quotas the stack has.
        renamed_from: teams whose queues may be deleted although they are in use.
        addon_version: of the task governance add-on. None: the stack does not have it.
        stacks_gone: names of stacks of this account and Region that have a Kueue of their own, which the
            add-on would take over: while one is there, this stack is not deployed.

    Attributes:
        resource: what the add-on and the quotas depend on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_arn: str,
        eks_cluster_name: str,
        teams: Sequence[str],
        renamed_from: Sequence[str] = (),
        addon_version: str | None = None,
        stacks_gone: Sequence[str] = (),
    ) -> None:
        quotas = Stack.of(scope).format_arn(service="sagemaker", resource="compute-quota", resource_name="*")
        statements = [
            iam.PolicyStatement(actions=["sagemaker:ListComputeQuotas"], resources=["*"]),
            iam.PolicyStatement(actions=["sagemaker:DescribeComputeQuota"], resources=[quotas]),
        ]
        if addon_version is not None:
            addon = _addon_arns(scope, eks_cluster_name)
            statements.append(iam.PolicyStatement(actions=["eks:DescribeAddon"], resources=addon))
        if stacks_gone:
            statements.append(_read_stacks(scope, stacks_gone))
        super().__init__(
            scope,
            construct_id,
            description="Refuses to delete queues in use and add-on updates that fail halfway",
            statements=statements,
            wildcards="To list quotas is allowed for all or none; ARNs of add-ons and stacks end in an id.",
            properties={
                "Guards": "Governance",
                "ClusterArn": cluster_arn,
                "EksClusterName": eks_cluster_name,
                "Teams": sorted(teams),
                "RenamedFrom": sorted(renamed_from),
                "AddonVersion": addon_version,
                "StacksGone": list(stacks_gone) or None,
            },
        )


class KueueOwnerGuard(_Guard):
    """Refuses to install Kueue beside that of another stack, such as one with the task governance add-on.

    What installs Kueue must depend on `resource`.

    Args:
        stacks_gone: names of stacks of this account and Region; while one is there, this one is not deployed.

    Attributes:
        resource: what Kueue depends on.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stacks_gone: Sequence[str]) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Refuses to install a second Kueue",
            statements=[_read_stacks(scope, stacks_gone)],
            wildcards="The ARN of a stack ends in an id.",
            properties={"Guards": "KueueOwner", "StacksGone": list(stacks_gone)},
        )


def _read_stacks(scope: Construct, names: Sequence[str]) -> iam.PolicyStatement:
    stack = Stack.of(scope)
    return iam.PolicyStatement(
        actions=["cloudformation:DescribeStacks"],
        # Under this ARN CloudFormation authorises a question by name, also if no stack has the name.
        resources=[
            stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{name}/*")
            for name in names
        ],
    )


def _addon_arns(scope: Construct, eks_cluster_name: str) -> list[str]:
    """What the add-on may be asked for under.

    [U] An add-on that is not there yet has no ARN of its own: denials named the last form in 2021
    (terraform-aws-modules/terraform-aws-eks, issue 1725). Whether they do today, or name the cluster, no page
    of AWS says.
    """
    stack = Stack.of(scope)
    return [
        stack.format_arn(service="eks", resource="addon", resource_name=f"{eks_cluster_name}/{ADDON_NAME}/*"),
        stack.format_arn(service="eks", resource="cluster", resource_name=eks_cluster_name),
        stack.format_arn(
            service="eks",
            resource=f"/clusters/{eks_cluster_name}/addons/{ADDON_NAME}",
            arn_format=ArnFormat.NO_RESOURCE_NAME,
        ),
    ]


def _group(group: InstanceGroup | RestrictedInstanceGroup) -> dict[str, Any]:
    types = list(group.instance_types) if isinstance(group, InstanceGroup) else []
    return _without_none(
        {
            "InstanceType": group.instance_type,
            "InstanceTypes": types or None,
            "OverrideVpcConfig": _vpc(group.override_vpc),
        }
    )


def _vpc(override: VpcOverride | None) -> dict[str, list[str]] | None:
    if override is None:
        return None
    return {"SecurityGroupIds": list(override.security_group_ids), "Subnets": list(override.subnet_ids)}


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
