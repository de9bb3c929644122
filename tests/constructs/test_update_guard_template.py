"""The guards in templates: who waits for them, and what they may do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from tests.constructs import guarded_governance
from tests.constructs.test_construct_judges import lint

import hyperpod_constructs as hyperpod
from hyperpod_constructs.handlers import update_guard
from hyperpod_constructs.update_guard import RESOURCE_TYPE

Template = dict[str, Any]
HERE = Path(__file__).parent
ENVIRONMENT = cdk.Environment(account="123456789012", region="us-east-1")


@pytest.fixture(scope="module")
def guarded() -> dict[str, Template]:
    app = cdk.App()
    guarded_governance.build(app)
    return {stack.stack_name: stack.template for stack in app.synth().stacks}


@pytest.fixture(scope="module")
def governance(guarded: dict[str, Template]) -> Template:
    return guarded["governance"]


def of_type(template: Template, kind: str) -> dict[str, Any]:
    return {name: one for name, one in template["Resources"].items() if one["Type"] == kind}


def made(stack: cdk.Stack) -> Template:
    return dict(cdk.assertions.Template.from_stack(stack).to_json())


def only(template: Template, kind: str) -> tuple[str, Any]:
    ((name, resource),) = of_type(template, kind).items()
    return name, resource


def statements(template: Template, action: str) -> list[Any]:
    """Statements of the inline policy that allows an action."""
    roles = of_type(template, "AWS::IAM::Role").values()
    documents = [one["PolicyDocument"] for role in roles for one in role["Properties"].get("Policies", ())]
    found = [each["Statement"] for each in documents if action in json.dumps(each)]
    assert len(found) == 1
    return list(found[0])


@pytest.mark.parametrize("stack", ["eks-new", "slurm-new"])
def test_a_cluster_is_touched_only_after_its_guard(stack: str, templates: dict[str, Template]) -> None:
    guard, _ = only(templates[stack], RESOURCE_TYPE)
    _, cluster = only(templates[stack], "AWS::SageMaker::Cluster")
    assert guard in cluster["DependsOn"]


def test_a_guard_does_not_wait_for_the_eks_cluster_that_it_may_refuse(templates: dict[str, Template]) -> None:
    _, guard = only(templates["eks-new"], RESOURCE_TYPE)
    assert guard["Properties"]["EksClusterName"] == "research"
    assert "AWS::EKS::Cluster" not in {
        templates["eks-new"]["Resources"][name]["Type"] for name in references(guard)
    }


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    own = {value["Ref"]} if isinstance(value.get("Ref"), str) and "::" not in value["Ref"] else set()
    if "Fn::GetAtt" in value:
        own.add(value["Fn::GetAtt"][0])
    depends = value.get("DependsOn", [])
    own |= set(depends if isinstance(depends, list) else [depends])
    return own.union(*(references(each) for each in value.values()))


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
    hyperpod.ClusterUpdateGuard(
        stack,
        "Guard",
        cluster_name="research",
        eks_cluster_name=None,
        subnet_ids=["subnet-1"],
        security_group_ids=["sg-1"],
        node_provisioning_mode=None,
        instance_groups=[
            hyperpod.InstanceGroup(name="any", instance_types=["ml.p5.48xlarge"], instance_count=1),
            hyperpod.InstanceGroup(
                name="own", instance_type="ml.g6.12xlarge", instance_count=1, override_vpc=own
            ),
        ],
    )
    template = made(stack)
    _, guard = only(template, RESOURCE_TYPE)
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
    hyperpod.GovernanceUpdateGuard(
        stack, "Guard", cluster_arn=guarded_governance.CLUSTER_ARN, eks_cluster_name="research", teams=[]
    )
    template = made(stack)
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
        _, other = only(governance, kind)
        assert guard in reachable(governance, other), kind


def reachable(template: Template, resource: Any) -> set[str]:
    seen: set[str] = set()
    todo = list(references(resource))
    while todo:
        name = todo.pop()
        if name in template["Resources"] and name not in seen:
            seen.add(name)
            todo += references(template["Resources"][name])
    return seen


def test_a_guard_costs_seven_resources(governance: Template) -> None:
    """A stack holds 500; those of a large fleet are counted."""
    with_guard = len(governance["Resources"])
    assert with_guard - len(["add-on", "scheduler config", "quota"]) <= 7


def test_a_cluster_can_be_made_without_a_guard() -> None:
    app = cdk.App()
    stack = cdk.Stack(app, "s", env=ENVIRONMENT)
    head = hyperpod.InstanceGroup(
        name="head",
        instance_type="ml.m5.xlarge",
        instance_count=1,
        slurm=hyperpod.SlurmGroup(node_type="Controller"),
    )
    network = hyperpod.ExistingNetwork(
        stack, "N", vpc_id="vpc-1", subnet_ids=["subnet-1"], security_group_ids=["sg-1"]
    )
    hyperpod.HyperPodSlurmCluster(
        stack, "C", cluster_name="lab", network=network, instance_groups=[head], update_guard=False
    )
    assert of_type(made(stack), RESOURCE_TYPE) == {}


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
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=HERE,
        env={**os.environ, "CDK_VALIDATION": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
