"""The custom resource that runs helm in CodeBuild, against botocore's own shapes."""

from collections.abc import Iterator
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.stub import Stubber  # type: ignore[import-untyped]

from hyperpod_constructs.handlers import chart_build

PROPERTIES = {
    "Project": "installer",
    "ClusterName": "research",
    "Release": "dependencies",
    "Namespace": "kube-system",
    "Variables": {"COMMIT": "0" * 40, "VALUES": "{}"},
}


@pytest.fixture
def codebuild(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client = boto3.client("codebuild", region_name="us-east-1")
    monkeypatch.setattr(boto3, "client", lambda _service: client)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def event(request_type: str) -> dict[str, Any]:
    return {"RequestType": request_type, "RequestId": "r-1", "ResourceProperties": PROPERTIES}


@pytest.mark.parametrize(
    ("request_type", "action"), [("Create", "install"), ("Update", "install"), ("Delete", "uninstall")]
)
def test_each_request_starts_one_build(codebuild: Stubber, request_type: str, action: str) -> None:
    variables = {
        "ACTION": action,
        "CLUSTER_NAME": "research",
        "COMMIT": "0" * 40,
        "NAMESPACE": "kube-system",
        "RELEASE": "dependencies",
        "VALUES": "{}",
    }
    codebuild.add_response(
        "start_build",
        {"build": {"id": "installer:1"}},
        {
            "projectName": "installer",
            "idempotencyToken": "r-1",
            "environmentVariablesOverride": [
                {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
            ],
        },
    )
    assert chart_build.on_event(event(request_type), None) == {
        "PhysicalResourceId": "research/kube-system/dependencies",
        "BuildId": "installer:1",
    }


def test_a_build_that_cannot_start_fails_the_resource(codebuild: Stubber) -> None:
    codebuild.add_client_error("start_build", "ResourceNotFoundException", "no project")
    with pytest.raises(codebuild.client.exceptions.ResourceNotFoundException):
        chart_build.on_event(event("Create"), None)


def poll(codebuild: Stubber, *builds: dict[str, Any]) -> dict[str, bool]:
    codebuild.add_response("batch_get_builds", {"builds": list(builds)}, {"ids": ["installer:1"]})
    return chart_build.is_complete({"BuildId": "installer:1"}, None)


@pytest.mark.parametrize(("status", "complete"), [("IN_PROGRESS", False), ("SUCCEEDED", True)])
def test_only_a_succeeded_build_completes(codebuild: Stubber, status: str, complete: bool) -> None:
    answer = poll(codebuild, {"id": "installer:1", "buildStatus": status})
    assert answer == {"IsComplete": complete}


@pytest.mark.parametrize("status", ["FAILED", "FAULT", "TIMED_OUT", "STOPPED"])
def test_any_other_end_fails_with_the_last_reason_and_the_log(codebuild: Stubber, status: str) -> None:
    build = {
        "id": "installer:1",
        "buildStatus": status,
        "phases": [
            {"phaseType": "INSTALL", "phaseStatus": "SUCCEEDED", "contexts": [{"message": "fine"}]},
            {
                "phaseType": "BUILD",
                "phaseStatus": "FAILED",
                "contexts": [{"message": "helm: exit status 1"}],
            },
        ],
        "logs": {"deepLink": "https://console.aws.amazon.com/log"},
    }
    with pytest.raises(RuntimeError) as caught:
        poll(codebuild, build)
    assert str(caught.value) == (
        f"build installer:1 ended as {status}: BUILD: helm: exit status 1; "
        "log: https://console.aws.amazon.com/log"
    )


def test_a_build_without_reason_still_fails(codebuild: Stubber) -> None:
    with pytest.raises(RuntimeError, match="no phase gave a reason; log: none"):
        poll(codebuild, {"id": "installer:1", "buildStatus": "FAULT"})


def test_a_vanished_build_fails(codebuild: Stubber) -> None:
    with pytest.raises(RuntimeError, match="installer:1 does not exist any more"):
        poll(codebuild)


def test_a_long_reason_fits_into_a_response(codebuild: Stubber) -> None:
    build = {
        "id": "installer:1",
        "buildStatus": "FAILED",
        "phases": [{"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [{"message": "x" * 9000}]}],
    }
    with pytest.raises(RuntimeError) as caught:
        poll(codebuild, build)
    # CloudFormation takes 4096 bytes, of which the provider framework needs some.
    assert len(str(caught.value)) < 2048
