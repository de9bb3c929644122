"""The custom resource that starts and stops the watches, against a fake of Step Functions."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.constructs.fake_sagemaker import FakeSageMaker, Fault, KilledError, ServiceError

from hyperpod_constructs.handlers import capacity_gate

Json = dict[str, Any]
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:Watch-1"
WATCH = '{"cluster": "research", "url": "https://example.com/handle"}'
OTHER = '{"cluster": "research", "url": "https://example.com/other"}'


class Executions:
    """Executions of one state machine. A name is taken for 90 days; the same start again is no error."""

    def __init__(self, service: FakeSageMaker) -> None:
        self.service = service
        self.running: dict[str, str] = {}
        self.ended: dict[str, str] = {}
        service.register("StartExecution", self.start)
        service.register("StopExecution", self.stop)

    def start(self, request: Json) -> Json:
        assert request["stateMachineArn"] == MACHINE
        arn = f"{MACHINE.replace('stateMachine', 'execution')}:{request['name']}"
        if arn in self.ended or self.running.get(arn, request["input"]) != request["input"]:
            raise ServiceError("ExecutionAlreadyExists", "Execution Already Exists")
        self.running[arn] = request["input"]
        return {"executionArn": arn, "startDate": datetime.fromtimestamp(0, UTC)}

    def stop(self, request: Json) -> Json:
        arn = request["executionArn"]
        if not arn.startswith("arn:"):
            raise ServiceError("InvalidArn", f"Invalid Arn: {arn}")
        if arn not in {**self.running, **self.ended}:
            raise ServiceError("ExecutionDoesNotExist", "Execution Does Not Exist")
        if arn in self.running:
            self.ended[arn] = self.running.pop(arn)
        return {"stopDate": datetime.fromtimestamp(0, UTC)}


@pytest.fixture
def executions(monkeypatch: pytest.MonkeyPatch) -> Executions:
    """Step Functions without an execution."""
    service = FakeSageMaker().install(monkeypatch)
    monkeypatch.setattr(capacity_gate, "_sleep", service.clock.sleep)
    return Executions(service)


def ask(kind: str, physical_id: str = "", document: str = WATCH) -> str:
    event = {
        "RequestType": kind,
        "ResourceProperties": {"StateMachineArn": MACHINE, "Input": document},
        **({"PhysicalResourceId": physical_id} if physical_id else {}),
    }
    return capacity_gate.start(event, None)["PhysicalResourceId"]


def test_a_creation_starts_an_execution_and_a_deletion_stops_it(executions: Executions) -> None:
    arn = ask("Create")
    assert executions.running == {arn: WATCH}
    assert ask("Delete", arn) == arn
    assert executions.running == {}


def test_each_handle_has_its_own_execution(executions: Executions) -> None:
    assert ask("Create") != ask("Create", document=OTHER)
    assert len(executions.running) == 2


def test_a_creation_that_is_repeated_starts_nothing_more(executions: Executions) -> None:
    assert ask("Create") == ask("Create")
    assert len(executions.running) == 1


def test_a_creation_that_is_repeated_after_the_end_finds_what_it_started(executions: Executions) -> None:
    arn = ask("Create")
    executions.ended[arn] = executions.running.pop(arn)
    assert ask("Create") == arn
    assert executions.running == {}


@pytest.mark.parametrize("effect", [False, True])
def test_a_creation_that_is_killed_and_repeated_starts_one(effect: bool, executions: Executions) -> None:
    executions.service.faults.append(Fault("kill", effect=effect))
    with pytest.raises(KilledError):
        ask("Create")
    arn = ask("Create")
    assert list(executions.running) == [arn]


@pytest.mark.parametrize("kind", ["timeout", "no connection", "ThrottlingException", "AccessDeniedException"])
def test_a_creation_waits_a_minute_for_what_may_pass(kind: str, executions: Executions) -> None:
    executions.service.faults.extend([Fault(kind, effect=kind == "timeout")] * 5)
    arn = ask("Create")
    assert list(executions.running) == [arn]


def test_a_missing_permission_is_named(executions: Executions) -> None:
    executions.service.faults.extend([Fault("AccessDeniedException", message="no")] * 6)
    with pytest.raises(RuntimeError, match="no permission for states:StartExecution"):
        ask("Create")


def test_what_will_not_pass_fails_at_once(executions: Executions) -> None:
    executions.service.faults.append(Fault("StateMachineDoesNotExist"))
    with pytest.raises(RuntimeError, match="StateMachineDoesNotExist"):
        ask("Create")
    assert executions.service.calls["StartExecution"] == 1


def test_an_update_leaves_the_execution_alone(executions: Executions) -> None:
    arn = ask("Create")
    assert ask("Update", arn, document=OTHER) == arn
    assert executions.running == {arn: WATCH}


@pytest.mark.parametrize("physical_id", ["gate-Start-1ABC", f"{MACHINE}:gone"])
def test_the_deletion_of_what_is_not_there_succeeds(physical_id: str, executions: Executions) -> None:
    assert ask("Delete", physical_id) == physical_id


def test_a_deletion_that_may_not_stop_the_execution_fails(executions: Executions) -> None:
    arn = ask("Create")
    executions.service.faults.append(Fault("AccessDeniedException"))
    with pytest.raises(RuntimeError, match="no permission for states:StopExecution"):
        ask("Delete", arn)
