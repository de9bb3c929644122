"""What the capacity gate is made of, and which part of it a change replaces."""

import dataclasses
import json
from typing import Any

import aws_cdk as cdk
import pytest
from tests.constructs import clusters
from tests.constructs.fake_cluster import ARN
from tests.constructs.templates import Template, of_type, properties, synthesize

import hyperpod_constructs as hyperpod
from hyperpod_constructs import GatedGroup, HyperPodCapacity

CONDITION = {"AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle"}
PARTS = CONDITION | {"Custom::HyperPodCapacityGate"}
TWO = [
    GatedGroup(name="h100", instance_count=16, min_instance_count=8, digest="1"),
    GatedGroup(name="g6", instance_count=4, min_instance_count=2, digest="2"),
]


def gate(groups: list[GatedGroup] = TWO, **props: Any) -> Template:
    given = {"cluster_name": "research", "cluster_arn": ARN, "cluster_stack_name": "cluster", **props}
    return synthesize(HyperPodCapacity(clusters.stack(), "Capacity", groups=groups, **given))


def parts(template: Template) -> set[str]:
    """Logical ids of conditions and what belongs to them."""
    return {name for name, one in template["Resources"].items() if one["Type"] in PARTS}


def statements(template: Template, role: str) -> list[dict[str, Any]]:
    (found,) = [name for name in template["Resources"] if name.startswith(f"Capacity{role}role")]
    (policy,) = template["Resources"][found]["Properties"]["Policies"]
    return [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]


# What a change replaces.


def test_the_same_gate_twice_is_the_same_template() -> None:
    assert gate() == gate()


@pytest.mark.parametrize(
    "change",
    [{"digest": "other"}, {"min_instance_count": 9}, {"instance_count": 17}],
    ids=["its definition", "its minimum", "its count"],
)
def test_a_changed_group_gets_three_new_ids_and_the_other_keeps_its_own(change: dict[str, Any]) -> None:
    before, after = parts(gate()), parts(gate([dataclasses.replace(TWO[0], **change), TWO[1]]))
    assert len(before) == len(after) == 6
    assert {name for name in before - after if "Grouph100" in name} == before - after
    assert len(before - after) == len(after - before) == 3


@pytest.mark.parametrize(
    "props",
    [{"wait_for": "target"}, {"timeout": cdk.Duration.hours(6)}, {"cluster_name": "other"}],
    ids=["another wait", "another timeout", "another cluster"],
)
def test_a_condition_is_never_updated(props: dict[str, Any]) -> None:
    # CloudFormation refuses every update of a wait condition.
    assert parts(gate()) & parts(gate(**props)) == set()


def test_the_name_of_the_clusters_stack_is_only_told() -> None:
    assert parts(gate()) == parts(gate(cluster_stack_name="renamed"))


def test_a_group_that_comes_or_goes_touches_no_other() -> None:
    assert parts(gate(TWO[1:])) < parts(gate())


# What groups are waited for.


def test_groups_without_a_minimum_are_waited_for_only_to_their_target() -> None:
    groups = [
        *TWO,
        GatedGroup(name="none", instance_count=1),
        GatedGroup(name="zero", instance_count=1, min_instance_count=0),
    ]
    assert [one.name for one in HyperPodCapacity.waited_for(groups, "minimum")] == ["h100", "g6"]
    assert len(HyperPodCapacity.waited_for(groups, "target")) == 4
    assert len(parts(gate(groups, wait_for="target"))) == 12


def test_a_gate_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="groups to wait for has 0 items"):
        gate([GatedGroup(name="none", instance_count=1)])
    assert len(parts(gate([], first_node=True))) == 3


@pytest.mark.parametrize("minutes", [9, 701])
def test_a_timeout_that_no_wait_condition_has_room_for_is_refused(minutes: int) -> None:
    with pytest.raises(ValueError, match=f"timeout in minutes is {minutes}"):
        gate(timeout=cdk.Duration.minutes(minutes))


def test_a_hundred_groups_fit_into_a_stack() -> None:
    groups = [
        GatedGroup(name=f"g{i}", instance_count=1, min_instance_count=1, digest=str(i)) for i in range(100)
    ]
    template = gate(groups, first_node=True)
    assert len(parts(template)) == 303
    assert len(template["Resources"]) < 330


# Groups of a cluster.


def cluster_groups(**changes: Any) -> list[GatedGroup]:
    return clusters.eks(
        instance_groups=[clusters.group(name="other"), clusters.group(**changes)]
    ).gated_groups


@pytest.mark.parametrize(
    "change",
    [
        {"instance_type": "ml.p5e.48xlarge"},
        {"min_instance_count": 1},
        {"labels": {"team": "a"}},
        {"training_plan_arn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/plan"},
        {"on_start_deep_health_checks": ["InstanceStress"]},
        {"execution_role_arn": "arn:aws:iam::123456789012:role/own"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_of_a_group_changes_its_digest_alone(change: dict[str, Any]) -> None:
    before, after = cluster_groups(), cluster_groups(**change)
    assert before[0] == after[0]
    assert before[1].digest != after[1].digest


def test_restricted_groups_are_groups_too() -> None:
    cluster = clusters.eks(
        instance_groups=[],
        restricted_instance_groups=[clusters.restricted(name="nova", instance_count=4)],
        node_provisioning_mode=None,
    )
    (found,) = cluster.gated_groups
    assert (found.name, found.instance_count, found.min_instance_count) == ("nova", 4, None)


# Permissions, logs, order.


def test_the_watch_may_read_one_cluster_and_no_nodes_unless_it_waits_for_one() -> None:
    (read,) = statements(gate(), "poll")
    by_arn, by_name = read["Resource"]
    assert by_arn == ARN
    assert str(by_name).count(":cluster/research") == 1
    assert read["Action"] == [
        "sagemaker:DescribeCluster",
        "sagemaker:DescribeClusterEvent",
        "sagemaker:ListClusterEvents",
    ]
    (more,) = statements(gate(first_node=True), "poll")
    assert set(more["Action"]) - set(read["Action"]) == {"sagemaker:ListClusterNodes"}


def test_the_last_resort_may_do_nothing() -> None:
    assert statements(gate(), "giveup") == []


def test_the_starter_may_start_one_machine_and_stop_its_executions() -> None:
    template = gate()
    start, stop = statements(template, "start")
    (machine,) = [n for n, one in template["Resources"].items() if one["Type"].endswith("StateMachine")]
    assert (start["Action"], start["Resource"]) == ("states:StartExecution", {"Ref": machine})
    assert stop["Action"] == "states:StopExecution"
    assert stop["Resource"]["Fn::Join"][1][-3:] == [":execution:", {"Fn::GetAtt": [machine, "Name"]}, ":*"]


def test_progress_has_a_log_of_its_own_that_no_late_line_brings_back() -> None:
    template = gate()
    (log,) = [n for n in template["Resources"] if n.startswith("CapacityProgress")]
    assert template["Resources"][log]["Properties"] == {
        "LogGroupName": "/hyperpod/research/capacity",
        "RetentionInDays": 30,
    }
    assert template["Resources"][log]["DeletionPolicy"] == "Delete"
    logging = [
        one.get("LoggingConfig", {}).get("LogGroup")
        for one in properties(template, "AWS::Lambda::Function")
        if one["Handler"] in {"capacity_gate.poll", "capacity_gate.give_up"}
    ]
    assert logging == [{"Ref": log}, {"Ref": log}]
    (output,) = template["Outputs"].values()
    assert "aws logs tail /hyperpod/research/capacity --follow" in json.dumps(output["Value"])
    denials = [
        one
        for role in properties(template, "AWS::IAM::Role")
        for policy in role.get("Policies", [])
        for one in policy["PolicyDocument"]["Statement"]
        if one["Effect"] == "Deny"
    ]
    assert [one["Action"] for one in denials] == ["logs:CreateLogGroup", "logs:CreateLogGroup"]


def test_a_condition_begins_after_its_watch_and_has_a_quarter_of_an_hour_more() -> None:
    template = gate(timeout=cdk.Duration.minutes(700))
    conditions = of_type(template, "AWS::CloudFormation::WaitCondition").values()
    assert len(conditions) == len(TWO)
    for condition in conditions:
        (start,) = condition["DependsOn"]
        started = template["Resources"][start]
        assert started["Type"] == "Custom::HyperPodCapacityGate"
        url = started["Properties"]["Input"]["Fn::Join"][1][1]
        assert condition["Properties"]["Handle"] == url
        assert condition["Properties"]["Timeout"] == "42900"
        assert condition["Properties"]["Count"] == 1


def test_coredns_and_the_cloudwatch_add_on_wait_for_the_first_node(templates: dict[str, Template]) -> None:
    early = {one["AddonName"] for one in properties(templates["gated-cluster"], "AWS::EKS::Addon")}
    assert "coredns" not in early
    addons = of_type(templates["gated-capacity"], "AWS::EKS::Addon").values()
    assert {one["Properties"]["AddonName"] for one in addons} == {
        "coredns",
        "amazon-cloudwatch-observability",
    }
    for addon in addons:
        (condition,) = addon["DependsOn"]
        assert condition.startswith("CapacityFirstNode")
        assert templates["gated-capacity"]["Resources"][condition]["Type"].endswith("WaitCondition")


def test_coredns_is_placed_once() -> None:
    scope = clusters.stack()
    cluster = hyperpod.HyperPodEksCluster(
        scope,
        "Cluster",
        cluster_name="research",
        network=hyperpod.HyperPodNetwork(scope, "Network"),
        eks=hyperpod.NewEks(),
        instance_groups=[clusters.group()],
    )
    with pytest.raises(ValueError, match="coredns=False"):
        cluster.add_coredns(scope, after=[])


def test_a_cluster_that_has_coredns_gets_no_other() -> None:
    cluster = clusters.eks(coredns=False)
    scope = cdk.Stack.of(cluster)
    before = len(scope.node.find_all())
    cluster.add_coredns(scope, after=[])
    assert len(scope.node.find_all()) == before


def test_a_slurm_gate_waits_for_every_target(templates: dict[str, Template]) -> None:
    inputs = [
        json.loads("".join(part if isinstance(part, str) else "" for part in one["Input"]["Fn::Join"][1]))
        for one in properties(templates["gated-slurm-capacity"], "Custom::HyperPodCapacityGate")
    ]
    assert [(one["group"], one["waitFor"], one["instanceCount"]) for one in inputs] == [
        ("head", "target", 1),
        ("login", "target", 1),
        ("train", "target", 32),
    ]
