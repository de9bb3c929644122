"""HPF4xx: what teams are promised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hyperpod_config.findings import Finding, Place, Severity, rule
from hyperpod_config.model import Cluster, Fleet, QuotaItem
from hyperpod_config.suggest import did_you_mean
from hyperpod_governance import catalog, quota, service
from hyperpod_governance.catalog import InstanceType
from hyperpod_governance.model import (
    CPU,
    EFA,
    GPU,
    MEMORY,
    NEURON_DEVICE,
    FlavorCapacity,
    Owner,
    QuotaRow,
    ResolvedCluster,
    ResolvedFleet,
)
from hyperpod_governance.quantity import GIB, MILLI
from hyperpod_governance.rules import walk


@rule("HPF401", "Unknown cluster")
def unknown_cluster(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** An allocation names a cluster that no Cluster document defines.

    **Why it matters.** The team would get nothing.

    **Example.** `cluster: reserach`.

    **Fix.** Take the name suggested: it is the `metadata.name` of the Cluster, not its name in AWS.
    """
    names = {cluster.name for cluster in fleet.clusters}
    for member in walk.members(fleet):
        name = member.allocation.cluster
        if name not in names:
            yield unknown_cluster.finding(
                member.place("cluster"),
                f"{name} is no cluster of this fleet ({walk.listing(sorted(names)) or 'it has none'})",
                did_you_mean(name, names),
            )


@rule("HPF402", "Allocation on a cluster without governance")
def ungoverned_cluster(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** An allocation names a Slurm cluster, or an EKS cluster without `governance`.

    **Why it matters.** Nothing enforces the quota there. Task governance exists for EKS only.

    **Example.** `cluster: pretrain` where pretrain is a Slurm cluster.

    **Fix.** Add `governance` to the EKS cluster, or remove the allocation.
    """
    clusters = {cluster.name: cluster for cluster in fleet.clusters}
    for member in walk.members(fleet):
        cluster = clusters.get(member.allocation.cluster)
        if cluster is None or cluster.spec.governance is not None:
            continue
        if cluster.spec.orchestrator.slurm:
            reason, hint = "is a Slurm cluster, which has no quotas", "remove the allocation"
        else:
            reason, hint = "has no governance", "add spec.governance to the cluster"
        yield ungoverned_cluster.finding(member.place("cluster"), f"cluster {cluster.name} {reason}", hint)


# --- what an item names: only on governed clusters whose own instance types are all known -------------------


@dataclass(slots=True)  # not frozen: that triples the time to make one, and rules make thousands
class _Item:
    """A quota item and what it covers on its cluster."""

    cluster: Cluster
    owner: Owner
    member: walk.Member
    path: walk.Path
    item: QuotaItem
    present: tuple[InstanceType, ...]
    covered: tuple[InstanceType, ...]

    def place(self, *path: str) -> Place:
        return self.member.place(*self.path, *path)

    @property
    def selector(self) -> str:
        return " ".join(self.item.selector)

    @property
    def wants_devices(self) -> bool:
        return bool(self.item.accelerators) or self.item.accelerator_partition is not None


def _items(fleet: Fleet) -> Iterator[_Item]:
    for cluster, governance, members in walk.governed_members(fleet):
        groups = cluster.spec.instance_groups
        # The types that nodes are counted as; see Pool.instance_type.
        counted = [walk.known(name) for name in sorted({group.instance_types[0] for group in groups})]
        present = tuple(kind for kind in counted if kind is not None)
        if len(present) < len(counted):
            continue
        covers: dict[tuple[str | None, ...], tuple[InstanceType, ...]] = {}
        for member in members:
            for path, item in walk.items(member.allocation):
                selector = item.instance_type, item.instance_family, item.hardware
                covered = covers.get(selector)
                if covered is None:
                    covered = covers[selector] = _covered(item, present)
                if covered or item.instance_type is None:
                    yield _Item(cluster, governance.owner, member, path, item, present, covered)


def _covered(item: QuotaItem, present: Sequence[InstanceType]) -> tuple[InstanceType, ...]:
    """What an item's selector covers; nothing for a type that the catalog does not have (HPF101 says so)."""
    if item.instance_type is None:
        return tuple(kind for kind in present if quota.matches(kind, item))
    kind = walk.known(item.instance_type)
    return () if kind is None else (kind,)


@rule("HPF403", "Quota of an instance type that the cluster lacks", Severity.WARNING)
def type_not_in_cluster(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** An item names an instance type that no instance group of the cluster has.

    **Why it matters.** It is legal and plans for growth, but until a group has the type no job runs on it.

    **Example.** `instanceType: ml.g5.2xlarge` on a cluster that has ml.g6.12xlarge only.

    **Fix.** Correct the type, or add a group of it; nothing, if the group comes later.
    """
    for cluster, _, members in walk.governed_members(fleet):
        in_groups = {name for _, group in walk.instance_groups(cluster) for name in group.instance_types}
        if not all(map(walk.known, in_groups)):
            continue
        for member in members:
            for path, item in walk.items(member.allocation):
                name = item.instance_type
                if name and name not in in_groups and walk.known(name):
                    yield type_not_in_cluster.finding(
                        member.place(*path, "instanceType"),
                        f"no instance group of cluster {cluster.name} has {name}"
                        f" ({walk.listing(sorted(in_groups))})",
                        "correct the type, or leave it if such a group comes later",
                    )


@rule("HPF404", "Nothing of that kind in the cluster")
def selector_covers_nothing(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `instanceFamily` or `hardware` covers no instance type of the cluster.

    **Why it matters.** A family or a kind of hardware stands for the types that the cluster has; without one
    it is unknown what to promise. Name an `instanceType` to plan ahead.

    **Example.** `instanceFamily: g5` on a cluster that has g6 only.

    **Fix.** Take a family that the cluster has, or name the `instanceType`.
    """
    for entry in _items(fleet):
        if not entry.covered:
            key, value = entry.item.selector
            families = {kind.family for kind in entry.present} if key == "instanceFamily" else set()
            names = walk.listing([kind.name for kind in entry.present])
            yield selector_covers_nothing.finding(
                entry.place(key),
                f"{entry.selector} covers no instance type of cluster {entry.cluster.name} ({names})",
                did_you_mean(value, families) or "name an instanceType to plan ahead",
            )


@rule("HPF405", "Accelerators of types without accelerators")
def no_accelerators(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `accelerators` or `acceleratorPartition` is asked of instance types that have none.

    **Why it matters.** There is nothing that the figure could count.

    **Example.** `{instanceType: ml.m5.2xlarge, accelerators: 2}`.

    **Fix.** Ask for `vCpu` or `memoryInGiB`, or name a type with accelerators.
    """
    for entry in _items(fleet):
        if entry.covered and entry.wants_devices and not any(kind.accelerators for kind in entry.covered):
            key = "accelerators" if entry.item.accelerators else "acceleratorPartition"
            partition = entry.item.accelerator_partition
            count = entry.item.accelerators or (partition.count if partition else 0)
            yield no_accelerators.finding(
                entry.place(key),
                f"{key} asks for {count}, but {entry.selector} has 0 accelerators",
                "ask for vCpu or memoryInGiB, or name a type with accelerators",
            )


@rule("HPF408", "MIG profile that cannot be had")
def mig_profile(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** No covered instance type has GPUs with that MIG profile; or, with owner sagemaker,
    the API does not know the profile.

    **Why it matters.** The service refuses it, and no node could ever offer such a slice.

    **Example.** `{instanceType: ml.p5.48xlarge, acceleratorPartition: {type: mig-1g.5gb, count: 4}}`: that
    profile is of A100 GPUs, p5 has H100.

    **Fix.** Take one of the profiles that the message names.
    """
    for entry in _items(fleet):
        partition = entry.item.accelerator_partition
        kinds = [kind for kind in entry.covered if kind.accelerators]
        if partition is None or not kinds:
            continue
        offered = sorted({profile for kind in kinds for profile in kind.mig_profiles})
        known = catalog.compute_quota_mig_profiles() if entry.owner == "sagemaker" else set(offered)
        taken = [profile for profile in offered if profile in known]
        if partition.type not in taken:
            reason = (
                "is not known to the compute quota API"
                if partition.type in offered
                else "does not exist there"
            )
            yield mig_profile.finding(
                entry.place("acceleratorPartition", "type"),
                f"{partition.type} of {entry.selector} {reason}; allowed: {walk.listing(taken, 8) or 'none'}",
                did_you_mean(partition.type, taken) or "ask for accelerators",
            )


@rule("HPF409", "Whole instances without EFA", Severity.WARNING)
def whole_without_efa(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `accelerators` covers whole instances of a type with EFA, and says nothing else.

    **Why it matters.** Only `count` includes the EFA interfaces. A job over several nodes asks for them, and
    with a quota of none it is never admitted.

    **Example.** `{instanceType: ml.p5.48xlarge, accelerators: 8}` is one whole instance without its 32
    interfaces.

    **Fix.** Write `count` instead, as the hint says.
    """
    for entry in _items(fleet):
        item = entry.item
        if not item.accelerators or item.v_cpu is not None or item.memory_in_gib is not None:
            continue
        if len(entry.covered) != 1 or item.accelerator_partition is not None:
            continue
        kind = entry.covered[0]
        if kind.efa_interfaces and kind.accelerators and item.accelerators % kind.accelerators == 0:
            count = item.accelerators // kind.accelerators
            yield whole_without_efa.finding(
                entry.place("accelerators"),
                f"accelerators: {item.accelerators} of {kind.name} is {count} whole"
                f" instance{'s' * (count > 1)}, but without EFA ({kind.efa_interfaces} interfaces each)",
                f"write count: {count} to include EFA",
            )


@rule("HPF410", "Two allocations of one team on one cluster")
def duplicate_allocation(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A team has two allocations with the same `cluster`.

    **Why it matters.** A team has one compute quota, and one queue, on a cluster.

    **Example.** One allocation for g5 and another for p5, both on `research`.

    **Fix.** Merge their quota items into one allocation.
    """
    for team in fleet.teams:
        first: dict[str, int] = {}
        for index, allocation in enumerate(team.spec.allocations):
            before = first.setdefault(allocation.cluster, index)
            if before != index:
                place = team.place("spec", "allocations", before, "cluster")
                yield duplicate_allocation.finding(
                    team.place("spec", "allocations", index, "cluster"),
                    f"team {team.name} already has an allocation on {allocation.cluster} at {place}",
                    "merge the quota items into one allocation",
                )


@rule("HPF412", "An allocation that promises nothing", Severity.WARNING)
def empty_quota(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** An allocation has neither `quota` nor `absoluteBorrowLimits`.

    **Why it matters.** A `borrowLimit` is a percentage of the own quota, so the team can borrow nothing
    either: none of its jobs ever runs.

    **Example.** `- {cluster: research, quota: []}`.

    **Fix.** Add quota items; or `absoluteBorrowLimits` for a team that only borrows.
    """
    for member in walk.members(fleet):
        allocation = member.allocation
        if not allocation.quota and not allocation.resource_sharing_config.absolute_borrow_limits:
            yield empty_quota.finding(
                member.place("quota"),
                f"team {member.team.name} is promised 0 of everything on cluster {allocation.cluster}"
                " and can borrow nothing",
                "add quota items, or absoluteBorrowLimits for a team that only borrows",
            )


@rule("HPF413", "Add-on too old for fine-grained quotas")
def addon_too_old(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A team is promised accelerators, vCPU or memory instead of whole instances, and
    `addonVersion` is older than v1.3.

    **Why it matters.** Fine-grained quotas came with version 1.3 of the task governance add-on.

    **Example.** `addonVersion: v1.2.0-eksbuild.1` and `{instanceType: ml.p5.48xlarge, accelerators: 2}`.

    **Fix.** Pin v1.3 or newer. Know what an upgrade does before making one in place.
    """
    needed = service.FINE_GRAINED_ADDON_VERSION
    for cluster, governance, members in walk.governed_members(fleet):
        version = governance.addon_version if governance.owner == "sagemaker" else None
        if version is None or walk.release(version) >= walk.release(needed):
            continue
        for member in members:
            fine = [path for path, item in walk.items(member.allocation) if item.count is None]
            if fine:
                yield addon_too_old.finding(
                    cluster.place("spec", "governance", "addonVersion"),
                    f"addonVersion is {version}; the fine-grained quota of team {member.team.name}"
                    f" ({member.place(*fine[0])}) needs {needed}",
                    f"set addonVersion: {service.DEFAULT_ADDON_VERSION}",
                )
                break


# --- figures: rules over the resolved fleet -----------------------------------------------------------------


_UNITS = {
    GPU: ("GPUs", 1),
    NEURON_DEVICE: ("Neuron devices", 1),
    CPU: ("vCPU", MILLI),
    MEMORY: ("GiB of memory", GIB),
    EFA: ("EFA interfaces", 1),
}


@dataclass(frozen=True, slots=True)
class _Excess:
    """Resources of one flavor that are promised beyond what there is, in the order of `_UNITS`."""

    capacity: FlavorCapacity
    promised: Mapping[str, int | Fraction]
    available: Mapping[str, int]

    def words(self) -> str:
        shown = []
        for resource, amount in self.promised.items():
            unit, scale = _UNITS[resource]
            shown.append(
                f"{_number(amount, scale)} of {_number(self.available.get(resource, 0), scale)} {unit}"
            )
        return ", ".join(shown)


def _number(amount: int | Fraction, scale: int) -> str:
    return f"{float(Fraction(amount) / scale):.2f}".rstrip("0").rstrip(".")


def _excesses(cluster: ResolvedCluster, *, minimum: bool) -> Iterator[_Excess]:
    rows: dict[tuple[str, str], int] = {}
    for row in cluster.governance.rows if cluster.governance else ():
        key = row.flavor, row.resource
        rows[key] = rows.get(key, 0) + row.nominal
    promised: dict[str, dict[str, int | Fraction]] = {}
    for (flavor, name), nominal in rows.items():
        amounts = promised.setdefault(flavor, {})
        resource, amount = quota.of_whole_devices(name, nominal)
        amounts[resource] = amounts.get(resource, 0) + amount
    for capacity in cluster.capacity:
        available = capacity.minimum if minimum else capacity.target
        sums = promised.get(capacity.flavor, {})
        over = {name: sums[name] for name in _UNITS if sums.get(name, 0) > available.get(name, 0)}
        if over:
            yield _Excess(capacity, over, available)


@rule("HPF406", "More promised than the cluster has", Severity.WARNING)
def promised_above_target(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** The quotas of all teams for an instance type add up to more than its groups have at
    `instanceCount`. MIG slices count as sevenths of a GPU.

    **Why it matters.** It is legal and plans for growth. But Kueue believes the sum: it admits jobs whose
    pods then stay Pending, and a team may find what it was promised in use by others who are within their
    quota.

    **Example.** 12 and 8 instances of ml.p5.48xlarge promised, `instanceCount: 16`.

    **Fix.** Lower a quota or raise `instanceCount`; nothing, if the capacity comes later.
    """
    members = walk.members_by_name(fleet.config)
    for cluster in fleet.clusters:
        for excess in _excesses(cluster, minimum=False):
            flavor = excess.capacity.flavor
            largest = _contributors(cluster, flavor, next(iter(excess.promised)))
            member = members[cluster.name, largest[0][0]]
            names = walk.listing([f"{team} {amount}" for team, amount in largest])
            yield promised_above_target.finding(
                _item_place(member, flavor),
                f"teams are promised {excess.words()} of {flavor} on cluster {cluster.name}"
                f" ({excess.capacity.nodes} instances): {names}",
                "lower a quota or raise instanceCount, or leave it if capacity is to grow",
            )


def _contributors(cluster: ResolvedCluster, flavor: str, resource: str) -> list[tuple[str, str]]:
    """Teams and what they are promised of a resource, the largest amount first."""
    amounts: dict[str, int | Fraction] = {}
    for row in cluster.governance.rows if cluster.governance else ():
        name, amount = quota.of_whole_devices(row.resource, row.nominal)
        if row.flavor == flavor and name == resource and amount:
            amounts[row.team] = amounts.get(row.team, 0) + amount
    ordered = sorted(amounts, key=lambda team: (-amounts[team], team))
    return [(team, _number(amounts[team], _UNITS[resource][1])) for team in ordered]


def _item_place(member: walk.Member, flavor: str) -> Place:
    """Place of the first quota item of an allocation that covers an instance type."""
    kind = catalog.instance_type(flavor)
    indexes = (index for index, item in enumerate(member.allocation.quota) if quota.matches(kind, item))
    return member.place("quota", next(indexes, 0))


@rule("HPF407", "More promised than is sure to be there", Severity.INFO)
def promised_above_minimum(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** The quotas of all teams for an instance type fit in `instanceCount`, but add up to
    more than its groups have at `minInstanceCount`.

    **Why it matters.** The minimum is all that must be there for the cluster to be InService. Until the rest
    comes, Kueue admits jobs whose pods then stay Pending.

    **Example.** 12 instances promised, `instanceCount: 16, minInstanceCount: 8`.

    **Fix.** Nothing, if the teams can wait; else raise `minInstanceCount`.
    """
    for cluster in fleet.clusters:
        if cluster.config.spec.node_provisioning_mode is None:
            continue
        found = list(_excesses(cluster, minimum=True))
        already = {excess.capacity.flavor for excess in _excesses(cluster, minimum=False)} if found else set()
        for excess in found:
            flavor = excess.capacity.flavor
            if flavor in already:
                continue
            path = next(
                path
                for path, group in walk.instance_groups(cluster.config)
                if group.instance_types[0] == flavor
            )
            yield promised_above_minimum.finding(
                cluster.config.place(*path, "minInstanceCount"),
                f"teams are promised {excess.words()} of {flavor} on cluster {cluster.name} at"
                " minInstanceCount"
                f" ({excess.capacity.minimum_nodes} of {excess.capacity.nodes} instances)",
                "raise minInstanceCount if the teams cannot wait for the rest",
            )


@rule("HPF411", "Too many entries in one quota")
def too_many_entries(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** With owner sagemaker, the quota or the absolute borrow limits of an allocation come
    to more than 15 entries. An item of a family or of a kind of hardware becomes one for each instance type.

    **Why it matters.** The API takes 15.

    **Example.** `hardware: nvidia` on a cluster with 16 GPU instance types.

    **Fix.** Name fewer types, or spread the team over two clusters.
    """
    limit = service.MAX_COMPUTE_QUOTA_RESOURCES
    members = walk.members_by_name(fleet.config)
    for cluster in fleet.clusters:
        for entry in cluster.governance.compute_quotas if cluster.governance else ():
            for path, resources in (
                (("quota",), entry.resources),
                (("resourceSharingConfig", "absoluteBorrowLimits"), entry.absolute_borrow_limits),
            ):
                if len(resources) > limit:
                    yield too_many_entries.finding(
                        members[cluster.name, entry.team].place(*path),
                        f"{path[-1]} of team {entry.team} comes to {len(resources)} entries on cluster"
                        f" {cluster.name}; the API takes {limit}",
                        "name fewer instance types",
                    )


@rule("HPF415", "More than Kubernetes can count")
def beyond_int64(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** The quotas of all teams for a resource of an instance type, or the most that a team
    may borrow of it, come to 2^63 - 1 base units or more: 8,589,934,591 GiB of memory.

    **Why it matters.** The API server cuts a larger amount down to that one, so what is stored is not what
    was applied; and Kueue takes it for no limit at all.

    **Example.** `{instanceType: ml.p5.48xlarge, count: 10000000}`.

    **Fix.** Write the amount that is meant.
    """
    members = walk.members_by_name(fleet.config)
    for cluster in fleet.clusters:
        for row in _uncountable(cluster):
            borrows = (row.borrowing_limit or 0) >= service.MAX_AMOUNT
            amount = row.borrowing_limit if borrows else row.nominal
            unit, scale = _UNITS.get(row.resource, (row.resource, 1))
            yield beyond_int64.finding(
                (_limit_place if borrows else _item_place)(members[cluster.name, row.team], row.flavor),
                f"with the {_number(amount or 0, scale)} {unit} of {row.flavor} for team {row.team}, cluster"
                f" {cluster.name} has more than the {service.MAX_AMOUNT // scale} {unit} that can be counted",
                "write the amount that is meant",
            )
            break


def _uncountable(cluster: ResolvedCluster) -> Iterator[QuotaRow]:
    """Rows at which a sum of quotas, or a borrow limit by itself, is past what a quantity holds."""
    sums: dict[tuple[str, str], int] = {}
    for row in cluster.governance.rows if cluster.governance else ():
        key = row.flavor, row.resource
        sums[key] = sums.get(key, 0) + row.nominal
        if max(sums[key], row.borrowing_limit or 0) >= service.MAX_AMOUNT:
            yield row


def _limit_place(member: walk.Member, flavor: str) -> Place:
    """Place of the absolute borrow limit that covers an instance type, else of the percentage."""
    kind = catalog.instance_type(flavor)
    limits = member.allocation.resource_sharing_config.absolute_borrow_limits
    for index, item in enumerate(limits):
        if quota.matches(kind, item):
            return member.place("resourceSharingConfig", "absoluteBorrowLimits", index)
    return member.place("resourceSharingConfig", "borrowLimit")


@rule("HPF414", "Accelerators without vCPU or memory", Severity.WARNING)
def accelerators_alone(fleet: ResolvedFleet) -> Iterator[Finding]:
    """**What it means.** A team is promised accelerators of an instance type, but no vCPU or no memory of it.

    **Why it matters.** Every pod asks for vCPU and memory too. With a quota of none the team can use its
    accelerators, or take them back from a borrower, only while others lend it the rest.

    **Example.** `{instanceType: ml.p5.48xlarge, accelerators: 2, vCpu: 0}`.

    **Fix.** Leave `vCpu` and `memoryInGiB` out, so that they follow the accelerators, or set them above 0.
    """
    members = walk.members_by_name(fleet.config)
    for cluster in fleet.clusters:
        for (team, flavor), amounts in _by_flavor(
            cluster.governance.rows if cluster.governance else ()
        ).items():
            device = catalog.instance_type(flavor).accelerator_resource
            missing = [key for name, key in ((CPU, "vCPU"), (MEMORY, "memory")) if not amounts.get(name)]
            if missing and device and amounts.get(device):
                yield accelerators_alone.finding(
                    _item_place(members[cluster.name, team], flavor),
                    f"team {team} is promised {_number(amounts[device], 1)} {_UNITS[device][0]} of {flavor}"
                    f" but 0 {' and 0 '.join(missing)}",
                    "leave vCpu and memoryInGiB out, or set them above 0",
                )


@rule("HPF416", "A former name that is no former name")
def former_name(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `renamedFrom` is the team's own name, or that of a team that exists, or stands in
    two teams.

    **Why it matters.** It is a word of consent to delete the queue of a team that is gone, because one other
    team takes its place. It must be clear which.

    **Example.** Team sight with `renamedFrom: vision`, while the file of team vision is still there.

    **Fix.** Remove the old team's document, or `renamedFrom`.
    """
    names = {team.name for team in fleet.teams}
    first: dict[str, str] = {}
    for team in fleet.teams:
        former = team.spec.renamed_from
        if former is None:
            continue
        other = first.setdefault(former, team.name)
        if former == team.name:
            problem, hint = "its own name", "remove renamedFrom"
        elif former in names:
            problem, hint = "a team that exists", f"remove renamedFrom, or the document of team {former}"
        elif other != team.name:
            problem, hint = f"also said by team {other}", "remove renamedFrom from one of them"
        else:
            continue
        yield former_name.finding(
            team.place("spec", "renamedFrom"),
            f"renamedFrom of team {team.name} is {former}, which is {problem}",
            hint,
        )


def _by_flavor(rows: Iterable[QuotaRow]) -> dict[tuple[str, str], dict[str, int | Fraction]]:
    found: dict[tuple[str, str], dict[str, int | Fraction]] = {}
    for row in rows:
        amounts = found.setdefault((row.team, row.flavor), {})
        resource, amount = quota.of_whole_devices(row.resource, row.nominal)
        amounts[resource] = amounts.get(resource, 0) + amount
    return found


CONFIG = (
    unknown_cluster,
    ungoverned_cluster,
    type_not_in_cluster,
    selector_covers_nothing,
    no_accelerators,
    mig_profile,
    whole_without_efa,
    duplicate_allocation,
    empty_quota,
    addon_too_old,
    former_name,
)
RESOLVED = (
    promised_above_target,
    promised_above_minimum,
    too_many_entries,
    beyond_int64,
    accelerators_alone,
)
