"""Small changes of a config's own text: hold an allocation, remove one, remove a document.

Everything else in a file stays to the byte: comments, order, quotes, line ends, byte order mark. No library
does that: ``ruamel.yaml`` keeps comments, but writes the whole file anew in its own indentation and line
width, so that a review shows lines nobody touched; ``ryaml`` and PyYAML drop comments. So the text is cut at
the marks of libyaml's parser, which is little code because there are three changes only. What comes out is
read again and must be exactly the fleet that was meant; else nothing is changed.

A comment belongs to an item of a list when it stands in it, or directly above it at the indentation of its
dash. It goes with the item.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from hyperpod_config.findings import Place
from hyperpod_config.load import load
from hyperpod_config.model import Document, Fleet, Team
from hyperpod_config.source import Origin, Source, list_files, shown

_BREAKS = "\n\r\x85\u2028\u2029"
_BOM = "\ufeff".encode()
_BY_HAND = "{}: the text does not allow a small change: make it by hand"


class EditError(Exception):
    """A change that cannot be made safely; the message says why. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Set ``activationState: Disabled`` in a team's allocation on a cluster."""

    team: str
    cluster: str


@dataclass(frozen=True, slots=True)
class RemoveAllocation:
    """Remove a team's allocation on a cluster; the team stays."""

    team: str
    cluster: str


@dataclass(frozen=True, slots=True)
class RemoveDocument:
    """Remove a team or a cluster; allocations that name the cluster are not touched."""

    kind: Literal["Team", "Cluster"]
    name: str


Edit = Hold | RemoveAllocation | RemoveDocument


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after; ``after`` is None when the file goes."""

    path: Path
    before: bytes
    after: bytes | None

    @property
    def diff(self) -> str:
        """The change as a unified diff, as ``git diff`` words it."""
        name = shown(self.path)
        old, new = _lines(self.before), _lines(self.after or b"")
        to = "/dev/null" if self.after is None else f"b/{name}"
        lines = difflib.unified_diff(old, new, f"a/{name}", to)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


def _lines(content: bytes) -> list[str]:
    """Lines as git counts them: they end at a line feed and nowhere else."""
    return list(io.StringIO(content.decode(), newline="\n"))


def intended(fleet: Fleet, edits: Sequence[Edit]) -> Fleet:
    """Give the fleet that the edits mean, without any text.

    Raises:
        EditError: there is no such team, cluster or allocation.
    """
    for edit in edits:
        fleet = _intended(fleet, edit)
    return fleet


def place(fleet: Fleet, edit: Edit) -> Place:
    """Where an edit changes the config.

    Raises:
        EditError: there is no such team or cluster.
        ValueError: the team has no allocation there.
    """
    if isinstance(edit, RemoveDocument):
        return _find(fleet, edit.kind, edit.name).place("metadata", "name")
    team = _team(fleet, edit.team)
    index = [each.cluster for each in team.spec.allocations].index(edit.cluster)
    key = ("activationState",) if isinstance(edit, Hold) else ("cluster",)
    return team.place("spec", "allocations", index, *key)


def changes(directory: Path, fleet: Fleet, edits: Sequence[Edit]) -> tuple[FileChange, ...]:
    """Make the edits on the text of the files that the fleet was loaded from; nothing is written.

    Args:
        directory: The config directory.
        fleet: What ``load`` made of it.
        edits: In the order in which they are made.

    Raises:
        EditError: an edit names nothing that is there, a file is not what was loaded, or the text does not
            allow a small change: the edited text would not be read as the fleet that is meant.
    """
    meant = intended(fleet, edits)
    sources: dict[str, Source] = {}
    texts: dict[str, str | None] = {}
    for edit in edits:
        source = _source(fleet, edit)
        text = texts.get(source.path, source.text)
        if text is None:
            raise EditError(f"{source.file}: nothing is left to edit")
        sources[source.path] = source
        texts[source.path] = _edited(source, text, edit)
    changed = tuple(_file_change(sources[path], text) for path, text in texts.items())
    if _reload(directory, changed) != meant:
        names = ", ".join(shown(change.path) for change in changed)
        raise EditError(_BY_HAND.format(names))
    return changed


def write(changed: Sequence[FileChange]) -> None:
    """Write all files or none: new texts lie beside their files before the first is renamed.

    Raises:
        EditError: a file was changed meanwhile, is read-only or cannot be written; what was renamed is put
            back.
    """
    beside: dict[Path, Path] = {}
    begun: list[FileChange] = []
    whole = False
    try:
        for change in changed:
            with _named(change.path):
                _check(change)
        for change in changed:
            with _named(change.path):
                # What goes is renamed first: that can be undone, and a link and its mode stay what they are.
                gone = change.after is None
                beside[change.path] = _beside(change.path if gone else change.path.resolve(), change.after)
        for change in sorted(changed, key=lambda change: change.after is None):  # deletions last
            begun.append(change)
            with _named(change.path):
                if change.after is None:
                    change.path.replace(beside[change.path])
                else:
                    beside[change.path].replace(change.path.resolve())
        whole = True
    except BaseException:  # an interrupt leaves no half either
        for change in reversed(begun):
            with _named(change.path):
                _put_back(change, beside[change.path])
        raise
    finally:
        for path, other in beside.items():
            if whole or os.path.lexists(path):
                other.unlink(missing_ok=True)


def _check(change: FileChange) -> None:
    name = shown(change.path)
    if change.path.read_bytes() != change.before:
        raise EditError(f"{name} was changed meanwhile")
    # A rename does not ask for this. By the mode too: root may write everywhere.
    if not (change.path.stat().st_mode & 0o222 and os.access(change.path, os.W_OK)):
        raise EditError(f"{name} is read-only: make it writable, then run the command again")


def _put_back(change: FileChange, beside: Path) -> None:
    if change.after is None:
        if not os.path.lexists(change.path):
            beside.replace(change.path)
    elif not beside.exists():
        target = change.path.resolve()
        _beside(target, change.before).replace(target)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an error name the file of the config, not one that was made beside it."""
    try:
        yield
    except OSError as error:
        where = shown(path.resolve().parent)
        raise EditError(f"cannot write {shown(path)}: {error.strerror or error} in {where}") from error


# --- what is meant ----------------------------------------------------------------------------------------


def _intended(fleet: Fleet, edit: Edit) -> Fleet:
    if isinstance(edit, RemoveDocument):
        gone = _find(fleet, edit.kind, edit.name)
        if edit.kind == "Team":
            return replace(fleet, teams=tuple(team for team in fleet.teams if team is not gone))
        return replace(fleet, clusters=tuple(cluster for cluster in fleet.clusters if cluster is not gone))
    team = _team(fleet, edit.team)
    if not any(each.cluster == edit.cluster for each in team.spec.allocations):
        raise EditError(f"team {edit.team} has no allocation on cluster {edit.cluster}")
    if isinstance(edit, Hold):
        held = {"activation_state": "Disabled"}
        allocations = [
            each.model_copy(update=held) if each.cluster == edit.cluster else each
            for each in team.spec.allocations
        ]
    else:
        allocations = [each for each in team.spec.allocations if each.cluster != edit.cluster]
    spec = team.spec.model_copy(update={"allocations": allocations})
    changed = team.model_copy(update={"spec": spec})
    return replace(fleet, teams=tuple(changed if each is team else each for each in fleet.teams))


def _find(fleet: Fleet, kind: str, name: str) -> Document:
    found = [each for each in (fleet.teams if kind == "Team" else fleet.clusters) if each.name == name]
    if not found:
        raise EditError(f"there is no {kind} {name}")
    return found[0]


def _team(fleet: Fleet, name: str) -> Team:
    team = _find(fleet, "Team", name)
    assert isinstance(team, Team)
    return team


def _source(fleet: Fleet, edit: Edit) -> Source:
    kind, name = (edit.kind, edit.name) if isinstance(edit, RemoveDocument) else ("Team", edit.team)
    origin = _find(fleet, kind, name)._origin
    if not isinstance(origin, Origin):
        raise EditError(f"{kind} {name} was not loaded from a file")
    return origin.source


# --- from marks to text -----------------------------------------------------------------------------------


def _edited(source: Source, text: str, edit: Edit) -> str | None:
    """Give the text with one edit made; None when no document is left."""
    kind, name = (edit.kind, edit.name) if isinstance(edit, RemoveDocument) else ("Team", edit.team)
    documents = _documents(source, text)
    index = next((index for index, node in enumerate(documents) if _is(node, kind, name)), None)
    if index is None:
        raise EditError(_BY_HAND.format(source.file))
    if isinstance(edit, RemoveDocument):
        others = (node for number, node in enumerate(documents) if number != index)
        return _without_document(text, documents, index) if any(map(_is_mapping, others)) else None
    entry = _entry(documents[index], "spec", "allocations")
    if entry is None or not isinstance(entry[1], yaml.SequenceNode):
        raise EditError(_BY_HAND.format(source.file))
    for number, item in enumerate(entry[1].value):
        if isinstance(item, yaml.MappingNode) and _value(item, "cluster") == edit.cluster:
            held = isinstance(edit, Hold)
            return _held(text, item) if held else _without_item(text, entry[0], entry[1], number)
    raise EditError(_BY_HAND.format(source.file))


def _documents(source: Source, text: str) -> list[yaml.Node | None]:
    try:
        return list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise EditError(_BY_HAND.format(source.file)) from error


def _is_mapping(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.MappingNode)


def _entry(node: yaml.Node | None, *path: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Key and value at a path of keys."""
    found = None
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        found = next((pair for pair in node.value if pair[0].value == part), None)
        if found is None:
            return None
        node = found[1]
    return found


def _value(node: yaml.Node, *path: str) -> object:
    entry = _entry(node, *path)
    return entry[1].value if entry is not None else None


def _is(node: yaml.Node | None, kind: str, name: str) -> bool:
    return node is not None and _value(node, "kind") == kind and _value(node, "metadata", "name") == name


def _end(node: yaml.Node, text: str) -> int:
    """Where the content of a node ends: a block collection's own mark is at whatever comes next."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    start, end = _index(node.start_mark), _index(node.end_mark)
    return start + len(text[start:end].rstrip())


def _index(mark: Any) -> int:
    """Characters before a mark; the stubs of PyYAML leave open whether there is one."""
    return int(mark.index)


def _held(text: str, item: yaml.MappingNode) -> str:
    """Set ``activationState: Disabled`` in a mapping."""
    entry = _entry(item, "activationState")
    if entry is not None:
        return text[: entry[1].start_mark.index] + "Disabled" + text[_end(entry[1], text) :]
    end = _end(item.value[-1][1], text)
    if item.flow_style:
        return f"{text[:end]}, activationState: Disabled{text[end:]}"
    column = int(item.start_mark.column)
    at = _after_comments(text, _next_line(text, end), column)
    line = f"{' ' * column}activationState: Disabled{_line_break(text)}"
    lead = "" if text[at - 1] in _BREAKS else _line_break(text)
    return text[:at] + lead + line + text[at:]


def _without_item(text: str, key: yaml.Node, items: yaml.SequenceNode, index: int) -> str:
    """Remove an item of the list at a key; an empty list is written ``[]``."""
    if len(items.value) == 1 and items.flow_style:
        return text[: items.start_mark.index] + "[]" + text[items.end_mark.index :]
    if items.flow_style:
        start, end = _flow_item(text, items.value, index)
        return text[:start] + text[end:]
    start, end = _block_item(text, items, index)
    if len(items.value) > 1:
        return text[:start] + text[end:]
    colon = text.index(":", key.end_mark.index) + 1
    return f"{text[:colon]} []{text[colon:start]}{text[end:]}"


def _flow_item(text: str, items: Sequence[yaml.Node], index: int) -> tuple[int, int]:
    """What to cut for an item between ``[`` and ``]`` that is not the only one."""
    start, end = _index(items[index].start_mark), _end(items[index], text)
    if index + 1 < len(items):
        return start, _index(items[index + 1].start_mark)
    before, line = _end(items[index - 1], text), _line_start(text, start)
    if line <= before:
        return before, end
    # On a line of its own: the comma before it may stay, and with it a comment behind that comma.
    following = _next_line(text, end)
    alone = re.fullmatch(r"[ \t]*,?[ \t]*(#.*)?", text[end:following].rstrip(_BREAKS))
    return (line, following) if alone else (start, end)


def _block_item(text: str, items: yaml.SequenceNode, index: int) -> tuple[int, int]:
    """Lines of an item with a dash, with the comments that belong to it."""
    column = int(items.start_mark.column)
    start = _line_start(text, _index(items.value[index].start_mark))
    while text[start : start + column + 1] != " " * column + "-":
        if start == 0:
            raise EditError(_BY_HAND.format("a list item without a dash on its line"))
        start = _line_start(text, start - 1)
    while start and (above := _line_start(text, start - 1)) < start:
        if not text[above:start].startswith(" " * column + "#"):
            break
        start = above
    end = _next_line(text, _end(items.value[index], text))
    return start, _after_comments(text, end, column + 1)


def _without_document(text: str, documents: Sequence[yaml.Node | None], index: int) -> str:
    """Remove one of several documents; what stands above a first document without ``---`` stays."""
    events = list(yaml.parse(text, Loader=yaml.CSafeLoader))
    starts = [event for event in events if isinstance(event, yaml.DocumentStartEvent)]

    def begin(number: int) -> int:
        node, event = documents[number], starts[number]
        mark = event.start_mark if event.explicit or node is None else node.start_mark
        return _line_start(text, _index(mark))

    end = begin(index + 1) if index + 1 < len(documents) else len(text)
    return text[: begin(index)] + text[end:]


# --- lines ------------------------------------------------------------------------------------------------


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_start(text: str, index: int) -> int:
    """Start of the line that holds ``index``; of the line before, if ``index`` is just before a start."""
    index = max(index, 0)
    if text[index : index + 1] == "\n" and text[:index].endswith("\r"):
        index -= 1
    while index and text[index - 1] not in _BREAKS:
        index -= 1
    return index


def _next_line(text: str, index: int) -> int:
    """Start of the line after the one that holds ``index``; the end of the text if there is none."""
    while index < len(text) and text[index] not in _BREAKS:
        index += 1
    return index + (2 if text[index : index + 2] == "\r\n" else 1) if index < len(text) else index


def _after_comments(text: str, index: int, column: int) -> int:
    """Skip the lines from ``index`` on that are comments at ``column`` or deeper."""
    while index < len(text):
        end = _next_line(text, index)
        line = text[index:end]
        if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) < column:
            break
        index = end
    return index


# --- files ------------------------------------------------------------------------------------------------


def _file_change(source: Source, text: str | None) -> FileChange:
    try:
        before = Path(source.path).read_bytes()
    except OSError as error:
        raise EditError(f"cannot read {source.file}: {error.strerror or error}") from error
    mark = _BOM if before.startswith(_BOM) else b""
    if before != mark + source.text.encode():
        raise EditError(f"{source.file} was changed meanwhile: run the command again")
    return FileChange(Path(source.path), before, None if text is None else mark + text.encode())


def _reload(directory: Path, changed: Sequence[FileChange]) -> Fleet | None:
    """Read a copy of the config in which the changed files are as they shall be."""
    contents = {change.path: change.after for change in changed}
    with tempfile.TemporaryDirectory(prefix="hpf-edit-") as name:
        for path, target in _copies(directory, Path(name)):
            content = contents[path] if path in contents else path.read_bytes()
            if content is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        return load(Path(name)).fleet


def _copies(directory: Path, copy: Path) -> Iterator[tuple[Path, Path]]:
    for path in map(Path, list_files(directory).files):
        yield path, copy / path.relative_to(directory)


def _beside(target: Path, content: bytes | None) -> Path:
    """Write a new file in the directory of ``target`` with its permissions."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content or b"")
        shutil.copymode(target, fresh)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return fresh
