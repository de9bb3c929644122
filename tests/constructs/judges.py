"""Others whom templates are shown to: cfn-lint and cdk-nag."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cfnlint.api import lint_file  # type: ignore[import-untyped]
from cfnlint.config import ManualArgs  # type: ignore[import-untyped]
from cfnlint.core import Match  # type: ignore[import-untyped]

HERE = Path(__file__).parent


def lint(template: dict[str, Any], region: str, directory: Path) -> list[Match]:
    """Give what cfn-lint finds in a template, which is written to a directory."""
    file = directory / "template.json"
    file.write_text(json.dumps(template))
    return list(lint_file(file, config=ManualArgs(regions=[region])))


def nag(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python here in a process of its own: the CDK decides when its Node starts whether it checks."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=HERE,
        env={**os.environ, "CDK_VALIDATION": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
