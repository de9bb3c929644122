"""The fleets that the tests of this directory judge, and how they are synthesized: once, in one process."""

import functools
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_cli import pipeline
from hyperpod_governance.model import ResolvedFleet

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "config"
FIXTURES = sorted((ROOT / "tests" / "fixtures" / "fleets").iterdir())
FLEETS = [EXAMPLE, *FIXTURES]

Template = dict[str, Any]


@dataclass(frozen=True)
class Stack:
    """A synthesized stack."""

    name: str
    region: str
    text: str
    dependencies: frozenset[str]
    """Names of the stacks that must be deployed before it."""

    @property
    def template(self) -> Template:
        """A fresh copy of the template."""
        template: Template = json.loads(self.text)
        return template


def resolved(directory: Path) -> ResolvedFleet:
    """The fleet of a directory, which must have no error."""
    checked = pipeline.check(directory)
    assert checked.resolved is not None, [f"{it.place}: {it.message}" for it in checked.errors]
    return checked.resolved


def synthesize(fleet: ResolvedFleet, directory: Path) -> dict[str, Stack]:
    """Stacks of a fleet by name."""
    from hyperpod_infra.app import synthesize as write  # noqa: PLC0415 (starts Node)

    with tempfile.TemporaryDirectory() as out:
        write(fleet, directory, Path(out))
        return {stack.name: stack for stack in read(Path(out))}


@functools.cache
def stacks(directory: Path) -> dict[str, Stack]:
    """Stacks of a fleet by name, synthesized once for each process."""
    return synthesize(resolved(directory), directory)


def read(assembly: Path) -> Iterator[Stack]:
    """The stacks of a cloud assembly."""
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    names = {key for key, artifact in artifacts.items() if artifact["type"] == "aws:cloudformation:stack"}
    for name in sorted(names):
        artifact = artifacts[name]
        yield Stack(
            name=name,
            region=artifact["environment"].rpartition("/")[2],
            text=(assembly / artifact["properties"]["templateFile"]).read_text(),
            dependencies=frozenset(names.intersection(artifact.get("dependencies", []))),
        )
