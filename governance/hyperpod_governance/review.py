"""Review a fleet: run every rule over it, and resolve it when no rule found an error before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hyperpod_config.findings import Finding, Severity
from hyperpod_config.model import Fleet
from hyperpod_governance import rules
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.resolve import resolve


@dataclass(frozen=True, slots=True)
class Review:
    """What the rules say, sorted by place, rule and message.

    `resolved` is None when a rule over the config found an error. Rules over the resolved fleet can find
    errors too, so whoever deploys asks `findings`.
    """

    resolved: ResolvedFleet | None
    findings: tuple[Finding, ...]


def review(fleet: Fleet) -> Review:
    """Run the rules over the config and, if none finds an error, over the resolved fleet."""
    found = [finding for rule in rules.CONFIG for finding in rule(fleet)]
    if any(finding.severity is Severity.ERROR for finding in found):
        return Review(None, ordered(found))
    resolved = resolve(fleet)
    found += (finding for rule in rules.RESOLVED for finding in rule(resolved))
    return Review(resolved, ordered(found))


def review_part(fleet: Fleet) -> tuple[Finding, ...]:
    """Run the rules that say nothing false when other documents of the fleet could not be read."""
    found = (finding for rule in rules.CONFIG if rule.id not in rules.NEED_ALL for finding in rule(fleet))
    return ordered(found)


def ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by place, rule and message."""
    return tuple(sorted(found, key=lambda finding: (finding.place, finding.rule, finding.message)))
