"""Which stack a team belongs to, when one cluster has more teams than one stack can hold.

A team's shard is decided by a hash of its name, so that adding or removing a team never moves another. Only
when the number of shards doubles do teams move: half of each shard ``i`` goes to the new one ``i + n/2``,
whose stack is deployed later. ``teamStacks`` of the governance config sets a number in advance, so that a
growing platform never meets that day.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperpod_governance import naming
from hyperpod_governance.model import ResolvedCluster, ResolvedGovernance
from hyperpod_infra.quotas import compute_quotas
from hyperpod_k8s import helm

# CloudFormation takes 500 resources in a stack; beside those of teams a first shard has fewer than 40.
MAX_TEAM_RESOURCES = 450
# CloudFormation takes a template of 1,000,000 bytes; what is not of teams has the rest: the add-on, the
# scheduler config and the charts, each with at most 50 tags.
MAX_TEAM_BYTES = 850_000
# What stands around the properties of a team's resource: its id, its type, the imported name or ARN of the
# cluster and dependencies, with names as long as they may be.
_BYTES_AROUND = 800
# Access entries that a team takes with it. More are spread by hash, so that no team outgrows a stack.
_MAX_OWN_PRINCIPALS = 10


@dataclass(frozen=True, slots=True)
class Shard:
    """What one of a cluster's stacks of teams holds.

    Attributes:
        teams: Names of its teams.
        principals: Teams, which may be another shard's, of each IAM principal whose access entry lies here.
        chart: The Helm chart of its teams' objects: relative path to text.
    """

    index: int
    teams: frozenset[str]
    principals: Mapping[str, Sequence[str]]
    chart: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Resource:
    """A CloudFormation resource of a team; the hash of its key decides its shard."""

    key: str
    size: int


def team_shards(cluster: ResolvedCluster, tags: Mapping[str, str]) -> list[Shard]:
    """Spread a cluster's teams over a power of two of shards, as few as the limits and ``teamStacks`` allow.

    Args:
        cluster: The cluster.
        tags: Tags that each resource of its stacks has.

    Raises:
        ChartTooLargeError: a single team is more than Helm can hold.
    """
    governance, config = cluster.governance, cluster.config.spec.governance
    assert governance is not None
    assert config is not None
    teams_of = _teams_of(governance)
    keys = _keys(teams_of)
    resources = _resources(governance, teams_of, keys, tags)
    count = 1
    while count < config.team_stacks or not _fits(resources, count):
        count *= 2
    while True:
        members = _members(governance, count)
        try:
            charts = [_chart(cluster, index, teams) for index, teams in enumerate(members)]
            break
        except helm.ChartTooLargeError:
            if max(map(len, members)) <= 1:
                raise
        count *= 2
    principals: list[dict[str, Sequence[str]]] = [{} for _ in range(count)]
    for arn, teams in sorted(teams_of.items()):
        principals[_bucket(keys[arn], count)][arn] = teams
    return [Shard(index, members[index], principals[index], charts[index]) for index in range(count)]


def _teams_of(governance: ResolvedGovernance) -> dict[str, list[str]]:
    """Teams of each IAM principal: EKS takes one access entry for each principal, whatever its teams."""
    teams: dict[str, set[str]] = {}
    for space in governance.namespaces:
        for arn in space.principal_arns:
            teams.setdefault(arn, set()).add(space.team)
    return {arn: sorted(names) for arn, names in teams.items()}


def _keys(teams_of: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What decides over a principal's shard: its team, so that a team lies in one stack, or its own name."""
    own = Counter(teams[0] for teams in teams_of.values() if len(teams) == 1)
    return {
        arn: teams[0] if len(teams) == 1 and own[teams[0]] <= _MAX_OWN_PRINCIPALS else arn
        for arn, teams in teams_of.items()
    }


def _resources(
    governance: ResolvedGovernance,
    teams_of: Mapping[str, Sequence[str]],
    keys: Mapping[str, str],
    tags: Mapping[str, str],
) -> list[_Resource]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    found = [
        _Resource(team, _size(quota.render())) for team, quota in compute_quotas(governance, tags).items()
    ]
    for arn, teams in teams_of.items():
        groups = [naming.team_group(team) for team in teams]
        entry = {"KubernetesGroups": groups, "PrincipalArn": arn, "Tags": listed}
        found.append(_Resource(keys[arn], _size(entry)))
    return found


def _size(properties: Mapping[str, Any]) -> int:
    """Bytes that a resource takes in a template, as the CDK writes it: one more space for each level."""
    text = json.dumps(properties, indent=1, ensure_ascii=False)
    return len(text.encode()) + 3 * text.count("\n") + _BYTES_AROUND


def _fits(resources: Sequence[_Resource], count: int) -> bool:
    number, size = Counter[int](), Counter[int]()
    for resource in resources:
        bucket = _bucket(resource.key, count)
        number[bucket] += 1
        size[bucket] += resource.size
    return (
        max(number.values(), default=0) <= MAX_TEAM_RESOURCES
        and max(size.values(), default=0) <= MAX_TEAM_BYTES
    )


def _chart(cluster: ResolvedCluster, index: int, teams: frozenset[str]) -> dict[str, str]:
    assert cluster.governance is not None
    # In sagemaker mode the first chart also has what teams share: a few roles.
    shared = cluster.governance.owner == "sagemaker" and index == 0
    return helm.helm_chart(cluster, naming.release(index), teams, shared)


def _members(governance: ResolvedGovernance, count: int) -> list[frozenset[str]]:
    shards: list[set[str]] = [set() for _ in range(count)]
    for space in governance.namespaces:
        shards[_bucket(space.team, count)].add(space.team)
    return [frozenset(teams) for teams in shards]


def _bucket(name: str, count: int) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % count
