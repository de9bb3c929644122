"""Write docs/config.md, the reference of the config language, from the typed model; --check only compares.

Exit code 1 when --check finds the committed file out of date.
"""

from __future__ import annotations

import argparse
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hyperpod_cli.output import emit
from hyperpod_config.model import KINDS, Empty

TARGET = Path(__file__).parents[1] / "docs" / "config.md"
HEAD = """# The config language

A fleet is a directory: all `*.yaml` and `*.yml` files below it, each with one or more documents. Every
document has `apiVersion: hyperpod-fleet/v1alpha1`, `kind`, `metadata.name` and `spec`. The order of files,
documents and keys never matters. Numbers and texts are not converted into each other: quote what is text
(`version: "1.34"`). YAML anchors, aliases, merge keys and tags are not part of the language. YAML is read as
version 1.2: `no` and `on` are text.

Because every YAML file below the directory is read, keep a Helm chart or other YAML outside of it, or in a
hidden directory (`.charts/`). Scripts may lie beside the documents.

Names and limits are those of the AWS API, first letter lowered. [quotas.md](quotas.md) says how a quota
becomes figures. This page is generated from the model (`python3 dev.py golden`).
"""


def models_of(annotation: object) -> Iterator[type[BaseModel]]:
    """Models that an annotation mentions, in order."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from models_of(argument)


PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def type_text(annotation: Any) -> str:
    """Say what may stand in a field."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    words: dict[object, Callable[[], str]] = {
        typing.Annotated: lambda: type_text(arguments[0]),
        typing.Union: lambda: " or ".join(type_text(it) for it in arguments if it is not type(None)),
        types.UnionType: lambda: " or ".join(type_text(it) for it in arguments if it is not type(None)),
        typing.Literal: lambda: " \\| ".join(f"`{it}`" for it in arguments),
        list: lambda: f"list of {type_text(arguments[0])}",
        dict: lambda: "map of text to text",
    }
    if origin is not None:
        return words[origin]()
    if annotation in PLAIN:
        return PLAIN[annotation]
    return (
        "empty object" if annotation is Empty else f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    )


def limits(field: FieldInfo) -> str:
    """Say the limits of a field that its type does not."""
    found = {}
    for item in field.metadata:
        for name in ("ge", "le", "min_length", "max_length", "multiple_of"):
            if getattr(item, name, None) is not None:
                found[name] = getattr(item, name)
    low, high = found.get("ge", found.get("min_length")), found.get("le", found.get("max_length"))
    parts = [f"{low} to {high}" if None not in (low, high) else f"at most {high}" if high is not None else ""]
    if low is not None and high is None:
        parts.append(f"at least {low}")
    if "multiple_of" in found:
        parts.append(f"in steps of {found['multiple_of']}")
    unit = " items" if "list" in str(field.annotation) and parts[0] else ""
    return ", ".join(part for part in parts if part) + unit


def default(field: FieldInfo) -> str:
    """Say what holds when a field is not set."""
    if field.is_required():
        return "required"
    value = field.default
    if value is PydanticUndefined or value is None or value in ([], {}) or isinstance(value, BaseModel):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def rows(model: type[BaseModel]) -> Iterator[str]:
    """Table rows of a model's fields."""
    for field in model.model_fields.values():
        cells = (
            f"`{field.alias}`",
            type_text(field.annotation),
            limits(field),
            default(field),
            field.description or "",
        )
        yield "| " + " | ".join(cells) + " |"


def section(model: type[BaseModel], level: str) -> Iterator[str]:
    """A heading, the docstring and the table of one model."""
    yield f"\n{level} {model.__name__}\n{(model.__doc__ or '').strip()}\n"
    yield "| field | value | limits | default | meaning |\n|---|---|---|---|---|"
    yield from rows(model)


def text() -> str:
    """The whole page: each kind, followed by the parts that it mentions first."""
    lines, seen = [HEAD.rstrip()], set()

    def add(model: type[BaseModel], level: str) -> None:
        if model in seen or model is Empty:
            return
        seen.add(model)
        lines.extend(section(model, level))
        for field in model.model_fields.values():
            for part in models_of(field.annotation):
                add(part, "###")

    for kind in KINDS.values():
        add(kind, "##")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Run the tool; give its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    wanted = text()
    if parser.parse_args(arguments).check:
        current = TARGET.read_text("utf-8") == wanted
        if not current:
            print(f"{TARGET.name} is out of date: run python3 dev.py golden")
        return 0 if current else 1
    emit(wanted, TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
