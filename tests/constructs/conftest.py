"""Stacks of an app that is not ours, synthesized once."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def templates() -> dict[str, dict[str, Any]]:
    """Return the template of each stack of `someone_elses_app` by its name."""
    from tests.constructs import someone_elses_app  # noqa: PLC0415 (starts Node)

    assembly = someone_elses_app.assembly()
    # A lookup would need credentials and make the template depend on the account.
    assert "missing" not in json.loads((Path(assembly.directory) / "manifest.json").read_text())
    return {stack.stack_name: stack.template for stack in assembly.stacks}
