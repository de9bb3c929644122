"""What the handlers share: clients, and what an error of a call means.

A handler is a top-level module in Lambda, where this directory is the root, and a module of a package in
tests and for mypy. One form of import suits both, and no path is changed for it:

    if TYPE_CHECKING or __package__:
        from . import service_api
    else:
        import service_api

Call `service_api.client(...)` by the module, so that a test can put another client in its place. A function
that calls SageMaker has AWS_DATA_PATH=/var/task/models in its environment: botocore then takes the model
that lies here before its own, which may be older (see tools/generate_service_model.py).
"""

import functools
import os
import re
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
)

LONGEST_CALL = 30.0
"""Seconds that one call may take at most: two attempts of 2 + 10 seconds, and the pause between them."""

MESSAGE_LIMIT = 1500
"""Characters of a failure's text: CloudFormation takes 4 KB of an answer, with what the framework adds."""

_CONFIG = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})

# Codes that AWS services share, and SageMaker's own word for a resource that something else is changing.
_THROTTLES = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)
_CONFLICTS = frozenset({"ConflictException", "ResourceInUse", "ResourceInUseException"})
_PASSING = frozenset(
    {
        "InternalFailure",
        "InternalServerException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    }
)
_DENIALS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "UnauthorizedOperation",
        "NotAuthorized",
        "UnauthorizedException",
    }
)
# IAM's own sentence: "User: arn:aws:sts::1:assumed-role/NAME/SESSION is not authorized to perform: s:Action".
_PERFORM = re.compile(r"not authorized to perform: ([\w-]+:\w+)")
_ROLE = re.compile(r"assumed-role/([^/\s]+)/")


@functools.cache
def client(service: str = "sagemaker") -> Any:
    """Give the client of a service, whose calls end well before a function does."""
    return boto3.client(service, config=_CONFIG)


def code(error: Exception) -> str:
    """Give the service's word for an error; empty if the service said nothing."""
    return str(error.response["Error"].get("Code", "")) if isinstance(error, ClientError) else ""


def denied(error: Exception) -> bool:
    """Whether a permission is missing."""
    return code(error) in _DENIALS


def transient(error: Exception) -> bool:
    """Whether the same call may succeed later: throttles, conflicts, the service's own failures, the network.

    After a timeout or a broken connection, the call may have had its effect.
    """
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code(error) in _THROTTLES | _CONFLICTS | _PASSING or status >= 500 or status == 429
    return isinstance(error, ConnectionError | HTTPClientError)


def explain(error: Exception, service: str = "sagemaker") -> str:
    """Say what went wrong and, where permissions are missing, which one to give to which role.

    Args:
        error: what a call raised.
        service: IAM prefix of the called service, for a denial that does not name its action.
    """
    if isinstance(error, ClientError) and denied(error):
        said = str(error.response["Error"].get("Message", ""))
        action = _PERFORM.search(said)
        role = _ROLE.search(said)
        whom = f"role {role[1]}" if role else f"the role of function {_function_name()}"
        missing = action[1] if action else f"{service}:{error.operation_name}"
        return shorten(f"no permission for {missing}: give it to {whom}. AWS said: {said}")
    if isinstance(error, ClientError):
        said = str(error.response["Error"].get("Message", ""))
        return shorten(f"{error.operation_name}: {code(error)}: {said}")
    if isinstance(error, BotoCoreError):
        return shorten(f"{type(error).__name__}: {error}")
    return shorten(str(error) or type(error).__name__)


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut a text that CloudFormation would not take, leaving its beginning."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _function_name() -> str:
    return os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "that made this call")
