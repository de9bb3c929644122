"""What tests of several commands begin with."""

import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "config"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A copy of the example that a test may change."""
    copy = tmp_path / "config"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("hyperpod_config", "__pycache__"))
    return copy
