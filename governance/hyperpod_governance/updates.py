"""What a fleet that is deployed may not become."""

from __future__ import annotations

from hyperpod_config.findings import Finding
from hyperpod_config.model import Fleet
from hyperpod_governance import rules
from hyperpod_governance.review import ordered


def refused(base: Fleet, new: Fleet) -> tuple[Finding, ...]:
    """Compare two fleets that were loaded; never raises for what they say, be it right or wrong.

    Args:
        base: The fleet as it was, which is taken to be deployed.
        new: The fleet as it is to be.

    Returns:
        Findings of the rules over updates, sorted as a review is. Places of what was removed are the base's.
    """
    return ordered(finding for rule in rules.UPDATES for finding in rule(base, new))
