"""HPF3xx: instance counts and MinInstanceCount."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_config.findings import Finding, Severity, rule
from hyperpod_config.model import Cluster, Fleet, InstanceGroup
from hyperpod_governance import service, stack_parts
from hyperpod_governance.rules import walk


@rule("HPF301", "Minimum above the target")
def minimum_above_target(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `minInstanceCount` is larger than `instanceCount`.

    **Why it matters.** The API refuses it: a group cannot need more instances than it asks for.

    **Example.** `instanceCount: 4, minInstanceCount: 8`.

    **Fix.** Lower `minInstanceCount`, or raise `instanceCount`.
    """
    for cluster in fleet.clusters:
        for path, group in walk.instance_groups(cluster):
            minimum = group.min_instance_count or 0
            if minimum > group.instance_count:
                yield minimum_above_target.finding(
                    cluster.place(*path, "minInstanceCount"),
                    f"minInstanceCount of group {group.name} is {minimum}; instanceCount is"
                    f" {group.instance_count}",
                    f"set minInstanceCount to at most {group.instance_count}",
                )


@rule("HPF302", "Minimum without Continuous provisioning")
def minimum_needs_continuous(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `minInstanceCount` is set in a cluster without `nodeProvisioningMode: Continuous`.

    **Why it matters.** A minimum belongs to Continuous provisioning. Without it a group gets all its
    instances or fails.

    **Example.** `minInstanceCount: 8` and no `nodeProvisioningMode`.

    **Fix.** Set `nodeProvisioningMode: Continuous`, or remove `minInstanceCount`.
    """
    for cluster in fleet.clusters:
        if cluster.spec.node_provisioning_mode is not None:
            continue
        for path, group in walk.instance_groups(cluster):
            if group.min_instance_count:
                yield minimum_needs_continuous.finding(
                    cluster.place(*path, "minInstanceCount"),
                    f"minInstanceCount of group {group.name} is {group.min_instance_count}, which needs"
                    " Continuous provisioning",
                    "set nodeProvisioningMode: Continuous",
                )


@rule("HPF303", "No accelerated group has a minimum", Severity.WARNING)
def no_accelerated_minimum(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** The cluster provisions continuously, has accelerated groups, and none of them has a
    `minInstanceCount` above 0.

    **Why it matters.** The cluster can be InService and its stack complete with not one accelerator. A
    minimum makes the group wait for that many instances and roll back if they do not come within 3 hours.

    **Example.** `{name: h100, instanceType: ml.p5.48xlarge, instanceCount: 16}`.

    **Fix.** Set `minInstanceCount` to the least number of instances that is of use.
    """
    for cluster in fleet.clusters:
        spec = cluster.spec
        if spec.node_provisioning_mode is None or (spec.auto_scaling and spec.auto_scaling.mode == "Enable"):
            continue
        found = [(path, group) for path, group in walk.instance_groups(cluster) if _wants_accelerators(group)]
        if found and not any(group.min_instance_count for _, group in found):
            path, group = found[0]
            key = "instanceCount" if group.min_instance_count is None else "minInstanceCount"
            names = walk.listing([group.name for _, group in found])
            yield no_accelerated_minimum.finding(
                cluster.place(*path, key),
                f"minInstanceCount is 0 in every accelerated group ({names}): cluster {cluster.name} can be"
                " InService without an accelerator",
                "set minInstanceCount to the least number of instances that is of use",
            )


def _wants_accelerators(group: InstanceGroup) -> bool:
    return group.instance_count > 0 and walk.is_accelerated(group)


@rule("HPF304", "All or nothing", Severity.INFO)
def all_or_nothing(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `minInstanceCount` equals `instanceCount`, and both are above 1.

    **Why it matters.** If one instance is missing after 3 hours, a new group rolls back to zero instances,
    though all others were there, and those were billed until then.

    **Example.** `instanceCount: 16, minInstanceCount: 16`.

    **Fix.** Nothing, if a job needs every instance; else lower `minInstanceCount`.
    """
    for cluster in fleet.clusters:
        if cluster.spec.node_provisioning_mode is None:
            continue
        for path, group in walk.instance_groups(cluster):
            if group.min_instance_count == group.instance_count > 1:
                yield all_or_nothing.finding(
                    cluster.place(*path, "minInstanceCount"),
                    f"minInstanceCount and instanceCount of group {group.name} are both"
                    f" {group.instance_count}:"
                    " it gets all instances within 3 hours or rolls back",
                    "lower minInstanceCount if fewer instances are of use",
                )


@rule("HPF305", "No node is sure to take the controllers", Severity.WARNING)
def no_system_node(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** No group of CPU instances without taints is sure to have a node. With Continuous
    provisioning that takes a `minInstanceCount` of 1 or more.

    **Why it matters.** A cluster can be InService without nodes. The pods of the task governance add-on, or
    of Kueue, then stay Pending, the add-on is reported as degraded, and quotas cannot be made. A cluster that
    asks for no instance at all has a finding of its own (HPF309).

    **Example.** `{name: system, instanceType: ml.m5.2xlarge, instanceCount: 2}` with Continuous.

    **Fix.** Set `minInstanceCount: 1` on a CPU group.
    """
    for cluster, _ in walk.governed(fleet):
        groups = list(walk.instance_groups(cluster))
        if (
            groups
            and not _asks_for_none(cluster)
            and not any(_takes_controllers(cluster, group) for _, group in groups)
        ):
            yield no_system_node.finding(
                cluster.place("spec", "instanceGroups"),
                f"0 CPU groups of cluster {cluster.name} are sure to have a node for the pods of Kueue; 1"
                " is needed",
                "set minInstanceCount: 1 on a CPU group without taints",
            )


def _takes_controllers(cluster: Cluster, group: InstanceGroup) -> bool:
    continuous = cluster.spec.node_provisioning_mode is not None
    sure = (group.min_instance_count or 0) if continuous else group.instance_count
    taints = any(taint.effect != "PreferNoSchedule" for taint in group.kubernetes_config.taints)
    return sure > 0 and not taints and not walk.is_accelerated(group)


@rule("HPF306", "Waiting for a target that is moved")
def target_is_moved(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `capacityGate.waitFor` is Target in a cluster with node autoscaling.

    **Why it matters.** Karpenter changes the number of instances of a group as jobs come and go. A deployment
    that waits for the number written here may wait until its time is up, and fail.

    **Example.** `capacityGate: {waitFor: Target}` with `autoScaling: {mode: Enable}`.

    **Fix.** Set `waitFor: Minimum`, or None.
    """
    for cluster in fleet.clusters:
        scaling = cluster.spec.auto_scaling
        if cluster.spec.capacity_gate.wait_for == "Target" and scaling and scaling.mode == "Enable":
            yield target_is_moved.finding(
                cluster.place("spec", "capacityGate", "waitFor"),
                f"waitFor is Target, but Karpenter changes the targets of cluster {cluster.name}",
                "set waitFor: Minimum",
            )


@rule("HPF307", "Waiting no longer than HyperPod tries", Severity.WARNING)
def gate_too_short(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `capacityGate.timeoutInMinutes` is at most 180, the cluster waits for Minimum, and a
    group has a minimum.

    **Why it matters.** HyperPod tries for 3 hours to reach a minimum before it rolls the group back. A
    deployment that does not wait longer may fail shortly before the instances come.

    **Example.** `capacityGate: {timeoutInMinutes: 60}` with `minInstanceCount: 8`.

    **Fix.** Set `timeoutInMinutes` to more than 180, or leave it out.
    """
    for cluster in fleet.clusters:
        gate = cluster.spec.capacity_gate
        waits = gate.wait_for == "Minimum" and cluster.spec.node_provisioning_mode is not None
        minimum = any(group.min_instance_count for group in cluster.spec.instance_groups)
        if waits and minimum and gate.timeout_in_minutes <= service.MINIMUM_GIVEN_UP_AFTER:
            yield gate_too_short.finding(
                cluster.place("spec", "capacityGate", "timeoutInMinutes"),
                f"timeoutInMinutes is {gate.timeout_in_minutes}; HyperPod tries for"
                f" {service.MINIMUM_GIVEN_UP_AFTER} minutes to reach a minimum",
                f"set it to more than {service.MINIMUM_GIVEN_UP_AFTER}, or leave it out",
            )


@rule("HPF308", "A wait with nothing to wait for", Severity.WARNING)
def gate_without_continuous(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `capacityGate` is set in a cluster without `nodeProvisioningMode: Continuous`.

    **Why it matters.** Without Continuous provisioning a group gets all its instances or the cluster fails,
    and CloudFormation waits for that by itself.

    **Example.** `capacityGate: {waitFor: Target}` and no `nodeProvisioningMode`.

    **Fix.** Remove `capacityGate`, or set `nodeProvisioningMode: Continuous`.
    """
    for cluster in fleet.clusters:
        spec = cluster.spec
        said = "capacity_gate" in spec.model_fields_set and spec.capacity_gate.wait_for != "None"
        if said and spec.node_provisioning_mode is None:
            yield gate_without_continuous.finding(
                cluster.place("spec", "capacityGate"),
                f"capacityGate waits for {spec.capacity_gate.wait_for}, but cluster {cluster.name} is not"
                " provisioned continuously: it has all its instances or fails",
                "remove capacityGate, or set nodeProvisioningMode: Continuous",
            )


@rule("HPF309", "No instance is asked for", Severity.WARNING)
def no_instance(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `instanceCount` is 0 in every group of a cluster where something is installed that
    needs a node: coredns of a new EKS cluster, Kueue or its add-on, or that of Container Insights.

    **Why it matters.** The first deployment waits for the cluster's first node before it installs them,
    whatever `capacityGate.waitFor` is, and fails when no group asks for any. Karpenter does not help: it
    makes nodes for pods that wait, and these are installed only then. A cluster that is parked so later has
    no DNS and no scheduler until it has a node again.

    **Example.** `autoScaling: {mode: Enable}` with `instanceCount: 0` in every group.

    **Fix.** Give one CPU group an instance, and with Continuous provisioning `minInstanceCount: 1`.
    """
    for cluster in fleet.clusters:
        if stack_parts.needs_node(cluster.spec) and _asks_for_none(cluster):
            key = "instanceGroups" if cluster.spec.instance_groups else "restrictedInstanceGroups"
            yield no_instance.finding(
                cluster.place("spec", key),
                f"instanceCount is 0 in every group of cluster {cluster.name}; coredns, Kueue and add-ons are"
                " installed when a node is there",
                "set instanceCount: 1 on a CPU group, and minInstanceCount: 1 if provisioning is Continuous",
            )


def _asks_for_none(cluster: Cluster) -> bool:
    groups = list(walk.groups(cluster))
    return bool(groups) and not any(group.instance_count for _, group in groups)


CONFIG = (
    minimum_above_target,
    minimum_needs_continuous,
    no_accelerated_minimum,
    all_or_nothing,
    no_system_node,
    target_is_moved,
    gate_too_short,
    gate_without_continuous,
    no_instance,
)
