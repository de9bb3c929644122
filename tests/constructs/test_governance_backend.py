"""Quotas and scheduler configs by custom resource: what the templates say."""

from typing import Any

import pytest
from aws_cdk import aws_eks_v2
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]
from tests.constructs import clusters, someone_elses_app
from tests.constructs.fake_sagemaker import CLUSTER, FakeSageMaker
from tests.constructs.governance_requests import QUOTA, SCHEDULER, make_in_console, quota, scheduler
from tests.constructs.provider_framework import Framework, Stack, finish
from tests.constructs.templates import Template, needs, of_type, only, properties, synthesize, the

import hyperpod_constructs as hyperpod
from hyperpod_constructs.handlers import governance_resource

WAIT = "Custom::AWSCDK-EKS-KubernetesObjectValue"


@pytest.fixture
def template(templates: dict[str, Template]) -> Template:
    return templates["custom-governance"]


def statements(template: Template) -> list[Any]:
    roles = of_type(template, "AWS::IAM::Role")
    (role,) = [role["Properties"] for name, role in roles.items() if "Backendiscomplete" in name]
    return list(role["Policies"][0]["PolicyDocument"]["Statement"])


def allowed(template: Template) -> set[str]:
    return {
        action
        for statement in statements(template)
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def test_the_role_may_call_what_the_handler_calls_and_nothing_more_of_sagemaker(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeSageMaker().install(monkeypatch)
    monkeypatch.setattr(governance_resource, "clock", fake.clock)
    stack = Stack("research", Framework(governance_resource, fake))
    old_tags = [{"Key": "old", "Value": "1"}]
    finish(stack.deploy({"Scheduler": scheduler(), "Vision": quota(Tags=old_tags)}))
    changed = scheduler(SchedulerConfig={"FairShare": "Disabled"})
    finish(stack.deploy({"Scheduler": changed, "Vision": quota(ActivationState="Disabled")}))
    finish(stack.delete())
    # An adoption that is rolled back, and a removal after the cluster.
    make_in_console(fake, quota())
    fake.limit = 1
    finish(stack.deploy({"Vision": quota(), "Speech": quota("speech")}))
    finish(stack.delete())
    fake.limit = 2
    finish(stack.deploy({"Vision": quota()}))
    fake.clusters.clear()
    finish(stack.delete())
    called = {
        f"cloudformation:{name}" if name == "DescribeStacks" else f"sagemaker:{name}" for name in fake.calls
    }
    assert {action for action in allowed(template) if not action.startswith("eks:")} == called


@pytest.mark.parametrize("kind", ["ClusterSchedulerConfig", "ComputeQuota"])
def test_the_role_has_what_cloudformations_own_type_needs(template: Template, kind: str) -> None:
    # eks: actions are not calls of ours; the service makes them in the caller's name.
    registry = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", f"AWS::SageMaker::{kind}").schema
    needed = {action for handler in registry["handlers"].values() for action in handler["permissions"]}
    assert "eks:AssociateAccessPolicy" in needed
    assert needed <= allowed(template)


def test_only_lists_are_allowed_on_everything(template: Template) -> None:
    everything = [statement["Action"] for statement in statements(template) if statement["Resource"] == "*"]
    assert everything == [["sagemaker:ListClusterSchedulerConfigs", "sagemaker:ListComputeQuotas"]]


def test_the_status_of_each_stack_with_quotas_may_be_read_and_of_no_other(template: Template) -> None:
    (stacks,) = [
        statement["Resource"]
        for statement in statements(template)
        if statement["Action"] == "cloudformation:DescribeStacks"
    ]
    ends = [arn["Fn::Join"][1][-1] for arn in stacks]
    assert ends == [":stack/custom-governance/*", ":stack/custom-more-quotas/*"]


def test_quotas_go_before_scheduler_config_wait_add_on_and_all_that_deletes_them(template: Template) -> None:
    quota_id, _ = only(template, QUOTA)
    scheduler_id, _ = only(template, SCHEDULER)
    wait_id, _ = only(template, WAIT)
    addon_id, _ = only(template, "AWS::EKS::Addon")
    provider = {name for name in template["Resources"] if name.startswith("GovernanceBackend")}
    assert {template["Resources"][name]["Type"] for name in provider} == {
        "AWS::IAM::Policy",
        "AWS::IAM::Role",
        "AWS::Lambda::Function",
        "AWS::StepFunctions::StateMachine",
    }
    assert needs(template, quota_id) >= {scheduler_id, wait_id, addon_id} | provider
    assert needs(template, scheduler_id) >= {wait_id, addon_id} | provider
    assert addon_id in needs(template, wait_id)


def test_a_quota_in_another_stack_uses_the_same_functions(templates: dict[str, Template]) -> None:
    more = templates["custom-more-quotas"]
    assert set(the(more, QUOTA)["ServiceToken"]) == {"Fn::ImportValue"}
    # Nothing but the quota: the functions are in one stack.
    assert len(more["Resources"]) == 1


def test_the_functions_take_the_service_model_that_they_bring(template: Template) -> None:
    functions = [
        one
        for one in properties(template, "AWS::Lambda::Function")
        if one["Handler"].startswith("governance_resource.")
    ]
    assert sorted(one["Handler"] for one in functions) == [
        "governance_resource.is_complete",
        "governance_resource.on_event",
    ]
    assert all(one["Environment"]["Variables"]["AWS_DATA_PATH"] == "/var/task/models" for one in functions)


def test_the_wait_for_kueue_is_bounded_and_says_what_it_waits_for(template: Template) -> None:
    wait = the(template, WAIT)
    asked = {key: wait[key] for key in ("ObjectType", "ObjectName", "ObjectNamespace")}
    assert asked == {
        "ObjectType": "deployment",
        "ObjectName": "kueue-controller-manager",
        "ObjectNamespace": "kueue-system",
    }
    assert wait["JsonPath"] == ".status.availableReplicas"
    assert wait["TimeoutSeconds"] == 600
    # Another version of the add-on is waited for again.
    assert wait["AddonVersion"] == the(template, "AWS::EKS::Addon")["AddonVersion"]


def governance(**arguments: Any) -> Template:
    settings = {
        "scheduler_config": someone_elses_app.SCHEDULER,
        "quotas": [someone_elses_app.quota("vision")],
        **arguments,
    }
    return synthesize(
        hyperpod.TaskGovernance(
            clusters.stack(), "Governance", cluster_arn=CLUSTER, eks_cluster_name="platform", **settings
        )
    )


PAIRS = {"AWS::SageMaker::ClusterSchedulerConfig": SCHEDULER, "AWS::SageMaker::ComputeQuota": QUOTA}
"""What a backend makes of the same thing: CloudFormation's own type, and the custom resource's."""


def test_a_change_of_the_backend_in_place_is_a_change_of_type_which_cloudformation_refuses() -> None:
    native = governance()
    custom = governance(scheduler_config_backend="custom-resource", compute_quota_backend="custom-resource")
    for old, new in PAIRS.items():
        assert only(native, old)[0] == only(custom, new)[0]


def test_both_backends_are_asked_for_the_same_properties() -> None:
    native = governance()
    custom = governance(scheduler_config_backend="custom-resource", compute_quota_backend="custom-resource")
    for old, new in PAIRS.items():
        asked = the(native, old)
        # The handler puts this tag on by itself.
        asked["Tags"] = [tag for tag in asked["Tags"] if tag["Key"] != "hyperpod-fleet:resource"]
        token = {"ServiceToken": the(custom, new)["ServiceToken"]}
        assert the(custom, new) == token | {key: value for key, value in asked.items() if value}


def test_the_backends_are_chosen_one_by_one() -> None:
    template = governance(scheduler_config_backend="custom-resource")
    quota_id, _ = only(template, "AWS::SageMaker::ComputeQuota")
    assert only(template, SCHEDULER)[0] in needs(template, quota_id)


def test_without_a_custom_resource_there_are_no_functions() -> None:
    kinds = {resource["Type"] for resource in governance()["Resources"].values()}
    assert "AWS::Lambda::Function" not in kinds
    assert "Custom" not in "".join(kinds)


def test_the_service_token_is_in_the_quota(template: Template) -> None:
    (framework, attribute) = the(template, QUOTA)["ServiceToken"]["Fn::GetAtt"]
    assert "onEvent" in framework
    assert attribute == "Arn"


def test_a_cluster_without_kubectl_cannot_be_waited_for() -> None:
    stack = clusters.stack()
    cluster = aws_eks_v2.Cluster.from_cluster_attributes(stack, "Eks", cluster_name="platform")
    with pytest.raises(ValueError, match="set kubectl_layer on NewEks or ExistingEks"):
        hyperpod.TaskGovernance(
            stack,
            "Governance",
            cluster_arn=CLUSTER,
            eks_cluster_name="platform",
            kubectl_cluster=cluster,
        )


def test_tags_leave_room_for_those_of_the_custom_resource() -> None:
    tagged = hyperpod.ComputeQuota(
        name="vision",
        team_name="vision",
        resources=[hyperpod.QuotaResource(instance_type="ml.g6.12xlarge", count=1)],
        tags={f"t{number:02d}": "" for number in range(49)},
    )
    assert governance(quotas=[tagged])
    with pytest.raises(ValueError, match="49"):
        governance(quotas=[tagged], compute_quota_backend="custom-resource")


def test_few_quotas_are_changed_at_the_same_time() -> None:
    teams = [f"team-{number}" for number in range(9)]
    template = governance(
        quotas=[
            hyperpod.ComputeQuota(
                name=team,
                team_name=team,
                resources=[hyperpod.QuotaResource(instance_type="ml.g5.2xlarge", count=1)],
            )
            for team in teams
        ],
        compute_quota_backend="custom-resource",
    )
    found = {
        resource["Properties"]["ComputeQuotaTarget"]["TeamName"]: (logical_id, resource.get("DependsOn", []))
        for logical_id, resource in of_type(template, QUOTA).items()
    }
    for before, after in zip(teams, teams[4:], strict=False):
        assert found[before][0] in found[after][1]
    assert not {found[team][0] for team in teams} & set(found[teams[0]][1])
