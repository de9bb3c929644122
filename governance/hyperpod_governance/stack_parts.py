"""Which of the stacks that not every cluster has one has, told by its config alone."""

from __future__ import annotations

from hyperpod_config.model import ClusterSpec


def has_monitoring(spec: ClusterSpec) -> bool:
    """Whether there is a stack with the dashboard."""
    return spec.monitoring.state == "Enabled"


def needs_node(spec: ClusterSpec) -> bool:
    """Whether an EKS add-on comes after the cluster: without a node it is degraded and fails its stack."""
    eks = spec.orchestrator.eks
    insights = has_monitoring(spec) and spec.monitoring.container_insights == "Enabled"
    return eks is not None and (eks.existing is None or spec.governance is not None or insights)


def has_capacity(spec: ClusterSpec) -> bool:
    """Whether there is a stack that waits: for the first node, or for groups."""
    if needs_node(spec):
        return True
    if spec.capacity_gate.wait_for == "Target":
        return bool(spec.instance_groups or spec.restricted_instance_groups)
    return spec.capacity_gate.wait_for == "Minimum" and any(
        group.min_instance_count for group in spec.instance_groups
    )
