"""HPF7xx: what Kubernetes or Kueue would refuse, and what nobody can mean to grant."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_config.findings import Finding, rule
from hyperpod_config.model import Fleet
from hyperpod_governance import service
from hyperpod_governance.model import FlavorQuota, ResolvedFleet, ResolvedGovernance
from hyperpod_governance.rules import walk


@rule("HPF703", "Kueue too old")
def kueue_too_old(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `kueue.version` is older than 0.17, or than 0.16 where Kueue is not installed by
    this tool.

    **Why it matters.** The objects are written as `kueue.x-k8s.io/v1beta2`, which Kueue stores since 0.16.
    The settings that Kueue is installed with name the framework `ray.io/rayservice`, which 0.16 does not
    know: its manager would not start.

    **Example.** `kueue: {version: 0.16.9}`.

    **Fix.** Take 0.17 or newer.
    """
    for cluster, governance in walk.governed(fleet):
        kueue = governance.kueue
        if kueue is None or governance.owner != "kueue":
            continue
        installs = kueue.install == "Enabled"
        needed = service.KUEUE_FIRST_VERSION if installs else service.KUEUE_FIRST_STORED_VERSION
        why = "knows the framework ray.io/rayservice" if installs else "stores v1beta2 objects"
        if walk.release(kueue.version) < walk.release(needed):
            yield kueue_too_old.finding(
                cluster.place("spec", "governance", "kueue", "version"),
                f"Kueue {kueue.version} is older than {needed}, the first that {why}",
                f"take {needed} or newer",
            )


@rule("HPF704", "A taint twice on one group")
def duplicate_taint(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** Two taints of a group have the same key and effect.

    **Why it matters.** Kubernetes takes a key and effect once on a node, whatever the values.

    **Example.** `taints: [{key: team, value: a, effect: NoSchedule}, {key: team, value: b, effect:
    NoSchedule}]`.

    **Fix.** Keep one of them, or give one another effect.
    """
    for cluster in fleet.clusters:
        for path, group in walk.instance_groups(cluster):
            seen: set[tuple[str, str]] = set()
            for index, taint in enumerate(group.kubernetes_config.taints):
                if (taint.key, taint.effect) in seen:
                    yield duplicate_taint.finding(
                        cluster.place(*path, "kubernetesConfig", "taints", index),
                        f"group {group.name} has two taints with key {taint.key} and effect {taint.effect}",
                        "keep one of them",
                    )
                seen.add((taint.key, taint.effect))


@rule("HPF701", "More flavors than a queue takes")
def too_many_flavors(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** A ClusterQueue or Cohort of the cluster would have more than 64 flavors, 64
    resources, or 512 pairs of flavor and resource. Every instance type is a flavor.

    **Why it matters.** Kueue refuses the object.

    **Example.** 70 instance types in one cluster of owner sagemaker.

    **Fix.** Use fewer instance types in one cluster, or spread them over two clusters.
    """
    limits = service.KUEUE_MAX_FLAVORS, service.KUEUE_MAX_RESOURCES, service.KUEUE_MAX_FLAVOR_RESOURCES
    for cluster in fleet.clusters:
        for name, flavors in _quotas(cluster.governance) if cluster.governance else ():
            resources = len(flavors[0].resources) if flavors else 0
            counts = len(flavors), resources, len(flavors) * resources
            if any(count > limit for count, limit in zip(counts, limits, strict=True)):
                yield too_many_flavors.finding(
                    cluster.config.place("spec", "instanceGroups"),
                    f"{name} of cluster {cluster.name} has {counts[0]} flavors and {counts[1]} resources,"
                    f" {counts[2]} pairs; Kueue takes {limits[0]}, {limits[1]} and {limits[2]}",
                    "use fewer instance types in one cluster",
                )
                break


def _quotas(governance: ResolvedGovernance) -> Iterator[tuple[str, tuple[FlavorQuota, ...]]]:
    for cohort in governance.cohorts:
        yield f"Cohort {cohort.name}", cohort.flavors
    for queue in governance.cluster_queues:
        yield f"ClusterQueue {queue.name}", queue.flavors


@rule("HPF702", "More taints than a flavor tolerates")
def too_many_tolerations(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** The groups of one instance type have more than 8 different taints together.

    **Why it matters.** A ResourceFlavor takes 8 tolerations, and needs one for each taint.

    **Example.** Three groups of one instance type with three taints each, all different.

    **Fix.** Use fewer taints, or the same ones on all groups of the type.
    """
    limit = service.KUEUE_MAX_TOLERATIONS
    for cluster in fleet.clusters:
        for flavor in cluster.governance.flavors if cluster.governance else ():
            if len(flavor.tolerations) > limit:
                path = next(
                    path
                    for path, group in walk.instance_groups(cluster.config)
                    if flavor.instance_type in group.instance_types and group.kubernetes_config.taints
                )
                yield too_many_tolerations.finding(
                    cluster.config.place(*path, "kubernetesConfig", "taints"),
                    f"groups of {flavor.instance_type} have {len(flavor.tolerations)} different taints;"
                    f" a ResourceFlavor tolerates {limit}",
                    "use fewer taints",
                )


@rule("HPF705", "Too many labels on a group")
def too_many_labels(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** The labels of a group and those that this tool adds (the group's name and, in a
    cluster with governance, its topology) are together more than 50.

    **Why it matters.** HyperPod takes 50 labels for a group.

    **Example.** 50 `kubernetesConfig.labels` on a group.

    **Fix.** Remove as many as the hint says.
    """
    limit = service.MAX_NODE_LABELS
    for cluster in fleet.clusters:
        asked = {pool.name: pool.kubernetes_labels for pool in cluster.pools}
        for path, group in walk.instance_groups(cluster.config):
            own, count = len(group.kubernetes_config.labels), len(asked[group.name])
            if count > limit:
                yield too_many_labels.finding(
                    cluster.config.place(*path, "kubernetesConfig", "labels"),
                    f"group {group.name} has {own} labels, and {count - own} are added; HyperPod takes"
                    f" {limit}",
                    f"remove {count - limit} labels",
                )


@rule("HPF706", "A team's group that Kubernetes itself gives")
def system_group(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A name in `access.groups` begins with `system:`.

    **Why it matters.** Kubernetes gives such groups by itself: `system:authenticated` is everybody who can
    sign in, `system:serviceaccounts` every pod. All of them would work in the team's namespaces.

    **Example.** `access: {groups: [system:authenticated]}`.

    **Fix.** Name a group of your identity provider, or use `principalArns`.
    """
    for team in fleet.teams:
        for index, group in enumerate(team.spec.access.groups):
            if group.startswith("system:"):
                yield system_group.finding(
                    team.place("spec", "access", "groups", index),
                    f"group {group} of team {team.name} is Kubernetes' own: its members are not the team's",
                    "name a group of your identity provider, or use principalArns",
                )


CONFIG = (kueue_too_old, duplicate_taint, system_group)
RESOLVED = (too_many_flavors, too_many_tolerations, too_many_labels)
