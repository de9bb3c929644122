"""Stacks of both owners behind their guards, for tests here and under cdk-nag."""

import aws_cdk as cdk

import hyperpod_constructs as hyperpod

CLUSTER_ARN = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"


def build(app: cdk.App) -> None:
    """Build the stacks."""
    env = cdk.Environment(account="123456789012", region="us-east-1")
    hyperpod.KueueOwnerGuard(
        cdk.Stack(app, "queues", env=env), "Guard", stacks_gone=["fleet-research-governance"]
    )
    stack = cdk.Stack(app, "governance", env=env)
    guard = hyperpod.GovernanceUpdateGuard(
        stack,
        "Guard",
        cluster_arn=CLUSTER_ARN,
        eks_cluster_name="research",
        teams=["vision", "llm"],
        renamed_from=["sight"],
        addon_version="v1.6.1-eksbuild.1",
        stacks_gone=["fleet-research-queues"],
    )
    quota = hyperpod.ComputeQuota(
        name="llm",
        team_name="llm",
        resources=[hyperpod.QuotaResource(instance_type="ml.g6.12xlarge", count=1)],
    )
    hyperpod.TaskGovernance(
        stack,
        "Governance",
        cluster_arn=CLUSTER_ARN,
        eks_cluster_name="research",
        scheduler_config=hyperpod.SchedulerConfig(name="research"),
        quotas=[quota],
        after=[guard.resource],
    )
