"""One account on this machine: an endpoint, and behind it CloudFormation, SageMaker, Lambda, Step Functions.

Time is the fakes': it moves on when something waits, and what was to happen meanwhile happens.
"""

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote

import boto3  # type: ignore[import-untyped]
from botocore import xform_name  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]
from moto import mock_aws
from tests.constructs.fake_sagemaker import Clock, FakeSageMaker, NotSimulatedError, ServiceError
from tests.constructs.state_machine import Machines
from tests.smoke import resource_types
from tests.smoke.cloudformation import ACCOUNT, Region
from tests.smoke.cloudformation_api import CloudFormationApi
from tests.smoke.endpoint import Caller, Endpoint, Operation, Response
from tests.smoke.functions import Functions, Python, Role
from tests.smoke.hyperpod import HyperPod

Json = Any

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = "30"
_ANSWER = (200, {"Content-Type": "application/json"})


class Place:
    """What one region has.

    Attributes:
        cloudformation: its stacks.
        sagemaker: the fake service.
        hyperpod: its clusters.
        eks_clusters: names of its EKS clusters, with the versions of their add-ons.
        names: (type, name) of what has a name that nothing else of the type may have.
    """

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        # Lists that are late are the handlers' own tests' affair.
        self.sagemaker = FakeSageMaker(clock=world.clock, page=lambda: 100)
        self.hyperpod = HyperPod(self.sagemaker, name)
        self.eks_clusters: dict[str, dict[str, str]] = {}
        self.names: set[tuple[str, str]] = set()
        self.roles: dict[str, Role] = {}
        self.cloudformation = Region(
            name, resource_types.registry(self), {BOOTSTRAP_PARAMETER: BOOTSTRAP_VERSION}
        )


class World:
    """The account. Use it in a `with` statement.

    Args:
        directory: for the code of functions.
        regions: that are bootstrapped.
        python: what Python functions are forked from.

    Attributes:
        signals: what was sent to each URL that takes signals.
        forbidden: actions that no role allows, as if somebody had taken them away.
        denied: calls of functions that were not allowed.
        s3: client of moto's S3, of all regions.
    """

    def __init__(self, directory: Path, regions: tuple[str, ...], python: Python) -> None:
        self.clock = Clock()
        self.signals: dict[str, list[dict[str, Json]]] = {}
        self.endpoint = Endpoint(
            {
                "cloudformation": self._cloudformation_operation,
                "sagemaker": self._sagemaker_operation,
                "states": self._states_operation,
                # The CLI looks there for the cause of a failure.
                "cloudtrail": {"LookupEvents": lambda _caller, _request: {"Events": []}}.get,
                "logs": {"FilterLogEvents": lambda _caller, _request: {"events": []}}.get,
            },
            {"lambda": self._lambda, "eks": self._eks},
            {"signal": self._signal},
        )
        self.functions = Functions(directory, self._read_object, self._environment, python, self.clock)
        self.machines = Machines(self.clock, self.invoke)
        self.denied: list[str] = []
        self.forbidden: set[str] = set()
        self._tokens = itertools.count(1)
        self._moto = mock_aws()
        self._places = {name: Place(self, name) for name in regions}
        api = CloudFormationApi(lambda name: self.place(name).cloudformation, self._read_url)
        self._stacks = api.operations()

    def __enter__(self) -> "World":
        self._moto.start()
        self.s3 = boto3.client("s3", region_name="us-east-1")
        for name in self._places:
            bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{name}"
            where = {} if name == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": name}}
            self.s3.create_bucket(Bucket=bucket, **where)
            boto3.client("ssm", region_name=name).put_parameter(
                Name=BOOTSTRAP_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String"
            )
        self.endpoint.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.functions.stop()
        self.endpoint.__exit__(kind, error, trace)
        self._moto.stop()

    def place(self, region: str) -> Place:
        """Give a region."""
        if region not in self._places:
            raise ServiceError("UnrecognizedClientException", f"region {region} is not simulated here")
        return self._places[region]

    # Time.

    def wait(self, done: Callable[[], bool], seconds: float) -> bool:
        """Let time go on until something is done; False when that takes longer."""
        end = self.clock.now + seconds
        while not done():
            wake = self.machines.next_wake()
            if wake is None or wake > end:
                self.clock.now = max(self.clock.now, end)
                return done()
            self.machines.step()
        return True

    # Signals: answers of custom resources, and of wait conditions.

    def new_signal(self) -> str:
        """Give a URL that takes signals; `signals` has them by it."""
        url = f"{self.endpoint.url}/signal/{next(self._tokens)}"
        self.signals[url] = []
        return url

    def _signal(self, _caller: Caller, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        received = self.signals.get(f"{self.endpoint.url}{path}")
        if received is None:
            return 403, {}, b"no such signal"
        # The URLs are signed for an empty content type.
        if headers.get("Content-Type"):
            return 403, {}, b"the signature does not match"
        received.append(json.loads(body))
        return 200, {}, b""

    # Lambda.

    def _environment(self, region: str, arn: str) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint.url,
            # Whoever signs with this is this function.
            "AWS_ACCESS_KEY_ID": arn,
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _read_object(self, bucket: str, key: str) -> bytes:
        content: bytes = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def _read_url(self, url: str) -> str:
        bucket, _, key = url.partition("://")[2].partition("/")[2].partition("/")
        return self._read_object(bucket, key).decode()

    def invoke(self, arn: str, event: Json) -> tuple[Json, str]:
        """Invoke a function; gives its answer, and the word for its error."""
        function = self.functions.find(arn)
        if function is None:
            told = {"errorType": "ResourceNotFoundException", "errorMessage": f"no function {arn}"}
            return told, "Unhandled"
        answer = function.invoke(event)
        return json.loads(answer.payload), answer.error

    def _lambda(self, caller: Caller, path: str, _headers: Mapping[str, str], body: bytes) -> Response:
        """Answer Invoke, and what the CLI asks about the log of a function that failed."""
        arn = unquote(path.split("/")[3])
        if path.endswith("/configuration"):
            return (*_ANSWER, json.dumps({"FunctionName": arn}).encode())
        self._check(caller, "lambda:InvokeFunction")
        payload, error = self.invoke(arn, json.loads(body))
        status, headers = _ANSWER
        told = {**headers, "X-Amz-Function-Error": error} if error else headers
        return status, told, json.dumps(payload).encode()

    # Permissions.

    def _check(self, caller: Caller, action: str) -> None:
        """Refuse what the role of the calling function does not allow. People may do everything."""
        function = self.functions.find(caller.key)
        if function is None or (function.role.allows(action) and action not in self.forbidden):
            return
        whom = f"arn:aws:sts::{ACCOUNT}:assumed-role/{function.role.name}/{function.name}"
        self.denied.append(f"{function.name}: {action}")
        said = f"User: {whom} is not authorized to perform: {action} on resource: *"
        raise ServiceError("AccessDeniedException", said, 403)

    # Services.

    def _cloudformation_operation(self, name: str) -> Operation | None:
        operation = self._stacks.get(name)
        if operation is None:
            return None

        def checked(caller: Caller, request: dict[str, Json]) -> Json:
            self._check(caller, f"cloudformation:{name}")
            return operation(caller, request)

        return checked

    def _sagemaker_operation(self, name: str) -> Operation | None:
        def call(caller: Caller, request: dict[str, Json]) -> Json:
            self._check(caller, f"sagemaker:{name}")
            client = self.place(caller.region).sagemaker.client()
            try:
                answer: dict[str, Json] = getattr(client, xform_name(name))(**request)
            except ClientError as error:
                told = error.response["Error"]
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                raise ServiceError(told["Code"], told["Message"], status) from error
            except NotSimulatedError as error:
                raise ServiceError("NotSimulated", str(error), 501) from error
            return {key: value for key, value in answer.items() if key != "ResponseMetadata"}

        return call

    def _states_operation(self, name: str) -> Operation | None:
        operation = self.machines.operations().get(name)
        if operation is None:
            return None

        def checked(caller: Caller, request: dict[str, Json]) -> Json:
            self._check(caller, f"states:{name}")
            return operation(request)

        return checked

    def _eks(self, caller: Caller, path: str, _headers: Mapping[str, str], _body: bytes) -> Response:
        """Answer DescribeAddon, the only call of EKS that a handler makes."""
        _, clusters, cluster, addons, addon = path.split("/")
        assert (clusters, addons) == ("clusters", "addons"), path
        self._check(caller, "eks:DescribeAddon")
        version = self.place(caller.region).eks_clusters.get(cluster, {}).get(addon)
        if version is None:
            raise ServiceError("ResourceNotFoundException", f"no add-on {addon} in {cluster}", 404)
        told = {"addon": {"addonName": addon, "clusterName": cluster, "addonVersion": version}}
        return (*_ANSWER, json.dumps(told).encode())
