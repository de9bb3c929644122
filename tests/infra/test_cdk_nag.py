"""All fleets in one app before cdk-nag's AwsSolutions, and the example before the CDK's own template check.

In processes of their own: whether the CDK checks templates is decided when its Node starts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.infra.infra_fleets import EXAMPLE, FLEETS, ROOT

BUILD = """
import sys
from pathlib import Path

import cdk_nag
from aws_cdk import App, Stack, Validations, aws_s3
from hyperpod_cli import pipeline
from hyperpod_infra.app import add_stacks, new_app

out, more, *fleets = sys.argv[1:]
app = new_app(Path(out))
for directory in map(Path, fleets):
    add_stacks(app, pipeline.check(directory).resolved, directory)
if more == "bucket":
    aws_s3.Bucket(Stack(app, "more"), "Bucket")
Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
app.synth()
"""


def build(out: Path, more: str, *fleets: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BUILD, out, more, *fleets],
        cwd=ROOT,
        env={**os.environ, "CDK_VALIDATION": "true"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_fleet_passes_aws_solutions_with_each_exception_acknowledged(tmp_path: Path) -> None:
    done = build(tmp_path, "", *FLEETS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "AwsSolutions" not in done.stderr
    reports = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    (ours,) = [report for report in reports if report["pluginName"] == "AwsSolutions"]
    assert ours["violations"] == []
    assert len(ours["suppressedViolations"]) > 100
    unexplained = [each["ruleName"] for each in ours["suppressedViolations"] if len(each["reason"]) < 20]
    assert unexplained == []


def test_an_exception_that_nobody_acknowledged_fails(tmp_path: Path) -> None:
    done = build(tmp_path, "bucket")
    assert done.returncode != 0
    assert "AwsSolutions-S10" in done.stdout + done.stderr


def test_the_cdks_own_check_finds_nothing_in_the_example(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hyperpod_cli.main", "synth", EXAMPLE, "--out", tmp_path / "out"],
        cwd=tmp_path,
        env={**os.environ, "CDK_VALIDATION": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # It is there because the check has run: it holds the types that the check does not know yet.
    report = json.loads((tmp_path / "out" / "cdk.out" / "validation-report.json").read_text())
    found = [each for plugin in report["pluginReports"] for each in plugin["violations"]]
    assert found == []
    assert "validation" not in done.stderr.lower()
