"""The capacity gate as it is synthesized, run minute by minute against a cluster that changes with time."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.constructs import clusters
from tests.constructs.fake_cluster import (
    ARN,
    NAME,
    NO_CAPACITY,
    FakeCluster,
    Handle,
    Outage,
    denied,
    handles,
)
from tests.constructs.fake_sagemaker import URL, FakeSageMaker, KilledError, ServiceError
from tests.constructs.state_machine import Execution, Machines
from tests.constructs.templates import of_type, properties, synthesize, the

import hyperpod_constructs as hyperpod
from hyperpod_constructs.handlers import capacity_gate

Json = dict[str, Any]
MINUTE, HOUR = 60.0, 3600.0
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:gate"


@dataclass(frozen=True)
class Function:
    """A Lambda function: its handler, and its timeout in seconds."""

    handler: Callable[[Json, object], Json]
    timeout: float


@dataclass(frozen=True)
class Gate:
    """A synthesized gate: its machine's definition, its functions' handlers, what its watches start with."""

    definition: str
    functions: dict[str, Function]
    inputs: dict[str, Json]
    condition_timeout: float


def synthesized(wait_for: str) -> Gate:
    capacity = hyperpod.HyperPodCapacity(
        clusters.stack(),
        "Capacity",
        cluster_name=NAME,
        cluster_arn=ARN,
        cluster_stack_name="fleet-research-cluster",
        groups=[
            hyperpod.GatedGroup(name="h100", instance_count=16, min_instance_count=8),
            hyperpod.GatedGroup(name="g6", instance_count=4, min_instance_count=2),
        ],
        wait_for="target" if wait_for == "target" else "minimum",
        first_node=True,
    )
    template = synthesize(capacity)
    machine = the(template, "AWS::StepFunctions::StateMachine")
    functions = {
        name: Function(getattr(capacity_gate, handler.removeprefix("capacity_gate.")), float(seconds))
        for name, one in of_type(template, "AWS::Lambda::Function").items()
        if (handler := one["Properties"]["Handler"]).startswith("capacity_gate.")
        and (seconds := one["Properties"]["Timeout"])
    }
    inputs = [
        json.loads(text(one["Input"], "Ref")) for one in properties(template, "Custom::HyperPodCapacityGate")
    ]
    (seconds,) = {one["Timeout"] for one in properties(template, "AWS::CloudFormation::WaitCondition")}
    definition = text(machine["DefinitionString"], "Fn::GetAtt")
    by_group = {one.get("group", "first node"): one for one in inputs}
    return Gate(definition, functions, by_group, float(seconds))


def text(joined: Json, reference: str) -> str:
    """Spell a Fn::Join, with what its references name in their places."""
    separator, parts = joined["Fn::Join"]

    def name(part: Any) -> str:
        return part[0] if isinstance(part, list) else str(part)

    return str(separator).join(part if isinstance(part, str) else name(part[reference]) for part in parts)


@pytest.fixture(scope="module")
def gates() -> dict[str, Gate]:
    """Both kinds of gate, as CloudFormation gets them."""
    return {wait_for: synthesized(wait_for) for wait_for in ("minimum", "target")}


@dataclass
class World:
    """A cluster, a gate before it, and CloudFormation's handles."""

    gate: Gate
    service: FakeSageMaker
    cluster: FakeCluster
    new_handle: Callable[[], Handle]
    killed_at_its_end: Callable[[int], bool] = lambda _try: False
    execution: Execution = field(init=False)
    took: float = 0.0

    def invoke(self, name: str, event: Json) -> tuple[Json, str]:
        """Call a function as Lambda does; gives its answer, and the word for its error."""
        function, begun = self.gate.functions[name], self.service.clock()
        try:
            answer = function.handler(event, None)
        except KilledError:
            return broken("Runtime.ExitError", "The process ended")
        except Exception as error:
            return broken(type(error).__name__, str(error))
        if self.service.clock() - begun > function.timeout:
            return broken("Sandbox.Timedout", f"Task timed out after {function.timeout} seconds")
        if self.killed_at_its_end(self.execution.tries):
            return broken("Runtime.ExitError", "The process ended after its last call")
        return json.loads(json.dumps(answer)), ""

    def watch(self, group: str = "h100", handle: Handle | None = None, **changes: Any) -> Handle:
        """Run a watch from now to its end; a signal has come while the condition still waited for it."""
        handle = handle or self.new_handle()
        begun = self.service.clock()
        machines = Machines(self.service.clock, self.invoke)
        machines.define(MACHINE, self.gate.definition)
        document = {**self.gate.inputs[group], **changes, "url": handle.url}
        self.execution = machines.start(MACHINE, json.dumps(document))
        machines.finish()
        self.took = self.service.clock() - begun
        ended = {"SUCCESS": "SUCCEEDED", "FAILURE": "FAILED"}[handle.outcome["Status"]]
        assert self.execution.status == ended
        assert {one["Status"] for one in handle.signals} == {handle.outcome["Status"]}
        assert handle.outcome["UniqueId"] == self.gate.inputs[group].get("group", "first node")
        assert len(handle.outcome["Reason"]) <= 900
        assert not handle.refused
        return handle

    def reaches(self, group: str = "h100", **changes: Any) -> float:
        """Run a watch to its success; gives its seconds."""
        outcome = self.watch(group, **changes).outcome
        assert outcome["Status"] == "SUCCESS", outcome["Reason"]
        return self.took

    def fails(self, group: str = "h100", **changes: Any) -> str:
        """Run a watch to its failure; gives the reason."""
        outcome = self.watch(group, **changes).outcome
        assert outcome["Status"] == "FAILURE"
        return str(outcome["Reason"])


def broken(kind: str, message: str) -> tuple[Json, str]:
    return {"errorType": kind, "errorMessage": message}, "Unhandled"


@pytest.fixture(scope="module")
def new_handle() -> Iterator[Callable[[], Handle]]:
    with handles() as make:
        yield make


def build(gate: Gate, new_handle: Callable[[], Handle], monkeypatch: pytest.MonkeyPatch) -> World:
    service = FakeSageMaker().install(monkeypatch)
    monkeypatch.setattr(capacity_gate, "_now", lambda: datetime.fromtimestamp(service.clock(), UTC))
    monkeypatch.setattr(capacity_gate, "_sleep", service.clock.sleep)
    return World(gate, service, FakeCluster(service), new_handle)


@pytest.fixture
def world(gates: dict[str, Gate], new_handle: Callable[[], Handle], monkeypatch: pytest.MonkeyPatch) -> World:
    """A gate for minimums before a cluster without a group."""
    return build(gates["minimum"], new_handle, monkeypatch)


@pytest.fixture
def target_world(
    gates: dict[str, Gate], new_handle: Callable[[], Handle], monkeypatch: pytest.MonkeyPatch
) -> World:
    """A gate for targets before a cluster without a group."""
    return build(gates["target"], new_handle, monkeypatch)


# Reached.


def test_a_minimum_that_is_there_already_passes_at_once(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    world.cluster.run()
    assert world.reaches() == 0
    assert world.execution.waits == []


def test_a_minimum_that_comes_after_2_h_59_passes(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 5, after=10 * MINUTE)
    world.cluster.arrive("h100", 3, after=2 * HOUR + 59 * MINUTE)
    assert world.reaches() == 2 * HOUR + 59 * MINUTE


def test_an_existing_groups_new_minimum_is_waited_for(world: World) -> None:
    world.cluster.declare("h100", 4, 4)
    world.cluster.arrive("h100", 4)
    world.cluster.run()
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 4, after=HOUR)
    assert world.reaches() == HOUR


def test_a_minimum_that_was_raised_again_is_waited_for_beyond_three_hours(world: World) -> None:
    # Each change of the minimum starts HyperPod's timer again.
    world.cluster.declare("h100", 16, 9)
    world.service.clock.sleep(2 * HOUR)
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8, after=2 * HOUR + 30 * MINUTE)
    assert world.reaches() == 2 * HOUR + 30 * MINUTE


def test_a_target_that_karpenter_changes_does_not_matter_to_a_minimum(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.set("h100", after=5 * MINUTE, target=20)
    world.cluster.arrive("h100", 9, after=40 * MINUTE)
    assert world.reaches() == 40 * MINUTE


@pytest.mark.parametrize("status", ["SystemUpdating", "Updating", "RollingBack", "Creating"])
def test_a_cluster_that_is_at_work_is_waited_for(status: str, world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    world.cluster.become(status)
    world.cluster.become("InService", after=20 * MINUTE)
    assert world.reaches() == 20 * MINUTE


@pytest.mark.parametrize("status", ["Degraded", "SystemUpdating", "Updating"])
def test_a_group_that_is_not_in_service_is_waited_for(status: str, world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    world.cluster.set("h100", status=status, after=0)
    world.cluster.set("h100", status="InService", after=15 * MINUTE)
    assert world.reaches() == 15 * MINUTE


def test_instances_that_left_after_the_minimum_was_there_are_waited_for(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    world.cluster.arrive("h100", -3)
    world.cluster.arrive("h100", 3, after=25 * MINUTE)
    assert world.reaches() == 25 * MINUTE


def test_counts_that_someone_changes_and_changes_back_are_waited_for(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 5)
    world.cluster.at(10 * MINUTE, lambda: world.cluster.declare("h100", 16, 12))
    world.cluster.at(40 * MINUTE, lambda: world.cluster.declare("h100", 16, 8))
    world.cluster.arrive("h100", 3, after=50 * MINUTE)
    assert world.reaches() == 50 * MINUTE


def test_a_target_is_all_instances_and_not_the_minimum(target_world: World) -> None:
    target_world.cluster.declare("h100", 16, 8)
    target_world.cluster.arrive("h100", 15, after=5 * MINUTE)
    target_world.cluster.arrive("h100", 1, after=50 * MINUTE)
    assert target_world.reaches() == 50 * MINUTE


def test_a_restricted_group_has_a_target_too(target_world: World) -> None:
    target_world.cluster.declare("nova", 4, restricted=True)
    target_world.cluster.arrive("nova", 4, after=30 * MINUTE)
    nova = {**without_minimum(target_world), "group": "nova", "instanceCount": 4}
    target_world.gate.inputs["nova"] = nova
    assert target_world.reaches("nova") == 30 * MINUTE


def test_a_group_without_a_minimum_has_a_target_too(target_world: World) -> None:
    target_world.cluster.declare("h100", 16)
    target_world.cluster.arrive("h100", 16, after=30 * MINUTE)
    target_world.gate.inputs["plain"] = without_minimum(target_world)
    assert target_world.reaches("plain") == 30 * MINUTE


def without_minimum(world: World) -> Json:
    """Give the input of a group that declares no minimum."""
    declared = world.gate.inputs["h100"]
    return {key: declared[key] for key in declared if key != "minInstanceCount"}


# Not reached.


def test_a_new_group_that_is_rolled_back_to_zero_fails_with_everything_one_needs(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 5, after=HOUR)
    assert world.fails() == (
        "h100: 0 of at least 8 instances (target 16), 5 at most before; minInstanceCount is now 0, "
        "instanceCount 0. The minimum was missed: HyperPod rolled the group back to zero. "
        f"Newest failure message (2027-01-15 11:00 UTC, Info): {NO_CAPACITY} "
        "Next: lower minInstanceCount, or ask for the same again with "
        "`cdk deploy --revert-drift fleet-research-cluster`."
    )
    assert world.took == 3 * HOUR + 5 * MINUTE


def test_an_existing_group_that_is_rolled_back_says_what_it_has_now(world: World) -> None:
    world.cluster.declare("h100", 6, 4)
    world.cluster.arrive("h100", 4)
    world.cluster.run()
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 2, after=HOUR)
    reason = world.fails()
    assert reason.startswith("h100: 6 of at least 8 instances (target 16); minInstanceCount is now 4, ")
    assert "instanceCount 6. The minimum was missed: HyperPod rolled the group back to its previous" in reason
    assert NO_CAPACITY in reason


def test_a_minimum_that_was_rolled_back_before_the_gate_began_fails_soon(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.service.clock.sleep(4 * HOUR)
    assert "rolled the group back to zero" in world.fails()
    assert world.took == 5 * MINUTE


def test_instances_that_come_after_the_rollback_come_too_late(world: World) -> None:
    # The old target is above the new minimum, so instances go on coming. The minimum was missed all the same.
    world.cluster.declare("h100", 16, 4)
    world.cluster.arrive("h100", 7)
    world.cluster.run()
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 1, after=3 * HOUR + 2 * MINUTE)
    assert "8 of at least 8 instances (target 16); minInstanceCount is now 4" in world.fails()


def test_of_two_groups_only_the_missed_one_fails(world: World) -> None:
    world.cluster.declare("g6", 4, 2)
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("g6", 2)
    assert world.reaches("g6") == 0
    assert world.fails("h100").startswith("h100: 0 of at least 8 instances")


def test_a_target_that_changed_underneath_fails(target_world: World) -> None:
    target_world.cluster.declare("h100", 16, 8)
    target_world.cluster.arrive("h100", 9, after=MINUTE)
    target_world.cluster.set("h100", after=HOUR, target=9)
    reason = target_world.fails()
    assert reason.startswith("h100: 9 of 16 instances; minInstanceCount is now 8, instanceCount 9. ")


BAD: dict[str, tuple[Callable[[FakeCluster], None], float, list[str]]] = {
    "a group that is deleted meanwhile": (
        lambda cluster: cluster.lose("h100", after=30 * MINUTE),
        35 * MINUTE,
        ["does not exist (any more)", "--revert-drift fleet-research-cluster"],
    ),
    "a group that is being deleted": (
        lambda cluster: cluster.set("h100", status="Deleting", after=30 * MINUTE),
        31 * MINUTE,
        ["being deleted"],
    ),
    "a group that fails": (
        lambda cluster: cluster.set("h100", status="Failed", after=30 * MINUTE),
        31 * MINUTE,
        ["The group is Failed"],
    ),
    "a cluster that fails": (
        lambda cluster: cluster.become("Failed", "The role cannot be assumed", after=30 * MINUTE),
        31 * MINUTE,
        ["Cluster research is Failed: The role cannot be assumed", "fix the cause"],
    ),
    "a cluster that is being deleted": (
        lambda cluster: cluster.become("Deleting", after=30 * MINUTE),
        31 * MINUTE,
        ["Cluster research is being deleted"],
    ),
    "a cluster that is gone": (
        lambda cluster: cluster.become(None, after=30 * MINUTE),
        35 * MINUTE,
        ["Cluster research does not exist"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_the_gate_fails_for(name: str, world: World) -> None:
    change, seconds, said = BAD[name]
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 5, after=MINUTE)
    change(world.cluster)
    reason = world.fails()
    assert [
        one for one in ["h100: ", "of at least 8 instances (target 16)", *said] if one not in reason
    ] == []
    assert world.took == seconds


def test_a_failed_cluster_that_recovers_by_the_next_poll_was_an_old_state(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.become("Failed", "old")
    world.cluster.become("InService", after=50)
    world.cluster.arrive("h100", 8, after=10 * MINUTE)
    assert world.reaches() == 10 * MINUTE


# Time.


def test_the_gates_own_timeout_gives_the_counts_and_the_state(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 5)
    reason = world.fails(timeoutMinutes=90)
    assert reason == (
        "h100: 5 of at least 8 instances (target 16); minInstanceCount is now 8, instanceCount 16. "
        "Not reached within 90 minutes; last state: Creating. HyperPod has no event about it. "
        "Next: deploy again to wait on, or lower minInstanceCount."
    )
    assert world.took == 90 * MINUTE


def test_twelve_hours_fit_into_a_history_and_a_wait_condition(target_world: World) -> None:
    target_world.cluster.declare("h100", 16, 8)
    target_world.cluster.arrive("h100", 8)
    assert "Not reached within 700 minutes" in target_world.fails(timeoutMinutes=700)
    assert target_world.took + 15 * MINUTE <= 12 * HOUR
    assert target_world.execution.events < 6_500


def test_the_condition_outlasts_the_watch(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 7)
    world.cluster.set("h100", after=HOUR, status="Degraded", deadline=None)
    world.fails()
    assert 210 * MINUTE <= world.took < world.gate.condition_timeout <= 12 * HOUR


def test_what_looks_bad_when_the_time_is_up_is_not_waited_for(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    assert "rolled the group back to zero" in world.fails(timeoutMinutes=182)
    assert world.took == 182 * MINUTE


def test_a_clock_that_jumps_over_the_timeout_still_sees_that_the_minimum_is_there(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8, after=2 * HOUR)
    world.cluster.at(60, lambda: world.service.clock.sleep(11 * HOUR))
    assert world.reaches() > 11 * HOUR


def test_every_poll_says_one_line_and_none_says_the_handles_address(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 5, after=MINUTE)
    world.cluster.arrive("h100", 3, after=72 * MINUTE)
    handle = world.watch()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == world.execution.tries == 73
    assert lines[1] == "h100: 5 of at least 8 instances (target 16), Creating, 1 min"
    assert lines[61] == "h100: 5 of at least 8 instances (target 16), Creating, 1 h 1 min"
    assert lines[-1] == "h100: 8 of at least 8 instances (target 16), reached, 1 h 12 min"
    assert handle.url not in "\n".join(lines)


def test_progress_says_what_looks_bad_before_it_is_sure(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.cluster.declare("g6", 4, 2)
    world.fails()
    first = capsys.readouterr().out.splitlines()[0]
    assert first == (
        "h100: 0 of at least 8 instances (target 16), The group does not exist (any more); "
        "a failure if still so after 5 min, 0 min"
    )


# Reads that are late.


def test_a_read_from_before_the_update_is_no_rollback(world: World) -> None:
    world.cluster.declare("h100", 4, 4)
    world.cluster.arrive("h100", 4)
    world.cluster.run()
    world.service.clock.sleep(HOUR)
    world.cluster.declare("h100", 16, 8)
    world.cluster.lag = lambda: 200.0
    world.cluster.arrive("h100", 4, after=HOUR)
    assert HOUR <= world.reaches() <= HOUR + 5 * MINUTE


def test_a_group_that_is_not_shown_yet_is_not_gone(world: World) -> None:
    world.service.clock.sleep(HOUR)
    world.cluster.declare("h100", 16, 8)
    world.cluster.lag = lambda: 200.0
    world.cluster.arrive("h100", 8, after=HOUR)
    assert HOUR <= world.reaches() <= HOUR + 5 * MINUTE


def test_each_bad_state_has_its_own_time_to_pass(world: World) -> None:
    world.cluster.become("Failed", after=4 * MINUTE)
    world.cluster.become("InService", after=5 * MINUTE)
    world.cluster.at(5 * MINUTE, lambda: world.cluster.declare("h100", 16, 8))
    world.cluster.arrive("h100", 8, after=30 * MINUTE)
    assert world.reaches() == 30 * MINUTE


# Bad days.


def throttled() -> BaseException:
    return ServiceError("ThrottlingException", "Rate exceeded")


def test_throttles_do_not_put_off_what_has_been_seen(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.service.clock.sleep(4 * HOUR)
    flip = iter([False, True] * 100)
    world.cluster.outages.append(Outage("DescribeCluster", throttled, lambda: next(flip)))
    assert "rolled the group back to zero" in world.fails()
    assert world.took == 6 * MINUTE


PASSING: dict[str, Callable[[], BaseException]] = {
    "throttles": throttled,
    "failures of the service": lambda: ServiceError("InternalFailure", "try again", 500),
    "calls that time out": lambda: ReadTimeoutError(endpoint_url=URL),
    "connections that are refused": lambda: EndpointConnectionError(endpoint_url=URL),
}


@pytest.mark.parametrize("name", PASSING)
def test_an_hour_passes_over(name: str, world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8, after=30 * MINUTE)
    world.cluster.breaks("DescribeCluster", PASSING[name], after=MINUTE, until=HOUR)
    assert world.reaches() == HOUR


def test_a_cluster_that_cannot_be_read_to_the_end_fails_with_what_was_known(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 5)
    world.cluster.breaks("DescribeCluster", throttled, after=MINUTE)
    reason = world.fails()
    assert reason.startswith("h100: 5 of at least 8 instances (target 16)")
    assert "could not be read: DescribeCluster: ThrottlingException: Rate exceeded" in reason


def test_a_cluster_that_was_never_read_fails_without_counts(world: World) -> None:
    world.cluster.breaks("DescribeCluster", throttled)
    assert world.fails().startswith("h100: unknown number of at least 8 instances (target 16). Not reached")


def test_an_error_that_nobody_knows_fails_after_five_minutes(world: World) -> None:
    world.cluster.breaks("DescribeCluster", lambda: ServiceError("OddException", "what is this"))
    assert "DescribeCluster: OddException: what is this" in world.fails()
    assert world.took == 5 * MINUTE


@pytest.mark.parametrize(
    ("operation", "group"), [("DescribeCluster", "h100"), ("ListClusterNodes", "first node")]
)
def test_a_missing_permission_is_named(operation: str, group: str, world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.breaks(operation, lambda: denied(operation))
    reason = world.fails(group)
    assert f"no permission for sagemaker:{operation}: give it to role gate-poll-role" in reason
    assert world.took == 2 * MINUTE


def test_a_permission_that_is_late_is_waited_for(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    world.cluster.breaks("DescribeCluster", lambda: denied("DescribeCluster"), until=90)
    assert world.reaches() == 2 * MINUTE


@pytest.mark.parametrize("operation", ["ListClusterEvents", "DescribeClusterEvent"])
def test_events_that_may_not_be_read_do_not_hide_the_failure(operation: str, world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.breaks(operation, lambda: denied(operation))
    reason = world.fails()
    assert "rolled the group back to zero" in reason
    assert f"events could not be read: no permission for sagemaker:{operation}" in reason
    assert reason.endswith("`cdk deploy --revert-drift fleet-research-cluster`.")


def test_a_cluster_without_events_says_so(target_world: World) -> None:
    target_world.cluster.continuous = False
    target_world.cluster.declare("h100", 16)
    target_world.gate.inputs["plain"] = without_minimum(target_world)
    reason = target_world.fails("plain")
    assert "h100: 0 of 16 instances" in reason
    assert "could not be read: ListClusterEvents: ValidationException: Events are only available" in reason


def test_events_that_are_throttled_are_asked_for_again(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.breaks("ListClusterEvents", throttled, until=3 * HOUR + 6 * MINUTE)
    assert NO_CAPACITY in world.fails()
    assert world.took == 3 * HOUR + 6 * MINUTE


def test_events_that_are_throttled_for_good_do_not_hide_the_failure(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.breaks("DescribeClusterEvent", throttled)
    assert "rolled the group back to zero. HyperPod's events could not be read: " in world.fails()


# Events.


def missed(world: World) -> str:
    """Let the group fail without an event of its own, after those that were noted."""
    world.cluster.declare("h100", 16, 8)
    world.cluster.set("h100", status="Failed")
    return world.fails()


METADATA: dict[str, Json] = {
    "Cluster": {"Cluster": {"FailureMessage": "told"}},
    "InstanceGroup": {"InstanceGroup": {"AvailabilityZoneId": "use1-az4", "FailureMessage": "told"}},
    "InstanceGroupScaling": {"InstanceGroupScaling": {"MinCount": 8, "FailureMessage": "told"}},
    "Instance": {"Instance": {"LcsExecutionState": "Failed", "FailureMessage": "told"}},
    "DatabaseConfiguration": {"DatabaseConfiguration": {"FailureMessage": "told"}},
}


@pytest.mark.parametrize("part", METADATA)
def test_a_failure_message_is_found_in(part: str, world: World) -> None:
    world.cluster.event("h100", "older", level="Error", metadata={"Instance": {"FailureMessage": "older"}})
    world.cluster.event("h100", "newer", level="Error", metadata=METADATA[part])
    world.cluster.event("h100", "no message", level="Error")
    assert "Newest failure message (2027-01-15 08:00 UTC, Error): told Next:" in missed(world)


def test_events_of_other_groups_are_not_told(world: World) -> None:
    world.cluster.event("g6", "other", level="Error", metadata={"Instance": {"FailureMessage": "other"}})
    assert "HyperPod has no event about it." in missed(world)


def test_routine_and_noise_are_not_told(world: World) -> None:
    lost = {"Instance": {"FailureMessage": "lost"}}
    world.cluster.event("h100", "Lifecycle failed", level="Error", resource="Instance")
    world.cluster.event("h100", "Instance lost orchestration-ready state", level="Warn", metadata=lost)
    world.cluster.event("h100", "Instance launched", resource="Instance", metadata=lost)
    assert (
        "No event has a failure message; newest event (2027-01-15 08:00 UTC, Error): Lifecycle failed"
        in missed(world)
    )


def test_the_noise_is_told_when_the_group_has_its_size(world: World) -> None:
    lost = {"Instance": {"FailureMessage": "node died"}}
    world.cluster.event("h100", "Instance lost orchestration-ready state", level="Warn", metadata=lost)
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 16)
    world.cluster.set("h100", status="Failed")
    assert "node died" in world.fails()


def test_a_long_message_is_cut_and_the_advice_is_not(world: World) -> None:
    long = {"InstanceGroup": {"FailureMessage": "no capacity " * 500}}
    world.cluster.event("h100", "failed", level="Error", metadata=long)
    reason = missed(world)
    assert len(reason) == 900
    assert reason.startswith("h100: 0 of at least 8 instances (target 16)")
    assert reason.endswith(
        "Next: fix the cause and deploy again with `cdk deploy --revert-drift fleet-research-cluster`."
    )


# The first node.


def test_the_first_node_is_one_that_runs_on_whatever_page(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.page, world.cluster.pending = 2, 5
    world.cluster.arrive("h100", 1, after=20 * MINUTE)
    assert world.reaches("first node") == 20 * MINUTE
    assert world.service.calls["ListClusterNodes"] > 3 * 20


def test_a_first_node_that_never_comes_is_counted(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.pending = 3
    world.cluster.set("h100", deadline=None)
    reason = world.fails("first node")
    assert reason.startswith(
        "first node: 0 of 3 nodes run. Not reached within 210 minutes; last state: cluster"
    )


def test_a_cluster_that_wants_no_instance_has_no_first_node(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    reason = world.fails("first node")
    assert "No instance group wants any instance" in reason
    assert NO_CAPACITY in reason
    assert world.took == 3 * HOUR + 5 * MINUTE


# Kills, and the way to CloudFormation.


def test_a_poll_that_is_killed_before_its_read_is_made_again(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8, after=10 * MINUTE)
    flip = iter([True, False] * 100)
    world.cluster.outages.append(Outage("DescribeCluster", KilledError, lambda: next(flip)))
    assert world.reaches() >= 10 * MINUTE
    assert world.execution.tries == 2 * (len(world.execution.waits) + 1)


def test_a_poll_that_is_killed_after_its_last_call_is_made_again(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8, after=10 * MINUTE)
    world.killed_at_its_end = lambda number: number % 2 == 1
    assert [one["Status"] for one in world.watch().signals] == ["SUCCESS", "SUCCESS"]


def test_a_watch_that_always_dies_fails_the_condition_with_its_last_words(world: World) -> None:
    world.cluster.breaks("DescribeCluster", lambda: RuntimeError("a fault of the gate"))
    reason = world.fails()
    assert reason.startswith(
        "h100: unknown number of at least 8 instances (target 16). The watch itself failed:"
    )
    assert "a fault of the gate" in reason
    assert reason.endswith("Next: deploy again.")


def test_a_signal_is_sent_until_it_is_taken(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    handle = world.new_handle()
    handle.failures = 3
    world.watch(handle=handle)
    assert len(handle.signals) == 1
    assert world.execution.tries == 1


def test_a_signal_whose_answer_is_lost_is_sent_again_as_it_was(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    handle = world.new_handle()
    handle.lost = 2
    world.watch(handle=handle)
    assert len(handle.signals) == 3
    assert handle.signals[0] == handle.signals[1] == handle.signals[2]


def test_a_signal_that_is_not_taken_for_minutes_is_a_matter_of_the_state_machine(world: World) -> None:
    world.cluster.declare("h100", 16, 8)
    world.cluster.arrive("h100", 8)
    handle = world.new_handle()
    handle.failures = 2 * capacity_gate.SIGNAL_TRIES + 1
    world.watch(handle=handle)
    assert world.execution.tries == 3


def test_a_handle_refuses_the_content_type_that_urllib_would_send(new_handle: Callable[[], Handle]) -> None:
    handle = new_handle()
    request = urllib.request.Request(handle.url, data=b"{}", method="PUT")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request, timeout=10)
    assert handle.signals == []


# Histories at random.

ARRIVALS = st.lists(
    st.tuples(st.integers(min_value=0, max_value=200), st.integers(min_value=-3, max_value=6)), max_size=12
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arrivals=ARRIVALS,
    minimum=st.integers(min_value=1, max_value=12),
    previous=st.none() | st.lists(st.integers(min_value=0, max_value=16), min_size=3, max_size=3).map(sorted),
    lags=st.lists(st.integers(min_value=0, max_value=240), min_size=1, max_size=5),
    throttles=st.sets(st.integers(min_value=0, max_value=200), max_size=20),
)
def test_the_gate_says_reached_if_and_only_if_the_minimum_was_reached(
    arrivals: list[tuple[int, int]],
    minimum: int,
    previous: list[int] | None,
    lags: list[int],
    throttles: set[int],
    gates: dict[str, Gate],
    new_handle: Callable[[], Handle],
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        world = build(gates["minimum"], new_handle, monkeypatch)
        cluster = world.cluster
        if previous is not None:
            old_minimum, old_current, old_target = previous
            cluster.declare("h100", old_target, old_minimum)
            cluster.arrive("h100", old_current)
            cluster.run()
            world.service.clock.sleep(4 * HOUR)
            cluster.run()
        cluster.declare("h100", 16, minimum)
        for minute, count in arrivals:
            # Once the minimum was there, it stays: what happens later is not the gate's to say.
            cluster.at(minute * MINUTE, lambda count=count: arrive_or_leave(cluster, count))  # type: ignore[misc]
        for minute in throttles:
            cluster.breaks("DescribeCluster", throttled, after=minute * MINUTE, until=minute * MINUTE + 59)
        late = iter(lags * 1000)
        cluster.lag = lambda: float(next(late))
        outcome = world.watch(minInstanceCount=minimum).outcome
        cluster.run()
    assert (outcome["Status"] == "SUCCESS") == ("h100" in cluster.reached), outcome["Reason"]
    if outcome["Status"] == "FAILURE":
        group = cluster.shown.groups["h100"]
        assert outcome["Reason"].startswith(f"h100: {group.current} of at least {minimum} instances")


def arrive_or_leave(cluster: FakeCluster, count: int) -> None:
    if count > 0 or "h100" not in cluster.reached:
        cluster._arrive("h100", count)


def test_the_grace_is_longer_than_the_reads_that_the_histories_delay() -> None:
    assert timedelta(seconds=240) < capacity_gate.GRACE
