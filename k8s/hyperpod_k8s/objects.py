"""All Kubernetes objects of a cluster, sorted into files, in pure Python.

Layout, the same for manifests, previews and Helm templates: ``cluster/<kind>.yaml`` for what the teams share
and ``teams/<team>.yaml`` for everything of one team, so that a change of one team is a change of one file.
``kubectl apply -R`` reads them in an order that works; Argo CD goes by the sync waves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from hyperpod_governance import naming
from hyperpod_governance.model import ClusterQueue, LocalQueue, Namespace, ResolvedCluster, ResolvedGovernance
from hyperpod_k8s import kueue, policy, rbac

Manifest = dict[str, Any]
"""A Kubernetes object as the API server takes it."""

T = TypeVar("T", Namespace, ClusterQueue, LocalQueue)

SYNC_WAVES = {
    "Namespace": 0,
    "Topology": 0,
    "WorkloadPriorityClass": 0,
    "ClusterRole": 0,
    "ResourceFlavor": 1,
    "ClusterRoleBinding": 1,
    "RoleBinding": 1,
    "Cohort": 2,
    "ClusterQueue": 3,
    "LocalQueue": 4,
    "ValidatingAdmissionPolicy": 5,
    "ValidatingAdmissionPolicyBinding": 6,
}
"""Argo CD sync wave of each kind: what others name comes first, what refuses jobs comes last."""

# A namespace holds people's jobs and volumes: no tool may delete it because a file is gone.
_KEEP = {
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "helm.sh/resource-policy": "keep",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A YAML file: its path (relative, with ``/``) and its objects in the order they are applied."""

    path: str
    objects: tuple[Manifest, ...]


def manifests(cluster: ResolvedCluster) -> tuple[ManifestFile, ...]:
    """What to apply to ``cluster``: everything for owner kueue, team access alone for owner sagemaker.

    Empty for a cluster without governance.

    Raises:
        KueueLimitError: an object that Kueue would refuse because it is too large.
    """
    if cluster.governance is None:
        return ()
    return (*shared_files(cluster), *team_files(cluster))


def preview(cluster: ResolvedCluster) -> tuple[ManifestFile, ...]:
    """The objects that the task governance add-on is expected to make; empty unless SageMaker owns them.

    They carry no labels or annotations of this tool: they are to be looked at and compared, never applied.
    """
    governance = cluster.governance
    if governance is None or governance.owner != "sagemaker":
        return ()
    shared = [ManifestFile(path, tuple(objects)) for path, objects in _shared_kueue(governance) if objects]
    teams = [
        ManifestFile(_team_path(team), tuple(objects)) for team, objects in _team_kueue(governance).items()
    ]
    return (*shared, *teams)


def shared_files(cluster: ResolvedCluster) -> tuple[ManifestFile, ...]:
    """The part of ``manifests`` that belongs to no team: ``cluster/*.yaml``."""
    if cluster.governance is None:
        return ()
    files: list[tuple[str, list[Manifest]]] = [("cluster/roles.yaml", [rbac.team_role(), rbac.viewer_role()])]
    if cluster.governance.owner == "kueue":
        files += _shared_kueue(cluster.governance)
        queue_name = [policy.queue_name_policy(), policy.queue_name_policy_binding()]
        files.append(("cluster/queue-name-policy.yaml", queue_name))
    return tuple(ManifestFile(path, _owned(cluster, objects)) for path, objects in files if objects)


def team_files(cluster: ResolvedCluster, teams: Collection[str] | None = None) -> tuple[ManifestFile, ...]:
    """The part of ``manifests`` that belongs to ``teams`` (all if None): ``teams/<team>.yaml``."""
    governance = cluster.governance
    if governance is None:
        return ()
    objects = _team_kueue(governance, teams) if governance.owner == "kueue" else defaultdict(list)
    for namespace in _of(governance.namespaces, teams):
        objects[namespace.team] += [rbac.team_binding(namespace), rbac.viewer_binding(namespace)]
    return tuple(
        ManifestFile(_team_path(team), _owned(cluster, items, team)) for team, items in objects.items()
    )


def _team_path(team: str) -> str:
    return f"teams/{team}.yaml"


def _of(items: Iterable[T], teams: Collection[str] | None) -> list[T]:
    """Those of ``items`` that belong to one of ``teams``; None stands for any team."""
    return [item for item in items if item.team is not None and (teams is None or item.team in teams)]


def _shared_kueue(governance: ResolvedGovernance) -> list[tuple[str, list[Manifest]]]:
    idle = [queue for queue in governance.cluster_queues if queue.team is None]
    return [
        ("cluster/cluster-queues.yaml", [kueue.cluster_queue(item) for item in idle]),
        ("cluster/cohorts.yaml", [kueue.cohort(item) for item in governance.cohorts]),
        ("cluster/resource-flavors.yaml", [kueue.resource_flavor(item) for item in governance.flavors]),
        ("cluster/topologies.yaml", [kueue.topology(item) for item in governance.topologies]),
        (
            "cluster/workload-priority-classes.yaml",
            [kueue.priority_class(item) for item in governance.priority_classes],
        ),
    ]


def _team_kueue(
    governance: ResolvedGovernance, teams: Collection[str] | None = None
) -> dict[str, list[Manifest]]:
    """Namespace, ClusterQueue and LocalQueue of each team."""
    objects: dict[str, list[Manifest]] = defaultdict(list)
    for namespace in _of(governance.namespaces, teams):
        objects[namespace.team].append(kueue.namespace(namespace))
    for queue in _of(governance.cluster_queues, teams):
        objects[str(queue.team)].append(kueue.cluster_queue(queue))
    for local in _of(governance.local_queues, teams):
        objects[local.team].append(kueue.local_queue(local))
    return objects


def _owned(
    cluster: ResolvedCluster, objects: Iterable[Manifest], team: str | None = None
) -> tuple[Manifest, ...]:
    """Mark ``objects`` as made by this tool, and tell GitOps controllers when to apply them."""
    labels = {naming.MANAGED_LABEL: naming.MANAGED_BY, naming.CLUSTER_LABEL: cluster.name}
    if team is not None:
        labels[naming.TEAM_LABEL] = team
    for item in objects:
        metadata, kind = item["metadata"], item["kind"]
        metadata["labels"] = dict(sorted({**metadata.get("labels", {}), **labels}.items()))
        annotations = {"argocd.argoproj.io/sync-wave": str(SYNC_WAVES[kind])}
        metadata["annotations"] = annotations | _KEEP if kind == "Namespace" else annotations
    return tuple(objects)
