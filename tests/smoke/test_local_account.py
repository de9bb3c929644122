"""The parts of the account on this machine that stories stand on: roles, executions, the endpoint."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from tests.constructs.fake_sagemaker import Clock
from tests.constructs.state_machine import DefinitionError, Machines, check
from tests.smoke.functions import Role
from tests.smoke.world import World

Json = Any
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:m"


@pytest.mark.parametrize(
    ("statements", "allowed"),
    [
        ([{"Effect": "Allow", "Action": "a:Do"}], True),
        ([{"Effect": "Allow", "Action": ["a:D*", "b:X"]}], True),
        ([{"Effect": "Allow", "Action": "a:Other"}], False),
        ([{"Effect": "Allow", "Action": "a:*"}, {"Effect": "Deny", "Action": "a:Do"}], False),
        ([], False),
    ],
)
def test_a_role_allows_what_a_statement_allows_and_none_denies(statements: list[Json], allowed: bool) -> None:
    assert Role("r", {"policy": statements}).allows("a:Do") is allowed


def machine(states_: Json, answers: list[tuple[Json, str]]) -> tuple[Machines, Clock]:
    """A state machine whose task gives these answers; it is started."""
    clock = Clock(0.0)
    machines = Machines(clock, lambda _arn, _event: answers.pop(0))
    machines.define(MACHINE, json.dumps({"StartAt": "Task", "States": states_}))
    machines.start(MACHINE, "{}")
    machines.finish()
    return machines, clock


RETRY = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 10, "MaxAttempts": 2, "BackoffRate": 2}]
CATCH = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]
TASK = {"Type": "Task", "Resource": "f", "Retry": RETRY, "Catch": CATCH, "End": True}
FAILURE = ({"errorType": "E", "errorMessage": "m"}, "Unhandled")


@pytest.mark.parametrize(
    ("failures", "status", "seconds"), [(0, "SUCCEEDED", 0), (2, "SUCCEEDED", 30), (3, "FAILED", 30)]
)
def test_a_task_is_tried_again_after_pauses_that_grow_and_then_caught(
    failures: int, status: str, seconds: float
) -> None:
    made = {"Task": TASK, "Caught": {"Type": "Fail"}}
    machines, clock = machine(made, [*[FAILURE] * failures, ({}, "")])
    (execution,) = machines.executions.values()
    assert (execution.status, clock.now) == (status, seconds)


@pytest.mark.parametrize(
    "state",
    [
        {"Type": "Map", "End": True},
        {**TASK, "TimeoutSeconds": 5},
        {**TASK, "Retry": [{"ErrorEquals": ["States.Timeout"]}]},
        {**TASK, "Catch": [*CATCH, *CATCH]},
        {**TASK, "ResultPath": "$.a[0]"},
        {"Type": "Pass", "InputPath": "$$.Execution.Id", "Next": "Caught"},
        {"Type": "Pass", "Next": "Nowhere"},
        {"Type": "Wait", "Seconds": 1},
        {"Type": "Choice", "Choices": []},
    ],
    ids=[
        "a type of state",
        "a field",
        "a kind of error",
        "a second catcher",
        "a path",
        "a part of the context",
        "a state that is not there",
        "a wait with no way on",
        "a choice without a default",
    ],
)
def test_a_definition_that_is_not_understood_is_an_error(state: Json) -> None:
    with pytest.raises(DefinitionError):
        check({"StartAt": "Task", "States": {"Task": state, "Caught": {"Type": "Fail"}}})


@pytest.mark.parametrize(
    ("service", "headers", "body"),
    [
        ("cloudformation", {}, b"Action=ListStacks"),
        ("states", {"X-Amz-Target": "AWSStepFunctions.ListStateMachines"}, b"{}"),
        ("sqs", {}, b"Action=ListQueues"),
    ],
)
def test_what_is_not_simulated_is_an_error_that_is_remembered(
    world: World, service: str, headers: dict[str, str], body: bytes
) -> None:
    signed = f"AWS4-HMAC-SHA256 Credential=testing/20270101/us-east-1/{service}/aws4_request"
    request = urllib.request.Request(
        world.endpoint.url, data=body, headers={**headers, "Authorization": signed}
    )
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request)
    assert len(world.endpoint.refused) == 1
    world.endpoint.refused.clear()


def test_a_signal_is_taken_only_as_it_was_signed(world: World) -> None:
    url = world.new_signal()
    request = urllib.request.Request(url, data=b"{}", method="PUT", headers={"Content-Type": "text/plain"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)
    request = urllib.request.Request(url, data=b"{}", method="PUT", headers={"Content-Type": ""})
    with urllib.request.urlopen(request):
        assert world.signals[url] == [{}]
