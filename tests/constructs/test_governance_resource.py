"""Custom resources for quotas and scheduler configs: what they do on good days and on bad ones."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.constructs.fake_sagemaker import CLUSTER, FakeSageMaker, Fault, Item, NotSimulatedError
from tests.constructs.governance_requests import QUOTA, make_in_console, quota, scheduler
from tests.constructs.provider_framework import Declared, Framework, Stack, as_strings, finish

from hyperpod_constructs.handlers import governance_resource, service_api
from hyperpod_constructs.handlers.governance_resource import ADOPTED_TAG, OWNER_TAG

Json = dict[str, Any]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSageMaker:
    fake = FakeSageMaker().install(monkeypatch)
    monkeypatch.setattr(governance_resource, "clock", fake.clock)
    return fake


@pytest.fixture
def stack(fake: FakeSageMaker) -> Stack:
    return Stack("research-governance", Framework(governance_resource, fake))


def with_config(**changes: Any) -> Declared:
    config = {**quota().properties["ComputeQuotaConfig"], **changes}
    return quota(ComputeQuotaConfig=config)


def only(fake: FakeSageMaker, name: str, noun: str = "ComputeQuota") -> Item:
    (item,) = fake.named(name, noun)
    return item


def last(stack: Stack) -> str:
    return stack.events[-1]


def failures(stack: Stack) -> list[str]:
    return [event for event in stack.events if "_FAILED" in event]


# Good days.


def test_a_quota_and_a_scheduler_config_are_made_and_reported_with_arn_and_id(
    fake: FakeSageMaker, stack: Stack
) -> None:
    assert finish(stack.deploy({"Scheduler": scheduler(), "Vision": quota()}))
    made = only(fake, "vision")
    assert made.status == "Created"
    assert made.settings["ComputeQuotaTarget"] == {"TeamName": "vision", "FairShareWeight": 10}
    assert made.tags == {
        "owner": "ml-platform",
        OWNER_TAG: f"{stack.id.partition(':stack/')[2].partition('/')[0]}/Vision",
    }
    assert stack.resources["Vision"].physical_id == "abcdefghijkl/compute-quota/vision/vision"
    config = only(fake, "research", "ClusterSchedulerConfig")
    assert config.settings["SchedulerConfig"]["PriorityClasses"][0]["Weight"] in (70, 90)
    assert stack.resources["Scheduler"].physical_id == "abcdefghijkl/cluster-scheduler-config/research"


def test_cloudformation_hears_the_arn_and_the_id(fake: FakeSageMaker, stack: Stack) -> None:
    answers: list[Any] = []
    run = stack.framework.run
    stack.framework.run = lambda event: record(run(event), answers)  # type: ignore[method-assign]
    finish(stack.deploy({"Vision": quota()}))
    made = only(fake, "vision")
    assert answers[-1].data == {"Arn": made.arn, "Id": made.id}


def record(running: Any, answers: list[Any]) -> Any:
    answer = yield from running
    answers.append(answer)
    return answer


def test_on_event_calls_nothing(fake: FakeSageMaker) -> None:
    event = {"RequestType": "Create", "ResourceType": QUOTA, "ResourceProperties": quota().properties}
    assert governance_resource.on_event(event, None) == {
        "PhysicalResourceId": "abcdefghijkl/compute-quota/vision/vision",
        "StartedAt": fake.clock(),
    }
    assert not fake.calls


def test_a_second_deployment_of_the_same_changes_nothing(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    assert ask_again(fake, stack, "Update", quota())
    assert only(fake, "vision").version == 1
    assert fake.calls["UpdateComputeQuota"] == 0


def ask_again(fake: FakeSageMaker, stack: Stack, verb: str, declared: Declared) -> bool:
    """Send a request that CloudFormation's own comparison of properties would spare us."""
    event = {
        "RequestType": verb,
        "RequestId": "again",
        "ResourceType": declared.kind,
        "StackId": stack.id,
        "LogicalResourceId": "Vision",
        "PhysicalResourceId": stack.resources["Vision"].physical_id,
        "ResourceProperties": as_strings(declared.properties),
        "OldResourceProperties": stack.resources["Vision"].properties,
    }
    return finish(stack.framework.run(event)).success


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(
            {"ComputeQuotaResources": [{"InstanceType": "ml.g6.12xlarge", "Accelerators": 2}]}, id="amounts"
        ),
        pytest.param({"ResourceSharingConfig": {"Strategy": "LendAndBorrow"}}, id="a borrow limit"),
        pytest.param({"PreemptTeamTasks": "LowerPriority"}, id="nothing"),
    ],
)
def test_what_the_service_fills_in_is_not_compared(fake: FakeSageMaker, stack: Stack, config: Json) -> None:
    assert finish(stack.deploy({"Vision": with_config(**config)}))
    assert ask_again(fake, stack, "Update", with_config(**config))
    assert fake.calls["UpdateComputeQuota"] == 0


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(with_config(PreemptTeamTasks="Never"), id="a setting more"),
        pytest.param(with_config(ResourceSharingConfig={"Strategy": "DontLend"}), id="another strategy"),
        pytest.param(
            with_config(
                ComputeQuotaResources=[{"InstanceType": "ml.g6.12xlarge", "Accelerators": 2, "VCpu": 48}]
            ),
            id="a resource less",
        ),
        pytest.param(quota(ActivationState="Disabled"), id="held"),
        pytest.param(quota(ComputeQuotaTarget={"TeamName": "vision", "FairShareWeight": 11}), id="a weight"),
        pytest.param(quota(Description="of the vision team"), id="a description"),
    ],
)
def test_a_changed_property_is_one_update_of_the_current_version(
    fake: FakeSageMaker, stack: Stack, changed: Declared
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    assert finish(stack.deploy({"Vision": changed}))
    made = only(fake, "vision")
    assert (made.status, made.version) == ("Updated", 2)
    assert governance_resource._has(made.settings, settings(changed))


def settings(declared: Declared) -> Json:
    keys = ("ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "Description", "SchedulerConfig")
    return {key: value for key, value in declared.properties.items() if key in keys}


def test_a_setting_that_is_dropped_goes_back_to_what_the_service_fills_in(
    fake: FakeSageMaker, stack: Stack
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    assert finish(stack.deploy({"Vision": with_config(ResourceSharingConfig={"Strategy": "LendAndBorrow"})}))
    made = only(fake, "vision")
    assert made.settings["ComputeQuotaConfig"]["ResourceSharingConfig"]["BorrowLimit"] == 50
    # Once: what the service filled in is not asked to go away again.
    assert made.version == 2


def test_a_description_that_is_dropped_is_emptied(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota(Description="old")}))
    assert finish(stack.deploy({"Vision": quota()}))
    made = only(fake, "vision")
    assert (made.settings["Description"], made.version) == ("", 2)


def test_tags_follow_and_those_of_others_stay(fake: FakeSageMaker, stack: Stack) -> None:
    tags = [{"Key": "owner", "Value": "a"}, {"Key": "cost", "Value": "1"}]
    finish(stack.deploy({"Vision": quota(Tags=tags)}))
    only(fake, "vision").tags["audit"] = "yes"
    assert finish(stack.deploy({"Vision": quota(Tags=[{"Key": "owner", "Value": "b"}])}))
    tags_now = only(fake, "vision").tags
    assert {key: value for key, value in tags_now.items() if key != OWNER_TAG} == {
        "owner": "b",
        "audit": "yes",
    }
    assert OWNER_TAG in tags_now


def test_removal_waits_until_it_is_gone(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Scheduler": scheduler(), "Vision": quota()}))
    assert finish(stack.delete())
    assert not fake.items
    # In the reverse order of creation.
    assert [one.item.name for one in fake.deletions] == ["vision", "research"]


# Replacements.


def test_another_name_for_another_team_is_made_beside_the_old_which_goes_last(
    fake: FakeSageMaker, stack: Stack
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    assert finish(stack.deploy({"Vision": quota("speech")}))
    assert only(fake, "speech").status == "Created"
    assert fake.named("vision") == []
    # The new was there before the old went.
    assert fake.deletions[-1].item.name == "vision"
    assert fake.deletions[-1].item.until > only(fake, "speech").created


@pytest.mark.parametrize(
    ("name", "team"),
    [
        pytest.param("vision", "seeing", id="another team"),
        pytest.param("seeing", "vision", id="another name"),
    ],
)
def test_a_part_that_must_be_unique_means_delete_then_create(
    fake: FakeSageMaker, stack: Stack, name: str, team: str
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    assert finish(stack.deploy({"Vision": quota(name, team)}))
    # The delete of the old physical id came after this one was made, and left it.
    assert "DELETE_COMPLETE" in last(stack)
    (only_one,) = fake.items.values()
    assert (only_one.name, only_one.team, only_one.status) == (name, team, "Created")


def test_another_name_of_a_scheduler_config_means_delete_then_create(
    fake: FakeSageMaker, stack: Stack
) -> None:
    finish(stack.deploy({"Scheduler": scheduler()}))
    assert finish(stack.deploy({"Scheduler": scheduler("better")}))
    assert [one.name for one in fake.items.values()] == ["better"]


@pytest.mark.parametrize("remembers", [True, False], ids=["id of a failed update kept", "forgotten"])
@pytest.mark.parametrize(("name", "team"), [("speech", "speech"), ("vision", "seeing"), ("seeing", "vision")])
def test_a_replacement_that_fails_goes_back_and_leaves_nothing(
    fake: FakeSageMaker, stack: Stack, remembers: bool, name: str, team: str
) -> None:
    stack.remembers = remembers
    finish(stack.deploy({"Vision": quota()}))
    # The new one is made, then the function dies in the poll after.
    fake.faults.extend([Fault("kill", operation="DescribeComputeQuota")])
    running = stack.deploy({"Vision": quota(name, team)})
    fake.faults = LaterFaults(fake, "CreateComputeQuota", fake.faults)  # type: ignore[assignment]
    assert not finish(running)
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    (left,) = fake.items.values()
    assert (left.name, left.team) == ("vision", "vision")


def test_a_replacement_that_fails_on_another_cluster_leaves_nothing_there(
    fake: FakeSageMaker, stack: Stack
) -> None:
    stack.remembers = False
    fake.clusters.add(CLUSTER[:-1] + "m")
    finish(stack.deploy({"Vision": quota()}))
    running = stack.deploy({"Vision": quota(ClusterArn=CLUSTER[:-1] + "m")})
    fake.faults = LaterFaults(  # type: ignore[assignment]
        fake, "CreateComputeQuota", [Fault("kill", operation="DescribeComputeQuota")]
    )
    assert not finish(running)
    assert [one.cluster for one in fake.items.values()] == [CLUSTER]


class LaterFaults(list[Any]):
    """Faults that wait for the second call of an operation."""

    def __init__(self, fake: FakeSageMaker, after: str, faults: Any) -> None:
        super().__init__(faults)
        self._fake, self._after = fake, after

    def __bool__(self) -> bool:
        return len(self) > 0 and self._fake.calls[self._after] > 1

    def popleft(self) -> Any:
        return self.pop(0)


# Bad days: statuses.


def test_a_create_that_failed_is_deleted_and_made_again(fake: FakeSageMaker, stack: Stack) -> None:
    fake.outcomes.extend(["Failed", None, "RollbackFailed", "Failed"])
    assert finish(stack.deploy({"Vision": quota()}))
    assert only(fake, "vision").status == "Created"


def test_a_create_that_keeps_failing_fails_with_the_services_reason_and_leaves_nothing(
    fake: FakeSageMaker, stack: Stack
) -> None:
    fake.outcomes.extend(itertools.chain.from_iterable([("Failed", None)] * 80))
    assert not finish(stack.deploy({"Vision": quota()}))
    assert "CreateFailed: injected: Kueue said no" in failures(stack)[0]
    assert not fake.items


@pytest.mark.parametrize("shows_failed", [True, False])
def test_an_update_that_failed_is_repeated(fake: FakeSageMaker, stack: Stack, shows_failed: bool) -> None:
    fake.shows_failed = shows_failed
    finish(stack.deploy({"Vision": quota()}))
    fake.outcomes.extend(["Failed", "Failed"])
    assert finish(stack.deploy({"Vision": quota(ActivationState="Disabled")}))
    assert only(fake, "vision").status == "Updated"
    assert only(fake, "vision").settings["ActivationState"] == "Disabled"


def test_an_update_that_could_not_be_undone_means_delete_and_create(
    fake: FakeSageMaker, stack: Stack
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    fake.outcomes.extend(["RollbackFailed"])
    assert finish(stack.deploy({"Vision": quota(ActivationState="Disabled")}))
    assert only(fake, "vision").settings["ActivationState"] == "Disabled"
    assert only(fake, "vision").version == 1


def test_an_update_that_keeps_failing_fails(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    fake.outcomes.extend(["Failed"] * 70)
    assert not finish(stack.deploy({"Vision": quota(ActivationState="Disabled")}))
    assert "UpdateFailed: injected: Kueue said no" in failures(stack)[0]
    assert only(fake, "vision").settings["ActivationState"] == "Enabled"


def test_a_delete_that_failed_is_repeated(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    fake.outcomes.extend(["Failed", "RollbackFailed"])
    assert finish(stack.delete())
    assert not fake.items


def test_a_delete_that_keeps_failing_fails_and_says_why(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    fake.outcomes.extend(["Failed"] * 300)
    assert not finish(stack.delete())
    assert (
        "for 50 minutes: removal waits until it is gone: it is DeleteFailed: injected: Kueue said no"
        in last(stack)
    )


def test_what_does_not_end_fails_before_the_framework_gives_up(fake: FakeSageMaker, stack: Stack) -> None:
    fake.duration = lambda: 10 * 3600.0
    running = stack.deploy({"Vision": quota()})
    for _ in running:
        if failures(stack):
            break
    assert "for 50 minutes: is Creating" in failures(stack)[0]


# Bad days: people.


def test_one_deleted_by_hand_is_made_again(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    with fake.by_people() as client:
        client.delete_compute_quota(ComputeQuotaId=only(fake, "vision").id)
    fake.clock.sleep(60)
    assert finish(stack.deploy({"Vision": quota(ActivationState="Disabled")}))
    assert only(fake, "vision").settings["ActivationState"] == "Disabled"


@pytest.mark.parametrize("operation", ["UpdateComputeQuota", "AddTags", "DeleteTags"])
def test_one_deleted_by_hand_between_two_calls_is_made_again(
    fake: FakeSageMaker, stack: Stack, operation: str
) -> None:
    finish(stack.deploy({"Vision": quota(Tags=[{"Key": "old", "Value": "1"}])}))

    def after_its_deletion(request: Json) -> Json:
        # Only this once; the answer is that of what is not there.
        fake.register(operation, served)
        fake.items.clear()
        return served(request)

    served = fake.operation(operation)
    fake.register(operation, after_its_deletion)
    assert finish(stack.deploy({"Vision": quota(ActivationState="Disabled")}))
    assert only(fake, "vision").settings["ActivationState"] == "Disabled"


def test_one_deleted_by_hand_is_no_obstacle_to_removal(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    with fake.by_people() as client:
        client.delete_compute_quota(ComputeQuotaId=only(fake, "vision").id)
    assert finish(stack.delete())
    assert not fake.items


def test_one_made_in_the_console_is_adopted_by_its_exact_name(fake: FakeSageMaker, stack: Stack) -> None:
    theirs = make_in_console(fake, quota(ActivationState="Disabled"))
    make_in_console(fake, quota("vision-2"))
    assert finish(stack.deploy({"Vision": quota()}))
    assert only(fake, "vision").id == theirs.id
    assert theirs.settings["ActivationState"] == "Enabled"
    assert theirs.tags[ADOPTED_TAG] == "true"
    assert finish(stack.delete())
    assert [one.name for one in fake.items.values()] == ["vision-2"]


def test_an_adopted_one_is_released_when_the_deployment_that_adopted_it_fails(
    fake: FakeSageMaker, stack: Stack
) -> None:
    theirs = make_in_console(fake, quota())
    fake.limit = 1
    assert not finish(stack.deploy({"Vision": quota(), "Speech": quota("speech")}))
    assert stack.status == "ROLLBACK_COMPLETE"
    assert only(fake, "vision").id == theirs.id
    assert theirs.tags == {}
    assert fake.deletions == []


def test_the_name_of_a_quota_that_another_stack_owns_is_refused(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    other = Stack("other", Framework(governance_resource, fake))
    assert not finish(other.deploy({"Mine": quota()}))
    assert "it belongs to resource Vision of stack research-governance;" in failures(other)[0]
    assert "remove it there first" in failures(other)[0]
    assert other.status == "ROLLBACK_COMPLETE"
    assert only(fake, "vision").status == "Created"


def test_what_an_earlier_stack_of_the_same_name_left_behind_is_taken_over(
    fake: FakeSageMaker, stack: Stack
) -> None:
    left = make_in_console(fake, quota())
    left.tags = {OWNER_TAG: f"{stack.name}/Vision"}
    assert finish(stack.deploy({"Vision": quota()}))
    assert only(fake, "vision") is left
    assert finish(stack.delete())
    assert fake.items == {}


@pytest.mark.parametrize(
    "declared", [quota("vision-2", "vision"), scheduler("other")], ids=["quota", "scheduler"]
)
def test_what_excludes_it_is_refused_by_name(fake: FakeSageMaker, stack: Stack, declared: Declared) -> None:
    theirs = make_in_console(fake, declared)
    assert not finish(stack.deploy({"Vision": quota(), "Scheduler": scheduler()}))
    assert f"{theirs.name!r} already, and can have one; it is nobody's by its tags" in failures(stack)[0]
    assert not [one for one in fake.deletions if one.item is theirs]


def test_a_quota_of_the_name_that_people_gave_to_another_team_is_refused(
    fake: FakeSageMaker, stack: Stack
) -> None:
    make_in_console(fake, quota("vision", "speech"))
    assert not finish(stack.deploy({"Vision": quota()}))
    assert "a quota of this name is there for team 'speech', made by hand" in failures(stack)[0]
    assert fake.deletions == []


def test_what_people_are_deleting_is_waited_for(fake: FakeSageMaker, stack: Stack) -> None:
    theirs = make_in_console(fake, quota("vision-2", "vision"))
    with fake.by_people() as client:
        client.delete_compute_quota(ComputeQuotaId=theirs.id)
    assert finish(stack.deploy({"Vision": quota()}))


def test_one_whose_tag_people_took_is_left_at_removal(fake: FakeSageMaker, stack: Stack) -> None:
    finish(stack.deploy({"Vision": quota()}))
    only(fake, "vision").tags.clear()
    assert finish(stack.delete())
    assert only(fake, "vision").status == "Created"


def test_two_deployments_at_once_of_one_name_end_with_one_owner(fake: FakeSageMaker, stack: Stack) -> None:
    other = Stack("other", Framework(governance_resource, fake))
    outcomes = interleaved(stack.deploy({"Vision": quota()}), other.deploy({"Vision": quota()}))
    assert sorted(outcomes) == [False, True]
    assert only(fake, "vision").status == "Created"


def interleaved(*operations: Iterator[str]) -> list[bool]:
    left = dict(enumerate(operations))
    values = {}
    while left:
        for number, operation in list(left.items()):
            try:
                next(operation)
            except StopIteration as stop:
                values[number] = stop.value
                del left[number]
    return [values[number] for number in sorted(values)]


def test_one_request_that_arrives_twice_makes_one_quota(fake: FakeSageMaker, stack: Stack) -> None:
    fake.unique_at_once = False
    again = Stack("research-governance", Framework(governance_resource, fake))
    assert interleaved(stack.deploy({"Vision": quota()}), again.deploy({"Vision": quota()})) == [True, True]
    fake.clock.sleep(60)
    assert ask_again(fake, stack, "Update", quota())
    assert only(fake, "vision").status == "Created"


@pytest.mark.parametrize("outcomes", [[], [None, None, "Failed"]], ids=["deleted", "deleted at the second"])
def test_a_create_that_timed_out_and_was_repeated_leaves_one(
    fake: FakeSageMaker, stack: Stack, outcomes: list[str | None]
) -> None:
    fake.unique_at_once = False
    fake.lag = lambda: 15.0
    fake.faults.append(Fault("timeout", effect=True, operation="CreateComputeQuota"))
    # The third change is the removal of the one that is too many.
    fake.outcomes.extend(outcomes)
    assert finish(stack.deploy({"Vision": quota()}))
    assert fake.calls["CreateComputeQuota"] == 2
    assert only(fake, "vision").status == "Created"


# Bad days: calls.


def test_a_missing_permission_is_named_after_two_minutes(fake: FakeSageMaker, stack: Stack) -> None:
    begun = fake.clock()
    said = (
        "User: arn:aws:sts::123456789012:assumed-role/quotas/x is not authorized to perform: "
        "sagemaker:CreateComputeQuota on resource: arn:aws:sagemaker:us-east-1:123456789012:compute-quota/*"
    )
    fake.faults.extend([Fault("AccessDeniedException", operation="CreateComputeQuota", message=said)] * 13)
    running = stack.deploy({"Vision": quota()})
    for _ in running:
        if failures(stack):
            break
    assert 120 <= fake.clock() - begun < 150
    assert (
        "compute quota 'vision' of team 'vision' on cluster abcdefghijkl: no permission for "
        "sagemaker:CreateComputeQuota: give it to role quotas" in failures(stack)[0]
    )


def test_a_permission_that_spreads_late_is_waited_for(fake: FakeSageMaker, stack: Stack) -> None:
    fake.faults.extend([Fault("AccessDeniedException", operation="CreateComputeQuota")] * 9)
    assert finish(stack.deploy({"Vision": quota()}))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind, effect)
        for kind in (
            "ThrottlingException",
            "ConflictException",
            "InternalFailure",
            "timeout",
            "no connection",
        )
        for effect in (False, True)
    ],
    ids=lambda fault: fault.title,
)
@pytest.mark.parametrize(
    "operation", ["ListComputeQuotas", "DescribeComputeQuota", "ListTags", "CreateComputeQuota"]
)
def test_what_may_pass_is_tried_again(
    fake: FakeSageMaker, stack: Stack, fault: Fault, operation: str
) -> None:
    fake.faults.append(Fault(fault.kind, fault.effect, operation))
    assert finish(stack.deploy({"Vision": quota()}))
    assert only(fake, "vision").status == "Created"
    assert finish(stack.delete())
    assert not fake.items


def test_what_does_not_pass_fails_with_the_last_error(fake: FakeSageMaker, stack: Stack) -> None:
    fake.faults.extend([Fault("ThrottlingException", message="slow down")] * 400)
    running = stack.deploy({"Vision": quota()})
    for _ in running:
        if failures(stack):
            break
    assert "for 50 minutes: ListComputeQuotas: ThrottlingException: slow down" in failures(stack)[0]


def test_a_limit_is_said_at_once_with_the_next_step(fake: FakeSageMaker, stack: Stack) -> None:
    make_in_console(fake, quota("speech"))
    fake.limit = 1
    begun = fake.clock()
    assert not finish(stack.deploy({"Vision": quota()}))
    assert fake.clock() - begun < 60
    assert "ResourceLimitExceeded: the limit of 1 compute quotas is reached" in failures(stack)[0]
    assert "ask for a higher quota in Service Quotas" in failures(stack)[0]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        pytest.param(
            quota(ComputeQuotaConfig={"ComputeQuotaResources": [{"InstanceType": "ml.p5.48xlarge"}] * 16}),
            "16 items",
            id="sixteen resources",
        ),
        pytest.param(
            scheduler(
                SchedulerConfig={"PriorityClasses": [{"Name": f"c{i}", "Weight": i} for i in range(11)]}
            ),
            "11 items",
            id="eleven classes",
        ),
        pytest.param(quota(ActivationState="Held"), "'Held' is not allowed", id="a value of its own"),
    ],
)
def test_what_the_service_does_not_take_fails_at_once(
    fake: FakeSageMaker, stack: Stack, declared: Declared, said: str
) -> None:
    begun = fake.clock()
    assert not finish(stack.deploy({"Vision": declared}))
    assert fake.clock() - begun < 60
    assert said in failures(stack)[0]


def test_a_text_where_a_number_belongs_is_named(stack: Stack) -> None:
    wrong = quota(ComputeQuotaTarget={"TeamName": "vision", "FairShareWeight": "much"})
    assert not finish(stack.deploy({"Vision": wrong}))
    assert (
        "compute quota 'vision' of team 'vision' on cluster abcdefghijkl: 'much' is no" in failures(stack)[0]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(
            quota(ComputeQuotaTarget={"TeamName": "vision", "FairShareWeight": "much"}), id="a text"
        ),
        pytest.param(Declared(QUOTA, {"Name": "vision"}), id="no cluster"),
        pytest.param(quota(ActivationState="Held"), id="a value of its own"),
    ],
)
def test_a_rollback_of_what_is_wrong_does_not_stumble_over_it(
    fake: FakeSageMaker, stack: Stack, wrong: Declared
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    assert not finish(stack.deploy({"Vision": wrong}))
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert only(fake, "vision").settings["ActivationState"] == "Enabled"


def test_a_cluster_that_is_not_there_fails_a_create_and_completes_a_delete(
    fake: FakeSageMaker, stack: Stack
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    fake.clusters.clear()
    fake.items.clear()
    other = Stack("other", Framework(governance_resource, fake))
    assert not finish(other.deploy({"Vision": quota()}))
    assert "does not exist" in failures(other)[0]
    assert finish(stack.delete())


def test_a_message_fits_into_an_answer(fake: FakeSageMaker, stack: Stack) -> None:
    fake.faults.append(Fault("ValidationException", message="x" * 9000))
    assert not finish(stack.deploy({"Vision": quota()}))
    assert len(failures(stack)[0]) < 2048
    assert failures(stack)[0].endswith("; correct what it names and deploy again")


def test_a_poll_ends_before_its_function_does(fake: FakeSageMaker, stack: Stack) -> None:
    # Each of these calls takes 20 seconds; the function has 300.
    fake.faults.extend([Fault("timeout")] * 3)
    assert finish(stack.deploy({"Vision": quota()}))
    event = {
        "RequestType": "Create",
        "ResourceType": QUOTA,
        "StackId": stack.id,
        "LogicalResourceId": "Vision",
        "PhysicalResourceId": "abcdefghijkl/compute-quota/vision/vision",
        "ResourceProperties": quota().properties,
        "StartedAt": fake.clock(),
    }
    calls = fake.calls.total()

    class Late:
        def get_remaining_time_in_millis(self) -> int:
            return int(service_api.LONGEST_CALL * 1000) - 1

    assert governance_resource.is_complete(event, Late()) == {"IsComplete": False}
    assert fake.calls.total() == calls


# Dying.


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("effect", [False, True], ids=["before", "after"])
def test_a_death_at_any_call_of_a_create_leaves_nothing_and_the_next_succeeds(
    fake: FakeSageMaker, stack: Stack, number: int, effect: bool
) -> None:
    fake.faults.extend([None] * number + [Fault("kill", effect)])
    if not finish(stack.deploy({"Vision": quota()})):
        assert stack.status == "ROLLBACK_COMPLETE"
        assert not fake.items
        finish(stack.delete())
        assert finish(stack.deploy({"Vision": quota()}))
    assert only(fake, "vision").status == "Created"


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("effect", [False, True], ids=["before", "after"])
def test_a_death_at_any_call_of_a_delete_fails_and_the_next_succeeds(
    fake: FakeSageMaker, stack: Stack, number: int, effect: bool
) -> None:
    finish(stack.deploy({"Vision": quota()}))
    fake.faults.extend([None] * number + [Fault("kill", effect)])
    if not finish(stack.delete()):
        assert stack.status == "DELETE_FAILED"
        assert finish(stack.delete())
    assert not fake.items


def test_a_create_whose_on_event_died_made_nothing(fake: FakeSageMaker, stack: Stack) -> None:
    deaths = iter(["handler"])
    stack.framework.dies = lambda: next(deaths, None)
    assert not finish(stack.deploy({"Vision": quota()}))
    assert stack.status == "ROLLBACK_COMPLETE"
    assert not fake.calls


# The parts.


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ({"VCpu": 48.0, "MemoryInGiB": 192.0}, {"VCpu": 48}, True),
        ({"VCpu": 0.10000000149}, {"VCpu": 0.1}, True),
        ({"VCpu": 48.0}, {"VCpu": 49}, False),
        ([{"Name": "b", "Weight": 1}, {"Name": "a", "Weight": 2}], [{"Name": "a"}, {"Name": "b"}], True),
        ([{"Name": "b"}], [{"Name": "a"}], False),
        ([{"Name": "b"}, {"Name": "a"}], [{"Name": "a"}], False),
        (
            [
                {"InstanceType": "p5", "VCpu": 4.0, "AcceleratorPartition": {"Type": "x", "Count": 1}},
                {"InstanceType": "p5", "VCpu": 4.0},
            ],
            [
                {"InstanceType": "p5", "VCpu": 4},
                {"InstanceType": "p5", "VCpu": 4, "AcceleratorPartition": {"Type": "x", "Count": 1}},
            ],
            True,
        ),
        (None, [], True),
        (None, "", True),
        (None, {"Strategy": "Lend"}, False),
    ],
)
def test_comparison_is_of_what_is_wanted(live: Any, wanted: Any, expected: bool) -> None:
    assert governance_resource._has(live, wanted) is expected


def test_an_owner_fits_into_a_tag_and_still_differs() -> None:
    stack_id = f"arn:aws:cloudformation:us-east-1:123456789012:stack/{'s' * 128}/{'0' * 36}"
    owners = {governance_resource._owner(stack_id, "L" * 200 + end) for end in "ab"}
    assert len(owners) == 2
    assert {len(owner) for owner in owners} == {256}


def test_the_fake_refuses_what_it_does_not_simulate(fake: FakeSageMaker) -> None:
    with pytest.raises(NotSimulatedError, match="ListModels"):
        fake.client().list_models()


def test_the_fake_holds_its_answers_to_the_model(fake: FakeSageMaker) -> None:
    def broken(_request: Mapping[str, Any]) -> Json:
        return {"ClusterArn": 1}

    fake.register("DescribeCluster", broken)
    with pytest.raises(NotSimulatedError, match="ClusterArn"):
        fake.client().describe_cluster(ClusterName="research")
