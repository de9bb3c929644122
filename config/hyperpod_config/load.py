"""Read a config directory into the typed fleet, with all mistakes of all files together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ryaml import loads_all  # type: ignore[attr-defined]  # its stub hides what it documents

from hyperpod_config import findings
from hyperpod_config.findings import Finding, Place, Severity
from hyperpod_config.model import KINDS, Fleet
from hyperpod_config.source import Listing, Origin, Source, list_files, position, shown


@dataclass(frozen=True)
class Loaded:
    """What a directory holds: the fleet, and all findings sorted by place.

    `fleet` is None when any finding is an error; `sound` then has the documents that are right by themselves,
    for rules that ask nothing of the others. `broken` says that the path is no fleet at all (rules HPF001 to
    HPF003), which commands answer with exit code 2; findings within the files of a fleet are exit code 1.
    """

    fleet: Fleet | None
    findings: tuple[Finding, ...]
    broken: bool = False
    sound: Fleet | None = None


class _Entry(NamedTuple):
    """A document that says what it is, whether or not the rest of it is right."""

    kind: str
    name: str
    origin: Origin
    document: Any = None

    @property
    def place(self) -> Place:
        return self.origin.place(("metadata", "name"))


@dataclass(slots=True)
class _Reading:
    """What was read so far. `unread` counts the parts of which not even the kind is known."""

    entries: list[_Entry]
    findings: list[Finding]
    unread: int = 0


def load(directory: Path) -> Loaded:
    """Read all `*.yaml` and `*.yml` files below a directory; hidden files and directories do not count.

    Never raises for what the files hold: each mistake is a finding with its place.
    """
    here = Place(shown(directory), 1, 1)
    listing = _listing(directory, here)
    if isinstance(listing, Finding):
        return Loaded(None, (listing,), broken=True)
    reading = _Reading([], [_unreadable(*error) for error in listing.errors], len(listing.errors))
    for path in listing.files:
        source = _source(path)
        if isinstance(source, Source):
            _read(source, reading)
        else:
            reading.findings.append(source)
            reading.unread += 1
    reading.findings += _duplicates(reading.entries)
    fleets = [entry for entry in reading.entries if entry.kind == "Fleet"]
    broken = not fleets and not reading.unread
    if broken:
        reading.findings.append(findings.no_fleet(here))
    found = tuple(sorted(reading.findings, key=lambda it: (it.place, it.rule, it.message, it.hint)))
    if not fleets or any(finding.severity is Severity.ERROR for finding in found):
        return Loaded(None, found, broken, _sound(reading.entries))
    return Loaded(_fleet(reading.entries), found)


def _listing(directory: Path, here: Place) -> Listing | Finding:
    try:
        if not directory.exists():
            return findings.directory_unreadable(here, "it does not exist")
        if not directory.is_dir():
            return findings.directory_unreadable(here, "it is not a directory")
    except OSError as error:
        return findings.directory_unreadable(here, error.strerror or str(error))
    listing = list_files(directory)
    if listing.files:
        return listing
    if listing.errors:
        return findings.directory_unreadable(here, listing.errors[0][1])
    return findings.no_yaml(here)


def _unreadable(path: str, reason: str) -> Finding:
    return findings.file_unreadable(Place(shown(Path(path)), 1, 1), reason)


def _source(path: str) -> Source | Finding:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (see source._walk)
            data = file.read()
    except OSError as error:
        return _unreadable(path, error.strerror or str(error))
    try:
        return Source(path, data.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix("\ufeff")
        return findings.not_utf8(Place(shown(Path(path)), *position(before)), data[error.start], error.start)


def _read(source: Source, reading: _Reading) -> None:
    entries = _fast(source)
    if entries is None:
        _slow(source, reading)
    else:
        reading.entries += entries


def _fast(source: Source) -> list[_Entry] | None:
    """Read a file in which all is well; None when anything is not, or may not be."""
    if source.needs_care:
        return None
    try:
        values = loads_all(source.text) or []
        entries = [
            _entry(value, Origin(source, index)) for index, value in enumerate(values) if value is not None
        ]
    except (ValueError, KeyError, TypeError):  # ValidationError and ryaml's own error are ValueErrors
        return None
    return entries or None


def _entry(value: Any, origin: Origin) -> _Entry:
    document = KINDS[value["kind"]].model_validate(value, by_alias=True, by_name=False)
    return _Entry(document.kind, document.metadata.name, origin, document)


def _slow(source: Source, reading: _Reading) -> None:
    """Read a file again with places, and say what is wrong with it."""
    from hyperpod_config import explain  # noqa: PLC0415  (a clean config never needs it, nor PyYAML)

    tree = source.tree
    found = list(tree.findings)
    reading.unread += not tree.complete
    for index, node in enumerate(tree.documents):
        if node.value is None and not node.opaque:
            continue
        document = explain.document(source, index, node)
        found += document.findings
        if document.kind is None:
            reading.unread += 1
        else:
            reading.entries.append(
                _Entry(document.kind, document.name, Origin(source, index), document.model)
            )
    if tree.complete and not any(node.opaque or node.value is not None for node in tree.documents):
        found.append(findings.empty_file(Place(source.file, 1, 1)))
    reading.findings += found or _refusal(source)


def _refusal(source: Source) -> list[Finding]:
    """Say what only the fast parser refuses; the fleet would be read twice with two meanings otherwise."""
    try:
        loads_all(source.text)
    except ValueError as error:
        at = re.search(r"at line (\d+) column (\d+)", str(error))
        place = Place(source.file, int(at[1]), int(at[2])) if at else Place(source.file, 1, 1)
        return [findings.syntax(place, str(error))]
    return []


def _duplicates(entries: Iterable[_Entry]) -> Iterator[Finding]:
    """Find the second and later documents of one kind and name, and of kind Fleet."""
    first: dict[tuple[str, str], _Entry] = {}
    for entry in entries:
        if not entry.name:
            continue
        is_fleet = entry.kind == "Fleet"
        before = first.setdefault((entry.kind, "" if is_fleet else entry.name), entry)
        if before is entry:
            continue
        if is_fleet:
            yield findings.several_fleets(entry.place, entry.name, before.place)
        else:
            yield findings.duplicate_document(entry.place, entry.kind, entry.name, before.place)


def _sound(entries: list[_Entry]) -> Fleet | None:
    """The first document of each kind and name that is right by itself, if the Fleet document is one."""
    first: dict[tuple[str, str], _Entry] = {}
    for entry in entries:
        if entry.document is not None:
            first.setdefault((entry.kind, entry.name), entry)
    kinds = [kind for kind, _ in first]
    return _fleet(list(first.values())) if kinds.count("Fleet") == 1 else None


def _fleet(entries: list[_Entry]) -> Fleet:
    kinds: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for entry in sorted(entries, key=lambda entry: entry.name):
        entry.document._origin = entry.origin
        kinds[entry.kind].append(entry.document)
    return Fleet(
        document=kinds["Fleet"][0],
        clusters=tuple(kinds["Cluster"]),
        teams=tuple(kinds["Team"]),
        departments=tuple(kinds["Department"]),
    )
