"""Write config/hyperpod_config/fleet.schema.json from the typed model; with --check, only compare.

Exit code 1 when --check finds the committed file out of date; the difference is on stdout.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from hyperpod_cli.output import emit
from hyperpod_config import schema

TARGET = Path(schema.__file__).with_name("fleet.schema.json")


def difference(current: str, wanted: str) -> str:
    """Give the change that would bring the committed file up to date; empty when it is."""
    lines = (current.splitlines(keepends=True), wanted.splitlines(keepends=True))
    return "".join(difflib.unified_diff(*lines, fromfile=TARGET.name, tofile=f"{TARGET.name} (generated)"))


def main(arguments: list[str]) -> int:
    """Run the tool; give its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    wanted = schema.text()
    if not parser.parse_args(arguments).check:
        emit(wanted, TARGET)
        return 0
    change = difference(TARGET.read_text("utf-8") if TARGET.exists() else "", wanted)
    sys.stdout.write(change)
    return 1 if change else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
