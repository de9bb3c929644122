"""The real CDK CLI deploys fleets to an account on this machine; what counts is the API's state afterwards.

The CLI publishes to moto's S3 and talks to a CloudFormation that knows only the types listed for it. Custom
resources run the published code, the CDK's provider framework included, in processes of their own with the
roles of the template. SageMaker is the stateful fake that the handlers' own tests use.

What this cannot show: that AWS behaves as the fakes do; what native resource types and passive ones would
refuse; IAM beyond the actions in inline policies; anything inside the cluster (charts, Kueue, queues); what
comes of changes at the same time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.smoke import fleets
from tests.smoke.assembly import Assembly
from tests.smoke.conftest import Cdk
from tests.smoke.fleets import CAPACITY, CLUSTER, GOVERNANCE, NETWORK, assembly
from tests.smoke.state import (
    NATIVE_AND_CUSTOM,
    accelerators,
    counts,
    nothing_is_left,
    place_of,
    quotas,
    said,
    schedulers,
    statuses,
)
from tests.smoke.template import Template
from tests.smoke.world import World

QUOTA_TYPES = {"AWS::SageMaker::ComputeQuota", "Custom::HyperPodComputeQuota"}


def contains(there: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there: the service fills in more, and orders lists as it likes."""
    if isinstance(wanted, Mapping):
        return all(key in there and contains(there[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(there) == len(wanted) and all(any(contains(it, one) for it in there) for one in wanted)
    return bool(there == wanted)


@NATIVE_AND_CUSTOM
def test_a_fleet_comes_with_its_quotas_and_minimums_and_goes_without_a_trace(
    world: World, cdk: Cdk, base: fleets.Edits
) -> None:
    place = place_of(world, assembly(*base))
    done = cdk("deploy", assembly(*base), "--all")
    assert done.returncode == 0, done.stderr
    assert statuses(place) == dict.fromkeys((NETWORK, CLUSTER, CAPACITY, GOVERNANCE), "CREATE_COMPLETE")
    assert accelerators(place) == {"llm": 8, "vision": 4}
    assert schedulers(place) == ["smoke-research"]
    assert counts(place) == {"system": (2, 1), "g6": (4, 2)}
    done = cdk("destroy", assembly(*base), "--all")
    assert done.returncode == 0, done.stderr
    nothing_is_left(place)


@NATIVE_AND_CUSTOM
def test_a_change_of_one_quota_updates_that_quota_and_nothing_else(
    world: World, cdk: Cdk, base: fleets.Edits
) -> None:
    place = place_of(world, assembly(*base))
    assembly(*base).deploy(world)
    before = place.sagemaker.calls.copy()
    done = cdk("deploy", assembly(*base, *fleets.MORE_FOR_VISION), "--all")
    assert done.returncode == 0, done.stderr
    assert accelerators(place) == {"llm": 8, "vision": 6}
    made = (place.sagemaker.calls - before).items()
    changing = ("Add", "Create", "Delete", "Update")
    assert {name: count for name, count in made if name.startswith(changing)} == {"UpdateComputeQuota": 1}


def test_a_missed_minimum_fails_with_its_reason_and_leaves_the_cluster_for_a_lower_one(
    world: World, cdk: Cdk
) -> None:
    place = world.place("us-east-1")
    place.hyperpod.capacity["smoke-research", "g6"] = 1
    began = world.clock()
    done = cdk("deploy", assembly(), "--all")
    assert done.returncode == 1
    reason = said(done.stderr)
    assert "g6: 0 of at least 2 instances (target 4)" in reason
    assert "The minimum was missed" in reason
    assert "Insufficient capacity" in reason
    assert f"cdk deploy --revert-drift {CLUSTER}" in reason
    assert 3 * 3600 < world.clock() - began < 4 * 3600
    assert statuses(place) == {
        NETWORK: "CREATE_COMPLETE",
        CLUSTER: "CREATE_COMPLETE",
        CAPACITY: "ROLLBACK_COMPLETE",
    }
    assert counts(place) == {"system": (2, 1), "g6": (0, 0)}
    assert quotas(place) == {}
    again = cdk("deploy", assembly(*fleets.LOWER_MINIMUM), "--all")
    assert again.returncode == 0, again.stderr
    assert counts(place) == {"system": (2, 1), "g6": (1, 1)}
    assert accelerators(place) == {"llm": 8, "vision": 4}


def test_a_group_that_grows_is_waited_for_again_and_the_others_are_not(world: World, cdk: Cdk) -> None:
    assembly().deploy(world)
    before = set(world.machines.executions)
    done = cdk("deploy", assembly(*fleets.MORE_INSTANCES), "--all")
    assert done.returncode == 0, done.stderr
    assert counts(world.place("us-east-1")) == {"system": (2, 1), "g6": (8, 6)}
    (started,) = set(world.machines.executions) - before
    assert '"group":"g6"' in world.machines.executions[started].document


def test_a_change_that_the_service_refuses_is_refused_before_anything_is_touched(
    world: World, cdk: Cdk
) -> None:
    assembly().deploy(world)
    before = world.place("us-east-1").sagemaker.calls.copy()
    done = cdk("deploy", assembly(*fleets.OTHER_TYPE), CLUSTER)
    assert done.returncode == 1
    assert "type of instance group g6: wanted ml.g6.24xlarge, live ml.g6.12xlarge" in said(done.stderr)
    assert statuses(world.place("us-east-1"))[CLUSTER] == "UPDATE_ROLLBACK_COMPLETE"
    assert set(world.place("us-east-1").sagemaker.calls - before) == {"DescribeCluster"}


@NATIVE_AND_CUSTOM
def test_a_failed_creation_says_why_and_leaves_nothing_that_blocks_the_next(
    world: World, cdk: Cdk, base: fleets.Edits
) -> None:
    place = place_of(world, assembly(*base))
    place.sagemaker.limit = 1
    assembly(*base).deploy(world)
    done = cdk("deploy", assembly(*base), GOVERNANCE, "--exclusively")
    assert done.returncode == 1
    assert "the limit of 1 compute quotas is reached" in said(done.stderr)
    assert statuses(place)[GOVERNANCE] == "ROLLBACK_COMPLETE"
    assert place.sagemaker.items == {}
    place.sagemaker.limit = 50
    again = cdk("deploy", assembly(*base), GOVERNANCE, "--exclusively")
    assert again.returncode == 0, again.stderr
    assert accelerators(place) == {"llm": 8, "vision": 4}


def test_a_permission_that_is_missing_is_named(world: World, cdk: Cdk) -> None:
    made = assembly(*fleets.CUSTOM)
    world.forbidden.add("sagemaker:CreateComputeQuota")
    assert made.deploy(world)[GOVERNANCE] == "ROLLBACK_COMPLETE"
    done = cdk("deploy", made, GOVERNANCE, "--exclusively")
    assert done.returncode == 1
    assert "no permission for sagemaker:CreateComputeQuota" in said(done.stderr)
    assert place_of(world, made).sagemaker.items == {}


def test_a_type_that_nobody_registered_fails_the_deployment(world: World, cdk: Cdk) -> None:
    del world.place("us-east-1").cloudformation.types["AWS::EC2::FlowLog"]
    done = cdk("deploy", assembly(), NETWORK)
    assert done.returncode == 1
    assert "Unrecognized resource types: [AWS::EC2::FlowLog]" in said(done.stderr)
    assert world.place("us-east-1").names == set()


def test_the_example_comes_as_declared_and_goes_but_for_its_file_system(world: World, cdk: Cdk) -> None:
    example = fleets.example()
    places = [world.place(region) for region in ("us-east-1", "us-east-2")]
    done = cdk("deploy", example, "--all")
    assert done.returncode == 0, done.stderr
    declared = [
        it["Properties"]
        for name in example.stacks()
        for it in example.template(name)["Resources"].values()
        if it["Type"] in QUOTA_TYPES
    ]
    there = quotas(places[0])
    wanted = {it["ComputeQuotaTarget"]["TeamName"]: it["ComputeQuotaConfig"] for it in declared}
    assert sorted(there) == sorted(wanted) == ["llm", "onlygputeam", "vision"]
    assert contains(there, wanted)
    done = cdk("destroy", example, "--all")
    assert done.returncode == 0, done.stderr
    for place in places:
        nothing_is_left(place)
    kept = [it.request.type for place in places for it in place.cloudformation.kept]
    assert kept == ["AWS::FSx::FileSystem"]


class Without(Assembly):
    """The fleet's assembly in which some resources do not wait for those of some types."""

    def __init__(self, waiting: str, needed: Sequence[str]) -> None:
        super().__init__(assembly().directory)
        self._waiting = waiting
        self._needed = needed
        self.cut = 0

    def template(self, name: str) -> Template:
        template = super().template(name)
        resources = template["Resources"]
        for key, resource in resources.items():
            if self._waiting in key and "DependsOn" in resource:
                before = resource["DependsOn"]
                resource["DependsOn"] = [key for key in before if resources[key]["Type"] not in self._needed]
                self.cut += len(before) - len(resource["DependsOn"])
        return template


@pytest.mark.parametrize(
    ("waiting", "needed"),
    [
        ("Addoncoredns", ["AWS::CloudFormation::WaitCondition"]),
        ("SchedulerConfig", ["AWS::EKS::Addon", "Custom::AWSCDK-EKS-KubernetesObjectValue"]),
    ],
    ids=["coredns for a node", "the scheduler config for its add-on"],
)
def test_what_does_not_wait_any_more_fails_in_some_order(
    world: World, waiting: str, needed: Sequence[str]
) -> None:
    broken = Without(waiting, needed)

    def ends(seed: int) -> str:
        world.place("us-east-1").cloudformation.random.seed(seed)
        *_, last = broken.deploy(world).values()
        assert broken.destroy(world) == {}
        return last

    # Each order has about an even chance.
    assert "ROLLBACK_COMPLETE" in map(ends, range(20))
    assert broken.cut


@pytest.mark.parametrize("seed", range(3))
def test_the_example_comes_and_goes_in_whatever_order_its_templates_allow(world: World, seed: int) -> None:
    example = fleets.example()
    for region in ("us-east-1", "us-east-2"):
        world.place(region).cloudformation.random.seed(seed)
    assert set(example.deploy(world).values()) == {"CREATE_COMPLETE"}
    assert example.destroy(world) == {}
