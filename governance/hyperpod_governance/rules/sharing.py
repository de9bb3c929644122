"""HPF5xx: lending, borrowing, weights, priorities and departments."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_config.findings import Finding, Severity, rule
from hyperpod_config.model import Allocation, Department, Fleet
from hyperpod_config.suggest import did_you_mean
from hyperpod_governance import quota, service
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.resolve import borrow_limit
from hyperpod_governance.rules import walk

_GOVERNANCE = ("spec", "governance")
_SHARING = "resourceSharingConfig"


@rule("HPF501", "Borrow limit of a team that does not borrow")
def limit_without_borrowing(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `borrowLimit` or `absoluteBorrowLimits` is set with a strategy other than
    LendAndBorrow.

    **Why it matters.** A limit means something with LendAndBorrow only; it is unclear what was meant.

    **Example.** `resourceSharingConfig: {strategy: Lend, borrowLimit: 50}`.

    **Fix.** Set `strategy: LendAndBorrow`, or remove the limit.
    """
    for member in walk.members(fleet):
        sharing = member.allocation.resource_sharing_config
        if sharing.strategy == "LendAndBorrow":
            continue
        limits = {
            "borrowLimit": None if sharing.borrow_limit is None else f"{sharing.borrow_limit} %",
            "absoluteBorrowLimits": f"{len(sharing.absolute_borrow_limits)} items"
            if sharing.absolute_borrow_limits
            else None,
        }
        for key, value in limits.items():
            if value is not None:
                yield limit_without_borrowing.finding(
                    member.place(_SHARING, key),
                    f"{key} is {value}, but strategy {sharing.strategy} borrows nothing",
                    f"set strategy: LendAndBorrow or remove {key}",
                )


@rule("HPF503", "A priority class twice")
def duplicate_class(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `priorityClasses` of a cluster has a name twice.

    **Why it matters.** The name is that of a WorkloadPriorityClass: one of the weights would be lost.

    **Example.** `priorityClasses: [{name: training, weight: 70}, {name: training, weight: 80}]`.

    **Fix.** Rename or remove one of them.
    """
    for cluster, governance in walk.governed(fleet):
        seen: dict[str, int] = {}
        for index, entry in enumerate(governance.scheduler_config.priority_classes):
            if entry.name in seen:
                yield duplicate_class.finding(
                    cluster.place(*_GOVERNANCE, "schedulerConfig", "priorityClasses", index, "name"),
                    f"priority class {entry.name} is already defined with weight {seen[entry.name]}",
                    "rename or remove one of them",
                )
            seen.setdefault(entry.name, entry.weight)


@rule("HPF504", "Unknown department")
def unknown_department(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A team's `department`, or a department's `parent`, is not defined.

    **Why it matters.** Kueue would make an empty Cohort of that name, and the team would share with nobody.

    **Example.** `department: reserach`.

    **Fix.** Correct the name, or add a document of kind Department.
    """
    names = {department.name for department in fleet.departments}
    named = [(team, "department", team.spec.department) for team in fleet.teams]
    parents = [(department, "parent", department.spec.parent) for department in fleet.departments]
    for document, key, name in (*named, *parents):
        if name is not None and name not in names:
            yield unknown_department.finding(
                document.place("spec", key),
                f"{key} {name} is no Department of this fleet"
                f" ({walk.listing(sorted(names)) or 'it has none'})",
                did_you_mean(name, names) or f"add a document of kind Department named {name}",
            )


@rule("HPF505", "Departments in a circle")
def department_cycle(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A department is its own parent, or the parent of one of its parents.

    **Why it matters.** Kueue disables every queue below a circle of Cohorts.

    **Example.** Department a with `parent: b`, and b with `parent: a`.

    **Fix.** Remove `parent` from one of them.
    """
    by_name = {department.name: department for department in fleet.departments}
    done: set[str] = set()
    for department in fleet.departments:
        chain: dict[str, None] = {}
        current: Department | None = department
        while current is not None and current.name not in done and current.name not in chain:
            chain[current.name] = None
            current = by_name.get(current.spec.parent or "")
        if current is not None and current.name in chain:
            names = list(chain)
            circle = names[names.index(current.name) :]
            yield department_cycle.finding(
                current.place("spec", "parent"),
                f"departments in a circle: {' -> '.join([*circle, current.name])}",
                "remove parent from one of them",
            )
        done.update(chain)


@rule("HPF506", "A department without effect", Severity.WARNING)
def department_without_effect(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A team has a department, but every cluster it has an allocation on is of owner
    sagemaker.

    **Why it matters.** The task governance add-on puts all teams of a cluster into one Cohort; departments
    exist with owner kueue only.

    **Example.** `department: vision` and one allocation, on a cluster with `governance: {owner: sagemaker}`.

    **Fix.** Remove `department`, or give the cluster `owner: kueue`.
    """
    owners = {
        cluster.name: cluster.spec.governance.owner for cluster in fleet.clusters if cluster.spec.governance
    }
    departments = {department.name for department in fleet.departments}
    for team in fleet.teams:
        if team.spec.department not in departments:
            continue
        clusters = sorted({allocation.cluster for allocation in team.spec.allocations})
        if clusters and all(owners.get(name) == "sagemaker" for name in clusters):
            yield department_without_effect.finding(
                team.place("spec", "department"),
                f"department {team.spec.department} has no effect: {walk.listing(clusters)} is of owner"
                " sagemaker",
                "remove department, or use owner: kueue",
            )


@rule("HPF507", "Weights without fair share", Severity.WARNING)
def weight_without_fair_share(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** Teams have a `fairShareWeight`, but `fairShare` of the cluster is Disabled.

    **Why it matters.** The weights have no effect: idle capacity goes to whoever asks first.

    **Example.** `fairShare: Disabled` and a team with `fairShareWeight: 10`.

    **Fix.** Set `fairShare: Enabled`, or remove the weights.
    """
    for cluster, governance, members in walk.governed_members(fleet):
        if governance.scheduler_config.fair_share == "Enabled":
            continue
        weighted = [
            f"{member.team.name} {member.allocation.fair_share_weight}"
            for member in members
            if member.allocation.fair_share_weight
        ]
        if weighted:
            yield weight_without_fair_share.finding(
                cluster.place(*_GOVERNANCE, "schedulerConfig", "fairShare"),
                f"fairShare of cluster {cluster.name} is Disabled, so fairShareWeight has no effect:"
                f" {walk.listing(weighted)}",
                "set fairShare: Enabled or remove the weights",
            )


@rule("HPF508", "Fair share among weights of 0", Severity.WARNING)
def all_weights_zero(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `fairShare` is Enabled, and every team of the cluster has weight 0, which is the
    default.

    **Why it matters.** Weight 0 is served last; when all have it, the weights rank nobody.

    **Example.** Two teams without `fairShareWeight`.

    **Fix.** Give the teams weights from 1 to 100, or set `fairShare: Disabled`.
    """
    for cluster, governance, members in walk.governed_members(fleet):
        if governance.scheduler_config.fair_share == "Disabled" or len(members) < 2:
            continue
        if not any(member.allocation.fair_share_weight for member in members):
            yield all_weights_zero.finding(
                cluster.place(*_GOVERNANCE, "schedulerConfig", "fairShare"),
                f"fairShare is Enabled, but all {len(members)} teams of cluster {cluster.name} have"
                " fairShareWeight 0",
                "give the teams weights from 1 to 100",
            )


@rule("HPF509", "Borrow limit above the documented one", Severity.WARNING)
def high_borrow_limit(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `borrowLimit` is above 500 % on a cluster of owner sagemaker.

    **Why it matters.** The service model allows up to 10,000, but the API reference says 1 to 500: the
    service may refuse it.

    **Example.** `borrowLimit: 1000`.

    **Fix.** Take at most 500, or say the most that may be borrowed in `absoluteBorrowLimits`.
    """
    for _, governance, members in walk.governed_members(fleet):
        if governance.owner != "sagemaker":
            continue
        for member in members:
            sharing = member.allocation.resource_sharing_config
            limit = sharing.borrow_limit or 0
            if limit > service.DOCUMENTED_BORROW_LIMIT and sharing.strategy == "LendAndBorrow":
                yield high_borrow_limit.finding(
                    member.place(_SHARING, "borrowLimit"),
                    f"borrowLimit is {limit} %; the API reference says at most"
                    f" {service.DOCUMENTED_BORROW_LIMIT} %",
                    "take at most 500, or use absoluteBorrowLimits",
                )


@rule("HPF510", "Settings of two owners")
def mixed_owners(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A cluster of owner kueue has `addonVersion` or a `backend`, or one of owner
    sagemaker has `kueue`.

    **Why it matters.** Either the task governance add-on owns the Kueue objects and brings its own Kueue, or
    this repository does. Two Kueues in one cluster break each other.

    **Example.** `governance: {owner: kueue, addonVersion: v1.6.1-eksbuild.1}`.

    **Fix.** Remove the setting, or change `owner`.
    """
    for cluster, governance in walk.governed(fleet):
        foreign: dict[str, object] = {"kueue": governance.kueue}
        if governance.owner == "kueue":
            backend = None if governance.backend == "auto" else governance.backend
            foreign = {"addonVersion": governance.addon_version, "backend": backend}
        for key in (key for key, value in foreign.items() if value is not None):
            yield mixed_owners.finding(
                cluster.place(*_GOVERNANCE, key),
                f"{key} is set, but the owner of cluster {cluster.name} is {governance.owner}",
                f"remove {key}, or set owner: {'sagemaker' if governance.owner == 'kueue' else 'kueue'}",
            )


@rule("HPF511", "Nobody to share with", Severity.WARNING)
def nobody_to_share_with(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** One team alone has an allocation on a cluster, lends or borrows, and idle resource
    sharing is Disabled.

    **Why it matters.** Lending and borrowing take two quotas. The team gets its own quota and never more.

    **Example.** The first team of a new cluster.

    **Fix.** Add an allocation for another team, set `idleResourceSharing: Enabled`, or `strategy: DontLend`.
    """
    for cluster, governance, members in walk.governed_members(fleet.config):
        if len(members) != 1:
            continue
        strategy = members[0].allocation.resource_sharing_config.strategy
        if strategy != "DontLend" and governance.scheduler_config.idle_resource_sharing == "Disabled":
            yield nobody_to_share_with.finding(
                members[0].place(_SHARING, "strategy"),
                f"team {members[0].team.name} is the only one on cluster {cluster.name}: {strategy} needs"
                " 2 teams",
                "add an allocation for another team, or set idleResourceSharing: Enabled",
            )


@rule("HPF512", "Priority classes of equal weight", Severity.INFO)
def equal_weights(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** Two priority classes of a cluster have the same weight.

    **Why it matters.** Neither goes before the other, and neither preempts the other.

    **Example.** `priorityClasses: [{name: training, weight: 70}, {name: tuning, weight: 70}]`.

    **Fix.** Nothing, if that is meant; else change one of the weights.
    """
    for cluster, governance in walk.governed(fleet):
        first: dict[int, str] = {}
        for index, entry in enumerate(governance.scheduler_config.priority_classes):
            other = first.setdefault(entry.weight, entry.name)
            if other != entry.name:
                yield equal_weights.finding(
                    cluster.place(*_GOVERNANCE, "schedulerConfig", "priorityClasses", index, "weight"),
                    f"priority classes {other} and {entry.name} both have weight {entry.weight}",
                    "change one of the weights if one should go first",
                )


@rule("HPF502", "Borrow limit that comes to no device", Severity.WARNING)
def borrows_no_device(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** The borrow limit of a team, in percent of its own accelerators, rounds down to none.

    **Why it matters.** The team borrows vCPU and memory, but never an accelerator.

    **Example.** 1 GPU and `borrowLimit: 50`, which is also what holds when nothing is said.

    **Fix.** Raise `borrowLimit`, or name the devices in `absoluteBorrowLimits`.
    """
    members = walk.members_by_name(fleet.config)
    for cluster in fleet.clusters:
        for row in cluster.governance.rows if cluster.governance else ():
            if row.borrowing_limit != 0 or not row.nominal or not _is_device(row.resource):
                continue
            member = members[cluster.name, row.team]
            percent = _percentage(member.allocation)
            if percent and not quota.percent(row.nominal, row.resource, percent):
                yield borrows_no_device.finding(
                    member.place(_SHARING, "borrowLimit"),
                    f"team {row.team} may borrow {percent} % of {row.nominal} {row.resource} in {row.flavor},"
                    " which is 0 whole devices",
                    f"set borrowLimit to at least {-(-100 // row.nominal)}, or use absoluteBorrowLimits",
                )


def _percentage(allocation: Allocation) -> int:
    return borrow_limit(allocation) if allocation.resource_sharing_config.strategy == "LendAndBorrow" else 0


def _is_device(resource: str) -> bool:
    return resource.startswith(("nvidia.com/", "aws.amazon.com/neuron"))


CONFIG = (
    limit_without_borrowing,
    duplicate_class,
    unknown_department,
    department_cycle,
    department_without_effect,
    weight_without_fair_share,
    all_weights_zero,
    high_borrow_limit,
    mixed_owners,
    equal_weights,
)
RESOLVED = (borrows_no_device, nobody_to_share_with)
