"""CloudFormation's protocol for custom resources, and the CDK's provider framework between it and a handler.

Read in aws-cdk-lib 2.275.0, custom-resources/lib/provider-framework (runtime/framework.js, cfn-response.js,
waiter-state-machine.js):

- onEvent's answer is merged into the event; a Create without PhysicalResourceId gets the RequestId; a Delete
  may not change it. The merged event, and nothing else, goes to every isComplete.
- An exception of either handler, also the end of its process, is answered as FAILED with the event's
  PhysicalResourceId; for a Create whose onEvent failed that is CREATE_FAILED_PHYSICAL_ID_MARKER, and a
  Delete of that marker succeeds without a call.
- isComplete without IsComplete is asked again after the query interval; Data is an error then. What kills
  the framework's own function is retried in the same way (Retry of States.ALL).
- After total_timeout / query_interval attempts, FAILED: "Operation timed out".

Of CloudFormation: it waits an hour for an answer. A resource whose create failed is deleted by the id of the
answer. A rollback sends Update with the properties exchanged. An Update that answers with another physical
id is a replacement: the old is deleted after all else has succeeded. Properties arrive as strings. A
clean-up that fails leaves the resource behind, which the events of the stack say. [U] Whether the physical id
of an Update that failed is remembered: both are simulated.
"""

import copy
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

from tests.constructs.fake_sagemaker import FakeSageMaker, KilledError

Json = dict[str, Any]
T = TypeVar("T")
Properties = Mapping[str, Any]
# Yields at each poll; its value says whether it succeeded.
Polls = Generator[str, None, bool]
Answering = Generator[str, None, "Answer"]

MARKER = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"
INTERVAL = 10.0
TOTAL_TIMEOUT = 3600.0


class LambdaContext:
    """A function that has five minutes for each call of it, by the clock."""

    def __init__(self, clock: Callable[[], float], seconds: float = 300.0) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - self._clock()) * 1000)


@dataclass
class Answer:
    """What CloudFormation is told."""

    success: bool
    physical_id: str
    reason: str = ""
    data: Json = field(default_factory=dict)


def as_strings(value: Any) -> Any:
    """Return properties as CloudFormation hands them over."""
    if isinstance(value, Mapping):
        return {key: as_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_strings(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass
class Framework:
    """The provider's two functions and its waiter.

    Args:
        handler: a module with on_event and is_complete.
        fake: whose clock is used.
        dies: asked before each handler call: None, "handler" or "framework".
        on_success: called with each event that CloudFormation hears has succeeded.
    """

    handler: ModuleType
    fake: FakeSageMaker
    dies: Callable[[], str | None] = lambda: None
    on_success: Callable[[Json], None] = lambda _event: None

    def run(self, event: Json) -> Answering:
        """Answer one request; yields before each poll."""
        if event["RequestType"] == "Delete" and event["PhysicalResourceId"] == MARKER:
            return Answer(True, MARKER)
        begun = self.fake.clock()
        try:
            merged = self._on_event(event)
        except (Exception, KilledError) as error:
            return Answer(False, event.get("PhysicalResourceId", MARKER), _reason(error))
        while self.fake.clock() - begun < TOTAL_TIMEOUT:
            yield merged["LogicalResourceId"]
            try:
                done: Json
                if self.dies() == "framework":
                    self.fake.struck["kill of the framework"] += 1
                    done = {"IsComplete": False}
                else:
                    context = LambdaContext(self.fake.clock)
                    done = _through_json(self.handler.is_complete(_through_json(merged), context))
            except (Exception, KilledError) as error:
                return Answer(False, merged["PhysicalResourceId"], _reason(error))
            if done["IsComplete"]:
                self.on_success(merged)
                return Answer(True, merged["PhysicalResourceId"], data=done.get("Data", {}))
            assert not done.get("Data"), '"Data" is not allowed if "IsComplete" is "False"'
            self.fake.clock.sleep(INTERVAL)
        return Answer(False, merged["PhysicalResourceId"], "Operation timed out")

    def _on_event(self, event: Json) -> Json:
        if self.dies() == "handler":
            self.fake.struck["kill in on_event"] += 1
            raise KilledError
        result = _through_json(self.handler.on_event(_through_json(event), LambdaContext(self.fake.clock)))
        default = event["RequestId"] if event["RequestType"] == "Create" else event["PhysicalResourceId"]
        physical_id = result.get("PhysicalResourceId") or default
        if event["RequestType"] == "Delete" and physical_id != event["PhysicalResourceId"]:
            raise RuntimeError("DELETE: cannot change the physical resource ID")
        return {**event, **result, "PhysicalResourceId": physical_id}


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@dataclass(frozen=True)
class Declared:
    """A resource of a template."""

    kind: str
    properties: Properties


Template = Mapping[str, Declared]


@dataclass
class Deployed:
    """A resource that CloudFormation has."""

    kind: str
    physical_id: str
    properties: Properties


@dataclass
class Stack:
    """A stack of custom resources, changed one after the other in the template's order.

    Args:
        remembers: whether the physical id of an Update that failed is remembered.
    """

    name: str
    framework: Framework
    remembers: bool = True
    resources: dict[str, Deployed] = field(default_factory=dict)
    status: str = ""
    events: list[str] = field(default_factory=list)
    # Physical ids of what a clean-up could not delete, and CloudFormation has forgotten.
    left: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The way back from the update in progress.
        self._before: dict[str, Deployed] = {}
        self._touched: list[str] = []
        self._replaced: list[tuple[str, Deployed]] = []
        self._tried: dict[str, Properties] = {}

    @property
    def id(self) -> str:
        uuid = f"{sum(map(ord, self.name)):08x}-0000-4000-8000-000000000000"
        return f"arn:aws:cloudformation:us-east-1:123456789012:stack/{self.name}/{uuid}"

    def deploy(self, template: Template) -> Polls:
        """Create or update the stack."""
        creating = self.status in ("", "DELETE_COMPLETE")
        if self.status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED"):
            raise AssertionError(f"CloudFormation does not update a stack in {self.status}")
        self._set("CREATE_IN_PROGRESS" if creating else "UPDATE_IN_PROGRESS")
        self._before = copy.deepcopy(self.resources)
        self._touched, self._replaced, self._tried = [], [], {}
        for logical_id, declared in template.items():
            there = self.resources.get(logical_id)
            wanted = Declared(declared.kind, as_strings(declared.properties))
            if there and there.properties == wanted.properties:
                continue
            self._touched.append(logical_id)
            done = yield from (
                self._update(logical_id, wanted) if there else self._create(logical_id, wanted)
            )
            if not done:
                self._replaced = []
                return (yield from self._roll_back(creating=creating))
            if there and self.resources[logical_id].physical_id != there.physical_id:
                self._replaced.append((logical_id, there))
        if not creating:
            self._set("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            yield from self._clean_up(self._replaced)
            for logical_id in [one for one in reversed(self.resources) if one not in template]:
                yield from self._clean_up([(logical_id, self.resources.pop(logical_id))])
        self._set("CREATE_COMPLETE" if creating else "UPDATE_COMPLETE")
        return True

    def delete(self) -> Polls:
        """Delete the stack."""
        self._set("DELETE_IN_PROGRESS")
        for logical_id in list(reversed(self.resources)):
            if not (yield from self._delete(logical_id, self.resources[logical_id])):
                self._set("DELETE_FAILED")
                return False
            del self.resources[logical_id]
        self._set("DELETE_COMPLETE")
        return True

    def continue_update_rollback(self) -> Polls:
        """Go on with a rollback that failed."""
        return (yield from self._roll_back(creating=False))

    def _create(self, logical_id: str, wanted: Declared) -> Polls:
        answer = yield from self._request("Create", logical_id, wanted.kind, wanted.properties)
        self.resources[logical_id] = Deployed(wanted.kind, answer.physical_id, wanted.properties)
        return answer.success

    def _update(self, logical_id: str, wanted: Declared, old: Properties | None = None) -> Polls:
        there = self.resources[logical_id]
        answer = yield from self._request(
            "Update",
            logical_id,
            wanted.kind,
            wanted.properties,
            PhysicalResourceId=there.physical_id,
            OldResourceProperties=there.properties if old is None else old,
        )
        known = answer.success or self.remembers
        physical_id = answer.physical_id if known else there.physical_id
        self.resources[logical_id] = Deployed(wanted.kind, physical_id, wanted.properties)
        return answer.success

    def _delete(self, logical_id: str, there: Deployed) -> Polls:
        answer = yield from self._request(
            "Delete", logical_id, there.kind, there.properties, PhysicalResourceId=there.physical_id
        )
        return answer.success

    def _roll_back(self, *, creating: bool) -> Polls:
        self._set("ROLLBACK_IN_PROGRESS" if creating else "UPDATE_ROLLBACK_IN_PROGRESS")
        failed = False
        for logical_id in reversed([one for one in self._touched if one in self._before]):
            now, old = self.resources[logical_id], self._before[logical_id]
            # What was tried is what the way back calls old, also when it is gone a second time.
            tried = self._tried.setdefault(logical_id, now.properties)
            failed |= not (yield from self._update(logical_id, Declared(old.kind, old.properties), tried))
            if self.resources[logical_id].physical_id != now.physical_id:
                self._replaced.append((logical_id, now))
        if failed:
            self._set("UPDATE_ROLLBACK_FAILED")
            return False
        made = [one for one in reversed(self._touched) if one not in self._before]
        if creating:
            for logical_id in made:
                failed |= not (yield from self._delete(logical_id, self.resources[logical_id]))
            self._set("ROLLBACK_FAILED" if failed else "ROLLBACK_COMPLETE")
            self.resources = self.resources if failed else {}
            return False
        self._set("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        yield from self._clean_up(self._replaced)
        for logical_id in made:
            yield from self._clean_up([(logical_id, self.resources.pop(logical_id))])
        self._set("UPDATE_ROLLBACK_COMPLETE")
        return False

    def _clean_up(self, old: list[tuple[str, Deployed]]) -> Generator[str, None, None]:
        for logical_id, there in old:
            if not (yield from self._delete(logical_id, there)):
                self.left.append((logical_id, there.physical_id))

    def _request(
        self, verb: str, logical_id: str, kind: str, properties: Properties, **more: Any
    ) -> Answering:
        event = {
            "RequestType": verb,
            "RequestId": f"{verb}-{logical_id}-{len(self.events)}",
            "ResourceType": kind,
            "StackId": self.id,
            "LogicalResourceId": logical_id,
            "ResourceProperties": {"ServiceToken": "arn:aws:lambda:::function:framework", **properties},
            **more,
        }
        answer = yield from self.framework.run(event)
        outcome = "COMPLETE" if answer.success else "FAILED"
        self.events.append(f"{logical_id} {verb.upper()}_{outcome} {answer.reason}".rstrip())
        return answer

    def _set(self, status: str) -> None:
        self.status = self.framework.fake.stacks[self.id] = status


def finish(operation: Generator[str, None, T]) -> T:
    """Run an operation to its end and return its value."""
    while True:
        try:
            next(operation)
        except StopIteration as stop:
            value: T = stop.value
            return value
