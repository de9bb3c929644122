"""Runs a synthesized state machine: only the states and fields that occur, anything else is an error.

A Wait moves the clock; a Task calls the handler that its function names, with what JSON keeps of its input.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.constructs.fake_sagemaker import Clock, KilledError

Json = dict[str, Any]
Handler = Callable[[Any, object], Any]

# Events that a state writes into an execution's history (Step Functions' HistoryEvent types).
_EVENTS = {"Pass": 2, "Choice": 2, "Wait": 2, "Succeed": 2, "Fail": 1, "Task": 2}
_EVENTS_OF_A_TRY = 3


@dataclass(frozen=True)
class Function:
    """A Lambda function: its handler, and its timeout in seconds."""

    handler: Handler
    timeout: float


class TaskError(Exception):
    """A task's failure as the state machine sees it."""

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(name, cause)
        self.error = {"Error": name, "Cause": cause}


@dataclass
class Machine:
    """A state machine.

    Args:
        definition: in Amazon States Language.
        functions: by the ARN that the definition has.
        clock: moved by waits, and by retries.
    """

    definition: Json
    functions: dict[str, Function]
    clock: Clock
    kill: Callable[[int], bool] = lambda _: False
    events: int = 0
    tries: int = 0
    waits: list[float] = field(default_factory=list)

    def run(self, document: Any) -> str:
        """Execute; gives the name of the state it ends in."""
        _only(self.definition, {"StartAt", "States", "TimeoutSeconds", "Comment"})
        self.started = datetime.fromtimestamp(self.clock(), UTC)
        self.events += 1
        name: str = self.definition["StartAt"]
        data, last = document, ""
        while name:
            assert self.clock() - self.started.timestamp() < self.definition["TimeoutSeconds"]
            state = self.definition["States"][name]
            self.events += _EVENTS[state["Type"]]
            last = name
            name, data = getattr(self, f"_{state['Type'].lower()}")(state, data)
            assert self.events < 25_000, "an execution's history is full"
        return last

    def _pass(self, state: Json, data: Json) -> tuple[str, Json]:
        _only(state, {"Type", "InputPath", "ResultPath", "Next"})
        assert state["InputPath"] == "$$.Execution.StartTime"
        start = self.started.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return state["Next"], {**data, _key(state["ResultPath"]): start}

    def _wait(self, state: Json, data: Json) -> tuple[str, Json]:
        _only(state, {"Type", "Seconds", "Next"})
        self.waits.append(state["Seconds"])
        self.clock.sleep(state["Seconds"])
        return state["Next"], data

    def _choice(self, state: Json, data: Json) -> tuple[str, Json]:
        _only(state, {"Type", "Choices", "Default"})
        for choice in state["Choices"]:
            _only(choice, {"Variable", "BooleanEquals", "Next"})
            value = data[_key(choice["Variable"])]
            assert isinstance(value, bool)
            if value is choice["BooleanEquals"]:
                return choice["Next"], data
        return state["Default"], data

    def _succeed(self, state: Json, data: Json) -> tuple[str, Json]:
        _only(state, {"Type"})
        return "", data

    def _fail(self, state: Json, data: Json) -> tuple[str, Json]:
        _only(state, {"Type", "Error"})
        return "", data

    def _task(self, state: Json, data: Json) -> tuple[str, Json]:
        _only(state, {"Type", "Resource", "Next", "Retry", "Catch"})
        (retry,) = state["Retry"]
        _only(retry, {"ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate"})
        assert retry["ErrorEquals"] == ["States.ALL"]
        for attempt in range(retry["MaxAttempts"] + 1):
            try:
                return state["Next"], self._invoke(self.functions[state["Resource"]], data)
            except TaskError as error:
                failure = error
            self.clock.sleep(retry["IntervalSeconds"] * retry["BackoffRate"] ** attempt)
        for catch in state.get("Catch", []):
            _only(catch, {"ErrorEquals", "ResultPath", "Next"})
            assert catch["ErrorEquals"] == ["States.ALL"]
            return catch["Next"], {**data, _key(catch["ResultPath"]): failure.error}
        return "", data

    def _invoke(self, function: Function, data: Json) -> Json:
        self.tries += 1
        self.events += _EVENTS_OF_A_TRY
        begun = self.clock()
        try:
            answer = function.handler(json.loads(json.dumps(data)), None)
        except KilledError:
            raise TaskError("Lambda.Unknown", "The process ended") from None
        except Exception as error:
            said = json.dumps({"errorMessage": str(error), "errorType": type(error).__name__})
            raise TaskError(type(error).__name__, said) from error
        if self.clock() - begun > function.timeout:
            raise TaskError("Sandbox.Timedout", f"Task timed out after {function.timeout} seconds")
        if self.kill(self.tries):
            raise TaskError("Lambda.Unknown", "The process ended after its last call")
        result: Json = copy.deepcopy(json.loads(json.dumps(answer)))
        return result


def _key(path: str) -> str:
    assert path.startswith("$."), path
    key = path.removeprefix("$.")
    assert key.isalpha(), path
    return key


def _only(state: Json, fields: set[str]) -> None:
    assert set(state) <= fields, f"{sorted(set(state) - fields)} are not simulated"
