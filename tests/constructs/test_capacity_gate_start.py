"""The custom resource that starts and stops the watches, against a fake of Step Functions."""

import json

import pytest
from tests.constructs.fake_sagemaker import FakeSageMaker, Fault, KilledError
from tests.constructs.state_machine import Machines

from hyperpod_constructs.handlers import capacity_gate

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:Watch-1"
WATCH = '{"cluster": "research", "url": "https://example.com/handle"}'
OTHER = '{"cluster": "research", "url": "https://example.com/other"}'


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeSageMaker:
    """What the handler's calls go to."""
    service = FakeSageMaker().install(monkeypatch)
    monkeypatch.setattr(capacity_gate, "_sleep", service.clock.sleep)
    return service


@pytest.fixture
def machines(service: FakeSageMaker) -> Machines:
    """Step Functions with a state machine and without an execution."""
    made = Machines(service.clock, lambda _arn, _event: ({}, ""))
    states = {"Watch": {"Type": "Wait", "Seconds": 3600, "End": True}}
    made.define(MACHINE, json.dumps({"StartAt": "Watch", "States": states}))
    for name, operation in made.operations().items():
        service.register(name, operation)
    return made


def running(machines: Machines) -> dict[str, str]:
    """Input of each execution that runs."""
    return {it.arn: it.document for it in machines.executions.values() if it.status == "RUNNING"}


def ask(kind: str, physical_id: str = "", document: str = WATCH) -> str:
    event = {
        "RequestType": kind,
        "ResourceProperties": {"StateMachineArn": MACHINE, "Input": document},
        **({"PhysicalResourceId": physical_id} if physical_id else {}),
    }
    return capacity_gate.start(event, None)["PhysicalResourceId"]


def test_a_creation_starts_an_execution_and_a_deletion_stops_it(machines: Machines) -> None:
    arn = ask("Create")
    assert running(machines) == {arn: WATCH}
    assert ask("Delete", arn) == arn
    assert running(machines) == {}


def test_each_handle_has_its_own_execution(machines: Machines) -> None:
    assert ask("Create") != ask("Create", document=OTHER)
    assert len(running(machines)) == 2


def test_a_creation_that_is_repeated_starts_nothing_more(machines: Machines) -> None:
    assert ask("Create") == ask("Create")
    assert len(running(machines)) == 1


def test_a_creation_that_is_repeated_after_the_end_finds_what_it_started(machines: Machines) -> None:
    arn = ask("Create")
    machines.finish()
    assert ask("Create") == arn
    assert running(machines) == {}


@pytest.mark.parametrize("effect", [False, True])
def test_a_creation_that_is_killed_and_repeated_starts_one(
    effect: bool, machines: Machines, service: FakeSageMaker
) -> None:
    service.faults.append(Fault("kill", effect=effect))
    with pytest.raises(KilledError):
        ask("Create")
    arn = ask("Create")
    assert list(running(machines)) == [arn]


@pytest.mark.parametrize("kind", ["timeout", "no connection", "ThrottlingException", "AccessDeniedException"])
def test_a_creation_waits_a_minute_for_what_may_pass(
    kind: str, machines: Machines, service: FakeSageMaker
) -> None:
    service.faults.extend([Fault(kind, effect=kind == "timeout")] * 5)
    arn = ask("Create")
    assert list(running(machines)) == [arn]


def test_a_missing_permission_is_named(machines: Machines, service: FakeSageMaker) -> None:
    service.faults.extend([Fault("AccessDeniedException", message="no")] * 6)
    with pytest.raises(RuntimeError, match="no permission for states:StartExecution"):
        ask("Create")


def test_what_will_not_pass_fails_at_once(machines: Machines, service: FakeSageMaker) -> None:
    service.faults.append(Fault("StateMachineDoesNotExist"))
    with pytest.raises(RuntimeError, match="StateMachineDoesNotExist"):
        ask("Create")
    assert service.calls["StartExecution"] == 1


def test_an_update_leaves_the_execution_alone(machines: Machines) -> None:
    arn = ask("Create")
    assert ask("Update", arn, document=OTHER) == arn
    assert running(machines) == {arn: WATCH}


@pytest.mark.parametrize("physical_id", ["gate-Start-1ABC", f"{MACHINE}:gone"])
def test_the_deletion_of_what_is_not_there_succeeds(physical_id: str, machines: Machines) -> None:
    assert ask("Delete", physical_id) == physical_id


def test_a_deletion_that_may_not_stop_the_execution_fails(machines: Machines, service: FakeSageMaker) -> None:
    arn = ask("Create")
    service.faults.append(Fault("AccessDeniedException"))
    with pytest.raises(RuntimeError, match="no permission for states:StopExecution"):
        ask("Delete", arn)
