"""The trimmed service model, the client that takes it, and what errors of calls mean."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (  # type: ignore[import-untyped]
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ParamValidationError,
    ReadTimeoutError,
)

from hyperpod_constructs.handlers import service_api

ROOT = Path(__file__).parents[2]
HANDLERS = ROOT / "constructs/hyperpod_constructs/handlers"
MODEL = HANDLERS / "models/sagemaker/2017-07-24/service-2.json"
TOOL = ROOT / "tools/generate_service_model.py"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=HANDLERS,
        env={**os.environ, "AWS_DEFAULT_REGION": "eu-west-1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_committed_model_is_what_the_tool_makes_of_the_pinned_botocore() -> None:
    done = run(str(TOOL), "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_model_is_small_and_has_no_documentation() -> None:
    text = MODEL.read_text()
    assert '"documentation": "' not in text
    # The whole model has over 400 operations in several megabytes.
    assert len(text) < 150_000


# What Lambda does: this directory is the root, modules are top-level, AWS_DATA_PATH names the models.
_AS_IN_LAMBDA = """
import json, service_api
client = service_api.client()
model = client.meta.service_model
print(json.dumps({
    "operations": sorted(model.operation_names),
    "endpoint": client.meta.endpoint_url,
    "min_count": "MinCount" in model.shape_for("ClusterInstanceGroupDetails").members,
    "partition": "AcceleratorPartition" in model.shape_for("ComputeQuotaResourceConfig").members,
}))
"""


def test_a_real_client_takes_the_model_from_the_data_path_and_finds_its_endpoint() -> None:
    done = run("-c", _AS_IN_LAMBDA, AWS_DATA_PATH=str(HANDLERS / "models"))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["operations"] == sorted(json.loads(MODEL.read_text())["operations"])
    assert said["endpoint"] == "https://api.sagemaker.eu-west-1.amazonaws.com"
    assert said["min_count"] and said["partition"]


def test_a_request_by_the_trimmed_model_is_what_the_whole_model_sends() -> None:
    script = (
        "import json, service_api\n"
        "from botocore.awsrequest import AWSResponse\n"
        "client = service_api.client()\n"
        "def see(request, **_):\n"
        "    print(request.url, request.headers['X-Amz-Target'].decode(), request.body.decode())\n"
        "    return AWSResponse(request.url, 200, {}, type('R', (), {'stream': lambda s: [b'{}']})())\n"
        "client.meta.events.register('before-send', see)\n"
        "client.create_compute_quota(Name='q', ClusterArn='arn:aws:sagemaker:eu-west-1:1:cluster/c',\n"
        "    ComputeQuotaConfig={'ComputeQuotaResources': [{'InstanceType': 'ml.p5.48xlarge', 'VCpu': 4.0,\n"
        "        'AcceleratorPartition': {'Type': 'mig-1g.10gb', 'Count': 2}}]},\n"
        "    ComputeQuotaTarget={'TeamName': 't'})\n"
    )
    trimmed = run("-c", script, AWS_DATA_PATH=str(HANDLERS / "models"))
    whole = run("-c", script)
    assert trimmed.returncode == 0, trimmed.stderr
    assert "SageMaker.CreateComputeQuota" in trimmed.stdout
    assert trimmed.stdout == whole.stdout


def test_the_longest_call_is_no_longer_than_said() -> None:
    config = service_api.client("iam").meta.config
    attempts = config.retries["total_max_attempts"]
    # The standard mode waits less than a second before the second attempt.
    assert attempts * (config.connect_timeout + config.read_timeout) + 1 < service_api.LONGEST_CALL


def failed(code: str, message: str = "said", status: int = 400, operation: str = "CreateComputeQuota") -> Any:
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


URL = "https://api.sagemaker.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(failed("ThrottlingException"), id="throttled"),
        pytest.param(failed("ConflictException"), id="something else changes it"),
        pytest.param(failed("InternalFailure", status=500), id="the service failed"),
        pytest.param(failed("NeverHeardOf", status=503), id="an unknown code with status 503"),
        pytest.param(ReadTimeoutError(endpoint_url=URL), id="no answer in time"),
        pytest.param(ConnectTimeoutError(endpoint_url=URL), id="no connection in time"),
        pytest.param(EndpointConnectionError(endpoint_url=URL), id="no connection"),
    ],
)
def test_these_errors_may_pass(error: Exception) -> None:
    assert service_api.transient(error)


@pytest.mark.parametrize(
    "error",
    [
        failed("ValidationException"),
        failed("ResourceLimitExceeded"),
        failed("ResourceNotFound"),
        failed("AccessDeniedException"),
        ParamValidationError(report="Name is missing"),
        KeyError("Name"),
    ],
    ids=lambda error: service_api.code(error) or type(error).__name__,
)
def test_these_errors_do_not_pass(error: Exception) -> None:
    assert not service_api.transient(error)


def test_a_denial_names_the_action_and_the_role() -> None:
    said = (
        "User: arn:aws:sts::123456789012:assumed-role/quota-role/fn is not authorized to perform: "
        "sagemaker:AddTags on resource: arn:aws:sagemaker:eu-west-1:123456789012:compute-quota/*"
    )
    text = service_api.explain(failed("AccessDeniedException", said))
    assert text.startswith("no permission for sagemaker:AddTags: give it to role quota-role. AWS said: User")


def test_a_denial_without_details_names_the_called_operation_and_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "quotas")
    text = service_api.explain(failed("AccessDeniedException", ""))
    assert text.startswith(
        "no permission for sagemaker:CreateComputeQuota: give it to the role of function quotas"
    )


def test_other_errors_keep_the_words_of_the_service() -> None:
    text = service_api.explain(failed("ResourceLimitExceeded", "15 quotas at most"))
    assert text == "CreateComputeQuota: ResourceLimitExceeded: 15 quotas at most"


def test_a_long_message_is_cut() -> None:
    text = service_api.explain(failed("ValidationException", "x" * 9000))
    assert len(text) == service_api.MESSAGE_LIMIT
