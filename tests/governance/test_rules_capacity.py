"""HPF3xx: one change of a good fleet, one finding at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.governance.fleets import REMOVE, Case, changed, check, reviewed

GROUPS = "pretrain/spec/instanceGroups"
TAINT = {"key": "dedicated", "effect": "NoSchedule"}

ALL_AT_ZERO: dict[str, object] = {
    "research/spec/autoScaling": {"mode": "Enable", "autoScalerType": "Karpenter"},
    "research/spec/instanceGroups/0/instanceCount": 0,
    "research/spec/instanceGroups/0/minInstanceCount": REMOVE,
    "research/spec/instanceGroups/1/instanceCount": 0,
    "research/spec/instanceGroups/1/minInstanceCount": REMOVE,
}
NO_TEAMS = {"llm/spec/allocations/0": REMOVE, "vision/spec/allocations/0": REMOVE}
UNGOVERNED = {"research/spec/governance": REMOVE, **NO_TEAMS}
VPC = {"vpcId": "vpc-1a", "subnetIds": ["subnet-1a"], "securityGroupIds": ["sg-1a"]}
EXISTING = {
    "research/spec/orchestrator/eks": {"existing": {"clusterName": "platform"}},
    "research/spec/network": {"existing": VPC},
}
NO_INSIGHTS = {"research/spec/monitoring": {"containerInsights": "Disabled"}}
CASES = [
    Case(
        "a wait for targets that Karpenter moves",
        "HPF306",
        "research: waitFor: Target",
        ("Karpenter", "research", "waitFor: Minimum"),
        {
            "research/spec/capacityGate": {"waitFor": "Target"},
            "research/spec/autoScaling": {"mode": "Enable", "autoScalerType": "Karpenter"},
        },
    ),
    Case(
        "a wait that is shorter than HyperPod's own",
        "HPF307",
        "research: timeoutInMinutes: 60",
        ("60", "180"),
        {"research/spec/capacityGate": {"timeoutInMinutes": 60}},
    ),
    Case(
        "a wait that ends when HyperPod gives up",
        "HPF307",
        "research: timeoutInMinutes: 180",
        ("180", "more than 180"),
        {"research/spec/capacityGate": {"timeoutInMinutes": 180}},
    ),
    Case(
        "a wait where CloudFormation waits by itself",
        "HPF308",
        "pretrain: capacityGate:",
        ("Target", "pretrain", "nodeProvisioningMode: Continuous"),
        {
            "pretrain/spec/capacityGate": {"waitFor": "Target"},
            "pretrain/spec/nodeProvisioningMode": REMOVE,
            f"{GROUPS}/0/minInstanceCount": REMOVE,
            f"{GROUPS}/1/minInstanceCount": REMOVE,
        },
    ),
    Case(
        "a minimum above the target, and no word about capacity",
        "HPF301",
        "pretrain: minInstanceCount: 9",
        ("train", "is 9", "is 8", "at most 8"),
        {f"{GROUPS}/1/minInstanceCount": 9},
    ),
    Case(
        "a minimum without Continuous provisioning",
        "HPF302",
        "pretrain: minInstanceCount: 4",
        ("train", "4", "nodeProvisioningMode: Continuous"),
        {"pretrain/spec/nodeProvisioningMode": REMOVE, f"{GROUPS}/0/minInstanceCount": REMOVE},
    ),
    Case(
        "an accelerated group without a minimum",
        "HPF303",
        "pretrain: instanceCount: 8",
        ("train", "pretrain", "minInstanceCount"),
        {f"{GROUPS}/1/minInstanceCount": REMOVE},
    ),
    Case(
        "an accelerated group with a minimum of 0",
        "HPF303",
        "pretrain: minInstanceCount: 0",
        ("train",),
        {f"{GROUPS}/1/minInstanceCount": 0},
    ),
    Case(
        "all or nothing",
        "HPF304",
        "pretrain: minInstanceCount: 8",
        ("train", "both 8", "3 hours"),
        {f"{GROUPS}/1/minInstanceCount": 8},
    ),
    Case(
        "a system group without a minimum",
        "HPF305",
        "research: instanceGroups:",
        ("0 CPU groups", "minInstanceCount: 1"),
        {"research/spec/instanceGroups/0/minInstanceCount": REMOVE},
    ),
    Case(
        "a system group with a taint",
        "HPF305",
        "studio: instanceGroups:",
        ("0 CPU groups", "without taints"),
        {"studio/spec/instanceGroups/0/kubernetesConfig": {"taints": [TAINT]}},
    ),
    Case(
        "no node for the add-ons of a new EKS cluster, though nothing is waited for",
        "HPF309",
        "research: instanceGroups:",
        ("every group of cluster research", "when a node is there", "minInstanceCount: 1"),
        ALL_AT_ZERO | UNGOVERNED | {"research/spec/capacityGate": {"waitFor": "None"}},
    ),
    Case(
        "no node for the add-on of task governance, and no second word about its pods",
        "HPF309",
        "research: instanceGroups:",
        ("every group",),
        ALL_AT_ZERO | EXISTING | NO_TEAMS | NO_INSIGHTS,
    ),
    Case(
        "no node for the add-on of Container Insights",
        "HPF309",
        "research: instanceGroups:",
        ("every group",),
        ALL_AT_ZERO | EXISTING | UNGOVERNED,
    ),
    Case(
        "no node of a restricted group either",
        "HPF309",
        "research: restrictedInstanceGroups:",
        ("every group",),
        UNGOVERNED
        | {
            "research/spec/instanceGroups": REMOVE,
            "research/spec/nodeProvisioningMode": REMOVE,
            "research/spec/restrictedInstanceGroups": [
                {"name": "nova", "instanceType": "ml.p5.48xlarge", "instanceCount": 0}
            ],
        },
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gives_its_finding_and_no_other(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


NOT_CONTINUOUS = {
    "research/spec/nodeProvisioningMode": REMOVE,
    "research/spec/instanceGroups/0/minInstanceCount": REMOVE,
    "research/spec/instanceGroups/1/minInstanceCount": REMOVE,
}


@pytest.mark.parametrize(
    "changes",
    [
        NOT_CONTINUOUS,
        {f"{GROUPS}/1/instanceCount": 0, f"{GROUPS}/1/minInstanceCount": 0},
        {"research/spec/governance": REMOVE, "research/spec/instanceGroups/0/minInstanceCount": 0}
        | {"llm/spec/allocations/0": REMOVE, "vision/spec/allocations/0": REMOVE},
        {"pretrain/spec/instanceGroups/0/minInstanceCount": 0},
        {"research/spec/capacityGate": {"timeoutInMinutes": 181}},
        {"research/spec/capacityGate": {"waitFor": "Target", "timeoutInMinutes": 30}},
        {"research/spec/capacityGate": {"waitFor": "None", "timeoutInMinutes": 30}},
        NOT_CONTINUOUS | {"research/spec/capacityGate": {"waitFor": "None"}},
        ALL_AT_ZERO | EXISTING | UNGOVERNED | NO_INSIGHTS,
    ],
)
def test_what_is_allowed_gives_no_finding(changes: dict[str, object], tmp_path: Path) -> None:
    assert reviewed(tmp_path, changed(changes)).findings == ()
