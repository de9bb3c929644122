"""The slow path: say in sentences what is wrong in one file, each with its place and what is allowed.

Imported only when the fast path refuses a file.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hyperpod_config import findings
from hyperpod_config.model import API_VERSION, KINDS
from hyperpod_config.nodes import Found, Node, find, scalar
from hyperpod_config.suggest import closest, did_you_mean, one_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from hyperpod_config.findings import Finding, Place
    from hyperpod_config.source import Source

Path = tuple[str | int, ...]

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_BOOLEANS = {**dict.fromkeys(("yes", "on", "true"), "true"), **dict.fromkeys(("no", "off", "false"), "false")}
_LIMITS = {
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of at most {max_length} characters",
    "finite_number": "a finite number",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """A document as far as it could be read: its model, or the findings that say why there is none."""

    kind: str | None
    name: str
    findings: list[Finding]
    model: Any = None


def document(
    source: Source, index: int, node: Node, kinds: Mapping[str, type[BaseModel]] = KINDS
) -> Explained:
    """Validate one document of a source as one of ``kinds``; a stage after this one may have its own."""
    if not isinstance(node.value, dict):
        return Explained(
            None, "", [] if node.opaque else [findings.not_a_document(node.place, _type_of(node))]
        )
    found = find(node, ("kind",))
    kind, name = _text(found), _text(find(node, ("metadata", "name"))) or ""
    if kind is None or kind not in kinds:
        unknown = [] if found.whole and found.node.opaque else [_unknown_kind(found, kinds)]
        return Explained(None, name, unknown)
    try:
        model = kinds[kind].model_validate(node.plain(), by_alias=True, by_name=False)
    except ValidationError as error:
        return Explained(kind, name, list(_Explanation(kinds[kind], source, index, node).findings(error)))
    return Explained(kind, name, [], model)


def _text(found: Found) -> str | None:
    return found.node.value if found.whole and isinstance(found.node.value, str) else None


def _unknown_kind(kind: Found, kinds: Mapping[str, type[BaseModel]]) -> Finding:
    allowed = one_of(kinds)
    if not kind.whole:
        return findings.unknown_kind(kind.place, f"kind is missing; allowed is {allowed}", "")
    hint = did_you_mean(kind.node.value, kinds) or "keep other YAML outside the config directory"
    return findings.unknown_kind(kind.place, f"kind is {_shown(kind.node)}; allowed is {allowed}", hint)


def _api_version(found: Found) -> Finding:
    if not found.whole:
        return findings.unknown_kind(found.place, f"apiVersion is missing; allowed is {API_VERSION}", "")
    message = f"apiVersion is {_shown(found.node)}; allowed is {API_VERSION}"
    return findings.unknown_kind(found.place, message, did_you_mean(found.node.value, [API_VERSION]))


class _Explanation:
    """Turns the validation errors of one document into findings."""

    def __init__(self, model: type[BaseModel], source: Source, index: int, node: Node) -> None:
        self.model, self.source, self.index, self.node = model, source, index, node

    def findings(self, error: ValidationError) -> Iterator[Finding]:
        errors = error.errors(include_url=False)
        meant = {
            (*item["loc"][:-1], self._suggestion(item["loc"]))
            for item in errors
            if item["type"] == "extra_forbidden"
        }
        for item in errors:
            misspelt = item["type"] == "missing" and item["loc"] in meant
            if not misspelt and not self._is_opaque(item["loc"]):
                yield self._finding(item)

    def _is_opaque(self, path: Path) -> bool:
        """Whether the value is one of which a finding already says that it is not known."""
        return any(find(self.node, path[: end + 1]).node.opaque for end in range(len(path)))

    def _finding(self, error: ErrorDetails) -> Finding:
        kind, path = error["type"], error["loc"]
        found = find(self.node, path)
        if path == ("apiVersion",):
            made = _api_version(found)
        elif path and path[-1] == "[key]":
            made = self._bad_key(error, path[:-1])
        elif kind == "extra_forbidden":
            made = self._unknown(path)
        elif kind == "missing":
            made = self._missing(path, found)
        elif kind in _WANTED:
            made = self._wrong_type(kind, path, found)
        elif kind in _KNOWN:
            made = self._not_allowed(kind, path, error.get("ctx", {}), found)
        else:
            made = self._contradiction(error)
        return made

    def _missing(self, path: Path, found: Found) -> Finding:
        info = field_at(self.model, path)
        meaning = re.split(r"(?<=\.)\s", (info.description if info else None) or "")[0]
        return findings.missing_field(found.place, subject(path), meaning)

    def _wrong_type(self, kind: str, path: Path, found: Found) -> Finding:
        words = literals(self.model, path)
        wanted = "one of " + one_of(words) if words else _WANTED[kind]
        hint = _type_hint(kind, found.node)
        return findings.wrong_type(found.place, subject(path), wanted, _type_of(found.node), hint)

    def _place(self, path: Path, *, key: bool = False) -> Place:
        return self.source.place(self.index, path, key=key)

    def _bad_key(self, error: ErrorDetails, path: Path) -> Finding:
        allowed = _limit(error["type"], error.get("ctx", {})) or error["msg"]
        place = self._place(path, key=True)
        return findings.not_allowed(place, f"a key of {subject(path[:-1])}", _quoted(str(path[-1])), allowed)

    def _suggestion(self, path: Path) -> str | None:
        return closest(str(path[-1]), fields_at(self.model, path[:-1]))

    def _unknown(self, path: Path) -> Finding:
        place = self._place(path, key=True)
        return findings.unknown_field(place, subject(path), self._unknown_hint(path))

    def _unknown_hint(self, path: Path) -> str:
        names = fields_at(self.model, path[:-1])
        near = self._suggestion(path)
        if near is None:
            return f"allowed is {one_of(names)}" if names else ""
        if near != path[-1] and near.lower() == str(path[-1]).replace("_", "").lower():
            return f"did you mean {near}? Names are the API's with the first letter lowered"
        return f"did you mean {near}?"

    def _contradiction(self, error: ErrorDetails) -> Finding:
        context: Mapping[str, Any] = error.get("ctx", {})
        cause = context.get("error")
        at = (*error["loc"], *context.get("field", ()))
        problem = str(cause) if isinstance(cause, ValueError) else error["msg"]
        return findings.contradiction(
            self._place(at), subject(error["loc"]), problem, str(context.get("hint", ""))
        )

    def _not_allowed(self, kind: str, path: Path, context: Mapping[str, Any], found: Found) -> Finding:
        value = _shown(found.node)
        name = subject(path)
        if kind == "literal_error":
            allowed = literals(self.model, path)
            hint = did_you_mean(found.node.value, allowed)
            return findings.not_allowed(found.place, name, value, one_of(allowed), hint)
        if kind in {"too_short", "too_long"}:
            value = f"{context['actual_length']} items long"
        hint = ""
        if kind == "string_pattern_mismatch" and isinstance(found.node.value, str):
            hint = _spelling_hint(found.node.value, context["pattern"])
        return findings.not_allowed(found.place, name, value, _limit(kind, context), hint)


_KNOWN = {*_LIMITS, "literal_error", "too_short", "too_long", "string_pattern_mismatch"}


def _limit(kind: str, context: Mapping[str, Any]) -> str:
    if kind == "string_pattern_mismatch":
        return f"text that matches {context['pattern']}"
    if kind == "too_short":
        return f"{context['min_length']} items or more"
    if kind == "too_long":
        return f"{context['max_length']} items or fewer"
    # The limit of a field of floats reads better as it is written in the model: 10000000, not 10000000.0.
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in context.items()
    }
    return _LIMITS[kind].format(**whole) if kind in _LIMITS else ""


def subject(path: Sequence[str | int]) -> str:
    """Write a path as people do: `spec.instanceGroups[2].instanceType`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _quoted(text: str, most: int = 60) -> str:
    return f'"{text if len(text) <= most else text[: most - 3] + "..."}"'


def _shown(node: Node) -> str:
    """Write a value as the file does, shortened."""
    if node.text is None:
        return _type_of(node)
    if isinstance(node.value, str):
        return _quoted(node.text)
    return node.text[:60] or "empty"


def _type_of(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    if node.value is None:
        return "null" if node.text else "empty"
    name = {bool: "the boolean", int: "the number", float: "the number"}.get(type(node.value), "the text")
    return f"{name} {_shown(node)}"


def _type_hint(kind: str, node: Node) -> str:
    """Say how to write the value so that it has the type that is wanted."""
    text, value = node.text, node.value
    hint = ""
    if value is None:
        hint = "give it a value, or remove the key"
    elif kind == "string_type" and text and not isinstance(value, str):
        hint = f'quote it: "{text}"'
    elif kind == "bool_type" and str(value).lower() in _BOOLEANS:
        hint = f"write {_BOOLEANS[str(value).lower()]}"
    elif kind in {"int_type", "float_type"} and isinstance(value, str):
        hint = _number_hint(value)
    elif kind == "int_type" and isinstance(value, float) and value.is_integer():
        hint = f"write {int(value)}"
    elif kind == "list_type" and text:
        hint = f"write [{text}]"
    return hint


def _number_hint(text: str) -> str:
    try:
        number = scalar(text)
    except OverflowError:
        number = text
    if isinstance(number, int | float) and not isinstance(number, bool):
        return f"remove the quotes: {text}"
    return "the number is too large" if re.fullmatch(r"[-+]?\d+(\.\d*)?([eE]\+?\d+)?", text) else ""


def _spelling_hint(text: str, pattern: str) -> str:
    """Suggest the usual repairs of a name, when one of them gives what is allowed."""
    lower = re.sub(r"[\s_]+", "-", text.strip().lower())
    for repaired in (text.strip(), lower, f"ml.{text}", f"ml.{lower}"):
        if re.search(pattern, repaired):
            return f"did you mean {repaired}?"
    return ""


# --- the model at a path ----------------------------------------------------------------------------------


def _members(annotation: Any) -> Iterator[Any]:
    """Give the types of an annotation without Annotated, Optional and Union."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in {Union, types.UnionType}:
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _step(annotation: Any, part: str | int) -> Any:
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            info = _fields(member).get(str(part))
            if info is not None:
                return info.annotation
        elif get_origin(member) in {list, dict}:
            return get_args(member)[-1]
        elif get_origin(member) is tuple:
            return get_args(member)[0]
    return None


def _annotation_at(model: type[BaseModel], path: Path) -> Any:
    annotation: Any = model
    for part in path:
        annotation = _step(annotation, part)
    return annotation


def fields_at(model: type[BaseModel], path: Path) -> dict[str, FieldInfo]:
    """Give the fields, by the name they have in YAML, of the object at a path of a document."""
    for member in _members(_annotation_at(model, path)):
        if isinstance(member, type) and issubclass(member, BaseModel):
            return _fields(member)
    return {}


def field_at(model: type[BaseModel], path: Path) -> FieldInfo | None:
    """Give the field that a path of a document ends at."""
    return fields_at(model, path[:-1]).get(str(path[-1])) if path else None


def literals(model: type[BaseModel], path: Path) -> list[str]:
    """Give the words that the field at a path may have; empty when it is no choice of words."""
    members = _members(_annotation_at(model, path))
    return [str(word) for member in members if get_origin(member) is Literal for word in get_args(member)]
