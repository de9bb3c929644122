"""The rules: what is wrong, or worth knowing, in a fleet whose documents are well-formed.

A rule is a pure function from a fleet (`CONFIG`), a resolved fleet (`RESOLVED`), or a fleet as it was and as
it is to be (`UPDATES`), to findings. To add one, write the function with its page as docstring, decorate it,
and add it to the tuple at the end of its module.
One mistake gets one finding: a rule is silent where another one already says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_config.findings import Finding, Rule
from hyperpod_config.model import Fleet
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.rules import (
    capacity,
    cluster,
    kubernetes,
    network,
    quota,
    sharing,
    slurm,
    topology,
    updates,
)

CONFIG: tuple[Rule[[Fleet], Iterator[Finding]], ...] = (
    *cluster.CONFIG,
    *network.CONFIG,
    *slurm.CONFIG,
    *capacity.CONFIG,
    *quota.CONFIG,
    *sharing.CONFIG,
    *topology.CONFIG,
    *kubernetes.CONFIG,
)
RESOLVED: tuple[Rule[[ResolvedFleet], Iterator[Finding]], ...] = (
    *quota.RESOLVED,
    *sharing.RESOLVED,
    *kubernetes.RESOLVED,
)
UPDATES: tuple[Rule[[Fleet, Fleet], Iterator[Finding]], ...] = updates.UPDATES
NEED_ALL = frozenset({"HPF401", "HPF504", "HPF506", "HPF508"})
"""Rules over the config that conclude something from a document's absence."""
