"""What keeps a deletion in order beside the table of orders, to which tests/infra/test_order.py holds us."""

import pytest
from tests.constructs.templates import Template, properties, the


@pytest.mark.parametrize("name", ["eks-new", "eks-closed", "slurm-new"])
def test_no_separate_policy_carries_the_nodes_permissions(name: str, templates: dict[str, Template]) -> None:
    # The table lets a separate AWS::IAM::Policy be that the cluster depends on. An app that adds a statement
    # later makes one that the cluster does not depend on, so there is none to add it to.
    resources = templates[name]["Resources"]
    groups = the(templates[name], "AWS::SageMaker::Cluster")["InstanceGroups"]
    roles = {group["ExecutionRole"]["Fn::GetAtt"][0] for group in groups}
    assert all(resources[role]["Properties"]["Policies"] for role in roles)
    policies = properties(templates[name], "AWS::IAM::Policy")
    assert not roles & {role["Ref"] for policy in policies for role in policy["Roles"]}


def test_a_chart_from_a_directory_is_installed_before_the_cluster(templates: dict[str, Template]) -> None:
    # The table tells the dependencies chart by its release's name, whatever installs it.
    for name in ("eks-closed", "eks-existing"):
        assert the(templates[name], "Custom::AWSCDK-EKS-HelmChart")["Release"] == "dependencies"
