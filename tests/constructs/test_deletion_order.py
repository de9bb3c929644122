"""A stack deletes in the reverse order of dependencies, so what a resource needs to go must be in them."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

Template = dict[str, Any]


def references(value: Any) -> Iterator[str]:
    """Yield the logical ids that Ref, GetAtt and Sub name anywhere in a value."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if isinstance(value.get("Ref"), str):
            yield value["Ref"]
        if "Fn::GetAtt" in value:
            yield value["Fn::GetAtt"][0]
        for item in value.values():
            yield from references(item)


def outlives(template: Template, logical_id: str) -> set[str]:
    """Return every resource that is deleted only after this one."""
    resources = template["Resources"]
    seen: set[str] = set()
    todo = [logical_id]
    while todo:
        resource = resources[todo.pop()]
        depends = resource.get("DependsOn", [])
        needs = {*([depends] if isinstance(depends, str) else depends), *references(resource["Properties"])}
        new = {one for one in needs if one in resources} - seen
        seen |= new
        todo += new
    return seen


def of_type(template: Template, kind: str) -> list[str]:
    return [name for name, resource in template["Resources"].items() if resource["Type"] == kind]


def types_outliving(template: Template, kind: str) -> set[str]:
    (logical_id,) = of_type(template, kind)
    return {template["Resources"][one]["Type"] for one in outlives(template, logical_id)}


CLUSTER = "AWS::SageMaker::Cluster"
NETWORK = {
    "AWS::EC2::NatGateway",
    "AWS::EC2::Route",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::Subnet",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPCEndpoint",
    "AWS::EC2::VPCGatewayAttachment",
}
SCRIPTS = {"AWS::IAM::Role", "AWS::S3::Bucket", "Custom::CDKBucketDeployment"}


def test_an_eks_cluster_is_deleted_before_all_that_it_stands_on(templates: dict[str, Template]) -> None:
    needed = types_outliving(templates["eks-new"], CLUSTER)
    eks = {"AWS::EKS::Cluster", "AWS::EKS::Addon", "AWS::EKS::AccessEntry", "AWS::EKS::Nodegroup"}
    assert needed >= NETWORK | SCRIPTS | eks | {"Custom::HyperPodDependencies"}


def test_the_chart_is_uninstalled_while_its_installer_still_works(templates: dict[str, Template]) -> None:
    needed = types_outliving(templates["eks-new"], "Custom::HyperPodDependencies")
    installer = {"AWS::CodeBuild::Project", "AWS::Lambda::Function", "AWS::StepFunctions::StateMachine"}
    assert needed >= installer | {"AWS::EKS::AccessEntry", "AWS::EKS::Cluster", "AWS::IAM::Role"}


def test_a_slurm_cluster_is_deleted_before_all_that_it_stands_on(templates: dict[str, Template]) -> None:
    assert types_outliving(templates["slurm-new"], CLUSTER) >= NETWORK | SCRIPTS | {"AWS::FSx::FileSystem"}


def test_a_chart_from_a_directory_is_deleted_after_the_cluster(templates: dict[str, Template]) -> None:
    for name in ("eks-closed", "eks-existing"):
        assert "Custom::AWSCDK-EKS-HelmChart" in types_outliving(templates[name], CLUSTER), name


def test_the_karpenter_role_is_deleted_after_the_cluster(templates: dict[str, Template]) -> None:
    resources = templates["eks-closed"]["Resources"]
    (cluster,) = of_type(templates["eks-closed"], CLUSTER)
    role = resources[cluster]["Properties"]["ClusterRole"]["Fn::GetAtt"][0]
    assert role in outlives(templates["eks-closed"], cluster)


@pytest.mark.parametrize("name", ["eks-new", "eks-closed", "slurm-new"])
def test_no_separate_policy_carries_the_nodes_permissions(name: str, templates: dict[str, Template]) -> None:
    # A separate AWS::IAM::Policy may be deleted before the cluster, which then stays in Deleting.
    resources = templates[name]["Resources"]
    (cluster,) = of_type(templates[name], CLUSTER)
    groups = resources[cluster]["Properties"]["InstanceGroups"]
    roles = {group["ExecutionRole"]["Fn::GetAtt"][0] for group in groups}
    assert all(resources[role]["Properties"]["Policies"] for role in roles)
    for policy in of_type(templates[name], "AWS::IAM::Policy"):
        assert not roles & set(references(resources[policy]["Properties"]["Roles"]))


def test_quotas_go_before_the_scheduler_config_and_that_before_the_add_on(
    templates: dict[str, Template],
) -> None:
    template = templates["eks-new"]
    (scheduler,) = of_type(template, "AWS::SageMaker::ClusterSchedulerConfig")
    (addon,) = [
        one
        for one in of_type(template, "AWS::EKS::Addon")
        if "taskgovernance" in template["Resources"][one]["Properties"]["AddonName"]
    ]
    (cluster,) = of_type(template, CLUSTER)
    quotas = of_type(template, "AWS::SageMaker::ComputeQuota")
    assert len(quotas) == 2
    for quota in quotas:
        assert outlives(template, quota) >= {scheduler, addon, cluster}
    assert outlives(template, scheduler) >= {addon, cluster}
    assert cluster in outlives(template, addon)


def test_coredns_without_system_nodes_comes_after_the_cluster(templates: dict[str, Template]) -> None:
    template = templates["eks-closed"]
    (cluster,) = of_type(template, CLUSTER)
    before: list[str] = []
    after: list[str] = []
    for addon in of_type(template, "AWS::EKS::Addon"):
        name = template["Resources"][addon]["Properties"]["AddonName"]
        (after if cluster in outlives(template, addon) else before).append(name)
    assert before == ["vpc-cni", "kube-proxy", "eks-pod-identity-agent"]
    assert after == ["coredns"]


def test_stacks_that_are_apart_are_deleted_in_the_same_order() -> None:
    import aws_cdk as cdk  # noqa: PLC0415 (starts Node)
    from tests.constructs import someone_elses_app  # noqa: PLC0415

    app = cdk.App()
    someone_elses_app.eks_in_several_stacks(app)
    order = [stack.stack_name for stack in app.synth().stacks]
    assert order == ["split-network", "split-cluster", "split-governance", "split-more-quotas"]
    stacks = {stack.stack_name: stack for stack in app.synth().stacks}
    for earlier, later in itertools.pairwise(order):
        assert earlier in {one.id for one in stacks[later].dependencies}
