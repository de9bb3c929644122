"""What keeps a deletion in order beside the table of orders, to which tests/infra/test_order.py holds us."""

from typing import Any

import pytest

Template = dict[str, Any]

CLUSTER = "AWS::SageMaker::Cluster"


def of_type(template: Template, kind: str) -> list[str]:
    return [name for name, resource in template["Resources"].items() if resource["Type"] == kind]


@pytest.mark.parametrize("name", ["eks-new", "eks-closed", "slurm-new"])
def test_no_separate_policy_carries_the_nodes_permissions(name: str, templates: dict[str, Template]) -> None:
    # The table lets a separate AWS::IAM::Policy be that the cluster depends on. An app that adds a statement
    # later makes one that the cluster does not depend on, so there is none to add it to.
    resources = templates[name]["Resources"]
    (cluster,) = of_type(templates[name], CLUSTER)
    groups = resources[cluster]["Properties"]["InstanceGroups"]
    roles = {group["ExecutionRole"]["Fn::GetAtt"][0] for group in groups}
    assert all(resources[role]["Properties"]["Policies"] for role in roles)
    for policy in of_type(templates[name], "AWS::IAM::Policy"):
        attached = {role["Ref"] for role in resources[policy]["Properties"]["Roles"]}
        assert not roles & attached


def test_a_chart_from_a_directory_is_installed_before_the_cluster(templates: dict[str, Template]) -> None:
    # The table tells the dependencies chart by its release's name, whatever installs it.
    for name in ("eks-closed", "eks-existing"):
        (chart,) = of_type(templates[name], "Custom::AWSCDK-EKS-HelmChart")
        assert templates[name]["Resources"][chart]["Properties"]["Release"] == "dependencies"
