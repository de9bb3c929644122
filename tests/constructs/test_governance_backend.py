"""Quotas and scheduler configs by custom resource: what the templates say."""

from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]
from tests.constructs.fake_sagemaker import FakeSageMaker
from tests.constructs.provider_framework import Framework, Stack, finish
from tests.constructs.test_governance_resource import make_in_console, quota, scheduler

from hyperpod_constructs.handlers import governance_resource

Template = dict[str, Any]
QUOTA = "Custom::HyperPodComputeQuota"
SCHEDULER = "Custom::HyperPodClusterSchedulerConfig"
WAIT = "Custom::AWSCDK-EKS-KubernetesObjectValue"
CLUSTER_ARN = "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"


@pytest.fixture
def template(templates: dict[str, Template]) -> Template:
    return templates["custom-governance"]


def one(template: Template, kind: str) -> tuple[str, Any]:
    ((name, resource),) = [
        (name, resource) for name, resource in template["Resources"].items() if resource["Type"] == kind
    ]
    return name, resource


def references(value: Any) -> set[str]:
    """Return the logical ids that Ref and GetAtt name anywhere in a value."""
    if isinstance(value, list):
        return {name for item in value for name in references(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["Ref"]} if "Ref" in value else {value["Fn::GetAtt"][0]} if "Fn::GetAtt" in value else set()
    return own | {name for item in value.values() for name in references(item)}


def outlives(template: Template, logical_id: str) -> set[str]:
    """Return all that is created before this one and deleted after it."""
    resources = template["Resources"]
    seen: set[str] = set()
    todo = {logical_id}
    while todo:
        resource = resources[todo.pop()]
        needs = {*resource.get("DependsOn", []), *references(resource["Properties"])} & set(resources)
        todo |= needs - seen
        seen |= needs
    return seen


def statements(template: Template) -> list[Any]:
    (role,) = [
        resource
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::IAM::Role" and "Backendiscomplete" in name
    ]
    return list(role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"])


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
    quota_id, _ = one(template, QUOTA)
    scheduler_id, _ = one(template, SCHEDULER)
    wait_id, _ = one(template, WAIT)
    addon_id, _ = one(template, "AWS::EKS::Addon")
    provider = {name for name in template["Resources"] if name.startswith("GovernanceBackend")}
    assert {template["Resources"][name]["Type"] for name in provider} == {
        "AWS::IAM::Policy",
        "AWS::IAM::Role",
        "AWS::Lambda::Function",
        "AWS::StepFunctions::StateMachine",
    }
    assert outlives(template, quota_id) >= {scheduler_id, wait_id, addon_id} | provider
    assert outlives(template, scheduler_id) >= {wait_id, addon_id} | provider
    assert addon_id in outlives(template, wait_id)


def test_a_quota_in_another_stack_uses_the_same_functions(templates: dict[str, Template]) -> None:
    more = templates["custom-more-quotas"]
    assert set(one(more, QUOTA)[1]["Properties"]["ServiceToken"]) == {"Fn::ImportValue"}
    # Nothing but the quota: the functions are in one stack.
    assert len(more["Resources"]) == 1


def test_the_functions_take_the_service_model_that_they_bring(template: Template) -> None:
    functions = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
        and resource["Properties"]["Handler"].startswith("governance_resource.")
    ]
    assert sorted(one["Handler"] for one in functions) == [
        "governance_resource.is_complete",
        "governance_resource.on_event",
    ]
    assert all(one["Environment"]["Variables"]["AWS_DATA_PATH"] == "/var/task/models" for one in functions)


def test_the_wait_for_kueue_is_bounded_and_says_what_it_waits_for(template: Template) -> None:
    _, wait = one(template, WAIT)
    asked = {key: wait["Properties"][key] for key in ("ObjectType", "ObjectName", "ObjectNamespace")}
    assert asked == {
        "ObjectType": "deployment",
        "ObjectName": "kueue-controller-manager",
        "ObjectNamespace": "kueue-system",
    }
    assert wait["Properties"]["JsonPath"] == ".status.availableReplicas"
    assert wait["Properties"]["TimeoutSeconds"] == 600
    # Another version of the add-on is waited for again.
    _, addon = one(template, "AWS::EKS::Addon")
    assert wait["Properties"]["AddonVersion"] == addon["Properties"]["AddonVersion"]


def governance(**arguments: Any) -> Template:
    import aws_cdk as cdk  # noqa: PLC0415 (starts Node)
    from tests.constructs import someone_elses_app  # noqa: PLC0415

    import hyperpod_constructs as hyperpod  # noqa: PLC0415

    app = cdk.App()
    stack = cdk.Stack(app, "S")
    settings = {
        "scheduler_config": someone_elses_app.SCHEDULER,
        "quotas": [someone_elses_app.quota("vision")],
        **arguments,
    }
    hyperpod.TaskGovernance(
        stack, "Governance", cluster_arn=CLUSTER_ARN, eks_cluster_name="platform", **settings
    )
    template: Template = app.synth().stacks[0].template
    return template


def test_a_change_of_the_backend_in_place_is_a_change_of_type_which_cloudformation_refuses() -> None:
    native = governance()
    custom = governance(scheduler_config_backend="custom-resource", compute_quota_backend="custom-resource")
    pairs = {
        ("AWS::SageMaker::ClusterSchedulerConfig", SCHEDULER),
        ("AWS::SageMaker::ComputeQuota", QUOTA),
    }
    assert {(one(native, old)[0], new) for old, new in pairs} == {
        (one(custom, new)[0], new) for _, new in pairs
    }


def test_both_backends_are_asked_for_the_same_properties() -> None:
    native = governance()
    custom = governance(scheduler_config_backend="custom-resource", compute_quota_backend="custom-resource")
    for old, new in (
        ("AWS::SageMaker::ClusterSchedulerConfig", SCHEDULER),
        ("AWS::SageMaker::ComputeQuota", QUOTA),
    ):
        properties = dict(one(custom, new)[1]["Properties"])
        del properties["ServiceToken"]
        asked = dict(one(native, old)[1]["Properties"])
        # The handler puts this tag on by itself.
        asked["Tags"] = [tag for tag in asked["Tags"] if tag["Key"] != "hyperpod-fleet:resource"]
        assert properties == {key: value for key, value in asked.items() if value}


def test_the_backends_are_chosen_one_by_one() -> None:
    template = governance(scheduler_config_backend="custom-resource")
    assert one(template, SCHEDULER)
    quota_id, _ = one(template, "AWS::SageMaker::ComputeQuota")
    assert one(template, SCHEDULER)[0] in outlives(template, quota_id)


def test_without_a_custom_resource_there_are_no_functions() -> None:
    kinds = {resource["Type"] for resource in governance()["Resources"].values()}
    assert "AWS::Lambda::Function" not in kinds
    assert "Custom" not in "".join(kinds)


def test_the_service_token_is_in_the_quota(template: Template) -> None:
    _, resource = one(template, QUOTA)
    assert any("onEvent" in name for name in references(resource["Properties"]))


def test_a_cluster_without_kubectl_cannot_be_waited_for() -> None:
    import aws_cdk as cdk  # noqa: PLC0415 (starts Node)
    from aws_cdk import aws_eks_v2 as eks  # noqa: PLC0415

    import hyperpod_constructs as hyperpod  # noqa: PLC0415

    stack = cdk.Stack(cdk.App(), "S")
    cluster = eks.Cluster.from_cluster_attributes(stack, "Eks", cluster_name="platform")
    with pytest.raises(ValueError, match="set kubectl_layer on NewEks or ExistingEks"):
        hyperpod.TaskGovernance(
            stack,
            "Governance",
            cluster_arn=CLUSTER_ARN,
            eks_cluster_name="platform",
            kubectl_cluster=cluster,
        )


def test_tags_leave_room_for_those_of_the_custom_resource() -> None:
    import hyperpod_constructs as hyperpod  # noqa: PLC0415

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
    import hyperpod_constructs as hyperpod  # noqa: PLC0415 (starts Node)

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
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == QUOTA
    }
    for before, after in zip(teams, teams[4:], strict=False):
        assert found[before][0] in found[after][1]
    assert not {found[team][0] for team in teams} & set(found[teams[0]][1])
