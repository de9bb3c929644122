"""The CDK app of a fleet."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import App
from constructs import Construct

from hyperpod_constructs import HyperPodEksCluster
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_infra.shards import team_shards
from hyperpod_infra.stacks import ClusterStack, GovernanceStack, MonitoringStack, NetworkStack, QueuesStack


def add_stacks(scope: Construct, fleet: ResolvedFleet, directory: Path) -> None:
    """Add the stacks of every cluster to an app.

    Args:
        scope: The app.
        fleet: The resolved fleet.
        directory: The config directory; lifecycle scripts and charts are found from it.
    """
    for cluster in fleet.clusters:
        network = NetworkStack(scope, fleet, cluster).network
        stack = ClusterStack(scope, fleet, cluster, network, directory)
        if cluster.governance is not None:
            assert stack.eks is not None  # a rule refuses governance on Slurm
            _add_governance(scope, fleet, cluster, stack.eks)
        if cluster.config.spec.monitoring.state == "Enabled":
            MonitoringStack(scope, fleet, cluster, stack)


def _add_governance(
    scope: Construct, fleet: ResolvedFleet, cluster: ResolvedCluster, hyperpod_cluster: HyperPodEksCluster
) -> None:
    assert cluster.governance is not None
    shards = team_shards(cluster)
    if cluster.governance.owner == "sagemaker":
        stack: GovernanceStack | None = None
        for shard in shards:
            current = GovernanceStack(scope, fleet, cluster, hyperpod_cluster, shard, stack)
            stack = stack or current
    else:
        queues: QueuesStack | None = None
        for shard in shards:
            latest = QueuesStack(scope, fleet, cluster, hyperpod_cluster, shard, queues)
            queues = queues or latest


def synthesize(fleet: ResolvedFleet, directory: Path, out: Path) -> None:
    """Write the cloud assembly of a fleet, as ``cdk deploy --app`` takes it, to a directory."""
    app = App(outdir=str(out), analytics_reporting=False)
    add_stacks(app, fleet, directory)
    app.synth()
