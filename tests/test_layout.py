"""The house: which stage may import which, and what must not stand in the repository."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

MAY_IMPORT = {
    "config": set[str](),
    "governance": {"config"},
    "k8s": {"config", "governance"},
    "constructs": set[str](),
    "infra": {"config", "governance", "k8s", "constructs"},
    "live": {"config", "governance", "k8s"},
    "cli": {"config", "governance", "k8s", "constructs", "infra", "live"},
}
"""The arrows of the pipeline: a stage, and the stages before it that it may import."""

SYNTHESIS = {"aws_cdk", "cdk8s", "constructs", "jsii"}
AWS_CLIENTS = {"boto3", "botocore"}

IMPORT_ALL = """
import importlib, json, pkgutil, sys
hidden, root = json.loads(sys.argv[1]), sys.argv[2]
sys.path[:] = [entry for entry in sys.path if entry not in hidden]
package = importlib.import_module(root)
for module in pkgutil.walk_packages(package.__path__, root + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def package_of(stage: str) -> str:
    return f"hyperpod_{stage}"


def imported_names(source: str) -> set[str]:
    """Return the top-level names that a module imports anywhere, lazily too."""
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def python(*args: str) -> str:
    command = [sys.executable, "-P", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.mark.parametrize("folder", [*MAY_IMPORT, "tests"])
def test_a_stage_folder_is_no_package_itself(folder: str) -> None:
    # `constructs/__init__.py` would shadow the PyPI package of that name, and importlib mode hides it.
    assert not (ROOT / folder / "__init__.py").exists()


def test_every_stage_has_its_arrows() -> None:
    assert {package.parent.name for package in ROOT.glob("*/hyperpod_*")} == set(MAY_IMPORT)


@pytest.mark.parametrize("stage", MAY_IMPORT)
def test_a_stage_imports_only_the_stages_before_it(stage: str) -> None:
    allowed = {package_of(each) for each in MAY_IMPORT[stage] | {stage}}
    ours = {package_of(each) for each in MAY_IMPORT}
    modules = sorted((ROOT / stage / package_of(stage)).rglob("*.py"))
    assert modules
    wrong = {
        str(module.relative_to(ROOT)): sorted(backwards)
        for module in modules
        if (backwards := (imported_names(module.read_text()) & ours) - allowed)
    }
    assert wrong == {}


@pytest.mark.parametrize("stage", MAY_IMPORT)
def test_a_stage_imports_with_only_the_stages_before_it_installed(stage: str) -> None:
    hidden = [str(ROOT / each) for each in MAY_IMPORT if each not in MAY_IMPORT[stage] | {stage}]
    loaded = set(json.loads(python("-c", IMPORT_ALL, json.dumps(hidden), package_of(stage))))
    if stage in {"config", "governance"}:
        assert loaded.isdisjoint(SYNTHESIS | AWS_CLIENTS)


def test_the_command_line_starts_without_what_only_synthesis_and_aws_need() -> None:
    code = "import hyperpod_cli.main, sys, json; print(json.dumps(sorted(sys.modules)))"
    assert set(json.loads(python("-c", code))).isdisjoint(SYNTHESIS | AWS_CLIENTS)


def test_no_file_names_a_registry_host_or_a_place_on_one_machine() -> None:
    # Put together here, so that this file passes too.
    hosts = [".".join(parts) for parts in [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org")]]
    places = [str(ROOT) + "/", *("/".join(["", name, ""]) for name in ("root", "work", "Users"))]
    wrong = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in tracked_files()
        for word in [*hosts, *places]
        if word.encode() in path.read_bytes()
    ]
    assert wrong == []
