"""HPF130 to HPF137: one change of a good fleet, one finding at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.governance.fleets import REMOVE, Case, changed, check, reviewed

CREATE = "pretrain/spec/network/create"
EXISTING = {"vpcId": "vpc-0a", "subnetIds": ["subnet-0a"], "securityGroupIds": ["sg-0a"]}
# A chart that is fetched when deploying needs an open endpoint (HPF123).
NO_CHART: dict[str, Any] = {"research/spec/orchestrator/eks/dependencies": {"install": "Disabled"}}
ENDPOINTS = ["ec2", "ec2messages", "ecr.api", "ecr.dkr", "logs", "monitoring", "ssm", "ssmmessages", "sts"]

CASES = [
    Case(
        "an octet above 255",
        "HPF130",
        "pretrain: cidr: 10.300.0.0/16",
        ("10.300.0.0/16", "300", "255"),
        {f"{CREATE}/cidr": "10.300.0.0/16"},
    ),
    Case(
        "host bits",
        "HPF130",
        "pretrain: cidr: 10.192.3.0/16",
        ("10.192.3.0/16", "write 10.192.0.0/16"),
        {f"{CREATE}/cidr": "10.192.3.0/16"},
    ),
    Case(
        "a VPC that is too large",
        "HPF130",
        "pretrain: cidr: 10.0.0.0/8",
        ("/8", "/16 to /24"),
        {f"{CREATE}/cidr": "10.0.0.0/8"},
    ),
    Case(
        "a VPC that is too small, and no word about its addresses",
        "HPF130",
        "pretrain: cidr: 10.0.0.0/28",
        ("/28", "/16 to /24"),
        {f"{CREATE}/cidr": "10.0.0.0/28"},
    ),
    Case(
        "a range of the public endpoint",
        "HPF130",
        "research: 192.0.2.1/24",
        ("192.0.2.1/24", "write 192.0.2.0/24"),
        {"research/spec/orchestrator/eks/publicAccessCidrs": ["198.51.100.7/32", "192.0.2.1/24"], **NO_CHART},
    ),
    Case(
        "EKS nodes that do not fit in their subnet",
        "HPF131",
        "studio: cidr: 10.192.0.0/23",
        ("4 nodes", "324 addresses", "251 for nodes"),
        {"studio/spec/network/create/cidr": "10.192.0.0/23"},
    ),
    Case(
        "Slurm nodes that do not fit in their subnet",
        "HPF131",
        "pretrain: cidr: 10.192.0.0/23",
        ("8 nodes", "256 addresses", "251 for nodes"),
        {f"{CREATE}/cidr": "10.192.0.0/23"},
    ),
    Case(
        "a zone of another Region",
        "HPF132",
        "pretrain: us-west-2a",
        ("us-west-2a", "us-east-1"),
        {f"{CREATE}/availabilityZones": ["us-east-1a", "us-west-2a"]},
    ),
    Case(
        "a zone twice",
        "HPF132",
        "pretrain: us-east-1a",
        ("us-east-1a", "twice"),
        {f"{CREATE}/availabilityZones": ["us-east-1a", "us-east-1a"]},
    ),
    Case(
        "a zone of the nodes that is not among the zones",
        "HPF132",
        "pretrain: nodeAvailabilityZone: us-east-1c",
        ("us-east-1c", "us-east-1a, us-east-1b"),
        {
            f"{CREATE}/availabilityZones": ["us-east-1a", "us-east-1b"],
            f"{CREATE}/nodeAvailabilityZone": "us-east-1c",
        },
    ),
    Case(
        "a zone of the nodes in another Region",
        "HPF132",
        "pretrain: nodeAvailabilityZone: eu-west-1a",
        ("eu-west-1a", "us-east-1"),
        {f"{CREATE}/nodeAvailabilityZone": "eu-west-1a"},
    ),
    Case(
        "an existing EKS cluster in a new network",
        "HPF133",
        "research: network:",
        ("shared", "network.existing"),
        {"research/spec/orchestrator/eks": {"existing": {"clusterName": "shared"}}},
    ),
    Case(
        "an existing EKS cluster and not a word about the network",
        "HPF133",
        "research: spec:",
        ("shared", "network.existing"),
        {
            "research/spec/orchestrator/eks": {"existing": {"clusterName": "shared"}},
            "research/spec/network": REMOVE,
        },
    ),
    Case(
        "a new control plane in one subnet",
        "HPF134",
        "research: subnetIds:",
        ("2 Availability Zones", "1 subnet", "controlPlaneSubnetIds"),
        {"research/spec/network": {"existing": EXISTING}},
    ),
    Case(
        "a closed network whose endpoints are not enough",
        "HPF135",
        "research: interfaceEndpoints:",
        ("1 of the 12", "missing: ec2, ec2messages, ecr.api"),
        {
            "research/spec/network/create/natGateway": "Disabled",
            "research/spec/network/create/interfaceEndpoints": ["sts"],
        },
    ),
    Case(
        "a closed network in which Kubernetes charts cannot be applied",
        "HPF135",
        "research: interfaceEndpoints:",
        ("11 of the 12", "missing: lambda"),
        {
            "research/spec/network/create/natGateway": "Disabled",
            "research/spec/network/create/interfaceEndpoints": [*ENDPOINTS, "eks", "eks-auth"],
        },
    ),
    Case(
        "an endpoint twice",
        "HPF136",
        "pretrain: ecr.api",
        ("ecr.api stands twice",),
        {f"{CREATE}/interfaceEndpoints": ["ecr.api", "sts", "ecr.api"]},
    ),
    Case(
        "Kueue that is pulled into a closed network",
        "HPF137",
        "studio: install: Enabled",
        ("studio", "public registry", "kueue.install: Disabled"),
        {
            "studio/spec/network/create/natGateway": "Disabled",
            "studio/spec/governance/kueue": {"install": "Enabled"},
        },
    ),
    Case(
        "Kueue that is pulled into a closed network, by default",
        "HPF137",
        "studio: governance:",
        ("studio",),
        {"studio/spec/network/create/natGateway": "Disabled"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gives_its_finding_and_no_other(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {f"{CREATE}/cidr": "10.192.0.0/22"},
        {"research/spec/orchestrator/eks/publicAccessCidrs": ["0.0.0.0/0", "198.51.100.7/32"], **NO_CHART},
        {f"{CREATE}/availabilityZones": ["us-east-1a", "us-east-1b"]}
        | {f"{CREATE}/nodeAvailabilityZone": "us-east-1b"},
        {"pretrain/spec/network": {"existing": EXISTING}},
        {
            "research/spec/network": {
                "existing": {**EXISTING, "controlPlaneSubnetIds": ["subnet-0b", "subnet-0c"]}
            }
        },
        {
            "research/spec/network": {"existing": EXISTING},
            "research/spec/orchestrator/eks": {"existing": {"clusterName": "shared"}},
        },
        {"research/spec/network/create/natGateway": "Disabled"},
        {f"{CREATE}/natGateway": "Disabled", f"{CREATE}/interfaceEndpoints": [*ENDPOINTS]},
        {
            "studio/spec/network/create/natGateway": "Disabled",
            "studio/spec/governance/kueue": {"install": "Disabled"},
        },
    ],
)
def test_what_is_allowed_gives_no_finding(changes: dict[str, object], tmp_path: Path) -> None:
    assert reviewed(tmp_path, changed(changes)).findings == ()
