"""Settings of the Kueue controller for a cluster whose Kueue objects this tool owns."""

from __future__ import annotations

from typing import Any

from hyperpod_governance import naming
from hyperpod_governance.model import ResolvedGovernance
from hyperpod_k8s.emit import to_yaml
from hyperpod_k8s.workloads import WORKLOAD_KINDS

CHART = "oci://registry.k8s.io/kueue/charts/kueue"
"""Where the Kueue project publishes its Helm chart."""

CONCURRENCY = {
    "Job.batch": 5,
    "Pod": 5,
    "Workload.kueue.x-k8s.io": 10,
    "LocalQueue.kueue.x-k8s.io": 5,
    "Cohort.kueue.x-k8s.io": 1,
    "ClusterQueue.kueue.x-k8s.io": 5,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}
"""Workers of each kind, as Kueue's own installation has them; a Configuration without it has one of each."""


def helm_values(governance: ResolvedGovernance) -> dict[str, Any]:
    """Values of Kueue's chart.

    Kueue manages jobs in team namespaces only, so that a broken queue cannot hold back what runs the cluster.
    """
    return {"managerConfig": {"controllerManagerConfigYaml": to_yaml([configuration(governance)])}}


def configuration(governance: ResolvedGovernance) -> dict[str, Any]:
    """Kueue's ``Configuration``: its own defaults, team namespaces, fair sharing as the policy says."""
    selector = {"matchExpressions": [{"key": naming.TEAM_LABEL, "operator": "Exists"}]}
    settings: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        # Quota gauges of each queue: what the dashboard shows.
        "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {"groupKindConcurrency": CONCURRENCY},
        "clientConnection": {"qps": 300, "burst": 500},
        "managedJobsNamespaceSelector": selector,
        "integrations": {"frameworks": [kind.framework for kind in WORKLOAD_KINDS if kind.framework]},
    }
    if governance.fair_sharing:
        strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        settings["fairSharing"] = {"preemptionStrategies": strategies}
    return settings
