"""Which stacks hold a cluster's teams, told without synthesis wherever one stack has room for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hyperpod_config import edit
from hyperpod_config.edit import Edit, RemoveAllocation
from hyperpod_config.model import Team
from hyperpod_governance import naming
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_governance.removal import TeamStack
from hyperpod_governance.resolve import resolve

# A cluster with less than this fits into one stack of teams by far: infra/hyperpod_infra/shards.py allows 450
# resources and 850,000 bytes, and the release of their objects 1 MiB.
_SMALL_RESOURCES, _SMALL_BYTES = 200, 300_000


class Shard(NamedTuple):
    """A stack of teams: whose queues it makes, and the teams of each principal whose access it makes."""

    name: str
    teams: frozenset[str]
    principals: Mapping[str, Sequence[str]]


def shards(fleet: ResolvedFleet, cluster: ResolvedCluster) -> list[Shard]:
    """Give the stacks of teams of a cluster, in the order of their numbers."""
    governance, config = cluster.governance, cluster.config.spec.governance
    if governance is None or config is None:
        return []
    part: naming.StackPart = "governance" if governance.owner == "sagemaker" else "queues"
    if config.team_stacks == 1 and is_small(fleet, cluster):
        everyone = frozenset(space.team for space in governance.namespaces)
        return [Shard(naming.stack(fleet.name, cluster.name, part), everyone, {})]
    from hyperpod_cli.synth import use_packaged_node  # noqa: PLC0415  (only where stacks are split)

    use_packaged_node()
    from hyperpod_infra.shards import team_shards  # noqa: PLC0415  (loads jsii)
    from hyperpod_infra.stacks import tags_of_resources  # noqa: PLC0415

    return [
        Shard(naming.stack(fleet.name, cluster.name, part, each.index), each.teams, each.principals)
        for each in team_shards(cluster, tags_of_resources(fleet, cluster))
    ]


def stacks_of_team(
    fleet: ResolvedFleet, team: Team, clusters: Sequence[str]
) -> dict[str, Sequence[TeamStack]]:
    """Give the stacks of teams of some clusters, with those that the team's removal changes.

    Access that moves from one to another is taken away before it is given anew: EKS takes it only once.
    """
    found: dict[str, Sequence[TeamStack]] = {}
    for cluster in (each for each in fleet.clusters if each.name in clusters):
        before = shards(fleet, cluster)
        if len(before) == 1:
            found[cluster.name] = [TeamStack(before[0].name, before[0].teams, before[0].teams)]
            continue
        after = {each.name: each for each in shards_without(fleet, team, cluster)}
        gaining = {
            each.name
            for each in before
            if each.name in after and after[each.name].principals.keys() - each.principals.keys()
        }
        stacks = [
            TeamStack(each.name, each.teams, frozenset({team.name} if after.get(each.name) != each else ()))
            for each in before
        ]
        found[cluster.name] = sorted(stacks, key=lambda each: each.name in gaining)
    return found


def shards_without(fleet: ResolvedFleet, team: Team, cluster: ResolvedCluster) -> list[Shard]:
    """Give the stacks of teams of a cluster that a team has left."""
    changes: list[Edit] = [RemoveAllocation(team.name, cluster.name)]
    after = resolve(edit.intended(fleet.config, changes))
    return shards(after, next(each for each in after.clusters if each.name == cluster.name))


def fewer_stacks(fleet: ResolvedFleet, clusters: Sequence[str], edits: Sequence[Edit]) -> str | None:
    """Say that after a removal there would be fewer stacks, which moves other teams (docs/quotas.md)."""
    after = resolve(edit.intended(fleet.config, edits))
    for before in (each for each in fleet.clusters if each.name in clusters):
        now = next(each for each in after.clusters if each.name == before.name)
        count = len(shards(fleet, before))
        if count > 1 and len(shards(after, now)) < count:
            return (
                f"without the team, cluster {before.name} would have fewer than its {count} stacks of teams, "
                f"and others would move: write governance.teamStacks: {count} into it first"
            )
    return None


def is_small(fleet: ResolvedFleet, cluster: ResolvedCluster) -> bool:
    """Whether one stack has room for all teams without a doubt: an upper bound, with no template made."""
    governance = cluster.governance
    assert governance is not None
    people = [arn for space in governance.namespaces for arn in space.principal_arns]
    resources = len(governance.namespaces) + len(people)
    tags = {**fleet.config.document.spec.tags, **cluster.config.spec.tags}
    each = 3000 + sum(100 + 4 * len(key + value) for key, value in tags.items())
    groups = sum(300 + 4 * len(group) for space in governance.namespaces for group in space.groups)
    entries = sum(len(queue.flavors) * len(queue.resources) for queue in governance.cluster_queues)
    items = sum(
        len(quota.resources) + len(quota.absolute_borrow_limits) for quota in governance.compute_quotas
    )
    size = resources * each + groups + 200 * entries + 500 * items
    return resources <= _SMALL_RESOURCES and size <= _SMALL_BYTES
