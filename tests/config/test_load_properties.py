"""Properties of the loader: it never raises, its two parsers agree, places are right, order is nothing."""

import copy
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ryaml import loads_all  # type: ignore[attr-defined]  # its stub hides what it documents

from hyperpod_config import Loaded, load, nodes
from hyperpod_config.source import Origin, Source

HEAD = "apiVersion: hyperpod-fleet/v1alpha1\n"

# Pieces that make texts which are nearly documents: most mistakes are near to what is right.
PIECES = [
    *(
        "apiVersion: hyperpod-fleet/v1alpha1\n",
        "kind: Team\n",
        "kind: Fleet\n",
        "metadata: {name: a}\n",
        "spec:\n",
    ),
    *(
        "  allocations:\n",
        "    - cluster: main\n",
        "      quota: []\n",
        "  department: ",
        "spec: {}\n",
        "---\n",
    ),
    *(
        "a",
        ": ",
        "\n",
        "  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "*a",
        "&a ",
        "!t ",
        "!!str ",
        "<<: ",
        "? ",
        "%YAML 1.1\n",
    ),
    *(
        "'",
        '"',
        "|\n",
        ">\n",
        "#",
        "\t",
        "\r",
        "\0",
        "\ufeff",
        "\u2028",
        "é",
        "1e400",
        "1" * 30,
        ".nan",
        "0x1F",
        "~",
    ),
]
NEAR = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def load_texts(*contents: bytes) -> Loaded:
    with tempfile.TemporaryDirectory() as directory:
        for number, content in enumerate(contents):
            (Path(directory) / f"{number}.yaml").write_bytes(content)
        return load(Path(directory))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(content: bytes) -> None:
    loaded = load_texts(content)
    assert loaded.fleet is None
    assert loaded.findings


@settings(max_examples=500, deadline=None)
@given(NEAR)
def test_texts_that_are_nearly_documents_never_raise(text: str) -> None:
    loaded = load_texts(text.encode())
    assert (loaded.fleet is None) == any(finding.severity == "error" for finding in loaded.findings)
    assert list(loaded.findings) == sorted(loaded.findings, key=lambda finding: finding.place)


def same(left: object, right: object) -> bool:
    """Equality of parsed values in which NaN equals itself and 1 is neither 1.0 nor True."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return type(left) is type(right) and left == right


@settings(max_examples=1000, deadline=None)
@given(NEAR)
def test_the_slow_parser_reads_what_the_fast_one_reads(text: str) -> None:
    text = text.removeprefix("\ufeff")
    tree = nodes.read(text, "x")
    if tree.findings or not tree.documents:
        return
    assert same([document.plain() for document in tree.documents], loads_all(text))


@settings(max_examples=1000, deadline=None)
@given(
    st.one_of(
        st.text("0123456789+-.eExobaAfFnN_", max_size=12),
        st.integers().map(str),
        st.floats().map(repr),
        st.sampled_from([*nodes._WORDS, "yes", "on", "0o17", "0b11", "-0x8", "017", "1_000", "1:30"]),
    )
)
def test_the_slow_parser_resolves_scalars_as_the_fast_one_does(text: str) -> None:
    tree = nodes.read(f"k: {text}", "x")
    if not tree.findings:
        assert same([document.plain() for document in tree.documents], loads_all(f"k: {text}"))


@settings(max_examples=1000, deadline=None)
@given(
    st.lists(
        st.sampled_from([*'&*!%:"{}[],?-x \n\r\u2028', "k: ", "&a x", "*a", "!t ", "%YAML 1.2\n---\n"]),
        max_size=10,
    )
)
def test_no_text_with_features_outside_the_language_takes_the_fast_path(pieces: list[str]) -> None:
    source = Source("x", "".join(pieces))
    if any(finding.rule == "HPF008" for finding in source.tree.findings) and source.tree.complete:
        assert source.needs_care


VALUES = st.recursive(
    st.one_of(st.integers(0, 99), st.sampled_from(["x", "two words", "é", "1.30"])),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "cd", "é"]), inner, min_size=1, max_size=3),
    ),
    max_leaves=12,
)


Written = tuple[str, tuple[str | int, ...], int, int]


def written(value: Any, path: tuple[str | int, ...], indent: int) -> Iterator[Written]:
    """Write a value in block style: each line, its path, and where that is (lines below, column)."""
    pad = "  " * indent
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        lead = f"{pad}{key}:" if isinstance(value, dict) else f"{pad}-"
        here = (*path, key)
        if not isinstance(item, dict | list):
            yield f"{lead} {item!r}\n", here, 0, len(lead) + 2
        else:
            # A collection is at its key; without a key it is where it begins: one level in, on the next line.
            below, column = (0, len(pad) + 1) if isinstance(value, dict) else (1, len(pad) + 3)
            yield f"{lead}\n", here, below, column
            yield from written(item, here, indent + 1)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "cd", "é"]), VALUES, min_size=1, max_size=4))
def test_places_agree_with_where_the_text_was_written(value: dict[str, Any]) -> None:
    lines = list(written(value, (), 0))
    origin = Origin(Source("x.yaml", "".join(line for line, *_ in lines)), 0)
    for number, (_, path, below, column) in enumerate(lines, start=1):
        place = origin.place(path)
        assert (place.line, place.column) == (number + below, column)
        assert origin.place((*path, "absent", 3)) == place


NAMES = st.lists(st.sampled_from([f"team-{letter}" for letter in "abcdefgh"]), unique=True, max_size=6)


@settings(deadline=None)
@given(NAMES, st.randoms(use_true_random=False))
def test_the_order_of_files_documents_and_keys_changes_nothing(names: list[str], random: Any) -> None:
    fleet = HEAD + "kind: Fleet\nmetadata: {name: example}\nspec: {}\n"
    teams = [
        f"spec: {{department: d{name[-1]}}}\nkind: Team\nmetadata: {{name: {name}}}\n{HEAD}" for name in names
    ]
    one = load_texts(*(text.encode() for text in [fleet, *teams]))
    shuffled = [
        "".join(random.sample(lines := text.splitlines(keepends=True), k=len(lines)))
        for text in [fleet, *teams]
    ]
    random.shuffle(shuffled)
    other = load_texts("---\n".join(shuffled).encode())
    assert one.findings == other.findings == ()
    assert one.fleet is not None
    assert one.fleet == other.fleet
    assert [team.name for team in one.fleet.teams] == sorted(names)


def test_a_loaded_document_knows_its_places(tmp_path: Path) -> None:
    text = "# fleet\n---\n" + HEAD + "kind: Fleet\nmetadata: {name: example}\nspec:\n  tags:\n    owner: ml\n"
    (tmp_path / "fleet.yaml").write_text(text)
    loaded = load(tmp_path)
    assert loaded.fleet is not None
    place = loaded.fleet.document.place("spec", "tags", "owner")
    assert (Path(place.file).name, place.line, place.column) == ("fleet.yaml", 8, 12)
    absent = loaded.fleet.document.place("spec", "tags", "team", 3)
    assert (absent.line, absent.column) == (7, 3)


ROOT = Path(__file__).parents[2]
EXAMPLE = [
    document
    for path in sorted((ROOT / "config").rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        3,
        2**40,
        1.5,
        float("nan"),
        "",
        "x",
        "A b",
        "é" * 400,
        [],
        [None],
        ["x"] * 99,
        {},
        {"x": 1},
    ]
)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Give the path of every value below a value."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from paths(item, (*path, key))


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(EXAMPLE), ODD)
def test_any_odd_value_anywhere_is_worded_by_us_and_placed(data: Any, document: Any, odd: object) -> None:
    document = copy.deepcopy(document)
    *parents, last = data.draw(st.sampled_from(list(paths(document))))
    parent = document
    for part in parents:
        parent = parent[part]
    parent[last] = odd
    text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    lines = text.splitlines()
    for finding in load_texts(text.encode()).findings:
        if finding.rule == "HPF003":
            continue
        assert not finding.message.startswith(("Input should", "Value error"))
        assert "Input should" not in finding.message
        assert finding.place.line <= len(lines)
        assert finding.place.column <= len(lines[finding.place.line - 1])
