"""Custom resources for compute quotas and scheduler configs, where CloudFormation has no type for them."""

from collections.abc import Mapping
from typing import Any

import jsii
from aws_cdk import CustomResource, Duration, IListProducer, IResolveContext, Lazy, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from ._acknowledge import acknowledge_iam
from ._functions import handler_function, provider

QUOTA_TYPE = "Custom::HyperPodComputeQuota"
SCHEDULER_TYPE = "Custom::HyperPodClusterSchedulerConfig"

OWNER_TAG = "hyperpod-fleet:resource"
"""Tag of quotas and scheduler configs, native ones too, with the stack they belong to; as in the handler."""

TAG_LIMIT = 48
"""Tags that may be given: the service takes 50, and the custom resources need two."""

_WILDCARDS = (
    "Lists take no resource; ids of quotas and scheduler configs, and which access entry the service asks "
    "for, are known only after they are made; a stack's ARN ends with an id."
)


class GovernanceProvider(Construct):
    """The functions behind the custom resources of one TaskGovernance.

    Args:
        cluster_arn: ARN of the HyperPod cluster.
        eks_cluster_name: EKS cluster under it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster_arn: str, eks_cluster_name: str
    ) -> None:
        super().__init__(scope, construct_id)
        # Stacks with resources of this provider; a rollback of each is recognized by its status.
        self._stacks = _Arns()
        is_complete = handler_function(
            self,
            "is-complete",
            entry="governance_resource.is_complete",
            description="HyperPod compute quotas and scheduler configs: makes one step of a change",
            statements=[
                *_statements(Stack.of(self), cluster_arn, eks_cluster_name),
                iam.PolicyStatement(
                    actions=["cloudformation:DescribeStacks"], resources=Lazy.uncached_list(self._stacks)
                ),
            ],
            # A step is a handful of calls, each of which may take half a minute on a bad day.
            timeout=Duration.minutes(5),
        )
        assert is_complete.role is not None
        self._role = is_complete.role
        on_event = handler_function(
            self,
            "on-event",
            entry="governance_resource.on_event",
            description="HyperPod compute quotas and scheduler configs: names a resource",
            statements=[],
        )
        self._provider = provider(
            self,
            "Provider",
            on_event=on_event,
            is_complete=is_complete,
            query_interval=Duration.seconds(10),
            total_timeout=Duration.hours(1),
        )

    @property
    def service_token(self) -> str:
        """What custom resources name their provider by."""
        return self._provider.service_token

    def resource(
        self, scope: Construct, construct_id: str, kind: str, properties: Mapping[str, Any]
    ) -> CustomResource:
        """Make a custom resource, in any stack; it goes before this provider does.

        Its logical id is that of the native resource with this id: CloudFormation refuses to change the type
        of a resource in place, so nobody deletes a quota by changing the backend.
        """
        stack = Stack.of(scope)
        self._stacks.add(
            stack.format_arn(
                service="cloudformation", resource="stack", resource_name=f"{stack.stack_name}/*"
            )
        )
        acknowledge_iam(self._role, wildcards=_WILDCARDS)
        # The service token is all of the provider's functions, roles and policies by reference: they outlive
        # the resource without a dependency on each, which would be longer than the quota itself.
        return CustomResource(
            scope,
            construct_id,
            service_token=self.service_token,
            resource_type=kind,
            properties=dict(properties),
        )


@jsii.implements(IListProducer)
class _Arns:
    """ARNs that are added until the synthesis."""

    def __init__(self) -> None:
        self._arns: set[str] = set()

    def add(self, arn: str) -> None:
        self._arns.add(arn)

    def produce(self, _context: IResolveContext) -> list[str] | None:
        return sorted(self._arns) or None


def _statements(stack: Stack, cluster_arn: str, eks_cluster_name: str) -> list[iam.PolicyStatement]:
    ours = [
        stack.format_arn(service="sagemaker", resource=resource, resource_name="*")
        for resource in ("cluster-scheduler-config", "compute-quota")
    ]
    eks_cluster = stack.format_arn(service="eks", resource="cluster", resource_name=eks_cluster_name)
    entries = stack.format_arn(service="eks", resource="access-entry", resource_name=f"{eks_cluster_name}/*")
    nouns = ("ClusterSchedulerConfig", "ComputeQuota")
    creates = [f"sagemaker:Create{noun}" for noun in nouns]
    changes = [f"sagemaker:{verb}{noun}" for noun in nouns for verb in ("Delete", "Describe", "Update")]
    return [
        # These take no resource.
        iam.PolicyStatement(
            actions=["sagemaker:ListClusterSchedulerConfigs", "sagemaker:ListComputeQuotas"], resources=["*"]
        ),
        iam.PolicyStatement(actions=creates, resources=[cluster_arn, *ours]),
        iam.PolicyStatement(actions=changes, resources=ours),
        iam.PolicyStatement(
            actions=["sagemaker:AddTags", "sagemaker:DeleteTags", "sagemaker:ListTags"], resources=ours
        ),
        iam.PolicyStatement(actions=["sagemaker:DescribeCluster"], resources=[cluster_arn]),
        # The service calls these in the name of whoever changes a scheduler config or quota: the registry
        # lists them as permissions of CloudFormation's own types.
        iam.PolicyStatement(
            actions=[
                "eks:AssociateAccessPolicy",
                "eks:DescribeAccessEntry",
                "eks:DescribeCluster",
                "eks:DisassociateAccessPolicy",
                "eks:ListAssociatedAccessPolicies",
            ],
            resources=[eks_cluster, entries],
        ),
    ]
