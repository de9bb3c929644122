"""Generated files are what their tools would write now."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "tool",
    [
        "generate_catalog.py",
        "generate_schema.py",
        "generate_config_reference.py",
        "generate_order_reference.py",
    ],
)
def test_the_committed_copy_is_current(tool: str) -> None:
    command = [sys.executable, "-P", str(ROOT / "tools" / tool), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
