"""The JSON Schema of the config language, for editors; generated from the typed model."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from hyperpod_config.model import API_VERSION, KINDS


class _Generator(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes from field names; the descriptions say more."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """Give the schema of one document, in JSON Schema draft 7, which yaml-language-server reads best.

    Each kind is an `if`/`then` of its own, so that an editor reports the mistakes of the kind that is meant
    and not of all the others. What only a validator of the model checks (exactly one of several fields) is
    not in it: `hpf validate` says that.
    """
    _, defined = models_json_schema(
        [(model, "validation") for model in KINDS.values()],
        ref_template="#/definitions/{model}",
        schema_generator=_Generator,
    )
    definitions = _draft7(defined["$defs"])
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "HyperPod fleet document",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"enum": list(KINDS), "description": "What the document describes."},
        },
        "allOf": [
            {
                "if": {"required": ["kind"], "properties": {"kind": {"const": kind}}},
                "then": {"$ref": f"#/definitions/{model.__name__}"},
            }
            for kind, model in KINDS.items()
        ],
        "definitions": dict(sorted(definitions.items())),
    }


def text() -> str:
    """Give the schema as the committed file has it: the same bytes on every machine."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _draft7(schema: Any) -> Any:
    """Wrap each `$ref` that has company: draft 7 ignores whatever stands beside a `$ref`."""
    if isinstance(schema, list):
        return [_draft7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {key: _draft7(value) for key, value in schema.items()}
    if isinstance(converted.get("$ref"), str) and len(converted) > 1:
        converted["allOf"] = [{"$ref": converted.pop("$ref")}]
    return converted
