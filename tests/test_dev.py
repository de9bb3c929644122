"""The bootstrap: what it does on a machine that is not as it should be, and after an interruption."""

import ast
import importlib.util
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "dev", module)
    spec.loader.exec_module(module)
    return module


def test_python_3_6_parses_it_and_so_can_say_that_it_is_too_old() -> None:
    ast.parse((ROOT / "dev.py").read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_a_python_with_locked_wheels_is_taken(dev: ModuleType, version: tuple[int, int]) -> None:
    assert dev.find_python(version) == ""


@pytest.mark.parametrize("version", [(3, 6), (3, 10), (3, 15)])
def test_another_python_on_path_takes_over(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    monkeypatch.setattr(shutil, "which", {"python3.11": "old", "python3.13": "new"}.get)
    assert dev.find_python(version) == "new"


def test_without_a_usable_python_the_message_names_this_one_and_the_limits(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", {}.get)
    with pytest.raises(SystemExit, match=r"this is Python 3\.9 and a checkout needs 3\.11 to 3\.14"):
        dev.find_python((3, 9))


def test_without_ensurepip_the_system_pip_installs(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", {"pip": "pip"}.get)
    assert dev.pip() == [dev.BASE_PYTHON, "-m", "pip", "--python", dev.PYTHON]


def test_without_any_pip_the_message_names_the_package(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", {}.get)
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        dev.pip()


def test_an_installation_is_done_once_for_one_lock_file_and_again_for_the_next(
    dev: ModuleType, tmp_path: Path
) -> None:
    done: list[str] = []
    for lock in ("a", "a", "b", "b", "a"):
        dev.once(tmp_path / "stamp", [lock], lambda lock=lock: done.append(lock))
    assert done == ["a", "b", "a"]


def test_an_interrupted_installation_is_done_again(dev: ModuleType, tmp_path: Path) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    done: list[str] = []
    for _ in range(2):
        dev.once(tmp_path / "stamp", ["a"], lambda: done.append("a"))
        with pytest.raises(KeyboardInterrupt):
            dev.once(tmp_path / "stamp", ["b"], interrupted)
    assert done == ["a", "a"]


def test_the_environment_keeps_out_packages_of_the_callers_own(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("PATH", "usual")
    env = dev.environment()
    assert "PYTHONPATH" not in env
    assert env["PATH"].split(":")[0] == str(dev.VENV / "bin")
    assert env["PATH"].split(":")[-1] == "usual"


def test_an_unknown_command_is_wrong_usage_and_help_is_not(
    dev: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dev.main(["deploy"]) == 2
    assert dev.main(["--help"]) == 0
    assert "Synthesize the example fleet" in capsys.readouterr().out


def test_the_lock_file_holds_a_version_that_each_requirement_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    lines = (ROOT / "requirements" / "dev.txt").read_text()
    locked = re.findall(r"^([\w.-]+)==([\w.]+)", lines, flags=re.MULTILINE)
    unmet = [
        text
        for text in [*wanted, *project["build-system"]["requires"]]
        if not any(
            name == canonicalize_name(Requirement(text).name) and version in Requirement(text).specifier
            for name, version in locked
        )
    ]
    assert unmet == [], "run `python3 dev.py lock`"


def test_the_lock_file_holds_the_pinned_cdk_command_line() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]["node_modules/aws-cdk"]
    assert locked["version"] == wanted
