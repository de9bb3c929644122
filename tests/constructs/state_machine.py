"""Step Functions: executions that move on as the clock does.

Of the Amazon States Language it has what the templates use: Pass, Task (a Lambda function), Choice, Wait,
Succeed and Fail, with Retry and Catch, InputPath, ResultPath and simple reference paths. Whatever else a
definition says is an error.
"""

import itertools
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.constructs.fake_sagemaker import Clock, ServiceError

Json = Any
Definition = Mapping[str, Json]
Invoke = Callable[[str, Json], "tuple[Json, str]"]

_START_TIME = "$$.Execution.StartTime"
_PATH = re.compile(r"\$(\.\w+)?")
_FIELDS = {
    "Pass": {"InputPath", "ResultPath", "Next", "End"},
    "Task": {"Resource", "Retry", "Catch", "ResultPath", "Next", "End"},
    "Choice": {"Choices", "Default"},
    "Wait": {"Seconds", "Next", "End"},
    "Succeed": set[str](),
    "Fail": {"Error", "Cause"},
}
_RULE = {"Variable", "BooleanEquals", "Next"}
_RETRY = {"ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate"}
_CATCH = {"ErrorEquals", "Next", "ResultPath"}

# What is written into an execution's history (types of HistoryEvent in the API reference), and its limit.
_EVENTS_OF_A_STATE = 2
_EVENTS_OF_A_TRY = 3
_MOST_EVENTS = 25_000


class DefinitionError(Exception):
    """A definition that says more than is understood here."""


class TaskError(Exception):
    """A task's error."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(f"{error}: {cause}")
        self.error = error
        self.cause = cause


def check(definition: Definition) -> None:
    """Refuse what is not understood."""
    _only(definition, {"Comment", "StartAt", "States", "TimeoutSeconds"}, "definition")
    targets = {definition["StartAt"]}
    for name, state in definition["States"].items():
        _check_state(name, state)
        targets |= {item["Next"] for part in ("Choices", "Catch") for item in state.get(part, [])}
        targets |= {state[key] for key in ("Next", "Default") if key in state}
    if unknown := targets - set(definition["States"]):
        raise DefinitionError(f"{sorted(unknown)} is no state")


def _check_state(name: str, state: Definition) -> None:
    kind = state["Type"]
    if kind not in _FIELDS:
        raise DefinitionError(f"{name}: states of type {kind} are not understood here")
    _only(state, {"Type", "Comment"} | _FIELDS[kind], name)
    for part, known in (("Choices", _RULE), ("Retry", _RETRY), ("Catch", _CATCH)):
        for item in state.get(part, []):
            _only(item, known, f"{name} {part}")
    for part in ("Retry", "Catch"):
        if [item["ErrorEquals"] for item in state.get(part, [])] not in ([], [["States.ALL"]]):
            raise DefinitionError(f"{name} {part}: only one for States.ALL is understood here")
    paths = {item["Variable"] for item in state.get("Choices", [])}
    paths |= {item.get("ResultPath", "$") for item in (state, *state.get("Catch", []))}
    paths |= {state.get("InputPath", "$")} - {_START_TIME}
    if unknown := [path for path in paths if not _PATH.fullmatch(path)]:
        raise DefinitionError(f"{name}: {sorted(unknown)} is not understood here")
    ways = [key for key in ("Next", "End", "Default") if key in state]
    if len(ways) != (kind not in {"Succeed", "Fail"}) or not state.get("End", True):
        raise DefinitionError(f"{name}: not one way on")


def _only(given: Mapping[str, Json], known: set[str], what: str) -> None:
    if unknown := set(given) - known:
        raise DefinitionError(f"{what}: {sorted(unknown)} is not understood here")


@dataclass
class Execution:
    """One execution.

    Attributes:
        wakes: when it moves on.
        events: how many its history has.
        waits: seconds of each Wait so far.
        tries: how many calls of functions it has made.
    """

    arn: str
    document: str
    status: str = "RUNNING"
    wakes: float = 0.0
    events: int = 1
    waits: list[float] = field(default_factory=list)
    tries: int = 0
    steps: Iterator[float] = field(default_factory=lambda: iter(()))


class Machines:
    """State machines and their executions.

    Args:
        clock: what time it is.
        invoke: calls a function by its ARN; gives its answer, and the word for its error.
    """

    def __init__(self, clock: Clock, invoke: Invoke) -> None:
        self._clock = clock
        self._invoke = invoke
        self._definitions: dict[str, Definition] = {}
        self._numbers = itertools.count(1)
        self.executions: dict[str, Execution] = {}

    def define(self, arn: str, definition: str) -> None:
        """Make a state machine, or give it another definition."""
        parsed = json.loads(definition)
        check(parsed)
        self._definitions[arn] = parsed

    def drop(self, arn: str) -> None:
        """Delete a state machine; its executions end."""
        self._definitions.pop(arn, None)
        prefix = arn.replace(":stateMachine:", ":execution:") + ":"
        for execution in self.executions.values():
            if execution.arn.startswith(prefix) and execution.status == "RUNNING":
                execution.status = "ABORTED"

    def start(self, machine: str, document: str, name: str | None = None) -> Execution:
        """Start an execution; the same again, while it runs, is no other.

        Raises:
            ServiceError: no such state machine, or another execution has or had the name.
        """
        if machine not in self._definitions:
            raise ServiceError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{machine}'")
        name = name or f"execution-{next(self._numbers)}"
        arn = f"{machine.replace(':stateMachine:', ':execution:')}:{name}"
        there = self.executions.get(arn)
        if there is not None and (there.status, there.document) == ("RUNNING", document):
            return there
        if there is not None:
            raise ServiceError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        definition = self._definitions[machine]
        execution = Execution(arn, document, wakes=self._clock.now)
        execution.steps = self._run(definition, json.loads(document), execution)
        self.executions[arn] = execution
        return execution

    def stop(self, arn: str) -> None:
        """Stop an execution; one that has ended stays as it is.

        Raises:
            ServiceError: no such execution.
        """
        if not arn.startswith("arn:"):
            raise ServiceError("InvalidArn", f"Invalid Arn: '{arn}'")
        if arn not in self.executions:
            raise ServiceError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        if self.executions[arn].status == "RUNNING":
            self.executions[arn].status = "ABORTED"

    def operations(self) -> dict[str, Callable[[Json], Json]]:
        """Give operations of the API by name."""
        return {"StartExecution": self._start_execution, "StopExecution": self._stop_execution}

    def _start_execution(self, request: Json) -> Json:
        started = self.start(request["stateMachineArn"], request["input"], request.get("name"))
        return {"executionArn": started.arn, "startDate": self._time()}

    def _stop_execution(self, request: Json) -> Json:
        self.stop(request["executionArn"])
        return {"stopDate": self._time()}

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now, UTC)

    def next_wake(self) -> float | None:
        """When an execution has something to do; None if none is running."""
        return min((it.wakes for it in self._running()), default=None)

    def step(self) -> None:
        """Let the execution that is next move on, to its next wait."""
        # Of several, the one that was started first.
        execution = min(self._running(), key=lambda it: it.wakes)
        self._clock.now = max(self._clock.now, execution.wakes)
        pause = next(execution.steps, None)
        if pause is not None:
            execution.wakes = self._clock.now + pause

    def finish(self) -> None:
        """Let all executions run to their ends."""
        while self.next_wake() is not None:
            self.step()

    def _running(self) -> list[Execution]:
        return [it for it in self.executions.values() if it.status == "RUNNING"]

    def _run(self, definition: Definition, data: Json, execution: Execution) -> Iterator[float]:
        started = self._clock.now
        name: str | None = definition["StartAt"]
        while name is not None:
            if self._clock.now - started > definition.get("TimeoutSeconds", 99_999_999):
                execution.status = "TIMED_OUT"
                return
            state = definition["States"][name]
            execution.events += _EVENTS_OF_A_STATE
            assert execution.events < _MOST_EVENTS, "an execution's history is full"
            name = state.get("Next")
            match state["Type"]:
                case "Pass":
                    path = state.get("InputPath", "$")
                    given = _timestamp(started) if path == _START_TIME else _read(path, data)
                    data = _written(state, data, given)
                case "Wait":
                    execution.waits.append(float(state["Seconds"]))
                    yield execution.waits[-1]
                case "Choice":
                    rules = (rule for rule in state["Choices"] if _holds(rule, data))
                    name = next((rule["Next"] for rule in rules), state["Default"])
                case "Fail":
                    execution.status = "FAILED"
                    return
                case "Task":
                    try:
                        data = _written(state, data, (yield from self._task(state, data, execution)))
                    except TaskError as failure:
                        if not state.get("Catch"):
                            execution.status = "FAILED"
                            return
                        (catch,) = state["Catch"]
                        data = _written(catch, data, {"Error": failure.error, "Cause": failure.cause})
                        name = catch["Next"]
        execution.status = "SUCCEEDED"

    def _task(self, state: Definition, data: Json, execution: Execution) -> Generator[float, None, Json]:
        retry = state.get("Retry", [{"MaxAttempts": 0}])[0]
        interval = float(retry.get("IntervalSeconds", 1))
        for left in reversed(range(retry.get("MaxAttempts", 3) + 1)):
            execution.tries += 1
            execution.events += _EVENTS_OF_A_TRY
            payload, error = self._invoke(state["Resource"], json.loads(json.dumps(data)))
            if not error:
                return payload
            if not left:
                raise TaskError(payload.get("errorType", error), json.dumps(payload))
            yield interval
            interval *= float(retry.get("BackoffRate", 2))
        raise AssertionError("unreachable")


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _holds(rule: Definition, data: Json) -> bool:
    return _read(rule["Variable"], data) is rule["BooleanEquals"]


def _read(path: str, data: Json) -> Json:
    return data if path == "$" else data[path.removeprefix("$.")]


def _written(state: Definition, data: Json, value: Json) -> Json:
    path = state.get("ResultPath", "$")
    return value if path == "$" else {**data, path.removeprefix("$."): value}
