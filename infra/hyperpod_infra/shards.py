"""Which stack a team belongs to, when one cluster has more teams than one stack can hold.

A team's shard is decided by a hash of its name, so that adding or removing a team never moves another. Only
when the number of shards doubles do teams move: half of each shard goes to a new one. ``teamStacks`` of the
governance config sets a number in advance, so that a growing platform never meets that day.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from hyperpod_governance import naming
from hyperpod_governance.model import ResolvedCluster, ResolvedGovernance
from hyperpod_k8s import helm

# CloudFormation takes 500 resources in a stack; beside those of teams a first shard has fewer than 20.
MAX_TEAM_RESOURCES = 450


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``count`` shards: the names of its teams and the Helm chart of their objects."""

    index: int
    count: int
    teams: frozenset[str]
    chart: Mapping[str, str]

    def holds(self, name: str) -> bool:
        """Whether something of this name belongs here."""
        return _bucket(name, self.count) == self.index


def team_shards(cluster: ResolvedCluster) -> list[Shard]:
    """Spread a cluster's teams over a power of two of shards, as few as the limits and ``teamStacks`` allow.

    Raises:
        ChartTooLargeError: a single team is more than Helm can hold.
    """
    governance, config = cluster.governance, cluster.config.spec.governance
    assert governance is not None
    assert config is not None
    count = 1
    while count < config.team_stacks:
        count *= 2
    while True:
        members = _members(governance, count)
        if all(
            _resources(governance, teams, index, count) <= MAX_TEAM_RESOURCES
            for index, teams in enumerate(members)
        ):
            try:
                return [_shard(cluster, index, count, teams) for index, teams in enumerate(members)]
            except helm.ChartTooLargeError:
                if max(map(len, members)) <= 1:
                    raise
        count *= 2


def _shard(cluster: ResolvedCluster, index: int, count: int, teams: frozenset[str]) -> Shard:
    assert cluster.governance is not None
    # In sagemaker mode the first chart also has what teams share: a few roles.
    shared = cluster.governance.owner == "sagemaker" and index == 0
    return Shard(index, count, teams, helm.helm_chart(cluster, naming.release(index), teams, shared))


def _members(governance: ResolvedGovernance, count: int) -> list[frozenset[str]]:
    shards: list[set[str]] = [set() for _ in range(count)]
    for space in governance.namespaces:
        shards[_bucket(space.team, count)].add(space.team)
    return [frozenset(teams) for teams in shards]


def _resources(governance: ResolvedGovernance, teams: frozenset[str], index: int, count: int) -> int:
    """CloudFormation resources of a shard's teams: a quota each, and an access entry for each principal."""
    quotas = len(teams) if governance.owner == "sagemaker" else 0
    principals = {arn for space in governance.namespaces for arn in space.principal_arns}
    return quotas + sum(_bucket(arn, count) == index for arn in principals)


def _bucket(name: str, count: int) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % count
