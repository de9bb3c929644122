"""HPF150 to HPF165: what may not become of a fleet that is deployed. Each rule compares two fleets.

`base` is the fleet as it was, which is taken to be deployed, and `new` the fleet as it is to be. A finding is
at its place in the new config; what was removed has its place in the base.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hyperpod_config.findings import Finding, Severity, rule
from hyperpod_config.model import (
    Allocation,
    Cluster,
    ClusterSpec,
    Fleet,
    Governance,
    InstanceGroup,
    Network,
    Orchestrator,
    RestrictedInstanceGroup,
    Team,
    VpcOverride,
)
from hyperpod_governance import naming, resolve, service, stack_parts
from hyperpod_governance.rules import walk

_GOVERNANCE = ("spec", "governance")
_NEW_CLUSTER = (
    "keep it; for another one add a Cluster document beside it, move the work, then hpf remove-cluster"
)


@rule("HPF150", "Another cluster under the same name")
def another_cluster(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** What says which cluster in AWS a document is has changed: the fleet's name, the
    cluster's name, `clusterName`, `region` or `account`.

    **Why it matters.** Names of stacks and clusters are made of these. A deployment would make everything
    once more; what is there stays, with its cost, and nothing manages it. A changed `clusterName` deletes the
    cluster.

    **Example.** `region: us-east-1` becomes `us-west-2`; fleet `lab` is renamed to `research`.

    **Fix.** Keep it. For a cluster elsewhere, or of another name, add a second Cluster document, move the
    work, and take the first one away with `hpf remove-cluster`.
    """
    if base.name != new.name:
        yield another_cluster.finding(
            new.document.place("metadata", "name"),
            f"the fleet is renamed from {base.name} to {new.name}: every stack and cluster would be made once"
            " more",
            f"keep the name {base.name}",
        )
        return
    before = {cluster.name: cluster for cluster in base.clusters}
    for cluster in new.clusters:
        old = before.get(cluster.name)
        if old is None:
            renamed = next((it for it in base.clusters if _renamed(it, cluster, base, new)), None)
            if renamed is not None:
                yield another_cluster.finding(
                    cluster.place("metadata", "name"),
                    f"cluster {renamed.name} is renamed to {cluster.name}: its stacks would be made once"
                    f" more, but {_aws_name(new, cluster)} exists",
                    f"keep the name {renamed.name}",
                )
            continue
        for key, was, is_ in _identity(old, cluster, base, new):
            yield another_cluster.finding(
                cluster.place("spec", key),
                f"{key} of cluster {cluster.name} was {was} and is now {is_}: that is another cluster",
                _NEW_CLUSTER,
            )


@rule("HPF151", "Another network for a cluster")
def vpc_change(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** The VPC, subnets or security groups of a cluster have changed. The order of subnets
    and of security groups counts, because CloudFormation counts it.

    **Why it matters.** A cluster keeps the VpcConfig that it was made with. CloudFormation would make a
    second cluster of the same name, which fails, or take a network away under its nodes.

    **Example.** `network: {create: {cidr: 10.192.0.0/16}}` becomes `10.64.0.0/16`; `create` becomes
    `existing`.

    **Fix.** Keep the network. For other subnets of some nodes, add an instance group with
    `overrideVpcConfig`; for another VPC, another Cluster document.
    """
    for old, cluster in _kept(base, new):
        for path, was, is_ in _network_changes(old.spec.network, cluster.spec.network):
            yield vpc_change.finding(
                cluster.place("spec", "network", *path),
                f"{path[-1]} of cluster {cluster.name} was {was} and is now {is_}; a cluster keeps its VPC",
                "keep it; other subnets are for a new instance group (overrideVpcConfig) or a new cluster",
            )


@rule("HPF152", "Other subnets for a group")
def group_vpc_change(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** `overrideVpcConfig` of an instance group that exists has changed, came or went.

    **Why it matters.** The API refuses it: a group keeps the VPC configuration that it was made with.

    **Example.** A second subnet in `overrideVpcConfig: {subnets: [subnet-1]}`.

    **Fix.** Add a group of another name with the other subnets, move the work, then remove the first one.
    """
    for old, now in _kept_groups(base, new):
        was, is_ = old.group.override_vpc_config, now.group.override_vpc_config
        if _vpc(was) != _vpc(is_):
            yield group_vpc_change.finding(
                now.cluster.place(*now.path, "overrideVpcConfig"),
                f"overrideVpcConfig of group {now.group.name} was {_vpc_text(was)} and is now"
                f" {_vpc_text(is_)}; a group keeps its VPC configuration",
                "add a group of another name, move the work, then remove this one",
            )


@rule("HPF153", "Another orchestrator for a cluster")
def orchestrator_change(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** A cluster changes between EKS and Slurm, or stands on another EKS cluster.

    **Why it matters.** A cluster keeps its orchestrator. CloudFormation would make a second cluster of the
    same name, which fails.

    **Example.** `orchestrator: {slurm: {}}` becomes `{eks: {version: "1.34"}}`; a new EKS cluster becomes an
    `existing` one.

    **Fix.** Keep it. Add another Cluster document for the other orchestrator.
    """
    for old, cluster in _kept(base, new):
        was, is_ = _orchestrator(old.spec.orchestrator), _orchestrator(cluster.spec.orchestrator)
        if was != is_:
            yield orchestrator_change.finding(
                cluster.place("spec", "orchestrator"),
                f"orchestrator of cluster {cluster.name} was {was} and is now {is_}; a cluster keeps it",
                _NEW_CLUSTER,
            )


@rule("HPF154", "Kubernetes version that is no next step")
def kubernetes_step(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** `orchestrator.eks.version` goes back, or forward by more than one minor version.

    **Why it matters.** Amazon EKS upgrades a control plane by one minor version at a time, and never back.

    **Example.** `version: "1.31"` becomes `"1.33"`.

    **Fix.** Deploy one minor version after the other; keep the version instead of going back.
    """
    for old, cluster in _kept(base, new):
        was, is_ = _version(old), _version(cluster)
        if was is None or is_ is None or is_ in (was, was + 1):
            continue
        steps = ", ".join(f"1.{minor}" for minor in range(was + 1, is_ + 1))
        yield kubernetes_step.finding(
            cluster.place("spec", "orchestrator", "eks", "version"),
            f"Kubernetes of cluster {cluster.name} was 1.{was} and is now 1.{is_}; EKS goes up by one minor"
            " version at a time and never back",
            f"deploy {steps} one after the other" if is_ > was else f'keep "1.{was}"',
        )


@rule("HPF155", "Another instance type for a group")
def group_type_change(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** An instance group that exists has another `instanceType`, changes between one type
    and `instanceRequirements`, or between an ordinary and a restricted group. The list of types in
    `instanceRequirements` may change.

    **Why it matters.** An update must name the type that the group was made with.

    **Example.** `{name: gpu, instanceType: ml.g5.8xlarge}` becomes `ml.g6.8xlarge`.

    **Fix.** Add a group of another name with the new type, move the work, then remove the old group.
    """
    for old, now in _kept_groups(base, new):
        was, is_ = _types(old.group), _types(now.group)
        if was != is_ and not (_flexible(old.group) and _flexible(now.group)):
            key = "instanceRequirements" if _flexible(now.group) else "instanceType"
            yield group_type_change.finding(
                now.cluster.place(*now.path, key),
                f"group {now.group.name} of cluster {now.cluster.name} was of {was} and is now of {is_}; a"
                " group keeps its instance type",
                "add a group of another name, move the work, then remove this one",
            )


@rule("HPF156", "Another provisioning mode for a cluster")
def provisioning_change(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** `nodeProvisioningMode` came or went on a Slurm cluster, or went on an EKS cluster.
    An EKS cluster may get it.

    **Why it matters.** A Slurm cluster keeps the mode that it was made with. On EKS the API has no word but
    Continuous, so to leave it out changes nothing, while the groups here would count as all or nothing.

    **Example.** `nodeProvisioningMode: Continuous` is added to a Slurm cluster that runs.

    **Fix.** Keep the mode. A Slurm cluster with the other one is another Cluster document.
    """
    for old, cluster in _kept(base, new):
        was, is_ = old.spec.node_provisioning_mode, cluster.spec.node_provisioning_mode
        eks = cluster.spec.orchestrator.eks is not None
        if was == is_ or _orchestrator(old.spec.orchestrator) != _orchestrator(cluster.spec.orchestrator):
            continue
        if not eks or is_ is None:
            yield provisioning_change.finding(
                cluster.place("spec", "nodeProvisioningMode"),
                f"nodeProvisioningMode of {'EKS' if eks else 'Slurm'} cluster {cluster.name} was"
                f" {was or 'not set'} and is now {is_ or 'not set'}; it cannot change",
                f"set nodeProvisioningMode: {was}" if was else "remove nodeProvisioningMode",
            )


@rule("HPF157", "A team is renamed")
def team_renamed(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** A team is gone, and a new one has its allocations or its file.

    **Why it matters.** A queue cannot be renamed: the old one is deleted, with all jobs that wait in it, and
    a new one is made. What runs may be evicted.

    **Example.** `metadata: {name: vision}` becomes `{name: sight}`.

    **Fix.** Set `renamedFrom: vision` in the new team's spec if the jobs that wait may be lost. If not, hold
    and drain the old queue first: `hpf remove-team` says how.
    """
    consents, successors = _consents(new), _successors(base, new)
    for loss in _losses(base, new):
        other = successors.get(loss.team.name)
        if other is not None and loss.team.name not in consents:
            yield team_renamed.finding(
                other.place("metadata", "name"),
                f"team {loss.team.name} became {other.name}: its queue on {loss.clusters} would be deleted"
                " with the jobs that wait in it",
                f"set renamedFrom: {loss.team.name} in team {other.name}, or first hpf remove-team"
                f" {loss.team.name}",
            )


@rule("HPF158", "A queue is deleted by consent", Severity.WARNING)
def queue_deleted(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** `renamedFrom` names a team whose queue is in use.

    **Why it matters.** The next deployment deletes that queue with all jobs that wait in it. Those who sent
    them have to send them again, to the new queue.

    **Example.** `metadata: {name: sight}` with `renamedFrom: vision`.

    **Fix.** Nothing, if that is meant. Remove `renamedFrom` when it is deployed.
    """
    consents = _consents(new)
    for loss in _losses(base, new):
        other = consents.get(loss.team.name) if loss.whole else None
        if other is not None:
            yield queue_deleted.finding(
                other.place("spec", "renamedFrom"),
                f"the queue of team {loss.team.name} on {loss.clusters} will be deleted with the jobs that"
                f" wait in it; team {other.name} gets a new one",
                "hold and drain it first if those jobs matter",
            )


@rule("HPF159", "A queue in use is removed")
def queue_removed(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** A team, or its allocation on a cluster, is gone, and was not held before. The place
    is in the base.

    **Why it matters.** Its queue is deleted with all jobs that wait in it, and with jobs that run the
    deletion hangs.

    **Example.** The file of team vision is deleted.

    **Fix.** Take it back, and do what `hpf remove-team` says: `activationState: Disabled`, deploy, wait until
    nothing runs, then remove.
    """
    spoken_for = {**_consents(new), **_successors(base, new)}
    for loss in _losses(base, new):
        if loss.whole and loss.team.name in spoken_for:
            continue
        path = ("metadata", "name") if loss.whole else ("spec", "allocations", loss.indexes[0], "cluster")
        what = f"team {loss.team.name}" if loss.whole else f"the allocation of team {loss.team.name}"
        yield queue_removed.finding(
            loss.team.place(*path),
            f"{what} was here and is gone: its queue on {loss.clusters} was not held (activationState"
            " Enabled) and would be deleted with the jobs that wait in it",
            f"take it back and run {_removal(loss)}",
        )


@rule("HPF160", "Add-on version whose CRDs cannot follow")
def addon_jump(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** The task governance add-on goes from v1.3 or older to v1.5 or newer, or from v1.5 or
    newer back to an older one.

    **Why it matters.** The cohorts CRD of v1.3 has stored objects as v1alpha1, which that of v1.5 does not
    have, and v1.5 stores v1beta2, which older ones do not have. The API server refuses a CRD without a
    version that it has stored: the update fails halfway. A stop at v1.4 does not help.

    **Example.** `addonVersion: v1.3.0-eksbuild.1` becomes `v1.6.1-eksbuild.1`.

    **Fix.** Keep the version. To change it: hold and drain all queues, delete the governance stack and the
    CRDs of kueue.x-k8s.io, then deploy with the new version.
    """
    for cluster, was, is_ in _addons(base, new):
        if _jumps(was, is_):
            stack = naming.stack(new.name, cluster.name, "governance")
            yield addon_jump.finding(
                cluster.place(*_GOVERNANCE, "addonVersion"),
                f"addonVersion of cluster {cluster.name} was {was} and is now {is_}; the CRDs of the one"
                " cannot take the place of the other's",
                f"keep {was}, or drain the queues, delete stack {stack} and the CRDs of kueue.x-k8s.io, and"
                " deploy again",
            )


@rule("HPF161", "Older version of the add-on", Severity.WARNING)
def addon_downgrade(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** `addonVersion` goes back, between versions whose CRDs are compatible.

    **Why it matters.** An older Kueue drops fields that it does not know, and nobody tests the way back.

    **Example.** `addonVersion: v1.6.1-eksbuild.1` becomes `v1.6.0-eksbuild.1`.

    **Fix.** Nothing, if that is meant; else keep the version.
    """
    for cluster, was, is_ in _addons(base, new):
        if walk.release(is_) < walk.release(was) and not _jumps(was, is_):
            yield addon_downgrade.finding(
                cluster.place(*_GOVERNANCE, "addonVersion"),
                f"addonVersion of cluster {cluster.name} goes back from {was} to {is_}",
                f"keep {was} unless that is meant",
            )


@rule("HPF162", "Another backend for quotas that exist")
def backend_change(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** The scheduler config or the quotas of a cluster would be made by another backend:
    CloudFormation's own types, or a custom resource. `auto` counts as what it stands for in the Region.

    **Why it matters.** CloudFormation changes no resource into one of another type: it refuses the template.

    **Example.** `backend: native` becomes `custom-resource`.

    **Fix.** Keep the backend, written out if `auto` would change it. To change it: hold and drain the queues,
    delete the governance stack, then deploy with the other backend.
    """
    for old, cluster in _kept(base, new):
        was, is_ = old.spec.governance, cluster.spec.governance
        if was is None or is_ is None or {was.owner, is_.owner} != {"sagemaker"}:
            continue
        changed = [
            f"{name}: {before} to {after}"
            for (name, before), after in zip(
                _backends(old, was).items(), _backends(cluster, is_).values(), strict=True
            )
            if before != after
        ]
        if changed:
            stack = naming.stack(new.name, cluster.name, "governance")
            yield backend_change.finding(
                cluster.place(*_GOVERNANCE, "backend"),
                f"backend of cluster {cluster.name} changes ({', '.join(changed)}): CloudFormation changes no"
                " resource into one of another type",
                f"keep backend: {was.backend}, or drain the queues and delete stack {stack} first",
            )


@rule("HPF163", "Another owner of the Kueue objects")
def owner_change(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** `governance.owner` of a cluster has changed.

    **Why it matters.** The stack of the old owner stays until somebody deletes it, so two Kueues would run in
    one cluster, which break each other. All queues are made anew, under other names.

    **Example.** `owner: sagemaker` becomes `owner: kueue`.

    **Fix.** Hold and drain the queues, delete the stack of the old owner, see that no CRD of kueue.x-k8s.io
    is left, then change the owner.
    """
    for old, cluster in _kept(base, new):
        was, is_ = old.spec.governance, cluster.spec.governance
        if was is not None and is_ is not None and was.owner != is_.owner:
            part: naming.StackPart = "governance" if was.owner == "sagemaker" else "queues"
            yield owner_change.finding(
                cluster.place(*_GOVERNANCE, "owner"),
                f"owner of cluster {cluster.name} was {was.owner} and is now {is_.owner}; two Kueues would"
                " run in one cluster",
                f"keep {was.owner}, or drain the queues and delete stack"
                f" {naming.stack(new.name, cluster.name, part)} first",
            )


@rule("HPF164", "Teams may move to another stack", Severity.WARNING)
def teams_move(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** `teamStacks` of a cluster with teams has changed.

    **Why it matters.** A team that moves to another stack loses its queue in the one, with the jobs that wait
    in it, and gets it again in the other. For owner sagemaker the deployment is refused while the queue is in
    use. How many stacks there are also depends on the number of teams, so perhaps none moves.

    **Example.** `teamStacks: 1` becomes `4`.

    **Fix.** Hold the queues of the teams that move (`activationState: Disabled`), deploy, change
    `teamStacks`, deploy, and enable them again. `cdk diff` names the teams.
    """
    for old, cluster in _kept(base, new):
        was, is_ = old.spec.governance, cluster.spec.governance
        if was is None or is_ is None or was.owner != is_.owner or was.team_stacks == is_.team_stacks:
            continue
        if any(member.allocation.cluster == cluster.name for member in walk.members(base)):
            yield teams_move.finding(
                cluster.place(*_GOVERNANCE, "teamStacks"),
                f"teamStacks of cluster {cluster.name} was {was.team_stacks} and is now {is_.team_stacks}: a"
                " team that moves loses its queue and gets a new one",
                "hold the queues of the teams that cdk diff says move, before you deploy this",
            )


@rule("HPF165", "Stacks are left behind", Severity.WARNING)
def left_behind(base: Fleet, new: Fleet) -> Iterator[Finding]:
    """**What it means.** A cluster, or the governance of one, is gone from the config (the place is in the
    base), or a cluster has no monitoring, or nothing to wait for, any more.

    **Why it matters.** A deployment deletes no stack. Nodes, quotas and all else stay, with their cost, and
    nothing manages them any more. They may also import what the cluster's stack would no longer export, and
    then CloudFormation does not update that one.

    **Example.** The file of a cluster is deleted; a Slurm cluster gets `capacityGate: {waitFor: None}`.

    **Fix.** Take it back and do what `hpf remove-cluster` says, or delete the stacks yourself, the newest
    first. Those of monitoring and capacity hold nothing that would be missed: delete them before you deploy.
    """
    if base.name != new.name:
        return
    there = {cluster.name for cluster in new.clusters}
    for old in base.clusters:
        if old.name not in there and not any(_renamed(old, it, base, new) for it in new.clusters):
            yield left_behind.finding(
                old.place("metadata", "name"),
                f"cluster {old.name} was here and is gone; its stacks {new.name}-{old.name}-* stay",
                f"hpf remove-cluster {old.name} says how to delete them",
            )
    for old, cluster in _kept(base, new):
        was = old.spec.governance
        if was is not None and cluster.spec.governance is None:
            part: naming.StackPart = "governance" if was.owner == "sagemaker" else "queues"
            yield left_behind.finding(
                old.place(*_GOVERNANCE),
                f"governance of cluster {old.name} was here and is gone; stack"
                f" {naming.stack(new.name, old.name, part)} stays",
                "hold and drain the queues, then delete the stack",
            )
        yield from _idle_stacks(old, cluster, new)


def _idle_stacks(old: Cluster, cluster: Cluster, new: Fleet) -> Iterator[Finding]:
    """Stacks that a kept cluster has no use for any more."""
    parts: tuple[tuple[naming.StackPart, str, str, Callable[[ClusterSpec], bool]], ...] = (
        ("monitoring", "monitoring", "state", stack_parts.has_monitoring),
        ("capacity", "capacityGate", "waitFor", stack_parts.has_capacity),
    )
    for part, field, key, has in parts:
        if has(old.spec) and not has(cluster.spec):
            stack = naming.stack(new.name, cluster.name, part)
            yield left_behind.finding(
                cluster.place("spec", field, key),
                f"{field} of cluster {cluster.name} makes no stack any more; stack {stack} stays",
                f"before you deploy: aws cloudformation delete-stack --stack-name {stack} --region"
                f" {cluster.spec.region}",
            )


# --- clusters


def _aws_name(fleet: Fleet, cluster: Cluster) -> str:
    return cluster.spec.cluster_name or naming.aws_name(fleet.name, cluster.name)


def _identity(old: Cluster, now: Cluster, base: Fleet, new: Fleet) -> Iterator[tuple[str, str, str]]:
    """What makes it another cluster: key, old and new value. An account that is not said may be any."""
    pairs = {
        "region": (old.spec.region, now.spec.region),
        "account": (old.spec.account, now.spec.account),
        "clusterName": (_aws_name(base, old), _aws_name(new, now)),
    }
    for key, (was, is_) in pairs.items():
        if was is not None and is_ is not None and was != is_:
            yield key, was, is_


def _renamed(old: Cluster, now: Cluster, base: Fleet, new: Fleet) -> bool:
    """Whether two documents of different names are the same cluster in AWS."""
    kept = {cluster.name for cluster in new.clusters}, {cluster.name for cluster in base.clusters}
    if old.name in kept[0] or now.name in kept[1]:
        return False
    return not list(_identity(old, now, base, new))


def _kept(base: Fleet, new: Fleet) -> Iterator[tuple[Cluster, Cluster]]:
    """Clusters that are in both fleets and the same in AWS."""
    before = {cluster.name: cluster for cluster in base.clusters} if base.name == new.name else {}
    for cluster in new.clusters:
        old = before.get(cluster.name)
        if old is not None and not list(_identity(old, cluster, base, new)):
            yield old, cluster


def _network_changes(was: Network, is_: Network) -> Iterator[tuple[walk.Path, str, str]]:
    """Path below the network, old and new value of what a cluster keeps.

    Zones that are not said are the first ones of the Region, which may be those that are said now.
    """
    if was.create is not None and is_.create is not None:
        if was.create.cidr != is_.create.cidr:
            yield ("create", "cidr"), was.create.cidr, is_.create.cidr
        before, after = was.create.availability_zones, is_.create.availability_zones
        if before and after and before != after:
            yield ("create", "availabilityZones"), ", ".join(before), ", ".join(after)
        old_zone = was.create.node_availability_zone or (before[0] if before else None)
        zone = is_.create.node_availability_zone or (after[0] if after else None)
        if old_zone and zone and old_zone != zone and (before == after or not before or not after):
            yield ("create", "nodeAvailabilityZone"), old_zone, zone
    elif was.existing is not None and is_.existing is not None:
        for key, old, now in (
            ("vpcId", [was.existing.vpc_id], [is_.existing.vpc_id]),
            ("subnetIds", was.existing.subnet_ids, is_.existing.subnet_ids),
            ("securityGroupIds", was.existing.security_group_ids, is_.existing.security_group_ids),
        ):
            if old != now:
                yield ("existing", key), ", ".join(old), ", ".join(now)
    else:
        key = "create" if is_.create is not None else "existing"
        yield (key,), _network_text(was), _network_text(is_)


def _network_text(network: Network) -> str:
    if network.existing is not None:
        return f"the existing {network.existing.vpc_id}"
    return f"a new VPC ({network.create.cidr if network.create else ''})"


def _orchestrator(orchestrator: Orchestrator) -> str:
    eks = orchestrator.eks
    if eks is None:
        return "Slurm"
    return (
        f"the existing EKS cluster {eks.existing.cluster_name}"
        if eks.existing
        else "an EKS cluster of its own"
    )


def _version(cluster: Cluster) -> int | None:
    """Minor version of a new EKS cluster."""
    eks = cluster.spec.orchestrator.eks
    return int(eks.version.partition(".")[2]) if eks is not None and eks.version is not None else None


# --- groups


@dataclass(frozen=True, slots=True)
class _Group:
    cluster: Cluster
    path: walk.Path
    group: InstanceGroup | RestrictedInstanceGroup


def _kept_groups(base: Fleet, new: Fleet) -> Iterator[tuple[_Group, _Group]]:
    """Groups of one name in a cluster that is in both fleets."""
    for old, cluster in _kept(base, new):
        before = {group.name: _Group(old, path, group) for path, group in walk.groups(old)}
        for path, group in walk.groups(cluster):
            if group.name in before:
                yield before[group.name], _Group(cluster, path, group)


def _flexible(group: InstanceGroup | RestrictedInstanceGroup) -> bool:
    return isinstance(group, InstanceGroup) and group.instance_requirements is not None


def _types(group: InstanceGroup | RestrictedInstanceGroup) -> str:
    if isinstance(group, RestrictedInstanceGroup):
        return f"{group.instance_type} (restricted)"
    if group.instance_requirements is not None:
        return f"one of {walk.listing(group.instance_requirements.instance_types)}"
    return str(group.instance_type)


def _vpc(override: VpcOverride | None) -> tuple[frozenset[str], frozenset[str]] | None:
    if override is None:
        return None
    return frozenset(override.subnets), frozenset(override.security_group_ids)


def _vpc_text(override: VpcOverride | None) -> str:
    return "not set" if override is None else ", ".join([*override.subnets, *override.security_group_ids])


# --- teams


@dataclass(frozen=True, slots=True)
class _Loss:
    """A team that loses queues in use: its allocations in the base, and whether the whole team is gone."""

    team: Team
    indexes: Sequence[int]
    whole: bool

    @property
    def clusters(self) -> str:
        return walk.listing([self.team.spec.allocations[index].cluster for index in self.indexes])


def _losses(base: Fleet, new: Fleet) -> Iterator[_Loss]:
    """Teams that lose a queue which was not held, on a cluster that stays."""
    stay = {
        cluster.name
        for old, cluster in _kept(base, new)
        if old.spec.governance and cluster.spec.governance
        if old.spec.governance.owner == cluster.spec.governance.owner
    }
    there = {(member.team.name, member.allocation.cluster) for member in walk.members(new)}
    teams = {team.name for team in new.teams}
    for team in base.teams:
        indexes = [
            index
            for index, allocation in enumerate(team.spec.allocations)
            if allocation.cluster in stay
            and (team.name, allocation.cluster) not in there
            and _in_use(allocation)
        ]
        if indexes:
            yield _Loss(team, indexes, team.name not in teams)


def _removal(loss: _Loss) -> str:
    """The command that does it right; without --cluster it would be the whole team."""
    command = f"hpf remove-team {loss.team.name}"
    if loss.whole:
        return command
    lost = [loss.team.spec.allocations[index].cluster for index in loss.indexes]
    return ", ".join(f"{command} --cluster {cluster}" for cluster in lost)


def _in_use(allocation: Allocation) -> bool:
    return allocation.activation_state == "Enabled"


def _consents(new: Fleet) -> dict[str, Team]:
    """The team that takes the place of another, by the other's name."""
    return {team.spec.renamed_from: team for team in new.teams if team.spec.renamed_from is not None}


def _successors(base: Fleet, new: Fleet) -> dict[str, Team]:
    """By the name of a team that is gone, the new team that has its allocations, or else its file."""
    before, there = {team.name for team in base.teams}, {team.name for team in new.teams}
    gone = [team for team in base.teams if team.name not in there]
    fresh = [team for team in new.teams if team.name not in before and team.spec.renamed_from is None]
    if not gone or not fresh:
        return {}
    same = {repr(team.spec.allocations): team for team in reversed(fresh)}
    old_files, files = _own_files(base), _own_files(new)
    at_file = {files[team.name]: team for team in fresh if team.name in files}
    found = {team.name: same.get(repr(team.spec.allocations)) for team in gone}
    return {
        name: other for name, it in found.items() if (other := it or at_file.get(old_files.get(name, "")))
    }


def _own_files(fleet: Fleet) -> dict[str, str]:
    """The file of each team that has one for itself, seen from that of the Fleet document."""
    home = posixpath.dirname(fleet.document.place().file)
    files = {team.name: posixpath.relpath(team.place().file, home or ".") for team in fleet.teams}
    count = Counter(files.values())
    return {name: file for name, file in files.items() if count[file] == 1}


# --- governance


def _addons(base: Fleet, new: Fleet) -> Iterator[tuple[Cluster, str, str]]:
    """The add-on's version before and now, where it owns the Kueue objects in both."""
    for old, cluster in _kept(base, new):
        was, is_ = old.spec.governance, cluster.spec.governance
        if was is not None and is_ is not None and was.owner == is_.owner == "sagemaker":
            default = service.DEFAULT_ADDON_VERSION
            yield cluster, was.addon_version or default, is_.addon_version or default


def _jumps(was: str, is_: str) -> bool:
    before, after = walk.release(was)[:2], walk.release(is_)[:2]
    first = service.FIRST_ADDON_WITHOUT_V1ALPHA1
    return (before <= service.LAST_ADDON_WITH_V1ALPHA1 and after >= first) or (before >= first > after)


def _backends(cluster: Cluster, governance: Governance) -> dict[str, str]:
    regions = {
        "scheduler config": service.SCHEDULER_CONFIG_REGIONS,
        "compute quotas": service.COMPUTE_QUOTA_REGIONS,
    }
    return {
        name: resolve.backend(governance, cluster.spec.region, listed) for name, listed in regions.items()
    }


UPDATES = (
    another_cluster,
    vpc_change,
    group_vpc_change,
    orchestrator_change,
    kubernetes_step,
    group_type_change,
    provisioning_change,
    team_renamed,
    queue_deleted,
    queue_removed,
    addon_jump,
    addon_downgrade,
    backend_change,
    owner_change,
    teams_move,
    left_behind,
)
