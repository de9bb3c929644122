"""What others say of the templates: cfn-lint, cdk-nag, and whether two builds agree."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cfnlint.core import Match  # type: ignore[import-untyped]
from tests.constructs.judges import HERE, lint, nag
from tests.constructs.templates import Template, the

GOVERNANCE_TYPES = ("AWS::SageMaker::ClusterSchedulerConfig", "AWS::SageMaker::ComputeQuota")


def counts(match: Match, region: str) -> bool:
    # W3005: a DependsOn that a reference already implies is harmless, and the CDK itself writes many.
    if match.rule.id == "W3005":
        return False
    # cfn-lint's list of types by region lags: it denies ComputeQuota in regions where the type's own
    # description names them, and the reverse. Only us-east-1 has both in both sources.
    governance = match.rule.id == "E3006" and any(name in match.message for name in GOVERNANCE_TYPES)
    return not (governance and region != "us-east-1")


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_every_template_passes_cfn_lint(region: str, templates: dict[str, Template], tmp_path: Path) -> None:
    found = [
        f"{name}: {match.rule.id} {match.message} at {match.path}"
        for name, template in templates.items()
        for match in lint(template, region, tmp_path)
        if counts(match, region)
    ]
    assert found == []


def test_cfn_lint_is_really_asked(templates: dict[str, Template], tmp_path: Path) -> None:
    broken = json.loads(json.dumps(templates["eks-new"]))
    the(broken, GOVERNANCE_TYPES[0])["SchedulerConfig"]["PriorityClasses"][0]["Weight"] = 101
    assert "E3034" in {match.rule.id for match in lint(broken, "us-east-1", tmp_path)}


def test_every_stack_passes_cdk_nag() -> None:
    done = nag("someone_elses_app.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_cdk_nag_is_really_asked() -> None:
    # A bucket without anything, in the same app.
    done = nag(
        "-c",
        "import aws_cdk as cdk, someone_elses_app as app, aws_cdk.aws_s3 as s3\n"
        "app.build = lambda a: s3.Bucket(cdk.Stack(a, 'S'), 'B')\n"
        "app.main()",
    )
    assert done.returncode != 0
    assert "AwsSolutions-S10" in done.stdout + done.stderr


def test_the_cdks_own_check_is_content_with_task_governance() -> None:
    # It does not know AWS::SageMaker::ComputeQuota, which is acknowledged where quotas are and nowhere else.
    done = nag(
        "-c",
        "import aws_cdk as cdk, someone_elses_app as app\n"
        "a = cdk.App(); app.eks_in_several_stacks(a); a.synth()",
    )
    assert done.returncode == 0, done.stderr
    assert "ComputeQuota" not in done.stdout + done.stderr


def test_two_builds_give_the_same_bytes(templates: dict[str, Template]) -> None:
    script = (
        "import aws_cdk as cdk, json, someone_elses_app as app\n"
        "a = cdk.App(); app.build(a)\n"
        "print(json.dumps({s.stack_name: s.template for s in a.synth().stacks}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=HERE,
        env={**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == templates
