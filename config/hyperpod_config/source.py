"""The text of a config file, and the places of what stands in it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hyperpod_config.findings import Place

if TYPE_CHECKING:
    from hyperpod_config.nodes import Tree

SUFFIXES = (".yaml", ".yml")

# The line breaks of libyaml, so that our own positions agree with its marks.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# An anchor, alias, tag or directive starts a token; in a word (R&D, arn:aws:iam::*) the same characters are
# text. A token may also follow the colon of a quoted key at once.
_MARK = re.compile(r"""(?:^|[\s\[\]{},]|["']:)[&*!%]""")


def position(before: str) -> tuple[int, int]:
    """Give the line and column, from 1, of what follows the text `before`."""
    lines = _BREAK.split(before)
    return len(lines), len(lines[-1]) + 1


def shown(path: Path) -> str:
    """Write a path as places do: relative to the current directory when below it, with `/`."""
    absolute = path.absolute()
    here = Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else absolute).as_posix()


class Source:
    """One file's text; its tree of places is made when the first place is asked for."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def file(self) -> str:
        """The path as places show it."""
        return shown(Path(self.path))

    @property
    def needs_care(self) -> bool:
        """Whether there may be what the fast parser takes and the language refuses.

        That is an anchor, alias, tag or directive (it may also be quoted text), or a byte order mark inside.
        """
        text = self.text
        if "\ufeff" in text:
            return True
        return ("&" in text or "*" in text or "!" in text or "%" in text) and bool(_MARK.search(text))

    @cached_property
    def tree(self) -> Tree:
        """The documents of the text as nodes with places, and the mistakes of the text."""
        from hyperpod_config import nodes  # noqa: PLC0415  (loads PyYAML, which a clean config never needs)

        return nodes.read(self.text, self.file)

    def place(self, document: int, path: Sequence[str | int], *, key: bool = False) -> Place:
        """Give the place of what lies at `path` of a document; the nearest existing parent answers if absent.

        A scalar is at itself; a mapping, a list and an empty value are at their key, an item of a list is at
        its start. With `key`, the place is the key's in any case.
        """
        from hyperpod_config import nodes  # noqa: PLC0415  (see tree)

        if document >= len(self.tree.documents):
            return Place(self.file, 1, 1)
        found = nodes.find(self.tree.documents[document], path)
        return found.key.place if key and found.key else found.place


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document was read: which document of which source.

    All origins are equal, because where a document stands is no part of what it says.
    """

    source: Source = field(compare=False)
    document: int = field(compare=False)

    def place(self, path: Sequence[str | int]) -> Place:
        """Give the place of the value at `path`, or of its nearest parent that the file has."""
        return self.source.place(self.document, path)


@dataclass(slots=True)
class Listing:
    """The YAML files below a directory in sorted order, and what could not be read, with the reason."""

    files: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)


def list_files(directory: Path) -> Listing:
    """List all YAML files below a directory, without hidden files and directories.

    Each directory is read once, so that a loop of symbolic links ends.
    """
    listing = Listing()
    _walk(str(directory), set(), listing)
    return listing


def _walk(directory: str, seen: set[tuple[int, int]], listing: Listing) -> None:
    try:
        status = os.stat(directory)  # noqa: PTH116  (a Path for each entry costs as much as the parse)
        with os.scandir(directory) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        listing.errors.append((directory, error.strerror or str(error)))
        return
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for entry in children:
        if not entry.name.startswith("."):
            _visit(entry, seen, listing)


def _visit(entry: os.DirEntry[str], seen: set[tuple[int, int]], listing: Listing) -> None:
    try:
        if entry.is_dir():
            _walk(entry.path, seen, listing)
        elif not entry.name.endswith(SUFFIXES):
            return
        elif entry.is_file():
            listing.files.append(entry.path)
        else:  # a pipe or device would wait for ever; a link may lead nowhere
            listing.errors.append((entry.path, "it is not a regular file"))
    except OSError as error:
        listing.errors.append((entry.path, error.strerror or str(error)))
