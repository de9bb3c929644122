"""YAML that readers of YAML 1.1, of YAML 1.2 and of Go's mixture understand the same way."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ryaml import loads, loads_all  # type: ignore[attr-defined]  # its stub hides what it documents
from tests.k8s.k8s_fleets import clusters

from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s.emit import to_yaml
from hyperpod_k8s.objects import manifests

# Each is something else than a string to some reader when it stands there bare.
TRAPS = [
    *("no", "NO", "on", "Off", "yes", "y", "N", "true", "~", "null", "Null", ""),
    *("1", "-1", "0777", "0o14", "0O14", "0x1F", "0X1f", "0b11", "1_000", "12:30", "1:20:30", "+7"),
    *("1e3", "1E3", "12e03", "1e-5", "-1e+5", "1.5e3", ".5", "5.", "1.0", ".inf", "-.INF", ".nan", "1_0e3"),
    *("2026-11-21", "2026-11-21T10:00:00Z", "=", "<<"),
    *("a: b", "a #b", "- x", "? x", "* x", "*x", "&x", "!x", "@x", "`x", "%x", "|", ">", "{}", "[]", "---"),
    *("'x'", '"x"', " x", "x ", "a\nb\n", "\ttab", "{{ .Values.x }}", "\u2028", "\x07", "ü"),
]


def bare(text: str) -> bool:
    return to_yaml([{"key": text}]) == f"---\nkey: {text}\n"


@pytest.mark.parametrize("text", TRAPS)
def test_a_string_stays_that_string_for_both_versions_of_yaml(text: str) -> None:
    written = to_yaml([{"key": text, text: "value"}])
    assert yaml.safe_load(written) == {"key": text, text: "value"}
    assert loads(written) == {"key": text, text: "value"}


@pytest.mark.parametrize(
    "text", ["y", "N", "0X1f", "0O14", "0b11", "1e3", "1_0e3", "5.", "1_000", "12:30", "no"]
)
def test_what_only_some_reader_takes_for_a_number_or_a_boolean_is_quoted(text: str) -> None:
    assert not bare(text)


@pytest.mark.parametrize(
    "text", ["ml.p5.48xlarge", "kueue.x-k8s.io/v1beta2", "2Gi", "500m", "team-1e3", "a:b"]
)
def test_plain_words_are_not_quoted(text: str) -> None:
    assert bare(text)


SCALARS = st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text() | st.sampled_from(TRAPS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(TRAPS), inner),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), VALUES), min_size=1, max_size=3))
def test_any_documents_read_back_as_they_were(documents: list[dict[str, Any]]) -> None:
    assert list(yaml.load_all(to_yaml(documents), yaml.CSafeLoader)) == documents


@given(clusters())
def test_the_files_of_any_fleet_read_back_as_they_were(resolved: ResolvedCluster) -> None:
    for file in manifests(resolved):
        written = to_yaml(file.objects)
        assert tuple(yaml.load_all(written, yaml.CSafeLoader)) == file.objects
        assert tuple(loads_all(written)) == file.objects


def test_the_same_value_twice_makes_no_anchor() -> None:
    shared = {"a": ["b"]}
    assert to_yaml([{"x": shared, "y": shared}]).count("- b") == 2


def test_a_long_line_is_not_folded() -> None:
    assert "\n  " not in to_yaml([{"expression": "word " * 100 + "end"}])
