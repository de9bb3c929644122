"""HPF101 to HPF129: one change of a good fleet, one finding at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.governance.fleets import REMOVE, Case, change, changed, check, documents, reviewed

GROUPS = "research/spec/instanceGroups"
STORAGE = f"{GROUPS}/1/instanceStorageConfigs"
RESTRICTED = {"name": "nova", "instanceType": "ml.p5.48xlarge", "instanceCount": 4}
SHARED = {
    "fsxLustreDeletionPolicy": "Keep",
    "fsxLustreConfig": {"sizeInGiB": 1200, "perUnitStorageThroughput": 250},
}
LUSTRE = {"name": "scratch", "lustre": {"storageCapacityGiB": 4800}}
ZFS = {"name": "home", "openZfs": {"storageCapacityGiB": 64}}
EXISTING_ZFS = {"fsxOpenZfsConfig": {"dnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com"}}
EXISTING_LUSTRE = {
    "fsxLustreConfig": {
        "dnsName": "fs-0123456789abcdef1.fsx.us-east-1.amazonaws.com",
        "mountName": "fsx",
        "mountPath": "/home/",
    }
}
LONG = "a" * 40
EKS = "research/spec/orchestrator/eks"
ADMIN = "arn:aws:iam::111111111111:role/admin"
OPS = "arn:aws:iam::111111111111:role/ops"
NETWORK = {"existing": {"vpcId": "vpc-0a", "subnetIds": ["subnet-0a"], "securityGroupIds": ["sg-0a"]}}


def existing(*clusters: str) -> dict[str, object]:
    """Clusters on one EKS cluster that exists, in its network."""
    eks = {"existing": {"clusterName": "shared"}}
    return {f"{name}/spec/orchestrator/eks": {**eks} for name in clusters} | {
        f"{name}/spec/network": NETWORK for name in clusters
    }


CASES = [
    Case(
        "a group of an unknown instance type",
        "HPF101",
        "pretrain: instanceType: ml.p5.48xlrage",
        ("ml.p5.48xlrage", "did you mean ml.p5.48xlarge?"),
        {"pretrain/spec/instanceGroups/1/instanceType": "ml.p5.48xlrage"},
    ),
    Case(
        "an unknown type among the requirements of a group",
        "HPF101",
        "pretrain: ml.p3.2xlarge",
        ("ml.p3.2xlarge",),
        {
            "pretrain/spec/instanceGroups/1/instanceType": REMOVE,
            "pretrain/spec/instanceGroups/1/instanceRequirements": {
                "instanceTypes": ["ml.p5.48xlarge", "ml.p3.2xlarge"]
            },
        },
    ),
    Case(
        "a quota of an unknown instance type, and nothing else about it",
        "HPF101",
        "llm: instanceType: ml.g6.12xl",
        ("ml.g6.12xl", "did you mean ml.g6.12xlarge?"),
        {"llm/spec/allocations/0/quota/0/instanceType": "ml.g6.12xl"},
    ),
    Case(
        "a borrow limit of an unknown instance type",
        "HPF101",
        "llm: instanceType: ml.g6.12xl",
        ("ml.g6.12xl",),
        {
            "llm/spec/allocations/0/resourceSharingConfig": {
                "strategy": "LendAndBorrow",
                "absoluteBorrowLimits": [{"instanceType": "ml.g6.12xl", "count": 1}],
            }
        },
    ),
    Case(
        "two groups of one name",
        "HPF102",
        "research: name: system",
        ("system", "research.yaml:"),
        {f"{GROUPS}/2": {"name": "system", "instanceType": "ml.m5.xlarge", "instanceCount": 1}},
    ),
    Case(
        "a cluster without groups",
        "HPF103",
        "pretrain: instanceGroups: []",
        ("pretrain", "0 instance groups", "1"),
        {"pretrain/spec/instanceGroups": []},
    ),
    Case(
        "slurmConfig in an EKS cluster",
        "HPF104",
        "research: slurmConfig:",
        ("slurmConfig", "EKS"),
        {f"{GROUPS}/1/slurmConfig": {"nodeType": "Compute"}},
    ),
    Case(
        "labels in a Slurm cluster",
        "HPF104",
        "pretrain: kubernetesConfig:",
        ("kubernetesConfig", "Slurm"),
        {"pretrain/spec/instanceGroups/1/kubernetesConfig": {"labels": {"team": "llm"}}},
    ),
    Case(
        "an AMI release in a Slurm cluster",
        "HPF104",
        "pretrain: imageReleaseVersion: 1.2.3",
        ("imageReleaseVersion",),
        {"pretrain/spec/instanceGroups/1/imageReleaseVersion": "1.2.3"},
    ),
    Case(
        "deep health checks in a Slurm cluster",
        "HPF104",
        "pretrain: onStartDeepHealthChecks:",
        ("onStartDeepHealthChecks", "Slurm"),
        {"pretrain/spec/instanceGroups/1/onStartDeepHealthChecks": ["InstanceStress"]},
    ),
    Case(
        "restricted groups in a Slurm cluster, and no word about what they exclude",
        "HPF104",
        "pretrain: restrictedInstanceGroups:",
        ("restrictedInstanceGroups",),
        {"pretrain/spec/restrictedInstanceGroups": [RESTRICTED]},
    ),
    Case(
        "autoscaling in a Slurm cluster",
        "HPF104",
        "pretrain: autoScaling:",
        ("autoScaling",),
        {"pretrain/spec/autoScaling": {"mode": "Enable"}, "pretrain/spec/nodeRecovery": "None"},
    ),
    Case(
        "governance of a Slurm cluster",
        "HPF104",
        "pretrain: governance:",
        ("governance", "Slurm"),
        {"pretrain/spec/governance": {"owner": "kueue"}},
    ),
    Case(
        "a Kubernetes version below the range",
        "HPF105",
        "research: version: '1.29'",
        ("1.29", "1.30 to 1.35"),
        {"research/spec/orchestrator/eks/version": "1.29"},
    ),
    Case(
        "a Kubernetes version above the range",
        "HPF105",
        "research: version: '1.36'",
        ("1.36", "1.30 to 1.35"),
        {"research/spec/orchestrator/eks/version": "1.36"},
    ),
    Case(
        "autoscaling without automatic recovery",
        "HPF107",
        "research: nodeRecovery: None",
        ("nodeRecovery: Automatic", "None"),
        {"research/spec/autoScaling": {"mode": "Enable"}, "research/spec/nodeRecovery": "None"},
    ),
    Case(
        "taints beside deep health checks",
        "HPF108",
        "research: taints:",
        ("gpu", "dedicated", "InstanceStress"),
        {
            f"{GROUPS}/1/kubernetesConfig": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]},
            f"{GROUPS}/1/onStartDeepHealthChecks": ["InstanceStress"],
        },
    ),
    Case(
        "a mount of a misspelt file system",
        "HPF109",
        "research: name: scartch",
        ("scartch", "did you mean scratch?"),
        {"research/spec/fileSystems": [LUSTRE], STORAGE: [{"fileSystem": {"name": "scartch"}}]},
    ),
    Case(
        "a mount in a cluster without file systems",
        "HPF109",
        "research: name: scratch",
        ("scratch", "it has none", "spec.fileSystems"),
        {STORAGE: [{"fileSystem": {"name": "scratch"}}]},
    ),
    Case(
        "two file systems of one name",
        "HPF110",
        "research: name: scratch",
        ("scratch", "research.yaml:"),
        {"research/spec/fileSystems": [LUSTRE, {**ZFS, "name": "scratch"}]},
    ),
    Case(
        "two OpenZFS file systems in a group, one made and one existing",
        "HPF111",
        "research: fsxOpenZfsConfig:",
        ("gpu", "second FSx for OpenZFS", "1"),
        {
            "research/spec/fileSystems": [LUSTRE, ZFS],
            STORAGE: [
                {"fileSystem": {"name": "scratch"}},
                {"fileSystem": {"name": "home"}},
                EXISTING_ZFS,
            ],
        },
    ),
    Case(
        "an extra volume without a size",
        "HPF112",
        "research: ebsVolumeConfig:",
        ("volumeSizeInGB", "16384"),
        {STORAGE: [{"ebsVolumeConfig": {"volumeKmsKeyId": "alias/nodes"}}]},
    ),
    Case(
        "a root volume with a size",
        "HPF112",
        "research: volumeSizeInGB: 500",
        ("500", "root volume"),
        {STORAGE: [{"ebsVolumeConfig": {"rootVolume": True, "volumeSizeInGB": 500}}]},
    ),
    Case(
        "a root volume without a key",
        "HPF112",
        "research: ebsVolumeConfig:",
        ("volumeKmsKeyId",),
        {STORAGE: [{"ebsVolumeConfig": {"rootVolume": True}}]},
    ),
    Case(
        "a Lustre capacity between the steps",
        "HPF113",
        "research: storageCapacityGiB: 3600",
        ("3600", "1200", "take 2400 or 4800"),
        {"research/spec/fileSystems": [{"name": "scratch", "lustre": {"storageCapacityGiB": 3600}}]},
    ),
    Case(
        "instance requirements without Continuous provisioning",
        "HPF114",
        "pretrain: instanceRequirements:",
        ("train", "2 instance types", "nodeProvisioningMode: Continuous"),
        {
            "pretrain/spec/nodeProvisioningMode": REMOVE,
            "pretrain/spec/instanceGroups/0/minInstanceCount": REMOVE,
            "pretrain/spec/instanceGroups/1/minInstanceCount": REMOVE,
            "pretrain/spec/instanceGroups/1/instanceType": REMOVE,
            "pretrain/spec/instanceGroups/1/instanceRequirements": {
                "instanceTypes": ["ml.p5.48xlarge", "ml.p5en.48xlarge"]
            },
        },
    ),
    Case(
        "an instance type twice among requirements",
        "HPF115",
        "pretrain: ml.p5.48xlarge",
        ("ml.p5.48xlarge", "train"),
        {
            "pretrain/spec/instanceGroups/1/instanceType": REMOVE,
            "pretrain/spec/instanceGroups/1/instanceRequirements": {
                "instanceTypes": ["ml.p5.48xlarge", "ml.p5.48xlarge"]
            },
        },
    ),
    Case(
        "a cluster that takes the AWS name of another",
        "HPF116",
        "research: clusterName: fleet-pretrain",
        ("fleet-pretrain", "us-east-1", "pretrain.yaml:"),
        {"research/spec/clusterName": "fleet-pretrain"},
    ),
    Case(
        "an AWS name of more than 63 characters",
        "HPF117",
        f"pretrain: name: {LONG}",
        ("81 characters", "63"),
        {
            "fleet/metadata/name": LONG,
            "pretrain/metadata/name": LONG,
            "research/spec/clusterName": "research",
            "studio/spec/clusterName": "studio",
        },
    ),
    Case(
        "a reserved tag of the fleet",
        "HPF118",
        "fleet: aws:team: llm",
        ("aws:team",),
        {"fleet/spec/tags": {"aws:team": "llm"}},
    ),
    Case(
        "a reserved tag of a cluster, whatever the case",
        "HPF118",
        "studio: AWS:team: llm",
        ("AWS:team",),
        {"studio/spec/tags": {"AWS:team": "llm"}},
    ),
    Case(
        "more tags of fleet and cluster together than leave room for two on subnets",
        "HPF119",
        "studio: tags:",
        ("49 tags", "48", "remove 1"),
        {"studio/spec/tags": {f"key{number}": "x" for number in range(48)}},
    ),
    Case(
        "a shared environment without restricted groups",
        "HPF120",
        "research: restrictedInstanceGroupsConfig:",
        ("0 restricted",),
        {"research/spec/restrictedInstanceGroupsConfig": {"sharedEnvironmentConfig": SHARED}},
    ),
    Case(
        "the scheduler config in a Region that is not listed for it",
        "HPF121",
        "research: region: us-west-2",
        ("AWS::SageMaker::ClusterSchedulerConfig", "us-west-2", "describe-type"),
        {"research/spec/region": "us-west-2", "research/spec/governance/backend": "native"},
    ),
    Case(
        "a cluster in a Region that is not listed",
        "HPF121",
        "pretrain: region: eu-west-3",
        ("AWS::SageMaker::Cluster", "eu-west-3"),
        {"pretrain/spec/region": "eu-west-3"},
    ),
    Case(
        "team stacks that are no power of two",
        "HPF122",
        "studio: teamStacks: 6",
        ("6", "take 4 or 8"),
        {"studio/spec/governance/teamStacks": 6},
    ),
    Case(
        "a private endpoint, and a chart that is fetched when deploying",
        "HPF123",
        "research: endpointPublicAccess: Disabled",
        ("private", "dependencies.path"),
        {"research/spec/orchestrator/eks/endpointPublicAccess": "Disabled"},
    ),
    Case(
        "an endpoint for some ranges, and a chart that is fetched when deploying",
        "HPF123",
        "research: publicAccessCidrs:",
        ("10.0.0.0/8", "dependencies.path"),
        {"research/spec/orchestrator/eks/publicAccessCidrs": ["10.0.0.0/8"]},
    ),
    Case(
        "an EKS cluster that exists under two clusters",
        "HPF124",
        "studio: clusterName: shared",
        ("shared", "us-east-1", "research.yaml:"),
        existing("research", "studio"),
    ),
    Case(
        "an EKS cluster that exists under two clusters, one of them of an account",
        "HPF124",
        "studio: clusterName: shared",
        ("shared",),
        {**existing("research", "studio"), "studio/spec/account": "111111111111"},
    ),
    Case(
        "an administrator's role twice",
        "HPF125",
        f"research: {OPS}",
        (OPS, "twice in adminRoleArns"),
        {f"{EKS}/adminRoleArns": [OPS, ADMIN, OPS]},
    ),
    Case(
        "an administrator's role in two teams of the cluster",
        "HPF125",
        f"research: {OPS}",
        (OPS, "team llm, vision", "one access entry"),
        {
            f"{EKS}/adminRoleArns": [ADMIN, OPS],
            "llm/spec/access": {"principalArns": [OPS, OPS]},
            "vision/spec/access": {"principalArns": [OPS]},
        },
    ),
    Case(
        "administrators of an EKS cluster that exists",
        "HPF126",
        "research: adminRoleArns:",
        ("adminRoleArns is only of a new EKS cluster", "shared exists"),
        {
            **existing("research"),
            f"{EKS}/adminRoleArns": [OPS, OPS],
            "llm/spec/access": {"principalArns": [OPS]},
        },
    ),
    Case(
        "ranges of the endpoint of an EKS cluster that exists",
        "HPF126",
        "research: publicAccessCidrs:",
        ("publicAccessCidrs is only of a new EKS cluster",),
        {**existing("research"), f"{EKS}/publicAccessCidrs": ["192.0.2.0/24"]},
    ),
    Case(
        "ranges of a private endpoint",
        "HPF127",
        "research: publicAccessCidrs:",
        ("1 ranges", "Disabled"),
        {
            f"{EKS}/endpointPublicAccess": "Disabled",
            f"{EKS}/publicAccessCidrs": ["192.0.2.0/24"],
            f"{EKS}/dependencies": {"install": "Disabled"},
        },
    ),
    Case(
        "two threads of each core on a type with one",
        "HPF128",
        "research: threadsPerCore: 2",
        ("system", "is 2", "ml.m7g.2xlarge"),
        {f"{GROUPS}/0/instanceType": "ml.m7g.2xlarge", f"{GROUPS}/0/threadsPerCore": 2},
    ),
    Case(
        "two threads of each core on some of the types of a group",
        "HPF128",
        "pretrain: threadsPerCore: 2",
        ("train", "which ml.g7.48xlarge does"),
        {
            "pretrain/spec/instanceGroups/1/threadsPerCore": 2,
            "pretrain/spec/instanceGroups/1/instanceType": REMOVE,
            "pretrain/spec/instanceGroups/1/instanceRequirements": {
                "instanceTypes": ["ml.p5.48xlarge", "ml.g7.48xlarge"]
            },
        },
    ),
    Case(
        "EFA on a type without it",
        "HPF128",
        "research: interfaceType: efa",
        ("interfaceType", "system", "ml.m5.2xlarge", "remove networkInterface"),
        {f"{GROUPS}/0/networkInterface": {"interfaceType": "efa"}},
    ),
    Case(
        "Lustre at the path that OpenZFS has when nothing is said",
        "HPF129",
        "research: fsxOpenZfsConfig:",
        ("gpu", "Lustre", "OpenZFS", "/home"),
        {STORAGE: [EXISTING_LUSTRE, EXISTING_ZFS]},
    ),
    Case(
        "two made file systems at one path",
        "HPF129",
        "research: fileSystem:",
        ("at /data",),
        {
            "research/spec/fileSystems": [LUSTRE, ZFS],
            STORAGE: [
                {"fileSystem": {"name": "home", "mountPath": "/data"}},
                {"fileSystem": {"name": "scratch", "mountPath": "/data"}},
            ],
        },
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gives_its_finding_and_no_other(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_restricted_groups_exclude_each_of_three_settings(tmp_path: Path) -> None:
    files = changed(
        {
            "research/spec/restrictedInstanceGroups": [RESTRICTED],
            "research/spec/autoScaling": {"mode": "Enable"},
        }
    )
    found = reviewed(tmp_path, files).findings
    assert [finding.rule for finding in found] == ["HPF106"] * 3
    assert {finding.message.split()[0] for finding in found} == {
        "nodeProvisioningMode",
        "autoScaling",
        "governance",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {
            "pretrain/spec/nodeProvisioningMode": REMOVE,
            "pretrain/spec/instanceGroups/0/minInstanceCount": 0,
            "pretrain/spec/instanceGroups/1/minInstanceCount": REMOVE,
        },
        {"studio/spec/autoScaling": {"mode": "Enable"}},
        {"studio/spec/region": "us-west-2"},
        {"research/spec/fileSystems": [LUSTRE, ZFS], STORAGE: [{"fileSystem": {"name": "home"}}]},
        {STORAGE: [{"ebsVolumeConfig": {"rootVolume": True, "volumeKmsKeyId": "alias/nodes"}}]},
        {"research/spec/fileSystems": [{"name": "small", "lustre": {"storageCapacityGiB": 1200}}]},
        {"pretrain/spec/account": "111111111111", "research/spec/account": "222222222222"}
        | {"research/spec/clusterName": "fleet-pretrain"},
        {"studio/spec/tags": {f"key{number}": "x" for number in range(47)} | {"owner": "studio"}},
        {"studio/spec/governance/teamStacks": 8},
        {"studio/spec/autoScaling": {"mode": "Enable"}, "studio/spec/nodeRecovery": REMOVE},
        existing("research", "studio") | {"research/spec/region": "eu-central-1"},
        existing("research", "studio")
        | {"research/spec/account": "111111111111", "studio/spec/account": "222222222222"},
        # EKS takes one access entry for each principal in each cluster.
        {f"{EKS}/adminRoleArns": [OPS], "studio/spec/orchestrator/eks/adminRoleArns": [OPS]},
        {"llm/spec/access": {"principalArns": [OPS, OPS]}, "vision/spec/access": {"principalArns": [OPS]}},
        {f"{GROUPS}/0/threadsPerCore": 1, f"{GROUPS}/1/threadsPerCore": 2},
        {f"{GROUPS}/0/instanceType": "ml.m7g.medium", f"{GROUPS}/0/threadsPerCore": 2},  # EC2 lists none
        {f"{GROUPS}/1/networkInterface": {"interfaceType": "efa-only"}},
        {"research/spec/fileSystems": [LUSTRE, ZFS]}
        | {STORAGE: [{"fileSystem": {"name": "home"}}, {"fileSystem": {"name": "scratch"}}]},
    ],
)
def test_what_is_allowed_gives_no_finding(changes: dict[str, object], tmp_path: Path) -> None:
    assert reviewed(tmp_path, changed(changes)).findings == ()


def test_changes_do_not_leak_from_one_fleet_into_the_next() -> None:
    files = documents()
    change(files, "fleet/spec/tags/owner", "other")
    assert documents()["fleet"]["spec"]["tags"] == {"owner": "ml-platform"}
