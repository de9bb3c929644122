"""IAM roles of HyperPod clusters.

Policies are inline. A role's `add_to_policy` would make a separate AWS::IAM::Policy that the cluster does not
depend on: it may come after the cluster and go before it, and a cluster whose role has lost its permissions
stays in Deleting.
"""

from collections.abc import Sequence
from typing import Literal

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from ._acknowledge import acknowledge_iam

_ENI_WRITES = (
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DetachNetworkInterface",
)
_EKS_ENI_WRITES = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
)
_EC2_READS = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcs",
)
_EKS_READS = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
    "eks-auth:AssumeRoleForPodIdentity",
)


class NodeRole(Construct):
    """Execution role of the instances.

    Args:
        orchestrator: `eks` or `slurm`.
        script_buckets: names of buckets with lifecycle scripts that the managed policy does not cover, which
            is every bucket whose name does not begin with `sagemaker-`.
        secret_arns: secrets that the instances read (Slurm accounting).
        container_insights: whether to attach CloudWatchAgentServerPolicy.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        orchestrator: Literal["eks", "slurm"],
        script_buckets: Sequence[str] = (),
        secret_arns: Sequence[str] = (),
        container_insights: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        statements = [*_network_statements(self, orchestrator), *_script_statements(self, script_buckets)]
        if secret_arns:
            statements.append(
                iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=list(secret_arns))
            )
        managed = ["AmazonSageMakerClusterInstanceRolePolicy"]
        managed += ["CloudWatchAgentServerPolicy"] if container_insights else []
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in managed],
            inline_policies={"hyperpod": iam.PolicyDocument(statements=statements)},
        )
        acknowledge_iam(
            self.role,
            managed="These are the policies HyperPod documents for instances.",
            wildcards="The EC2 and ECR actions HyperPod documents have no resource known before the "
            "network interfaces exist, or take none; script buckets are read below one bucket.",
        )

    @property
    def role_arn(self) -> str:
        """ARN of the role."""
        return self.role.role_arn


class AutoscalerRole(Construct):
    """Cluster role with which HyperPod adds and removes nodes for Karpenter."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        nodes = iam.PolicyStatement(
            actions=["sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"],
            resources=[stack.format_arn(service="sagemaker", resource="cluster", resource_name="*")],
            conditions={"StringEquals": {"aws:ResourceAccount": stack.account}},
        )
        keys = iam.PolicyStatement(
            actions=["kms:CreateGrant", "kms:DescribeKey"],
            resources=[stack.format_arn(service="kms", resource="key", resource_name="*")],
            conditions={"StringEquals": {"aws:ResourceAccount": stack.account}},
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("hyperpod.sagemaker.amazonaws.com"),
            inline_policies={"autoscaling": iam.PolicyDocument(statements=[nodes, keys])},
        )
        acknowledge_iam(
            self.role,
            wildcards="The cluster's ARN is not known before the cluster, which needs this role.",
        )


def _network_statements(scope: Construct, orchestrator: str) -> list[iam.PolicyStatement]:
    stack = Stack.of(scope)
    eks = orchestrator == "eks"
    tags = iam.PolicyStatement(
        actions=["ec2:CreateTags"],
        resources=[stack.format_arn(service="ec2", resource="network-interface", resource_name="*")],
    )
    # fsx:DescribeFileSystems: without it Lustre over EFA silently stays on TCP.
    reads = [*_EC2_READS, *(_EKS_READS if eks else ()), "fsx:DescribeFileSystems"]
    writes = [*_ENI_WRITES, *(_EKS_ENI_WRITES if eks else ())]
    return [
        iam.PolicyStatement(actions=sorted(writes), resources=["*"]),
        iam.PolicyStatement(actions=sorted(reads), resources=["*"]),
        tags,
    ]


def _script_statements(scope: Construct, buckets: Sequence[str]) -> list[iam.PolicyStatement]:
    arns = [
        Stack.of(scope).format_arn(service="s3", region="", account="", resource=name) for name in buckets
    ]
    if not arns:
        return []
    return [
        iam.PolicyStatement(actions=["s3:ListBucket"], resources=arns),
        iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"{arn}/*" for arn in arns]),
    ]
