"""The JSON Schema that editors use: generated, current, and right about the example."""

import copy
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

from hyperpod_config import KINDS, schema

ROOT = Path(__file__).parents[2]
EXAMPLE = sorted((ROOT / "config").rglob("*.yaml"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_schema", ROOT / "tools" / "generate_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    generated = schema.json_schema()
    jsonschema.Draft7Validator.check_schema(generated)
    return jsonschema.Draft7Validator(generated)


def mistakes(validator: jsonschema.Draft7Validator, document: object) -> list[str]:
    return [error.message for error in validator.iter_errors(document)]


def test_the_committed_schema_is_current(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = tool.main(["--check"])
    assert (code, capsys.readouterr().out) == (0, "")


def test_the_tool_shows_how_an_old_schema_differs(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "fleet.schema.json"
    target.write_text(schema.text().replace('"Weight among its siblings."', '"Weight."'))
    monkeypatch.setattr(tool, "TARGET", target)
    assert tool.main(["--check"]) == 1
    change = capsys.readouterr().out.splitlines()
    assert [line.rstrip(",") for line in change if line.startswith(("+ ", "- "))] == [
        '-          "description": "Weight."',
        '+          "description": "Weight among its siblings."',
    ]
    assert tool.main([]) == 0
    assert target.read_text() == schema.text()
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.schema.json"]


@pytest.mark.parametrize("path", EXAMPLE, ids=[path.relative_to(ROOT).as_posix() for path in EXAMPLE])
def test_the_example_is_valid(path: Path, validator: jsonschema.Draft7Validator) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents
    for document in documents:
        assert mistakes(validator, document) == []


TEAM: dict[str, Any] = {
    "apiVersion": "hyperpod-fleet/v1alpha1",
    "kind": "Team",
    "metadata": {"name": "vision"},
    "spec": {"allocations": [{"cluster": "main", "quota": [{"hardware": "cpu", "vCpu": 4}]}]},
}


def test_a_right_team_is_valid(validator: jsonschema.Draft7Validator) -> None:
    assert mistakes(validator, TEAM) == []


@pytest.mark.parametrize(
    ("field", "value", "fragment"),
    [
        ("vCpu", "4", "'4' is not valid under any of the given schemas"),
        ("VCpu", 4, "'VCpu' was unexpected"),
        ("v_cpu", 4, "'v_cpu' was unexpected"),
        ("hardware", "gpu", "'gpu' is not valid under any of the given schemas"),
    ],
)
def test_a_wrong_field_is_one_mistake(
    validator: jsonschema.Draft7Validator, field: str, value: object, fragment: str
) -> None:
    team = copy.deepcopy(TEAM)
    team["spec"]["allocations"][0]["quota"][0][field] = value
    (mistake,) = mistakes(validator, team)
    assert fragment in mistake


def test_an_unknown_kind_is_one_mistake(validator: jsonschema.Draft7Validator) -> None:
    (mistake,) = mistakes(validator, {**TEAM, "kind": "Teem"})
    assert mistake == f"'Teem' is not one of {list(KINDS)}"


def test_no_reference_has_company_that_draft_7_would_ignore() -> None:
    def references(value: object) -> list[dict[str, Any]]:
        if isinstance(value, list):
            return [found for item in value for found in references(item)]
        if not isinstance(value, dict):
            return []
        below = [found for item in value.values() for found in references(item)]
        return [value, *below] if isinstance(value.get("$ref"), str) else below

    found = references(schema.json_schema())
    assert found
    assert [reference for reference in found if set(reference) != {"$ref"}] == []
    defined = schema.json_schema()["definitions"]
    assert {reference["$ref"].removeprefix("#/definitions/") for reference in found} <= set(defined)


def test_every_field_has_a_description() -> None:
    silent = [
        f"{name}.{field}"
        for name, definition in schema.json_schema()["definitions"].items()
        for field, value in definition.get("properties", {}).items()
        if not value.get("description")
    ]
    assert silent == []
