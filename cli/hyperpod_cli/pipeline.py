"""From a config directory to the resolved fleet and all findings: what every command begins with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hyperpod_config import assets
from hyperpod_config.findings import Finding, Severity
from hyperpod_config.load import load
from hyperpod_config.model import Fleet
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.review import review, review_part


@dataclass(frozen=True, slots=True)
class Checked:
    """A config directory that was read and checked.

    ``resolved`` is None when any finding is an error. ``broken``: the path is no fleet at all. ``notes``:
    what a person should know about the comparison with a base.
    """

    directory: Path
    resolved: ResolvedFleet | None
    findings: tuple[Finding, ...]
    broken: bool
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that stop every later stage."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)


def check(directory: Path, base: str | None = None) -> Checked:
    """Load, check and resolve the fleet in a directory; never raises for what its files hold.

    Args:
        directory: The config directory.
        base: What it is compared with, see `load_base`. None: nothing.

    Raises:
        UsageError: The base cannot be compared with.
    """
    loaded = load(directory)
    found = set(loaded.findings)
    resolved = None
    notes: tuple[str, ...] = ()
    if loaded.fleet is not None:
        reviewed = review(loaded.fleet)
        resolved = reviewed.resolved
        found.update(reviewed.findings, assets.check(loaded.fleet, directory))
        if base is not None:
            compared, notes = _compared(base, directory, loaded.fleet)
            found.update(compared)
    elif loaded.sound is not None:
        # What is wrong in the other files is said as well, not only after the first mistakes are mended.
        found.update(review_part(loaded.sound), assets.check(loaded.sound, directory))
    ordered = tuple(sorted(found, key=lambda it: (it.place, it.rule, it.message, it.hint)))
    if base is not None and loaded.fleet is None:
        notes = (f"not compared with {base}: the config cannot be read",)
    checked = Checked(directory, resolved, ordered, loaded.broken, notes)
    return replace(checked, resolved=None) if checked.errors else checked


def _compared(base: str, directory: Path, fleet: Fleet) -> tuple[list[Finding], tuple[str, ...]]:
    """What the fleet may not become of what it was, and remarks about that."""
    from hyperpod_cli.base import load_base  # noqa: PLC0415  (only who compares starts git)
    from hyperpod_governance.updates import refused  # noqa: PLC0415

    before = load_base(base, directory, fleet.name)
    found = refused(before.fleet, fleet) if before.fleet is not None else ()
    return [before.named(finding) for finding in found], before.notes
