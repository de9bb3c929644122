"""The guards in templates: who waits for them, and what they may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from tests.constructs import clusters, guarded_governance
from tests.constructs.judges import lint, nag
from tests.constructs.templates import Template, needs, of_type, only, properties, synthesize

import hyperpod_constructs as hyperpod
from hyperpod_constructs.handlers import update_guard
from hyperpod_constructs.update_guard import RESOURCE_TYPE

ENVIRONMENT = cdk.Environment(account="123456789012", region="us-east-1")


@pytest.fixture(scope="module")
def guarded() -> dict[str, Template]:
    app = cdk.App()
    guarded_governance.build(app)
    return {stack.stack_name: stack.template for stack in app.synth().stacks}


@pytest.fixture(scope="module")
def governance(guarded: dict[str, Template]) -> Template:
    return guarded["governance"]


def statements(template: Template, action: str) -> list[Any]:
    """Statements of the inline policy that allows an action."""
    roles = properties(template, "AWS::IAM::Role")
    documents = [one["PolicyDocument"] for role in roles for one in role.get("Policies", ())]
    found = [each["Statement"] for each in documents if action in json.dumps(each)]
    assert len(found) == 1
    return list(found[0])


@pytest.mark.parametrize("stack", ["eks-new", "slurm-new"])
def test_a_cluster_is_touched_only_after_its_guard(stack: str, templates: dict[str, Template]) -> None:
    guard, _ = only(templates[stack], RESOURCE_TYPE)
    _, cluster = only(templates[stack], "AWS::SageMaker::Cluster")
    assert guard in cluster["DependsOn"]


def test_a_guard_does_not_wait_for_the_eks_cluster_that_it_may_refuse(templates: dict[str, Template]) -> None:
    template = templates["eks-new"]
    name, guard = only(template, RESOURCE_TYPE)
    assert guard["Properties"]["EksClusterName"] == "research"
    assert not needs(template, name) & set(of_type(template, "AWS::EKS::Cluster"))


def test_the_guard_of_a_cluster_says_what_the_cluster_says(templates: dict[str, Template]) -> None:
    _, guard = only(templates["slurm-new"], RESOURCE_TYPE)
    _, cluster = only(templates["slurm-new"], "AWS::SageMaker::Cluster")
    said, is_ = guard["Properties"], cluster["Properties"]
    assert said["ClusterName"] == is_["ClusterName"]
    assert said["VpcConfig"] == is_["VpcConfig"]
    assert said["NodeProvisioningMode"] == is_["NodeProvisioningMode"]
    assert "EksClusterName" not in said
    assert said["Groups"] == {
        group["InstanceGroupName"]: {"InstanceType": group["InstanceType"]} for group in is_["InstanceGroups"]
    }


def test_types_to_choose_from_and_overrides_are_said_as_the_handler_reads_them() -> None:
    own = hyperpod.VpcOverride(subnet_ids=["subnet-3"], security_group_ids=["sg-1"])
    stack = cdk.Stack(cdk.App(), "s", env=ENVIRONMENT)
    made = hyperpod.ClusterUpdateGuard(
        stack,
        "Guard",
        cluster_name="research",
        eks_cluster_name=None,
        subnet_ids=["subnet-1"],
        security_group_ids=["sg-1"],
        node_provisioning_mode=None,
        instance_groups=[
            clusters.group(name="any", instance_type=None, instance_types=["ml.p5.48xlarge"]),
            clusters.group(name="own", instance_type="ml.g6.12xlarge", override_vpc=own),
        ],
    )
    _, guard = only(synthesize(made), RESOURCE_TYPE)
    assert "NodeProvisioningMode" not in guard["Properties"]
    assert guard["Properties"]["Groups"] == {
        "any": {"InstanceTypes": ["ml.p5.48xlarge"]},
        "own": {
            "InstanceType": "ml.g6.12xlarge",
            "OverrideVpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-3"]},
        },
    }


def test_the_guard_of_a_cluster_may_read_clusters_and_its_own_stack(templates: dict[str, Template]) -> None:
    arn = {
        "Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":sagemaker:us-east-1:123456789012:cluster/*"]]
    }
    assert statements(templates["eks-new"], "sagemaker:DescribeCluster") == [
        {"Action": "sagemaker:DescribeCluster", "Effect": "Allow", "Resource": arn},
        {"Action": "cloudformation:DescribeStacks", "Effect": "Allow", "Resource": {"Ref": "AWS::StackId"}},
    ]


def test_the_guard_of_governance_may_read_quotas_the_add_on_and_its_own_stack(governance: Template) -> None:
    found = statements(governance, "sagemaker:ListComputeQuotas")
    assert [one["Action"] for one in found] == [
        "sagemaker:ListComputeQuotas",
        "sagemaker:DescribeComputeQuota",
        "eks:DescribeAddon",
        "cloudformation:DescribeStacks",
        "cloudformation:DescribeStacks",
    ]
    arns = [one["Fn::Join"][1] for one in found[2]["Resource"]]
    assert {(arn[0], arn[1]["Ref"]) for arn in arns} == {("arn:", "AWS::Partition")}
    addon = update_guard.ADDON_NAME
    # Under which of these an add-on is asked for that is not there yet, no page of AWS says.
    assert [arn[2].removeprefix(":eks:us-east-1:123456789012:") for arn in arns] == [
        f"addon/research/{addon}/*",
        "cluster/research",
        f"/clusters/research/addons/{addon}",
    ]


@pytest.mark.parametrize(
    ("stack", "kind", "other"),
    [
        ("governance", "Governance", "fleet-research-queues"),
        ("queues", "KueueOwner", "fleet-research-governance"),
    ],
)
def test_the_guard_of_an_owner_asks_for_the_others_stack_and_may_read_no_other(
    stack: str, kind: str, other: str, guarded: dict[str, Template]
) -> None:
    _, guard = only(guarded[stack], RESOURCE_TYPE)
    assert (guard["Properties"]["Guards"], guard["Properties"]["StacksGone"]) == (kind, [other])
    found = statements(guarded[stack], f"stack/{other}/*")
    # By name, also when no stack has it: so a denial of CloudFormation spells it.
    arn = f":cloudformation:us-east-1:123456789012:stack/{other}/*"
    assert found[-2:] == [
        {
            "Action": "cloudformation:DescribeStacks",
            "Effect": "Allow",
            "Resource": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, arn]]},
        },
        {"Action": "cloudformation:DescribeStacks", "Effect": "Allow", "Resource": {"Ref": "AWS::StackId"}},
    ]


def test_governance_that_follows_nobody_asks_for_no_stack() -> None:
    stack = cdk.Stack(cdk.App(), "s", env=ENVIRONMENT)
    guard = hyperpod.GovernanceUpdateGuard(
        stack, "Guard", cluster_arn=guarded_governance.CLUSTER_ARN, eks_cluster_name="research", teams=[]
    )
    template = synthesize(guard)
    assert "StacksGone" not in only(template, RESOURCE_TYPE)[1]["Properties"]
    found = statements(template, "cloudformation:DescribeStacks")
    assert [one["Resource"] for one in found if one["Action"] == "cloudformation:DescribeStacks"] == [
        {"Ref": "AWS::StackId"}
    ]


def test_governance_is_touched_only_after_its_guard(governance: Template) -> None:
    guard, resource = only(governance, RESOURCE_TYPE)
    assert resource["Properties"]["Teams"] == ["llm", "vision"]
    assert resource["Properties"]["RenamedFrom"] == ["sight"]
    for kind in ("AWS::EKS::Addon", "AWS::SageMaker::ComputeQuota", "AWS::SageMaker::ClusterSchedulerConfig"):
        other, _ = only(governance, kind)
        assert guard in needs(governance, other), kind


def test_a_guard_costs_seven_resources(governance: Template) -> None:
    """A stack holds 500; those of a large fleet are counted."""
    with_guard = len(governance["Resources"])
    assert with_guard - len(["add-on", "scheduler config", "quota"]) <= 7


def test_a_cluster_can_be_made_without_a_guard() -> None:
    assert of_type(synthesize(clusters.slurm(clusters.HEAD)), RESOURCE_TYPE) != {}
    assert of_type(synthesize(clusters.slurm(clusters.HEAD, update_guard=False)), RESOURCE_TYPE) == {}


def test_the_names_of_the_add_on_are_one() -> None:
    assert update_guard.ADDON_NAME == hyperpod.governance.ADDON_NAME


def test_governance_with_its_guard_passes_cfn_lint(governance: Template, tmp_path: Path) -> None:
    found = [match for match in lint(governance, "us-east-1", tmp_path) if match.rule.id != "W3005"]
    assert found == []


def test_governance_with_its_guard_passes_cdk_nag() -> None:
    script = (
        "import someone_elses_app as theirs, guarded_governance as ours; theirs.build = ours.build;"
        " theirs.main()"
    )
    done = nag("-c", script)
    assert done.returncode == 0, done.stdout + done.stderr
