"""The committed snapshots are current, and the same config gives the same bytes everywhere."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from tests.infra.infra_fleets import EXAMPLE, ROOT


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden", ROOT / "tools" / "golden.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rendered(golden: ModuleType) -> dict[str, str]:
    files: dict[str, str] = golden.render()
    return files


@pytest.fixture
def tool(golden: ModuleType, rendered: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, which need not synthesize again for each test."""
    monkeypatch.setattr(golden, "render", lambda: rendered)
    return golden


class TestSnapshots:
    def test_the_committed_ones_are_current(self, golden: ModuleType, rendered: dict[str, str]) -> None:
        change = golden.difference(golden.committed(golden.TARGET), rendered)
        assert change == "", "run `python3 dev.py golden` and review what changed"

    def test_a_reviewer_meets_no_hash_no_path_and_finds_resources_by_name(
        self, rendered: dict[str, str]
    ) -> None:
        for name, text in rendered.items():
            assert re.findall(r"\b[0-9a-f]{64}\b|/tmp/", text) == [], name
            if name.startswith("templates/"):
                resources = list(yaml.safe_load(text)["Resources"])
                assert resources == sorted(resources), name

    def test_a_change_fails_the_check_and_is_shown(
        self, tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(tool.TARGET, copy)
        path = copy / "templates" / "example-research-governance.yaml"
        path.write_text(path.read_text().replace("VCpu: 48", "VCpu: 49"))
        (copy / "stacks.yaml").unlink()
        assert tool.main(["--check", "--target", str(copy)]) == 1
        shown = capsys.readouterr().out
        assert "-            VCpu: 49\n+            VCpu: 48\n" in shown
        assert "--- /dev/null\n+++ stacks.yaml\n" in shown

    def test_renewing_writes_all_and_says_what_changed(
        self, tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(tool.TARGET, copy)
        (copy / "stacks.yaml").write_text("old")
        (copy / "templates" / "gone.yaml").write_text("old")
        assert tool.main(["--target", str(copy)]) == 0
        assert capsys.readouterr().out == "changed stacks.yaml\nremoved templates/gone.yaml\n"
        assert tool.main(["--check", "--target", str(copy)]) == 0

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (
                {"Fn::Join": ["", ["a", {"Ref": "B"}, {"Fn::GetAtt": ["C", "Arn"]}]]},
                {"Fn::Sub": "a${B}${C.Arn}"},
            ),
            ({"Fn::Join": ["-", ["${x}", {"Fn::ImportValue": "s:E"}]]}, {"Fn::Sub": "${!x}-${s:E}"}),
            (
                {"Fn::Join": ["", ["a", {"Fn::If": ["C", 1, 2]}]]},
                {"Fn::Join": ["", ["a", {"Fn::If": ["C", 1, 2]}]]},
            ),
            ({"S3Key": "0" * 64 + ".zip"}, {"S3Key": "<asset>.zip"}),
            ('{"b": {"c": "x\\ny"}}', "b:\n  c: |-\n    x\n    y\n"),
            ("{not json", "{not json"),
        ],
    )
    def test_what_the_eye_gets(self, golden: ModuleType, value: Any, shown: Any) -> None:
        template = {
            "Resources": {"R": value},
            "Parameters": {"BootstrapVersion": 1},
            "Rules": {"CheckBootstrapVersion": 1},
        }
        assert yaml.safe_load(golden.review_form(template)) == {"Resources": {"R": shown}}


def start(out: Path, config: Path, cwd: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hyperpod_cli.main", "synth", config, "--out", out],
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def tree(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def other_locale() -> str:
    """Turkish, where upper case of i is not I, if this machine has it."""
    have = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    return next((name for name in have if name.startswith("tr_TR")), "C.UTF-8")


def test_the_same_config_gives_the_same_bytes(tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "fleet"
    shutil.copytree(EXAMPLE, moved, ignore=shutil.ignore_patterns("hyperpod_config", "__pycache__"))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "1"}
    runs = {
        "relative": start(tmp_path / "relative", Path("config"), ROOT, **ascii_only),
        "moved": start(
            tmp_path / "moved", moved, tmp_path, LC_ALL=other_locale(), PYTHONHASHSEED="2", TZ="Asia/Tokyo"
        ),
    }
    for run in runs.values():
        output, _ = run.communicate()
        assert run.returncode == 0, output
    first, second = (tree(tmp_path / name) for name in runs)
    assert len(first) > 60
    assert [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)] == []
