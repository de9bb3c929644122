"""Every template of the example and of the fixture fleets before cfn-lint and the schemas of its Region.

cfn-lint brings the CloudFormation registry's schema of every type, as each Region has it: E3002, E3003, E3012
and their like are those schemas speaking.
"""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from cfnlint.api import lint  # type: ignore[import-untyped]
from cfnlint.core import get_rules  # type: ignore[import-untyped]
from cfnlint.match import Match  # type: ignore[import-untyped]
from cfnlint.rules import RulesCollection  # type: ignore[import-untyped]
from tests.infra.infra_fleets import EXAMPLE, FLEETS, resolved, stacks

CLUSTER = "AWS::SageMaker::Cluster"
SCHEDULER = "AWS::SageMaker::ClusterSchedulerConfig"
QUOTA = "AWS::SageMaker::ComputeQuota"
# HyperPod's types that the price list, from which cfn-lint makes E3644, does not have: see docs/catalog.md.
NOT_IN_PRICE_LIST = ("ml.p5e.48xlarge", "ml.p6e-gb200.36xlarge")

IMPLIED = "W3005: the CDK writes a DependsOn beside a reference; it changes nothing"
ZONE = "W3010: the config names the zone, since capacity is in one and not in another"
PRICE_LIST = "E3644: HyperPod has the type and the price list, from which the rule is made, has not"
DEFAULT_IMAGE = "E1152: the type's own schema allows `default` in place of an AMI"
REASONS = {IMPLIED, ZONE, PRICE_LIST, DEFAULT_IMAGE}


@functools.cache
def rules() -> RulesCollection:
    """Every rule, errors and warnings; loading them takes as long as using them on a template."""
    return get_rules([], [], ["W", "E"])


def judge(text: str, region: str) -> list[Match]:
    """All that cfn-lint says of a template, warnings too."""
    return list(lint(text, rules=rules(), regions=[region]))


@functools.cache
def zones(directory: Path) -> frozenset[str]:
    """The Availability Zones that the clusters of a fleet name."""
    networks = [cluster.spec.network.create for cluster in resolved(directory).config.clusters]
    return frozenset(zone for network in networks if network for zone in network.availability_zones or ())


def excuse(match: Match, directory: Path) -> str | None:
    """Why a finding of cfn-lint is not ours to mend, None if it is."""
    rule, message = match.rule.id, match.message
    if rule == "W3005":
        return IMPLIED
    if rule == "W3010" and message.split("'")[1] in zones(directory):
        return ZONE
    if rule == "E3644" and message.split("'")[1] in NOT_IN_PRICE_LIST:
        return PRICE_LIST
    if rule == "E1152" and message.startswith("'default' is not"):
        return DEFAULT_IMAGE
    return None


@functools.cache
def verdict(directory: Path) -> tuple[tuple[str, str | None], ...]:
    """Each finding about a fleet's templates with its excuse."""
    return tuple(
        (f"{stack.name}: {match.rule.id} {match.message} at {match.path}", excuse(match, directory))
        for stack in stacks(directory).values()
        for match in judge(stack.text, stack.region)
    )


@pytest.mark.parametrize("directory", FLEETS, ids=lambda path: path.name)
def test_every_template_passes_cfn_lint_in_its_region(directory: Path) -> None:
    assert [finding for finding, reason in verdict(directory) if reason is None] == []


def test_every_excuse_is_needed() -> None:
    assert {reason for directory in FLEETS for _, reason in verdict(directory) if reason} == REASONS


def test_the_example_needs_no_excuse_but_the_cdks_own_habit() -> None:
    assert {reason for _, reason in verdict(EXAMPLE)} <= {IMPLIED}


@pytest.mark.parametrize(
    ("stack", "kind", "path", "value", "rule"),
    [
        ("example-research-cluster", CLUSTER, ("NodeProvisioning",), "Continuous", "E3002"),
        ("example-research-cluster", CLUSTER, ("InstanceGroups", 0, "InstanceCount"), None, "E3003"),
        ("example-research-cluster", CLUSTER, ("InstanceGroups", 0, "InstanceCount"), "many", "E3012"),
        ("example-research-cluster", CLUSTER, ("InstanceGroups", 0, "InstanceType"), "ml.p9.xl", "E3644"),
        ("example-pretrain-cluster", CLUSTER, ("ClusterName",), "no_underscore", "E3031"),
        ("example-research-governance", SCHEDULER, ("SchedulerConfig", "FairShare"), "Sometimes", "E3030"),
        ("example-research-governance", QUOTA, ("ComputeQuotaTarget", "TeamName"), "Not-Lower", "E3031"),
        ("example-research-governance", QUOTA, ("ComputeQuotaTarget", "FairShareWeight"), 101, "E3034"),
        ("example-research-cluster", "AWS::EKS::Cluster", ("Version",), {"a": "map"}, "E3012"),
    ],
)
def test_the_schema_of_a_type_refuses_a_template_that_breaks_it(
    stack: str, kind: str, path: tuple[str | int, ...], value: Any, rule: str
) -> None:
    original = stacks(EXAMPLE)[stack]
    template = original.template
    target = next(it for it in template["Resources"].values() if it["Type"] == kind)["Properties"]
    for key in path[:-1]:
        target = target[key]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    assert rule in {match.rule.id for match in judge(json.dumps(template), original.region)}


def test_a_type_that_a_region_lacks_is_refused_there() -> None:
    governance = stacks(EXAMPLE)["example-research-governance"]
    found = judge(governance.text, "us-west-1")
    assert [match.rule.id for match in found if QUOTA in match.message] == ["E3006"] * 3
    assert [match for match in judge(governance.text, "us-east-1") if match.rule.id == "E3006"] == []
