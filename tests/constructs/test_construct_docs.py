"""The README's example runs, and the reference names everything that is public."""

import re
from pathlib import Path

import hyperpod_constructs as hyperpod

ROOT = Path(__file__).resolve().parents[2]


def test_the_readmes_example_synthesizes() -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "constructs" / "README.md").read_text(), re.DOTALL
    )
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert isinstance(names["cluster"], hyperpod.HyperPodEksCluster)


def test_the_reference_names_every_public_name() -> None:
    reference = (ROOT / "docs" / "constructs.md").read_text()
    assert [name for name in hyperpod.__all__ if not re.search(rf"\b{name}\b", reference)] == []


def test_every_public_class_says_what_it_is() -> None:
    undocumented = [
        name
        for name in hyperpod.__all__
        if isinstance(getattr(hyperpod, name), type) and not getattr(hyperpod, name).__doc__
    ]
    assert undocumented == []
