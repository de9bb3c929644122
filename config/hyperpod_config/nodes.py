"""The slow reading of one YAML text: every value with its place, every mistake of the text itself.

The fast path (``ryaml``) knows no places and stops at its first mistake. Both stand on libyaml's scanner, so
they agree on what a text says; this one is imported only when something is wrong or a place is asked for.
It builds its tree from the parser's events without recursion, so that no nesting can exhaust a stack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from hyperpod_config import findings
from hyperpod_config.source import position

if TYPE_CHECKING:
    from hyperpod_config.findings import Finding, Place

MAX_DEPTH = 128
"""Deepest nesting that is read; the fast parser's own limit."""

# What libyaml's reader refuses (YAML 1.2, production 1, `c-printable`), and a byte order mark, which libyaml
# takes for a part of the word behind it.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_INTEGER = re.compile(r"[-+]?(0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_ZERO_LED = re.compile(r"[-+]?0[0-9]+")
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float("inf") for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{"-" + word: float("-inf") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_MARKS = {"anchor": "&", "alias": "*", "directive": "%"}


@dataclass(slots=True, eq=False)
class Node:
    """A value of the text: a scalar, a list of nodes, or a mapping of key to key node and value node."""

    place: Place
    value: Any = None
    text: str | None = None
    """A scalar as it is written, without its quotes."""
    opaque: bool = False
    """The value is not known, and a finding already says why."""
    pending: Node | None = None
    """While a mapping is read: its key that waits for a value."""

    def plain(self) -> object:
        """Give the value as the fast parser gives it; None for what is not known."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, (_, node) in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(slots=True)
class Tree:
    """All documents of one text, up to the first mistake that stops the parser."""

    documents: list[Node] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    complete: bool = True


@dataclass(slots=True)
class Found:
    """What lies at a path, or at its nearest parent that exists."""

    node: Node
    key: Node | None
    whole: bool
    """Whether the path was followed to its end."""

    @property
    def place(self) -> Place:
        """Place of a scalar itself, and of the key of a mapping, list or empty value."""
        if self.key is not None and not self.node.text:
            return self.key.place
        return self.node.place


def find(document: Node, path: Sequence[str | int]) -> Found:
    """Follow a path of keys and indexes; stop at the last part that exists."""
    found = Found(document, None, True)
    for part in path:
        value = found.node.value
        if isinstance(value, dict) and part in value:
            key, node = value[part]
            found = Found(node, key, True)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            found = Found(value[part], None, True)
        else:
            return Found(found.node, found.key, False)
    return found


def scalar(text: str) -> object:
    """Give the value of an unquoted scalar (YAML 1.2 core schema, spelled as the fast parser reads it).

    Raises OverflowError for a whole number that neither parser of this package can hold.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _ZERO_LED.fullmatch(text):
        return text
    if len(text) <= 160 and _INTEGER.fullmatch(text):
        number = int(text, 0)
        if -(2**63) <= number < 2**64:
            return number
        if -(2**127) <= number < 2**128:
            raise OverflowError(text)
    if _FLOAT.fullmatch(text):
        real = float(text)
        return text if abs(real) == float("inf") else real
    return text


def read(text: str, file: str) -> Tree:
    """Read a text whole; mistakes become findings of the tree, never exceptions."""
    bad = _UNPRINTABLE.search(text)
    if bad:
        place = findings.Place(file, *position(text[: bad.start()]))
        problem = f"the control character U+{ord(bad[0]):04X} is not allowed in YAML"
        return Tree([], [findings.syntax(place, problem)], complete=False)
    return _Reader(file).read(text)


class _Reader:
    """Turns the events of one text into a tree."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.tree = Tree()
        self.stack: list[Node] = []

    def read(self, text: str) -> Tree:
        try:
            for event in yaml.parse(text, yaml.CSafeLoader):
                if not self._take(event):
                    self.tree.complete = False
                    break
        except yaml.MarkedYAMLError as error:
            self.tree.complete = False
            place = self._place(error.problem_mark or error.context_mark)
            self.tree.findings.append(findings.syntax(place, *_reason(error, text, place)))
        except yaml.YAMLError as error:
            self.tree.complete = False
            self.tree.findings.append(findings.syntax(findings.Place(self.file, 1, 1), str(error)))
        if self.stack:  # the last document stopped half-way: what it lacks may stand in what was not read
            self.tree.documents.pop()
        return self.tree

    def _place(self, mark: Any) -> Place:
        line, column = (mark.line, mark.column) if mark else (0, 0)
        return findings.Place(self.file, line + 1, column + 1)

    def _take(self, event: yaml.Event) -> bool:
        """Take one event; False ends the reading."""
        if isinstance(event, yaml.DocumentStartEvent):
            if event.version or event.tags:
                self._outside(event, "directive", "YAML" if event.version else "TAG")
        elif isinstance(event, yaml.NodeEvent):
            return self._node(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.stack.pop()
        return True

    def _node(self, event: Any) -> bool:
        node = Node(self._place(event.start_mark))
        if isinstance(event, yaml.AliasEvent):
            self._outside(event, "alias", event.anchor or "")
            node.opaque = True
            self._add(node)
            return True
        if event.anchor:
            self._outside(event, "anchor", event.anchor)
        if event.tag:
            self._outside(event, "tag", event.tag)
            node.opaque = isinstance(event, yaml.ScalarEvent)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(node, event)
            return True
        node.value = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._add(node)
        self.stack.append(node)
        if len(self.stack) > MAX_DEPTH:
            self.tree.findings.append(
                findings.syntax(node.place, f"nested more than {MAX_DEPTH} levels deep")
            )
            return False
        return True

    def _scalar(self, node: Node, event: yaml.ScalarEvent) -> None:
        node.text = event.value
        if event.value == "<<" and not event.style and self._at_key:
            self._outside(event, "merge key", "<<")
            node.opaque = True
        try:
            node.value = event.value if event.style or node.opaque else scalar(event.value)
        except OverflowError:
            self.tree.findings.append(findings.number_too_large(node.place, event.value))
            node.opaque = True
        self._add(node)

    @property
    def _at_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].pending is None

    def _add(self, node: Node) -> None:
        """Put a node where it belongs: a document, an item, a key, or the value of the key before it."""
        if not self.stack:
            self.tree.documents.append(node)
            return
        parent = self.stack[-1]
        if isinstance(parent.value, list):
            parent.value.append(node)
        elif parent.pending is None:
            parent.pending = node
            if not isinstance(node.value, str) and not node.opaque:
                self.tree.findings.append(findings.key_not_text(node.place, node.text))
        else:
            key, parent.pending = parent.pending, None
            self._entry(parent.value, key, node)

    def _entry(self, mapping: dict[str, tuple[Node, Node]], key: Node, node: Node) -> None:
        if not isinstance(key.value, str) or key.opaque:
            return
        if key.value in mapping:
            self.tree.findings.append(
                findings.duplicate_key(key.place, key.value, first=mapping[key.value][0].place)
            )
        else:
            mapping[key.value] = (key, node)

    def _outside(self, event: yaml.Event, feature: str, written: str) -> None:
        place = self._place(event.start_mark)
        self.tree.findings.append(
            findings.outside_language(place, feature, _MARKS.get(feature, "") + written)
        )


def _reason(error: yaml.MarkedYAMLError, text: str, place: Place) -> tuple[str, str]:
    """Word libyaml's problem, and hint at its usual causes."""
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    problem = ", ".join(part for part in (error.problem, error.context) if part) or str(error)
    if line[place.column - 1 : place.column] == "\t":
        return problem, "indent with spaces: YAML does not allow tabs there"
    if "mapping values are not allowed" in problem:
        return problem, "quote a text that contains ': ', and check the indentation"
    return problem, ""
