"""The wheel: complete, and able to synthesize where there is no checkout."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path for path in ROOT.glob("*/hyperpod_*") if path.is_dir())

FLEET = {
    "fleet.yaml": """\
apiVersion: hyperpod-fleet/v1alpha1
kind: Fleet
metadata: {name: elsewhere}
spec:
  tags: {owner: ml-platform}
""",
    "clusters/research.yaml": """\
apiVersion: hyperpod-fleet/v1alpha1
kind: Cluster
metadata: {name: research}
spec:
  region: us-east-1
  orchestrator: {eks: {version: "1.34"}}
  network: {create: {cidr: 10.192.0.0/16}}
  nodeProvisioningMode: Continuous
  nodeRecovery: Automatic
  instanceGroups:
    - {name: system, instanceType: ml.m5.2xlarge, instanceCount: 2, minInstanceCount: 1}
    - {name: g6, instanceType: ml.g6.12xlarge, instanceCount: 4, minInstanceCount: 2}
  governance:
    owner: sagemaker
    addonVersion: v1.6.1-eksbuild.1
    schedulerConfig:
      fairShare: Enabled
      idleResourceSharing: Disabled
      priorityClasses: [{name: inference, weight: 90}, {name: training, weight: 70}]
""",
    "teams/onlygputeam.yaml": """\
apiVersion: hyperpod-fleet/v1alpha1
kind: Team
metadata: {name: onlygputeam}
spec:
  allocations:
    - cluster: research
      quota:
        - {instanceType: ml.g6.12xlarge, accelerators: 2, vCpu: 48}
      resourceSharingConfig: {strategy: LendAndBorrow, borrowLimit: 50}
      preemptTeamTasks: LowerPriority
      fairShareWeight: 10
""",
}
"""One EKS cluster and one team, as product documentation shows them."""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an environment that sees the locked packages but not the checkout."""
    home = tmp_path_factory.mktemp("elsewhere") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    python = home / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--offline",
        "--no-deps",
        "--python",
        python,
        wheel,
        cwd=home.parent,
    )
    # A folder that a .pth names is searched, but its own .pth files are not read: the editable install
    # of the checkout stays out.
    locked = home / "lib" / Path(sysconfig.get_path("purelib")).relative_to(Path(sys.prefix, "lib"))
    (locked / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {
        path.relative_to(package.parent).as_posix()
        for package in PACKAGES
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == files != set()


def test_the_wheel_elsewhere_synthesizes_a_fleet_outside_the_repository(
    elsewhere: Path, tmp_path: Path
) -> None:
    for name, text in FLEET.items():
        path = tmp_path / "fleet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # No Node on PATH and no JSII_NODE: the wheel must bring its own. HOME keeps jsii's package cache.
    env = {"PATH": str(elsewhere / "bin"), "HOME": os.environ["HOME"], "CDK_VALIDATION": "false"}
    code = "import hyperpod_cli; print(hyperpod_cli.__file__)"
    assert run(elsewhere / "bin" / "python", "-c", code, cwd=tmp_path, env=env).startswith(str(elsewhere))

    run(elsewhere / "bin" / "hpf", "synth", "fleet", "--out", "out", cwd=tmp_path, env=env)

    assert (tmp_path / "out" / "cdk.out" / "manifest.json").is_file()
    templates = {path.name for path in (tmp_path / "out" / "cdk.out").glob("*.template.json")}
    assert "elsewhere-research-governance.template.json" in templates
    assert any((tmp_path / "out" / "preview" / "research").rglob("*.yaml"))
