"""The smallest clusters that the constructs take; what a test is about, it adds."""

from typing import Any

import aws_cdk as cdk
from constructs import Construct

import hyperpod_constructs as hyperpod

HEAD = hyperpod.InstanceGroup(
    name="head",
    instance_type="ml.m5.xlarge",
    instance_count=1,
    slurm=hyperpod.SlurmGroup(node_type="Controller"),
)


def stack() -> cdk.Stack:
    """Give a stack of an app of its own."""
    return cdk.Stack(cdk.App(), "S")


def group(**props: Any) -> hyperpod.InstanceGroup:
    """Give a group of four instances."""
    given = {"name": "g", "instance_type": "ml.g5.2xlarge", "instance_count": 4, **props}
    return hyperpod.InstanceGroup(**given)


def restricted(**props: Any) -> hyperpod.RestrictedInstanceGroup:
    """Give a restricted group of one instance."""
    given = {"name": "r", "instance_type": "ml.p5.48xlarge", "instance_count": 1, **props}
    return hyperpod.RestrictedInstanceGroup(**given)


def network(scope: Construct) -> hyperpod.ExistingNetwork:
    """Give a network that is there already."""
    return hyperpod.ExistingNetwork(
        scope, "Network", vpc_id="vpc-1", subnet_ids=["subnet-1"], security_group_ids=["sg-1"]
    )


def eks(**props: Any) -> hyperpod.HyperPodEksCluster:
    """Make a cluster on what is there already, in a stack of its own."""
    scope = stack()
    given = {
        "cluster_name": "c",
        "network": network(scope),
        "eks": hyperpod.ExistingEks(cluster_name="e"),
        "dependencies": hyperpod.DependenciesChart.none(),
        "instance_groups": [group()],
        **props,
    }
    return hyperpod.HyperPodEksCluster(scope, "Cluster", **given)


def slurm(*groups: hyperpod.InstanceGroup, **props: Any) -> hyperpod.HyperPodSlurmCluster:
    """Make a Slurm cluster in a network that is there already, in a stack of its own."""
    scope = stack()
    return hyperpod.HyperPodSlurmCluster(
        scope, "Cluster", cluster_name="c", network=network(scope), instance_groups=groups, **props
    )
