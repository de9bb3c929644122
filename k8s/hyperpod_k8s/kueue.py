"""Kueue objects (``kueue.x-k8s.io/v1beta2``) of the resolved model.

Every default that Kueue's CRDs or webhooks would fill in is written out and every quantity is canonical, so
that a GitOps controller sees no difference between what was applied and what the API server stores. Limits
are those of Kueue v0.19.2 (CRDs, ``pkg/webhooks/clusterqueue_webhook.go``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperpod_governance import service
from hyperpod_governance.model import (
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuota,
    LocalQueue,
    Namespace,
    ResourceQuota,
    Taint,
    Topology,
    WorkloadPriorityClass,
)
from hyperpod_governance.quantity import format_quantity

API_VERSION = "kueue.x-k8s.io/v1beta2"
MAX_FLAVOR_LABELS = 8


class KueueLimitError(ValueError):
    """An object that Kueue would refuse because it is too large."""


def topology(item: Topology) -> dict[str, Any]:
    """The Topology of ``item``."""
    return _object("Topology", item.name, spec={"levels": [{"nodeLabel": label} for label in item.levels]})


def resource_flavor(item: Flavor) -> dict[str, Any]:
    """The ResourceFlavor of ``item``.

    Raises:
        KueueLimitError: more labels or tolerations than a flavor may have.
    """
    _limit(f"ResourceFlavor {item.name}", "nodeLabels", len(item.node_labels), MAX_FLAVOR_LABELS)
    _limit(f"ResourceFlavor {item.name}", "tolerations", len(item.tolerations), service.KUEUE_MAX_TOLERATIONS)
    spec: dict[str, Any] = {"nodeLabels": dict(sorted(item.node_labels.items()))}
    if item.tolerations:
        spec["tolerations"] = [_toleration(taint) for taint in item.tolerations]
    if item.topology is not None:
        spec["topologyName"] = item.topology
    return _object("ResourceFlavor", item.name, spec=spec)


def _toleration(taint: Taint) -> dict[str, str]:
    """Tolerate exactly ``taint``. Kueue's own update of a flavor drops an empty value, so none is written."""
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, "operator": "Equal", **value, "effect": taint.effect}


def cohort(item: Cohort) -> dict[str, Any]:
    """The Cohort of ``item``.

    Raises:
        KueueLimitError: more flavors or resources than a resource group may have.
    """
    spec: dict[str, Any] = {}
    if item.parent is not None:
        spec["parentName"] = item.parent
    if item.flavors:
        resources = [quota.resource for quota in item.flavors[0].resources]
        spec["resourceGroups"] = _resource_groups(f"Cohort {item.name}", resources, item.flavors)
    if item.fair_share_weight is not None:
        spec["fairSharing"] = _fair_sharing(item.fair_share_weight)
    return _object("Cohort", item.name, spec=spec)


def cluster_queue(item: ClusterQueue) -> dict[str, Any]:
    """The ClusterQueue of ``item``; without a namespace it admits nothing and only lends.

    Raises:
        KueueLimitError: more flavors or resources than a resource group may have.
    """
    spec: dict[str, Any] = {"cohortName": item.cohort}
    if item.namespace is not None:
        spec["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": item.namespace}}
    spec |= {
        "queueingStrategy": item.queueing_strategy,
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": item.reclaim_within_cohort,
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": item.within_cluster_queue,
        },
        "stopPolicy": item.stop_policy,
    }
    if item.fair_share_weight is not None:
        spec["fairSharing"] = _fair_sharing(item.fair_share_weight)
    if item.flavors:
        spec["resourceGroups"] = _resource_groups(f"ClusterQueue {item.name}", item.resources, item.flavors)
    return _object("ClusterQueue", item.name, spec=spec)


def local_queue(item: LocalQueue) -> dict[str, Any]:
    """The LocalQueue of ``item``."""
    queue = _object("LocalQueue", item.name, spec={"clusterQueue": item.cluster_queue, "stopPolicy": "None"})
    queue["metadata"]["namespace"] = item.namespace
    return queue


def priority_class(item: WorkloadPriorityClass) -> dict[str, Any]:
    """The WorkloadPriorityClass of ``item``."""
    return _object("WorkloadPriorityClass", item.name, value=item.value)


def namespace(item: Namespace) -> dict[str, Any]:
    """The Namespace of ``item``."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": item.name, "labels": dict(sorted(item.labels.items()))},
    }


def _resource_groups(
    owner: str, covered: Sequence[str], flavors: Sequence[FlavorQuota]
) -> list[dict[str, Any]]:
    """One group: the flavors are whole machines, so all resources of a pod come from the same one."""
    _limit(owner, "flavors", len(flavors), service.KUEUE_MAX_FLAVORS)
    _limit(owner, "resources", len(covered), service.KUEUE_MAX_RESOURCES)
    _limit(owner, "flavor-resource quotas", len(flavors) * len(covered), service.KUEUE_MAX_FLAVOR_RESOURCES)
    items = [
        {"name": flavor.flavor, "resources": [_quota(quota) for quota in flavor.resources]}
        for flavor in flavors
    ]
    return [{"coveredResources": list(covered), "flavors": items}]


def _quota(quota: ResourceQuota) -> dict[str, str]:
    name = quota.resource
    spelled = {"name": name, "nominalQuota": format_quantity(name, quota.nominal)}
    if quota.borrowing_limit is not None:
        spelled["borrowingLimit"] = format_quantity(name, quota.borrowing_limit)
    if quota.lending_limit is not None:
        spelled["lendingLimit"] = format_quantity(name, quota.lending_limit)
    return spelled


def _fair_sharing(weight: int) -> dict[str, str]:
    return {"weight": format_quantity("weight", weight)}


def _limit(owner: str, what: str, count: int, most: int) -> None:
    if count > most:
        raise KueueLimitError(f"{owner} has {count} {what}; Kueue takes at most {most}")


def _object(kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, **content}
