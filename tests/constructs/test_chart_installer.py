"""The build's shell script, run with a git and a helm that only write down what they are asked."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.constructs.templates import Template, the

FAKE = '#!/bin/bash\necho "$(basename "$0") $*" >> calls\n[[ "$*" != *"$FAILS"* ]]\n'


@pytest.fixture
def script(templates: dict[str, Template]) -> str:
    project = the(templates["eks-new"], "AWS::CodeBuild::Project")
    (command,) = json.loads(project["Source"]["BuildSpec"])["phases"]["build"]["commands"]
    return str(command)


def run(script: str, directory: Path, action: str, fails: str = "nothing") -> tuple[int, list[str]]:
    for name in ("git", "helm"):
        fake = directory / name
        fake.write_text(FAKE)
        fake.chmod(0o755)
    variables = {
        "PATH": f"{directory}:{os.environ['PATH']}",
        "FAILS": fails,
        "ACTION": action,
        "AWS_REGION": "eu-west-1",
        "RELEASE": "dependencies",
        "NAMESPACE": "kube-system",
        "REPOSITORY": "https://example.com/x.git",
        "COMMIT": "c0ffee",
        "VALUES": '{"text": "it\'s $HOME"}',
    }
    done = subprocess.run(["bash", "-c", script], cwd=directory, env=variables, check=False)
    return done.returncode, (directory / "calls").read_text().splitlines()


CHART = "source/helm_chart/HyperPodHelmChart"
INSTALL = [
    "git init -q source",
    "git -C source fetch -q --depth 1 https://example.com/x.git c0ffee",
    "git -C source checkout -q FETCH_HEAD",
    f"helm dependency update {CHART}",
    f"helm upgrade --install dependencies {CHART} --namespace kube-system "
    "--values regional.yaml --values values.json",
]


def test_install_fetches_the_commit_and_upgrades_the_release(script: str, tmp_path: Path) -> None:
    assert run(script, tmp_path, "install") == (0, INSTALL)
    assert (tmp_path / "values.json").read_text() == '{"text": "it\'s $HOME"}'
    assert (tmp_path / "regional.yaml").read_text() == ""


def test_the_regions_own_values_are_used(script: str, tmp_path: Path) -> None:
    values = tmp_path / CHART / "regional-values" / "values-eu-west-1.yaml"
    values.parent.mkdir(parents=True)
    values.write_text("a: 1\n")
    assert run(script, tmp_path, "install")[0] == 0
    assert (tmp_path / "regional.yaml").read_text() == "a: 1\n"


@pytest.mark.parametrize("step", range(len(INSTALL)))
def test_no_step_fails_unseen(script: str, tmp_path: Path, step: int) -> None:
    words = INSTALL[step].partition(" ")[2]
    code, calls = run(script, tmp_path, "install", fails=words)
    assert code != 0
    assert calls == INSTALL[: step + 1]


def test_uninstall_removes_the_release_and_minds_no_absent_one(script: str, tmp_path: Path) -> None:
    expected = "helm uninstall dependencies --namespace kube-system --ignore-not-found"
    assert run(script, tmp_path, "uninstall") == (0, [expected])
