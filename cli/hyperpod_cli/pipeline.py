"""From a config directory to the resolved fleet and all findings: what every command begins with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hyperpod_config import assets
from hyperpod_config.findings import Finding, Severity
from hyperpod_config.load import load
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.review import review, review_part


@dataclass(frozen=True, slots=True)
class Checked:
    """A config directory that was read and checked.

    ``resolved`` is None when any finding is an error. ``broken``: the path is no fleet at all.
    """

    directory: Path
    resolved: ResolvedFleet | None
    findings: tuple[Finding, ...]
    broken: bool

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that stop every later stage."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)


def check(directory: Path) -> Checked:
    """Load, check and resolve the fleet in a directory; never raises for what its files hold."""
    loaded = load(directory)
    found = set(loaded.findings)
    resolved = None
    if loaded.fleet is not None:
        reviewed = review(loaded.fleet)
        resolved = reviewed.resolved
        found.update(reviewed.findings, assets.check(loaded.fleet, directory))
    elif loaded.sound is not None:
        # What is wrong in the other files is said as well, not only after the first mistakes are mended.
        found.update(review_part(loaded.sound), assets.check(loaded.sound, directory))
    ordered = tuple(sorted(found, key=lambda it: (it.place, it.rule, it.message, it.hint)))
    checked = Checked(directory, resolved, ordered, loaded.broken)
    return replace(checked, resolved=None) if checked.errors else checked
