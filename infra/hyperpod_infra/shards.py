"""Which stack a team belongs to, when one cluster has more teams than one stack can hold.

A team's shard is decided by a hash of its name, so that adding or removing a team never moves another. Only
when the number of shards doubles do teams move: half of each shard goes to a new one. ``teamStacks`` of the
governance config sets a number in advance, so that a growing platform never meets that day.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

# CloudFormation takes 500 resources in a stack. A team is one quota and its access entries (on average two at
# most); the rest of the stack needs about 40. Helm's own limit (a release of 1 MiB) is at about 2,000 teams.
TEAMS_PER_STACK = 200


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``count`` shards, with the names of its teams."""

    index: int
    count: int
    teams: frozenset[str]

    def holds(self, name: str) -> bool:
        """Whether something of this name belongs here."""
        return _bucket(name, self.count) == self.index


def team_shards(teams: Iterable[str], least: int = 1) -> list[Shard]:
    """Spread teams over a power of two of shards, none above ``TEAMS_PER_STACK``, at least ``least``."""
    names = sorted(teams)
    count = 1
    while count < least:
        count *= 2
    while True:
        shards: list[list[str]] = [[] for _ in range(count)]
        for name in names:
            shards[_bucket(name, count)].append(name)
        if all(len(shard) <= TEAMS_PER_STACK for shard in shards):
            return [Shard(index, count, frozenset(members)) for index, members in enumerate(shards)]
        count *= 2


def _bucket(name: str, count: int) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % count
