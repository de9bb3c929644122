"""cdk8s charts of a resolved cluster, for cdk8s apps and for ``add_cdk8s_chart`` of an EKS cluster.

A chart hands all its objects to cdk8s in one call. One ``ApiObject`` each would be the usual way, but every
one costs several calls over the jsii bridge (docs/decisions/0003-manifests.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cdk8s import Chart
from constructs import Construct

from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s.objects import ManifestFile, manifests, preview


class ManifestChart(Chart):
    """A chart of finished manifests.

    ``objects`` may be edited until the app is synthesized. Constructs added to the chart are kept as well and
    come first.
    """

    def __init__(self, scope: Construct, id: str, *, files: Iterable[ManifestFile]) -> None:
        super().__init__(scope, id)
        self.objects = [item for file in files for item in file.objects]

    def to_json(self) -> list[Any]:
        """All objects of the chart as the API server takes them; cdk8s calls this to synthesize."""
        return [*super().to_json(), *self.objects]


class ClusterChart(ManifestChart):
    """What to apply to a cluster: everything for owner kueue, team access for owner sagemaker."""

    def __init__(self, scope: Construct, id: str, *, cluster: ResolvedCluster) -> None:
        super().__init__(scope, id, files=manifests(cluster))


class PreviewChart(ManifestChart):
    """The Kueue objects that the task governance add-on is expected to make; never to be applied."""

    def __init__(self, scope: Construct, id: str, *, cluster: ResolvedCluster) -> None:
        super().__init__(scope, id, files=preview(cluster))
