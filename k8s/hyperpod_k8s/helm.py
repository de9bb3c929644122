"""Helm charts with plain manifests as templates: how ``cdk deploy`` brings many teams into a cluster.

A KubernetesManifest of CDK carries its objects in the CloudFormation event (about 45 teams), and its prune
deletes namespaces. A chart travels as an asset; ``helm.sh/resource-policy: keep`` on namespaces holds.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Collection, Mapping

from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s.emit import to_yaml
from hyperpod_k8s.objects import shared_files, team_files

MAX_FILE_BYTES = 5_242_880
"""Largest file in a chart (Helm 4)."""
MAX_RELEASE_BYTES = 1_048_576
"""Largest release: Helm keeps it in one Secret."""

_CHART_VERSION = "1.0.0"


class ChartTooLargeError(ValueError):
    """A chart that Helm could not install; spread its teams over more charts."""


def helm_chart(
    cluster: ResolvedCluster, name: str, teams: Collection[str] | None, shared: bool
) -> dict[str, str]:
    """Files of a Helm chart called ``name``: relative path to text.

    ``teams`` picks the teams (all if None); ``shared`` adds what belongs to no team. Install the shared part
    first: the others refer to it.

    Raises:
        ChartTooLargeError: a file or the release would be larger than Helm takes.
        KueueLimitError: an object that Kueue would refuse because it is too large.
    """
    files = (*(shared_files(cluster) if shared else ()), *team_files(cluster, teams))
    chart = {"apiVersion": "v2", "name": name, "version": _CHART_VERSION, "type": "application"}
    texts = {"Chart.yaml": to_yaml([chart])}
    for file in files:
        texts[f"templates/{file.path}"] = _escape(to_yaml(file.objects))
    _check(name, texts)
    return texts


def release_bytes(files: Mapping[str, str]) -> int:
    """Estimate the size of the Secret in which Helm keeps a release of this chart.

    Helm stores base64(gzip(JSON)) of the chart's files, themselves in base64, and of the rendered manifest
    (``pkg/storage/driver/util.go``). Against real Helm 4.1.4 the same model was 1 to 2 % low.
    """
    templates = [
        {"name": path, "data": base64.b64encode(text.encode()).decode()} for path, text in files.items()
    ]
    manifest = "".join(f"---\n# Source: {path}\n{text}" for path, text in files.items())
    release = json.dumps({"chart": {"templates": templates}, "manifest": manifest})
    return len(base64.b64encode(gzip.compress(release.encode(), mtime=0)))


def _escape(text: str) -> str:
    """Keep Helm from taking a ``{{`` of somebody's text for an action."""
    return text.replace("{{", '{{ "{{" }}')


def _check(name: str, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        if len(text.encode()) >= MAX_FILE_BYTES:
            raise ChartTooLargeError(f"chart {name}: {path} is larger than {MAX_FILE_BYTES} bytes")
    # The estimate is a little low: leave room.
    size = release_bytes(files)
    if size > MAX_RELEASE_BYTES * 0.9:
        raise ChartTooLargeError(
            f"chart {name}: a release of about {size} bytes, Helm takes {MAX_RELEASE_BYTES}; "
            "spread the teams over more stacks (teamStacks of the cluster's governance)"
        )
