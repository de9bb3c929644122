"""Helm charts of a cluster as assets: how teams' objects reach the cluster by ``cdk deploy``."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct, IDependable

from hyperpod_config.model import Kueue
from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s import manager

NAMESPACE = "hyperpod-fleet"
"""Namespace that holds the releases' records; the objects have namespaces of their own."""

# A failed release is rolled back. The CDK's handler is stopped after 15 minutes: helm must give up before, so
# that its own error is what the stack's events say.
_TIMEOUT = Duration.minutes(14)


def install_kueue(
    scope: Construct, cluster: ResolvedCluster, eks_cluster: eks.ICluster, after: Sequence[IDependable]
) -> eks.HelmChart:
    """Install Kueue's own chart and wait until its webhooks answer."""
    assert cluster.governance is not None
    assert cluster.config.spec.governance is not None
    kueue = cluster.config.spec.governance.kueue or Kueue()
    chart = eks.HelmChart(
        scope,
        "Kueue",
        cluster=eks_cluster,
        chart="kueue",
        repository=manager.CHART,
        version=kueue.version,
        release="kueue",
        namespace="kueue-system",
        values=manager.helm_values(cluster.governance),
        wait=True,
        atomic=True,
        timeout=_TIMEOUT,
    )
    chart.node.add_dependency(*after)
    return chart


def install_objects(
    scope: Construct,
    release: str,
    files: Mapping[str, str],
    eks_cluster: eks.ICluster,
    after: Sequence[IDependable],
) -> eks.HelmChart:
    """Install a chart of our own, given as text by relative path, after what it refers to."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            path = Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        # The asset is copied into the cloud assembly here and now, and named by its content.
        asset = s3_assets.Asset(scope, f"{release}-asset", path=directory)
    chart = eks.HelmChart(
        scope,
        release,
        cluster=eks_cluster,
        chart_asset=asset,
        release=release,
        namespace=NAMESPACE,
        # Also when it is uninstalled: a queue goes when its last workload is done, by a finalizer that Kueue
        # takes away, and Kueue's own release goes next.
        wait=True,
        atomic=True,
        timeout=_TIMEOUT,
    )
    chart.node.add_dependency(*after)
    return chart
