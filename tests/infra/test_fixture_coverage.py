"""The fixture fleets and the example together set every field of the config, and say every word it has."""

import inspect
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from tests.infra.infra_fleets import FLEETS, resolved

from hyperpod_config.model import KINDS, Document, Model

# Words that no fixture can say, each with its reason.
NOT_SAID = {("QuotaItem.hardware", "inferentia"): "HyperPod has no instance type with Inferentia"}


def parts(annotation: Any) -> Iterator[Any]:
    """The types of which an annotation is made, itself included."""
    yield annotation
    for part in get_args(annotation) if get_origin(annotation) is not Literal else ():
        yield from parts(part)


def models() -> list[type[Model]]:
    """Every model that a document can hold."""
    found: list[type[Model]] = []
    todo: list[Any] = list(KINDS.values())
    while todo:
        model = todo.pop()
        if model not in found:
            found.append(model)
            for field in model.model_fields.values():
                todo += [
                    it for it in parts(field.annotation) if isinstance(it, type) and issubclass(it, Model)
                ]
    return found


def set_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Each field that the files set, as Model.field, with its value; defaults are not walked."""
    if isinstance(value, BaseModel):
        for name in value.model_fields_set:
            inner = getattr(value, name)
            yield f"{type(value).__name__}.{name}", inner
            yield from set_values(inner)
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from set_values(item)


@pytest.fixture(scope="module")
def used() -> list[tuple[str, Any]]:
    fleets = [resolved(directory).config for directory in FLEETS]
    documents: list[Document] = [
        document
        for fleet in fleets
        for document in (fleet.document, *fleet.clusters, *fleet.teams, *fleet.departments)
    ]
    return [entry for document in documents for entry in set_values(document)]


def test_every_field_of_every_model_is_set_somewhere(used: list[tuple[str, Any]]) -> None:
    fields = {f"{model.__name__}.{name}" for model in models() for name in model.model_fields}
    assert len(fields) > 150
    assert fields - {name for name, _ in used} == set()


def test_every_word_that_a_field_takes_is_said_somewhere(used: list[tuple[str, Any]]) -> None:
    words = {
        (f"{_declaring(model, name)}.{name}", word)
        for model in models()
        for name, field in model.model_fields.items()
        for part in parts(field.annotation)
        if get_origin(part) is Literal
        for word in get_args(part)
        # Figures that FSx offers are spelled alike, and a default is said by saying nothing.
        if isinstance(word, str) and word != field.default
    }
    by_name = {model.__name__: model for model in models()}
    said = {
        (f"{_declaring(by_name[owner], field)}.{field}", word)
        for name, value in used
        for owner, _, field in [name.partition(".")]
        for word in (value if isinstance(value, list) else [value])
        if isinstance(word, str)
    }
    assert words - said == NOT_SAID.keys()


def _declaring(model: type[Model], name: str) -> str:
    return next(each.__name__ for each in model.__mro__ if name in inspect.get_annotations(each))


def test_every_fixture_is_free_of_errors_and_says_what_it_shows() -> None:
    for directory in FLEETS[1:]:
        resolved(directory)
        first = (directory / "fleet.yaml").read_text().splitlines()[0]
        assert first.startswith("# "), f"{directory.name}: begin fleet.yaml with a comment"
