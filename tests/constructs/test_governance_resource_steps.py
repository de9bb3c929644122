"""Any sequence of deployments, people and faults: what is reported is true, and nothing is left or lost.

A hypothesis state machine of 10,000 steps, the same ones in each run. Two stacks of one cluster make, change,
replace and remove quotas and scheduler configs, at the same time; people make, change, delete and untag them
in the console; calls fail before or after their effect, changes end badly, functions die. `pytest -s` prints
how often each happened.
"""

import random
from collections import Counter, deque
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.constructs.fake_sagemaker import CLUSTER, FakeSageMaker, Fault, Item
from tests.constructs.governance_requests import QUOTA, SCHEDULER
from tests.constructs.provider_framework import Declared, Framework, Stack, finish

from hyperpod_constructs.handlers import governance_resource
from hyperpod_constructs.handlers.governance_resource import ADOPTED_TAG, OWNER_TAG

NOUNS = {QUOTA: "ComputeQuota", SCHEDULER: "ClusterSchedulerConfig"}
EXAMPLES, STEPS = 125, 100
Json = dict[str, Any]

NAMES = ("q1", "q11", "q2")
TEAMS = ("t1", "t2", "t3")
# What people take: in half of the cases nothing of ours.
THEIR_NAMES = (*NAMES, "q", "q12", "q22")
THEIR_TEAMS = (*TEAMS, "t", "t12", "t33")
counts: Counter[str] = Counter()
struck: Counter[str] = Counter()


@st.composite
def quotas(draw: st.DrawFn, name: str, team: str) -> Declared:
    config: Json = {
        "ComputeQuotaResources": draw(
            st.sampled_from(
                [
                    [{"InstanceType": "ml.g6.12xlarge", "Accelerators": 2}],
                    [{"InstanceType": "ml.g6.12xlarge", "Accelerators": 2, "VCpu": 50}],
                    [
                        {"InstanceType": "ml.g6.12xlarge", "Accelerators": 4},
                        {"InstanceType": "ml.p5.48xlarge", "Count": 2},
                    ],
                ]
            )
        )
    }
    limit = draw(st.sampled_from([None, 50, 100]))
    if limit is not None:
        config["ResourceSharingConfig"] = {"Strategy": "LendAndBorrow", "BorrowLimit": limit}
    properties: Json = {
        "ClusterArn": CLUSTER,
        "Name": name,
        "ComputeQuotaConfig": config,
        "ComputeQuotaTarget": {"TeamName": team, "FairShareWeight": draw(st.sampled_from([0, 10]))},
    }
    return Declared(QUOTA, {**properties, **draw(extras())})


@st.composite
def schedulers(draw: st.DrawFn) -> Declared:
    classes = [{"Name": "a", "Weight": 1}, {"Name": "b", "Weight": 2}]
    config = {"FairShare": draw(st.sampled_from(["Enabled", "Disabled"]))}
    properties = {
        "ClusterArn": CLUSTER,
        "Name": draw(st.sampled_from(["s1", "s2"])),
        "SchedulerConfig": {
            **config,
            "PriorityClasses": classes,
        },
    }
    return Declared(SCHEDULER, {**properties, **draw(extras())})


@st.composite
def extras(draw: st.DrawFn) -> Json:
    tags = draw(st.sampled_from([[], [{"Key": "owner", "Value": "a"}], [{"Key": "cost", "Value": "b"}]]))
    description = draw(st.sampled_from([None, "one", "two"]))
    return {
        **({"Tags": tags} if tags else {}),
        **({"Description": description} if description else {}),
    }


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Declared]:
    template = {"Scheduler": draw(schedulers())} if draw(st.booleans()) else {}
    logical_ids = draw(st.sampled_from(["", "A", "AB", "ABC", "ABC", "BC"]))
    # Mostly the same ones, so that there are updates as well as replacements.
    names = draw(st.one_of(st.just(NAMES), st.just(NAMES), st.permutations(NAMES)))
    teams = draw(st.one_of(st.just(TEAMS), st.just(TEAMS), st.permutations(TEAMS)))
    for logical_id, name, team in zip("ABC", names, teams, strict=True):
        if logical_id in logical_ids:
            template[logical_id] = draw(quotas(name, team))
    return template


# What may befall a call. More of what passes: else no deployment would come far.
PASSING = ("ThrottlingException", "InternalFailure", "timeout", "ConflictException", "no connection")
TROUBLE = (
    *[Fault(kind) for kind in PASSING * 2],
    *[Fault(kind, effect=True) for kind in PASSING[:3] * 2],
    Fault("kill"),
    Fault("kill", effect=True),
    Fault("AccessDeniedException"),
    Fault("ValidationException"),
)
VERBS = ("Create", "Update", "Delete")
OUTCOMES = (None, None, None, "Failed", "RollbackFailed")
DEATHS = (*[None] * 12, "framework", "handler")


class Deployments(RuleBasedStateMachine):
    """Two stacks, people, and time."""

    @initialize(
        seed=st.integers(0, 2**16), unique=st.booleans(), remembers=st.booleans(), page=st.integers(1, 3)
    )
    def begin(self, seed: int, unique: bool, remembers: bool, page: int) -> None:
        chance = random.Random(seed)
        self.fake = FakeSageMaker(
            duration=lambda: chance.choice([3.0, 15.0, 40.0]),
            lag=lambda: chance.choice([0.0, 5.0, 25.0]),
            page=lambda: page,
            unique_at_once=unique,
            shows_failed=chance.random() < 0.5,
        )
        self.plans = 0
        self.patch = pytest.MonkeyPatch()
        self.fake.install(self.patch)
        self.patch.setattr(governance_resource, "clock", self.fake.clock)
        # The state of each poll is of no interest here.
        self.patch.setattr("builtins.print", lambda *_: None)
        self.deaths: deque[str | None] = deque()
        self.stacks = [Stack(name, self._framework(), remembers) for name in ("research", "other")]
        self.running: dict[int, Generator[str, None, bool]] = {}
        self.wanted: dict[int, dict[str, Declared]] = {0: {}, 1: {}}
        self.checked = 0

    def _framework(self) -> Framework:
        return Framework(
            governance_resource,
            self.fake,
            dies=lambda: self.deaths.popleft() if self.deaths else None,
            on_success=self._check_success,
        )

    # What is done to it.

    @rule(
        number=st.sampled_from([0, 0, 0, 1]),
        template=templates(),
        remove=st.integers(0, 9).map(lambda number: number == 9),
        seed=st.integers(0, 2**32),
    )
    def deploy(self, number: int, template: dict[str, Declared], remove: bool, seed: int) -> None:
        """Begin something, if nothing is begun yet."""
        if self.running:
            if seed % 2:
                self.poll(number, 4)
            else:
                self.poll_with_faults(number, 4, seed)
            return
        counts["step remove a stack" if remove else "step deploy"] += 1
        stack = self.stacks[number]
        if remove or stack.status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED"):
            self.running[number] = stack.delete()
        elif stack.status == "UPDATE_ROLLBACK_FAILED":
            self.running[number] = stack.continue_update_rollback()
        else:
            self.wanted[number] = template
            self.running[number] = stack.deploy(template)
        self._advance(number, 1)

    @precondition(lambda self: not self.running and self._settled())
    @rule(which=st.integers(0, 9), seed=st.integers(0, 2**32))
    def change_one_in_place(self, which: int, seed: int) -> None:
        """Deploy what is there with another description of one, and faults from the first poll on.

        Templates of chance are rarely alike enough for an update.
        """
        counts["step change in place"] += 1
        number = self._settled()[which % len(self._settled())]
        template = dict(self.wanted[number])
        logical_id = sorted(template)[which % len(template)]
        declared = template[logical_id]
        words = "one" if declared.properties.get("Description") != "one" else "two"
        template[logical_id] = Declared(declared.kind, {**declared.properties, "Description": words})
        self.wanted[number] = template
        self._plan_faults(seed, 4)
        self.running[number] = self.stacks[number].deploy(template)
        self._advance(number, 4)
        self._no_more_faults()

    def _settled(self) -> list[int]:
        """Stacks whose resources can be updated."""
        statuses = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
        return [number for number in (0, 1) if self.stacks[number].status in statuses and self.wanted[number]]

    @precondition(lambda self: len(self.running) == 1)
    @rule(template=templates())
    def deploy_the_other_at_once(self, template: dict[str, Declared]) -> None:
        counts["step deploy at once"] += 1
        number = 1 - min(self.running)
        if self.stacks[number].status in ("", "DELETE_COMPLETE", "CREATE_COMPLETE", "UPDATE_COMPLETE"):
            self.wanted[number] = template
            self.running[number] = self.stacks[number].deploy(template)
            self._advance(number, 1)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 1), polls=st.integers(1, 4), seed=st.integers(0, 2**32))
    def poll_with_faults(self, which: int, polls: int, seed: int) -> None:
        """Poll while calls fail.

        By a seed: hypothesis' own choices would mostly be the first and the smallest.
        """
        counts["step poll with faults"] += 1
        self._plan_faults(seed, polls)
        self._advance(sorted(self.running)[which % len(self.running)], polls)
        self._no_more_faults()

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 1), polls=st.integers(1, 8))
    def poll(self, which: int, polls: int) -> None:
        counts["step poll"] += 1
        self._advance(sorted(self.running)[which % len(self.running)], polls)

    def _plan_faults(self, seed: int, polls: int) -> None:
        # Also of the number of the plan: hypothesis likes some seeds more than others.
        self.plans += 1
        chance = random.Random(f"{seed}/{self.plans}")
        for _ in range(2):
            self.fake.faults.extend([None] * chance.randrange(10))
            self.fake.faults.append(chance.choice(TROUBLE))
        self.fake.outcomes.extend(chance.choices(OUTCOMES, k=2))
        self.fake.limit = chance.choice([50, 50, 0])
        self.deaths.extend(chance.choices(DEATHS, k=polls))

    @rule(
        declared=st.one_of(
            schedulers(),
            st.tuples(st.sampled_from(THEIR_NAMES), st.sampled_from(THEIR_TEAMS)).flatmap(
                lambda both: quotas(*both)
            ),
        ),
        what=st.sampled_from(["make", "make", "edit", "edit", "delete", "untag", "wait"]),
        which=st.integers(0, 9),
    )
    def people(self, declared: Declared, what: str, which: int) -> None:
        there = sorted(self.fake.items)
        if what == "wait" or (what != "make" and not there):
            counts["step time passes"] += 1
            self.fake.clock.sleep(1 + 20 * which)
            return
        counts[f"step people {what} one"] += 1
        if what == "make":
            noun = {QUOTA: "compute_quota", SCHEDULER: "cluster_scheduler_config"}[declared.kind]
            self._people(f"create_{noun}", declared.properties)
            return
        item = self.fake.items[there[which % len(there)]]
        if what == "untag":
            item.tags = {}
        elif what == "delete":
            self._people_delete(item)
        else:
            self._people_edit(item)

    def _people_edit(self, item: Item) -> None:
        request: Json = {f"{item.noun}Id": item.id, "TargetVersion": item.version, "Description": "by hand"}
        if item.noun == "ComputeQuota":
            target = {"TeamName": item.team, "FairShareWeight": 99}
            self._people("update_compute_quota", {**request, "ComputeQuotaTarget": target})
        else:
            config = {"FairShare": "Disabled", "PriorityClasses": []}
            self._people("update_cluster_scheduler_config", {**request, "SchedulerConfig": config})

    def _people(self, operation: str, request: Any) -> None:
        with self.fake.by_people() as client:
            try:
                getattr(client, operation)(**request)
            except client.exceptions.ClientError:
                counts["people were refused"] += 1

    def _people_delete(self, item: Item) -> None:
        noun = {"ComputeQuota": "compute_quota", "ClusterSchedulerConfig": "cluster_scheduler_config"}
        self._people(f"delete_{noun[item.noun]}", {f"{item.noun}Id": item.id})

    def _advance(self, number: int, polls: int) -> None:
        for _ in range(polls):
            if number not in self.running:
                return
            counts["polls"] += 1
            try:
                next(self.running[number])
            except StopIteration as stop:
                del self.running[number]
                counts[f"stack operation {'succeeded' if stop.value else 'failed'}"] += 1
            self._check_deletions(self.stacks[number])

    def _no_more_faults(self) -> None:
        self.fake.faults.clear()
        self.fake.outcomes.clear()
        self.fake.limit = 50
        self.deaths.clear()

    # What must hold.

    def _check_success(self, event: Json) -> None:
        counts[f"{event['RequestType']} succeeded"] += 1
        _, _, name, *team = event["PhysicalResourceId"].split("/")
        stack = event["StackId"].partition(":stack/")[2].partition("/")[0]
        found = [
            one
            for one in self.fake.named(name, NOUNS[event["ResourceType"]])
            if one.tags.get(OWNER_TAG) == f"{stack}/{event['LogicalResourceId']}"
            and one.team == "".join(team)
        ]
        if event["RequestType"] == "Delete":
            assert found == [], f"{name} was reported as deleted"
            return
        assert len(found) == 1, f"{name} was reported as there"
        assert _is_as_asked(found[0], event["ResourceProperties"]), (found, event)

    def _check_deletions(self, stack: Stack) -> None:
        for one in self.fake.deletions[self.checked :]:
            if one.by_people:
                continue
            prefix = stack.id.partition(":stack/")[2].partition("/")[0]
            assert one.tags.get(OWNER_TAG, "").startswith(f"{prefix}/"), f"{one} is not of {stack.name}"
            rolls_back = "ROLLBACK" in one.stacks[stack.id]
            broken = one.status.endswith("Failed")
            assert not (ADOPTED_TAG in one.tags and rolls_back and not broken), f"{one} was adopted"
            counts["deletions by the handler"] += 1
        self.checked = len(self.fake.deletions)

    def teardown(self) -> None:
        """Without faults, a redeployment converges, and a removal leaves nothing of ours."""
        if not hasattr(self, "fake"):
            return
        try:
            self._no_more_faults()
            for number in (1, 0):
                self._settle(number)
            self._remove(1)
            self._clear_the_way(0)
            if self._swaps():
                self._remove(0)
            self._finish(0, self.stacks[0].deploy(self.wanted[0]))
            self._remove(0)
            counts["converged and removed"] += 1
            self._check_nothing_is_left()
        finally:
            self.patch.undo()
            for title, number in self.fake.struck.items():
                struck[title] += number

    def _settle(self, number: int) -> None:
        """Bring a stack into a state from which CloudFormation deploys."""
        stack = self.stacks[number]
        if number in self.running:
            while number in self.running:
                self._advance(number, 1)
        # One message names one obstacle, which may be another resource of the same stack.
        for _ in range(4):
            if stack.status == "UPDATE_ROLLBACK_FAILED":
                self._clear_the_way(number)
                self._finish(number, stack.continue_update_rollback(), expected=False)
        assert stack.status != "UPDATE_ROLLBACK_FAILED", stack.events
        if stack.status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED"):
            self._remove(number)

    def _finish(self, number: int, operation: Generator[str, None, bool], *, expected: bool = True) -> None:
        value = finish(operation)
        self._check_deletions(self.stacks[number])
        assert value is expected, self.stacks[number].events[-12:]

    def _remove(self, number: int) -> None:
        self._finish(number, self.stacks[number].delete())

    def _clear_the_way(self, number: int) -> None:
        """Let people delete all that no resource of the stack has, and what the last message names."""
        stack = self.stacks[number]
        prefix = stack.id.partition(":stack/")[2].partition("/")[0]
        theirs = {f"{prefix}/{logical_id}" for logical_id in stack.resources}
        left = {(f"{prefix}/{logical_id}", physical_id) for logical_id, physical_id in stack.left}
        self.fake.clock.sleep(300)
        self.fake.settle()
        for item in list(self.fake.items.values()):
            owner = item.tags.get(OWNER_TAG, "")
            named = stack.status == "UPDATE_ROLLBACK_FAILED" and f" {item.name!r} already" in stack.events[-1]
            if named or owner not in theirs or (owner, _physical_id(item)) in left:
                self._people_delete(item)
        self.fake.clock.sleep(300)

    def _swaps(self) -> bool:
        """Whether a resource would take the name or team of another one of its stack."""
        now = self.stacks[0].resources
        return any(
            one != other and set(_keys(wanted.properties)) & set(_keys(now[other].properties))
            for one, wanted in self.wanted[0].items()
            for other in now
        )

    def _check_nothing_is_left(self) -> None:
        self.fake.clock.sleep(300)
        self.fake.settle()
        reported = {physical_id for stack in self.stacks for _, physical_id in stack.left}
        ours = [one for one in self.fake.items.values() if OWNER_TAG in one.tags]
        assert [one for one in ours if _physical_id(one) not in reported] == []


def _physical_id(item: Item) -> str:
    path = item.arn.split(":")[5].split("/")[0]
    return "/".join(part for part in ("abcdefghijkl", path, item.name, item.team) if part)


def _keys(properties: Any) -> list[str]:
    target = properties.get("ComputeQuotaTarget", {})
    return [f"name {properties['Name']}", f"team {target.get('TeamName', 'none')}"]


def _is_as_asked(item: Item, properties: Json) -> bool:
    """Compare by hand, not by the handler's own comparison."""
    asked_tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", [])}
    if item.status not in ("Created", "Updated") or not asked_tags.items() <= item.tags.items():
        return False
    if item.settings.get("Description") != properties.get("Description", item.settings.get("Description")):
        return False
    if item.noun == "ClusterSchedulerConfig":
        asked, has = properties["SchedulerConfig"], item.settings["SchedulerConfig"]
        return _amounts(asked["PriorityClasses"], "Name") == _amounts(has["PriorityClasses"], "Name") and (
            asked["FairShare"] == has["FairShare"]
        )
    asked, has = properties["ComputeQuotaConfig"], item.settings["ComputeQuotaConfig"]
    wanted = _amounts(asked["ComputeQuotaResources"], "InstanceType")
    there = _amounts(has["ComputeQuotaResources"], "InstanceType")
    weight = int(properties["ComputeQuotaTarget"]["FairShareWeight"])
    limit = int(asked.get("ResourceSharingConfig", {}).get("BorrowLimit", 50))
    return (
        wanted.keys() == there.keys()
        and all(wanted[key].items() <= there[key].items() for key in wanted)
        and item.settings["ComputeQuotaTarget"]["FairShareWeight"] == weight
        and has["ResourceSharingConfig"]["BorrowLimit"] == limit
    )


def _amounts(rows: list[Json], key: str) -> dict[str, dict[str, float]]:
    return {row[key]: {name: float(row[name]) for name in row if name != key} for row in rows}


def test_ten_thousand_steps_of_deployments_people_and_faults() -> None:
    counts.clear()
    struck.clear()
    run_state_machine_as_test(
        Deployments,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    for title, number in sorted([*counts.items(), *((f"fault: {key}", struck[key]) for key in struck)]):
        print(f"{number:7} {title}")
    assert sum(number for title, number in counts.items() if title.startswith("step ")) >= 10_000
    ends = {f"outcome {verb}{end}" for verb in VERBS for end in ("Failed", "RollbackFailed")}
    deaths = {"kill of the framework", "kill in on_event"}
    assert set(struck) == {fault.title for fault in TROUBLE} | ends | deaths | {"limit reached"}
    assert all(counts[f"{request} succeeded"] > 100 for request in VERBS)
