"""The CDK app of a fleet."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import App
from constructs import Construct

import hyperpod_constructs as hyperpod
from hyperpod_governance import stack_parts
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_infra.shards import team_shards
from hyperpod_infra.stacks import (
    CapacityStack,
    ClusterStack,
    FleetStack,
    GovernanceStack,
    MonitoringStack,
    NetworkStack,
    QueuesStack,
    tags_of_resources,
)

# A value that another stack imports cannot change: a network stays as long as a cluster stands on it.
_CONTEXT = {"@aws-cdk/core:defaultCrossStackReferences": "strong"}


def add_stacks(scope: Construct, fleet: ResolvedFleet, directory: Path) -> None:
    """Add the stacks of every cluster to an app.

    Args:
        scope: The app.
        fleet: The resolved fleet.
        directory: The config directory; lifecycle scripts and charts are found from it.

    Raises:
        ValueError: A limit or a file that no rule looks at; the message says what to change.
    """
    for cluster in fleet.clusters:
        creates = cluster.config.spec.network.create is not None
        # A stack for a network that exists would be empty, and CloudFormation takes no empty stack.
        network = NetworkStack(scope, fleet, cluster).network if creates else None
        stack = ClusterStack(scope, fleet, cluster, network, directory)
        later: list[FleetStack] = []
        if cluster.governance is not None:
            assert stack.eks is not None  # a rule refuses governance on Slurm
            later += _governance(scope, fleet, cluster, stack.eks)
        if stack_parts.has_monitoring(cluster.config.spec):
            later.append(MonitoringStack(scope, fleet, cluster, stack))
        if stack_parts.has_capacity(cluster.config.spec):
            capacity = CapacityStack(scope, fleet, cluster, stack)
            # On Slurm nothing needs a node, and the dashboard shows what the gate waits for.
            for each in later if stack.eks is not None else ():
                each.add_stack_dependency(capacity)


def _governance(
    scope: Construct,
    fleet: ResolvedFleet,
    cluster: ResolvedCluster,
    hyperpod_cluster: hyperpod.HyperPodEksCluster,
) -> list[FleetStack]:
    assert cluster.governance is not None
    made: list[FleetStack] = []
    governance: GovernanceStack | None = None
    queues: QueuesStack | None = None
    for shard in team_shards(cluster, tags_of_resources(fleet, cluster)):
        if cluster.governance.owner == "sagemaker":
            governance = GovernanceStack(scope, fleet, cluster, hyperpod_cluster, shard, governance)
            made.append(governance)
        else:
            queues = QueuesStack(scope, fleet, cluster, hyperpod_cluster, shard, queues)
            made.append(queues)
    return made


def new_app(out: Path | None = None) -> App:
    """An app whose output is decided by the config alone, whoever starts it.

    Args:
        out: Where the cloud assembly goes; where the CDK CLI says if None.
    """
    return App(
        outdir=None if out is None else str(out),
        analytics_reporting=False,
        # Traces hold temporary directories of jsii, so that no two runs would give the same bytes.
        stack_traces=False,
        # Said by the app, which all share, and not by cdk.json, which only the CDK CLI reads.
        post_cli_context=_CONTEXT,
    )


def synthesize(fleet: ResolvedFleet, directory: Path, out: Path) -> None:
    """Write the cloud assembly of a fleet, as ``cdk deploy --app`` takes it, to a directory.

    What the CDK's own check says of the templates is in the assembly's ``validation-report.json``.

    Raises:
        ValueError: A limit or a file that no rule looks at; the message says what to change.
    """
    app = new_app(out)
    # The CDK would print its report of the templates with the place where they are now, which may be moved.
    app.node.set_context("@aws-cdk/core:failSynthOnValidationErrors", False)
    add_stacks(app, fleet, directory)
    app.synth()
