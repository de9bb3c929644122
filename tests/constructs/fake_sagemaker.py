"""SageMaker as far as the handlers call it: state that changes with time, behind real botocore clients.

Requests go through botocore's own validation and are then held to the patterns and limits of its model;
answers are held to the model's output shapes. An operation that is not simulated is a BaseException, so that
no handler can take it for an error of the service.

What is taken from the reference: names of statuses, TargetVersion, what the service fills in, one quota a
team, one scheduler config a cluster, what may be done in which status. What is assumed, and so varied by
options: whether names are unique at once or only as far as a list shows, how late lists are, how long
changes take.

To simulate more, register it: `fake.register("DescribeCluster", function from request to answer)`.
"""

import copy
import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError  # type: ignore[import-untyped]
from botocore.validate import ParamValidator  # type: ignore[import-untyped]

from hyperpod_constructs.handlers import service_api

Json = dict[str, Any]
CLUSTER = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"
URL = "https://api.sagemaker.us-east-1.amazonaws.com"


class NotSimulatedError(BaseException):
    """The fake does not have what was called, or broke the model itself: a fault of the test."""


class KilledError(BaseException):
    """The process ends here: no handler may catch this."""


class ServiceError(Exception):
    """An answer that is an error."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class Clock:
    """Seconds since the epoch, at will."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True)
class Fault:
    """What befalls one call.

    Args:
        kind: `kill`, `timeout`, `no connection`, or the code of an error.
        effect: whether the call has had its effect.
        operation: of which operation; None: of the next call, whatever it is.
        message: of the error.
    """

    kind: str
    effect: bool = False
    operation: str | None = None
    message: str = "injected"

    @property
    def title(self) -> str:
        return f"{self.kind} {'after' if self.effect else 'before'} the effect"

    def strike(self) -> None:
        if self.kind == "kill":
            raise KilledError
        if self.kind == "timeout":
            raise ReadTimeoutError(endpoint_url=URL)
        if self.kind == "no connection":
            raise ConnectTimeoutError(endpoint_url=URL)
        raise ServiceError(self.kind, self.message, 500 if self.kind == "InternalFailure" else 400)


@dataclass
class Item:
    """A compute quota or scheduler config."""

    noun: str
    id: str
    arn: str
    name: str
    cluster: str
    settings: Json
    tags: dict[str, str]
    created: float
    modified: float
    status: str = "Creating"
    version: int = 1
    reason: str = ""
    # When the change in flight ends, and how.
    until: float = 0.0
    then: str = "Created"
    # When lists begin and cease to show it.
    listed_from: float = 0.0
    listed_until: float | None = None

    @property
    def team(self) -> str:
        return str(self.settings.get("ComputeQuotaTarget", {}).get("TeamName", ""))


@dataclass
class Deletion:
    """A delete that was accepted: of what, by whom, and how things were then."""

    item: Item
    by_people: bool
    tags: dict[str, str]
    status: str
    stacks: dict[str, str]


PATHS = {"ComputeQuota": "compute-quota", "ClusterSchedulerConfig": "cluster-scheduler-config"}
SETTINGS = {
    "ComputeQuota": ("ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "Description"),
    "ClusterSchedulerConfig": ("SchedulerConfig", "Description"),
}
IN_FLIGHT = ("Creating", "Updating", "Deleting")
# vCPUs and GiB of one accelerator, in round figures: what the service fills in must only differ from nothing.
PER_ACCELERATOR = (24.0, 96.0)


@dataclass
class FakeSageMaker:
    """The service.

    Args:
        clock: what time it is.
        duration: seconds that a change takes.
        lag: seconds by which lists are late; called once for each creation and deletion.
        page: items on a page.
        unique_at_once: False: names and teams are compared with what lists show.
        shows_failed: whether an update that failed is described with the settings that were asked.
        limit: quotas that a cluster may have.
    """

    clock: Clock = field(default_factory=Clock)
    duration: Callable[[], float] = lambda: 15.0
    lag: Callable[[], float] = lambda: 5.0
    page: Callable[[], int] = lambda: 2
    unique_at_once: bool = True
    shows_failed: bool = False
    limit: int = 50
    faults: deque[Fault | None] = field(default_factory=deque)
    outcomes: deque[str | None] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.gone: list[Item] = []
        self.deletions: list[Deletion] = []
        self.stacks: dict[str, str] = {}
        self.clusters = {CLUSTER}
        self.calls: Counter[str] = Counter()
        self.struck: Counter[str] = Counter()
        self.people = False
        self._ids = itertools.count(1)
        self._clients: dict[str, Any] = {}
        self._operations: dict[str, Callable[[Json], Json]] = {
            "AddTags": self._add_tags,
            "DeleteTags": self._delete_tags,
            "DescribeCluster": self._describe_cluster,
            "DescribeStacks": self._describe_stacks,
            "ListTags": self._list_tags,
        }
        for noun in PATHS:
            self._register_kind(noun)

    def register(self, operation: str, answer: Callable[[Json], Json]) -> None:
        """Simulate an operation; it may raise ServiceError."""
        self._operations[operation] = answer

    def operation(self, operation: str) -> Callable[[Json], Json]:
        """Return what answers an operation now, to register it again or to wrap it."""
        return self._operations[operation]

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FakeSageMaker":
        """Give the handlers clients of this service."""
        monkeypatch.setattr(service_api, "client", self.client)
        return self

    def client(self, service: str = "sagemaker") -> Any:
        """Give a client that ends here."""
        if service not in self._clients:
            client = boto3.client(service, region_name="us-east-1")
            client.meta.events.register("before-parameter-build.*.*", self._remember)
            client.meta.events.register("before-call.*.*", self._answer)
            self._clients[service] = client
        return self._clients[service]

    @contextmanager
    def by_people(self) -> Iterator[Any]:
        """Give a client of people in the console, whom no fault befalls."""
        faults, outcomes = self.faults, self.outcomes
        self.faults, self.outcomes, self.people = deque(), deque(), True
        try:
            yield self.client()
        finally:
            self.faults, self.outcomes, self.people = faults, outcomes, False

    def named(self, name: str, noun: str = "ComputeQuota") -> list[Item]:
        """Return all of a name, in the order of their creation."""
        self.settle()
        return [one for one in self.items.values() if one.noun == noun and one.name == name]

    def settle(self) -> None:
        """Let end what has ended by now."""
        for item in list(self.items.values()):
            if item.status in IN_FLIGHT and self.clock() >= item.until:
                item.status = item.then
                item.reason = "injected: Kueue said no" if item.then.endswith("Failed") else ""
                if item.then == "Deleted":
                    self.gone.append(self.items.pop(item.id))
                    item.listed_until = item.until + self.lag()

    # Between botocore and the operations.

    def _remember(self, params: Json, context: Json, **_: Any) -> None:
        context["request"] = copy.deepcopy(params)

    def _answer(self, model: Any, context: Json, **_: Any) -> tuple[Any, Json]:
        request = context["request"]
        operation = self._operations.get(model.name)
        if operation is None:
            raise NotSimulatedError(f"{model.name} is not simulated; register it")
        self.calls[model.name] += 1
        fault = self._fault(model.name)
        try:
            _hold(request, model.input_shape)
            if fault and not fault.effect:
                self.clock.sleep(20 if fault.kind == "timeout" else 0)
                fault.strike()
            self.settle()
            answer = operation(request)
            if fault and fault.effect:
                fault.strike()
        except ServiceError as error:
            return _failure(error)
        return _success(answer, model)

    def _fault(self, operation: str) -> Fault | None:
        if not self.faults or (self.faults[0] and self.faults[0].operation not in (None, operation)):
            return None
        fault = self.faults.popleft()
        if fault:
            self.struck[fault.title] += 1
        return fault

    def _outcome(self, item: Item, good: str) -> None:
        """Let a change begin that ends well, or as was injected."""
        outcome = self.outcomes.popleft() if self.outcomes else None
        bad = {"Created": "CreateFailed", "Updated": "UpdateFailed", "Deleted": "DeleteFailed"}[good]
        item.then = good
        if outcome:
            item.then = bad if outcome == "Failed" else bad.replace("Failed", "RollbackFailed")
            self.struck[f"outcome {item.then}"] += 1
        item.status = {"Created": "Creating", "Updated": "Updating", "Deleted": "Deleting"}[good]
        item.until = self.clock() + self.duration()

    # Both kinds.

    def _register_kind(self, noun: str) -> None:
        self.register(f"Create{noun}", lambda request: self._create(noun, request))
        self.register(f"Update{noun}", lambda request: self._update(noun, request))
        self.register(f"Delete{noun}", lambda request: self._delete(noun, request))
        self.register(f"Describe{noun}", lambda request: self._describe(noun, request))
        self.register(f"List{noun}s", lambda request: self._list(noun, request))

    def _create(self, noun: str, request: Json) -> Json:
        if request["ClusterArn"] not in self.clusters:
            raise ServiceError("ResourceNotFound", f"cluster {request['ClusterArn']} does not exist")
        self._check_unique(noun, request)
        number = next(self._ids)
        made = Item(
            noun=noun,
            id=f"{number:012d}",
            arn=f"arn:aws:sagemaker:us-east-1:123456789012:{PATHS[noun]}/{number:012d}",
            name=request["Name"],
            cluster=request["ClusterArn"],
            settings=_filled({key: request[key] for key in SETTINGS[noun] if key in request}, noun),
            tags={tag["Key"]: tag["Value"] for tag in request.get("Tags", [])},
            created=self.clock(),
            modified=self.clock(),
            listed_from=self.clock() + self.lag(),
        )
        self._outcome(made, "Created")
        self.items[made.id] = made
        return {f"{noun}Arn": made.arn, f"{noun}Id": made.id}

    def _check_unique(self, noun: str, request: Json) -> None:
        there = [
            one for one in self.items.values() if (one.noun, one.cluster) == (noun, request["ClusterArn"])
        ]
        if noun == "ComputeQuota" and len(there) >= self.limit:
            self.struck["limit reached"] += 1
            raise ServiceError(
                "ResourceLimitExceeded", f"the limit of {self.limit} compute quotas is reached"
            )
        if not self.unique_at_once:
            there = [one for one in there if self._listed(one)]
        team = request.get("ComputeQuotaTarget", {}).get("TeamName", "")
        for one in there:
            if one.name == request["Name"] or one.team == team:
                raise ServiceError("ConflictException", f"{noun} {one.name} exists")

    def _update(self, noun: str, request: Json) -> Json:
        item = self._item(noun, request)
        if request["TargetVersion"] != item.version:
            raise ServiceError("ConflictException", f"the version is {item.version}")
        if item.status not in ("Created", "Updated", "UpdateFailed"):
            raise ServiceError("ConflictException", f"{item.name} is {item.status}")
        changed = {key: request[key] for key in SETTINGS[noun] if key in request}
        if changed.get("ComputeQuotaTarget", {}).get("TeamName", item.team) != item.team:
            raise ServiceError("ValidationException", "the team of a quota cannot be changed")
        self._outcome(item, "Updated")
        item.version += 1
        item.modified = self.clock()
        if item.then == "Updated" or self.shows_failed:
            item.settings.update(_filled(changed, noun))
        return {f"{noun}Arn": item.arn, f"{noun}Version": item.version}

    def _delete(self, noun: str, request: Json) -> Json:
        item = self._item(noun, request)
        if item.status in IN_FLIGHT:
            raise ServiceError("ConflictException", f"{item.name} is {item.status}")
        self.deletions.append(Deletion(item, self.people, dict(item.tags), item.status, dict(self.stacks)))
        self._outcome(item, "Deleted")
        return {}

    def _describe(self, noun: str, request: Json) -> Json:
        item = self._item(noun, request)
        answer = {**self._summary(item), **copy.deepcopy(item.settings)}
        if item.reason:
            answer["FailureReason"] = item.reason
        return answer

    def _summary(self, item: Item) -> Json:
        summary = {
            f"{item.noun}Arn": item.arn,
            f"{item.noun}Id": item.id,
            f"{item.noun}Version": item.version,
            "Name": item.name,
            "Status": item.status,
            "ClusterArn": item.cluster,
            "CreationTime": datetime.fromtimestamp(item.created, UTC),
            "LastModifiedTime": datetime.fromtimestamp(item.modified, UTC),
        }
        if item.noun == "ComputeQuota":
            summary["ComputeQuotaTarget"] = copy.deepcopy(item.settings["ComputeQuotaTarget"])
            summary["ActivationState"] = item.settings["ActivationState"]
        return summary

    def _list(self, noun: str, request: Json) -> Json:
        arn = request.get("ClusterArn")
        if arn and arn not in self.clusters:
            raise ServiceError("ValidationException", f"cluster {arn} does not exist")
        shown = [
            self._summary(one)
            for one in sorted([*self.items.values(), *self.gone], key=lambda one: one.id)
            if one.noun == noun and self._listed(one) and arn in (None, one.cluster)
            if request.get("NameContains", "") in one.name
        ]
        start = int(request.get("NextToken", "0"))
        end = start + min(self.page(), request.get("MaxResults", 100))
        more = {"NextToken": str(end)} if end < len(shown) else {}
        return {f"{noun}Summaries": shown[start:end], **more}

    def _listed(self, item: Item) -> bool:
        return item.listed_from <= self.clock() < (item.listed_until or float("inf"))

    def _item(self, noun: str, request: Json) -> Item:
        item = self.items.get(request[f"{noun}Id"])
        if item is None or item.noun != noun:
            raise ServiceError("ResourceNotFound", f"no {noun} has this id")
        return item

    # Tags, clusters, stacks.

    def _tagged(self, request: Json) -> Item:
        for item in self.items.values():
            if item.arn == request["ResourceArn"]:
                return item
        raise ServiceError("ResourceNotFound", f"{request['ResourceArn']} does not exist")

    def _add_tags(self, request: Json) -> Json:
        item = self._tagged(request)
        tags = {**item.tags, **{tag["Key"]: tag["Value"] for tag in request["Tags"]}}
        if len(tags) > 50:
            raise ServiceError("ValidationException", f"{len(tags)} tags: the limit is 50")
        item.tags = tags
        return {"Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}

    def _delete_tags(self, request: Json) -> Json:
        item = self._tagged(request)
        item.tags = {key: value for key, value in item.tags.items() if key not in request["TagKeys"]}
        return {}

    def _list_tags(self, request: Json) -> Json:
        tags = self._tagged(request).tags
        shown = [{"Key": key, "Value": tags[key]} for key in sorted(tags)]
        start = int(request.get("NextToken", "0"))
        end = start + self.page()
        return {"Tags": shown[start:end], **({"NextToken": str(end)} if end < len(shown) else {})}

    def _describe_cluster(self, request: Json) -> Json:
        arn = request["ClusterName"]
        if arn not in self.clusters:
            raise ServiceError("ResourceNotFound", f"cluster {arn} does not exist")
        return {"ClusterArn": arn, "ClusterStatus": "InService", "InstanceGroups": []}

    def _describe_stacks(self, request: Json) -> Json:
        stack = request["StackName"]
        if stack not in self.stacks:
            raise ServiceError("ValidationError", f"stack {stack} does not exist")
        created = datetime.fromtimestamp(0, UTC)
        return {"Stacks": [{"StackName": stack, "StackStatus": self.stacks[stack], "CreationTime": created}]}


def _filled(settings: Json, noun: str) -> Json:
    """Return settings with what the service adds to them, in its own order."""
    settings = copy.deepcopy(settings)
    if "ComputeQuotaConfig" in settings:
        config = settings["ComputeQuotaConfig"]
        config.setdefault("PreemptTeamTasks", "LowerPriority")
        sharing = config.setdefault("ResourceSharingConfig", {"Strategy": "LendAndBorrow"})
        if sharing["Strategy"] == "LendAndBorrow":
            sharing.setdefault("BorrowLimit", 50)
        for one in config.get("ComputeQuotaResources", []):
            accelerators = one.setdefault("Accelerators", 0)
            one.setdefault("VCpu", accelerators * PER_ACCELERATOR[0])
            one.setdefault("MemoryInGiB", accelerators * PER_ACCELERATOR[1])
        config.get("ComputeQuotaResources", []).reverse()
    if "ComputeQuotaTarget" in settings:
        settings["ComputeQuotaTarget"].setdefault("FairShareWeight", 0)
        settings.setdefault("ActivationState", "Enabled")
    if "SchedulerConfig" in settings:
        settings["SchedulerConfig"].setdefault("IdleResourceSharing", "Disabled")
        settings["SchedulerConfig"].setdefault("FairShare", "Disabled")
        settings["SchedulerConfig"].get("PriorityClasses", []).reverse()
    return settings


def _hold(value: Any, shape: Any) -> None:
    """Hold a request to the patterns, enumerations and limits that botocore itself does not look at."""
    limits = shape.metadata
    match shape.type_name:
        case "structure":
            for key, item in value.items():
                _hold(item, shape.members[key])
        case "list":
            if len(value) > limits.get("max", len(value)):
                raise ServiceError("ValidationException", f"{shape.name}: {len(value)} items")
            for item in value:
                _hold(item, shape.member)
        case "string":
            pattern = _pattern(limits.get("pattern", ""))
            within = len(value) <= limits.get("max", len(value)) and value in limits.get("enum", [value])
            if not within or (pattern and not pattern.fullmatch(value)):
                raise ServiceError("ValidationException", f"{shape.name}: {value!r} is not allowed")
        case "integer" | "float":
            if not limits.get("min", value) <= value <= limits.get("max", value):
                raise ServiceError("ValidationException", f"{shape.name}: {value} is out of range")


def _pattern(text: str) -> re.Pattern[str] | None:
    if text == r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)":
        text = r"[\w .:/=+\-@]*"
    return None if not text or r"\p" in text else re.compile(text)


def _failure(error: ServiceError) -> tuple[Any, Json]:
    parsed = {
        "Error": {"Code": error.code, "Message": str(error)},
        "ResponseMetadata": {"HTTPStatusCode": error.status},
    }
    return _Http(error.status), parsed


def _success(answer: Json, model: Any) -> tuple[Any, Json]:
    if model.output_shape is not None:
        report = ParamValidator().validate(answer, model.output_shape)
        if report.has_errors():
            raise NotSimulatedError(f"the fake's answer to {model.name}: {report.generate_report()}")
    return _Http(200), {**answer, "ResponseMetadata": {"HTTPStatusCode": 200}}


@dataclass
class _Http:
    status_code: int
