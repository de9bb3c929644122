"""What the constructs emit, as CloudFormation sees it."""

import ipaddress
import json
import re
import subprocess
from typing import Any

import aws_cdk as cdk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.constructs import clusters
from tests.constructs.templates import Template, of_type, only, properties, synthesize, the

import hyperpod_constructs as hyperpod

CLUSTER = "AWS::SageMaker::Cluster"


def test_an_eks_cluster_is_continuous_and_always_has_a_lifecycle(templates: dict[str, Template]) -> None:
    cluster = the(templates["eks-new"], CLUSTER)
    assert cluster["NodeProvisioningMode"] == "Continuous"
    assert cluster["NodeRecovery"] == "Automatic"
    assert set(cluster["Orchestrator"]) == {"Eks"}
    assert cluster["Tags"] == [{"Key": "owner", "Value": "ml-platform"}]
    assert [(g["InstanceGroupName"], g["MinInstanceCount"]) for g in cluster["InstanceGroups"]] == [
        ("system", 1),
        ("g6", 2),
    ]
    for group in cluster["InstanceGroups"]:
        assert group["LifeCycleConfig"]["OnCreate"] == "on_create.sh"


def test_a_slurm_cluster_uses_the_extended_lifecycle_and_no_strategy(templates: dict[str, Template]) -> None:
    cluster = the(templates["slurm-new"], CLUSTER)
    assert cluster["NodeProvisioningMode"] == "Continuous"
    assert set(cluster["Orchestrator"]["Slurm"]) == {"AccountingDatabase"}
    assert [group["SlurmConfig"] for group in cluster["InstanceGroups"]] == [
        {"NodeType": "Controller"},
        {"NodeType": "Login"},
        {"NodeType": "Compute", "PartitionNames": ["train"]},
    ]
    for group in cluster["InstanceGroups"]:
        assert set(group["LifeCycleConfig"]) == {"SourceS3Uri", "OnInitComplete"}
        kinds = [next(iter(config)) for config in group["InstanceStorageConfigs"]]
        assert kinds == ["FsxLustreConfig", "FsxOpenZfsConfig"]


def test_a_plain_slurm_cluster_keeps_its_empty_orchestrator() -> None:
    assert the(synthesize(clusters.slurm(clusters.HEAD)), CLUSTER)["Orchestrator"] == {"Slurm": {}}


FULL = hyperpod.InstanceGroup(
    name="full",
    instance_count=4,
    instance_types=["ml.p5.48xlarge", "ml.p5e.48xlarge"],
    min_instance_count=2,
    execution_role_arn="arn:aws:iam::123456789012:role/own",
    threads_per_core=1,
    storage=[
        hyperpod.EbsVolume(volume_size_in_gb=500, volume_kms_key_id="key"),
        hyperpod.FsxLustreMount(dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", mount_name="m"),
        hyperpod.FsxOpenZfsMount(dns_name="fs-0123456789abcdef1.fsx.us-east-1.amazonaws.com"),
    ],
    lifecycle=hyperpod.Lifecycle(mode="OnInitComplete", script="a.sh", source_s3_uri="s3://sagemaker-x/y"),
    on_start_deep_health_checks=["InstanceStress", "InstanceConnectivity"],
    labels={"b": "2", "a": "1"},
    training_plan_arn="arn:aws:sagemaker:us-east-1:123456789012:training-plan/plan",
    network_interface="efa-only",
    capacity="Spot",
    override_vpc=hyperpod.VpcOverride(subnet_ids=["subnet-2"], security_group_ids=["sg-2"]),
    scheduled_update=hyperpod.ScheduledUpdate(
        schedule_expression="cron(0 3 ? * SUN *)",
        deployment=hyperpod.Deployment(
            maximum_batch_size=hyperpod.BatchSize(type="CAPACITY_PERCENTAGE", value=25),
            rollback_maximum_batch_size=hyperpod.BatchSize(type="INSTANCE_COUNT", value=1),
            wait_interval_in_seconds=60,
            auto_rollback_alarms=["alarm"],
        ),
    ),
    auto_patch=hyperpod.AutoPatch(patching_strategy="WhenIdle"),
    image_id="ami-0123456789abcdef0",
    image_release_version="1.2.3",
)

FULL_PROPERTIES = {
    "InstanceGroupName": "full",
    "InstanceCount": 4,
    "MinInstanceCount": 2,
    "InstanceRequirements": {"InstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"]},
    "ExecutionRole": "arn:aws:iam::123456789012:role/own",
    "ThreadsPerCore": 1,
    "InstanceStorageConfigs": [
        {"EbsVolumeConfig": {"VolumeSizeInGB": 500, "VolumeKmsKeyId": "key"}},
        {
            "FsxLustreConfig": {
                "DnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
                "MountName": "m",
                "MountPath": "/fsx",
            }
        },
        {
            "FsxOpenZfsConfig": {
                "DnsName": "fs-0123456789abcdef1.fsx.us-east-1.amazonaws.com",
                "MountPath": "/home",
            }
        },
    ],
    "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/y", "OnInitComplete": "a.sh"},
    "OnStartDeepHealthChecks": ["InstanceStress", "InstanceConnectivity"],
    "KubernetesConfig": {"Labels": {"a": "1", "b": "2"}},
    "TrainingPlanArn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/plan",
    "NetworkInterface": {"InterfaceType": "efa-only"},
    "CapacityRequirements": {"Spot": {}},
    "OverrideVpcConfig": {"Subnets": ["subnet-2"], "SecurityGroupIds": ["sg-2"]},
    "ScheduledUpdateConfig": {
        "ScheduleExpression": "cron(0 3 ? * SUN *)",
        "DeploymentConfig": {
            "RollingUpdatePolicy": {
                "MaximumBatchSize": {"Type": "CAPACITY_PERCENTAGE", "Value": 25},
                "RollbackMaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1},
            },
            "WaitIntervalInSeconds": 60,
            "AutoRollbackConfiguration": [{"AlarmName": "alarm"}],
        },
    },
    "AutoPatchConfig": {"PatchingStrategy": "WhenIdle"},
    "ImageId": "ami-0123456789abcdef0",
    "ImageReleaseVersion": "1.2.3",
}


def test_every_field_of_a_group_reaches_cloudformation() -> None:
    tainted = clusters.group(
        name="tainted",
        taints=[hyperpod.Taint(key="role", value="infra", effect="NoSchedule")],
        lifecycle=hyperpod.Lifecycle(mode="Bootstrap"),
        capacity="OnDemand",
    )
    storage = hyperpod.TieredStorage(mode="Enable", instance_memory_allocation_percentage=20)
    template = synthesize(clusters.eks(instance_groups=[FULL, tainted], tiered_storage=storage))
    cluster = the(template, CLUSTER)
    full, bootstrap = cluster["InstanceGroups"]
    assert full == FULL_PROPERTIES
    assert "LifeCycleConfig" not in bootstrap
    assert bootstrap["KubernetesConfig"] == {
        "Taints": [{"Key": "role", "Value": "infra", "Effect": "NoSchedule"}]
    }
    assert bootstrap["CapacityRequirements"] == {"OnDemand": {}}
    assert cluster["TieredStorageConfig"] == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 20}
    # Nobody uses the packaged script, so nothing is uploaded.
    assert properties(template, "AWS::S3::Bucket") == []


def test_karpenter_gets_its_mode_and_its_role(templates: dict[str, Template]) -> None:
    cluster = the(templates["eks-closed"], CLUSTER)
    assert cluster["AutoScaling"] == {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    assert "ClusterRole" in cluster


@pytest.mark.parametrize(("karpenter", "scaling"), [(None, None), (False, {"Mode": "Disable"})])
def test_scaling_that_is_switched_off_says_so_and_needs_no_role(
    karpenter: bool | None, scaling: dict[str, str] | None
) -> None:
    cluster = the(synthesize(clusters.eks(karpenter=karpenter)), CLUSTER)
    assert cluster.get("AutoScaling") == scaling
    assert "ClusterRole" not in cluster


def test_restricted_groups_stand_alone(templates: dict[str, Template]) -> None:
    cluster = the(templates["eks-restricted"], CLUSTER)
    assert "InstanceGroups" not in cluster
    assert "NodeProvisioningMode" not in cluster
    (group,) = cluster["RestrictedInstanceGroups"]
    assert group["EnvironmentConfig"] == {
        "FSxLustreConfig": {"SizeInGiB": 1200, "PerUnitStorageThroughput": 250}
    }
    shared = cluster["RestrictedInstanceGroupsConfig"]["SharedEnvironmentConfig"]
    assert shared == {"FSxLustreDeletionPolicy": "Keep"}


def test_the_eks_cluster_is_api_authenticated_encrypted_and_logs_everything(
    templates: dict[str, Template],
) -> None:
    cluster = the(templates["eks-new"], "AWS::EKS::Cluster")
    assert cluster["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    assert cluster["BootstrapSelfManagedAddons"] is False
    assert [config["Resources"] for config in cluster["EncryptionConfig"]] == [["secrets"]]
    assert len(cluster["Logging"]["ClusterLogging"]["EnabledTypes"]) == 5
    assert "ComputeConfig" not in cluster or cluster["ComputeConfig"] == {"Enabled": False}


@pytest.mark.parametrize("name", ["eks-new", "eks-restricted"])
def test_efa_has_its_rules_in_both_directions(name: str, templates: dict[str, Template]) -> None:
    template = templates[name]
    groups = [
        name
        for name, resource in of_type(template, "AWS::EC2::SecurityGroup").items()
        if "EFA" in str(resource["Properties"])
    ]
    (group,) = groups
    own = {"Fn::GetAtt": [group, "GroupId"]}
    ingress = properties(template, "AWS::EC2::SecurityGroupIngress")
    egress = properties(template, "AWS::EC2::SecurityGroupEgress")
    assert next(r for r in ingress if r["GroupId"] == own == r["SourceSecurityGroupId"])["IpProtocol"] == "-1"
    assert (
        next(r for r in egress if r["GroupId"] == own == r["DestinationSecurityGroupId"])["IpProtocol"]
        == "-1"
    )


def test_the_scripts_lie_in_a_bucket_that_the_managed_policy_reads(templates: dict[str, Template]) -> None:
    for name in ("eks-new", "slurm-new"):
        bucket = the(templates[name], "AWS::S3::Bucket")["BucketName"]
        assert json.dumps(bucket).find("sagemaker-") in (1, len('{"Fn::Join": ["", ["'))
        prefix = the(templates[name], "Custom::CDKBucketDeployment")["DestinationBucketKeyPrefix"]
        source = the(templates[name], CLUSTER)["InstanceGroups"][0]["LifeCycleConfig"]["SourceS3Uri"]
        assert source["Fn::Join"][1][-1] == f"/{prefix}"


def test_another_bucket_of_scripts_is_read_by_an_inline_policy(templates: dict[str, Template]) -> None:
    (role,) = [
        one
        for one in properties(templates["eks-existing"], "AWS::IAM::Role")
        if "sagemaker.amazonaws.com" in str(one["AssumeRolePolicyDocument"])
    ]
    text = json.dumps(role["Policies"])
    assert "s3:GetObject" in text
    assert ":s3:::my-scripts/*" in text


def test_the_accounting_secret_is_read_by_an_inline_policy(templates: dict[str, Template]) -> None:
    roles = json.dumps(properties(templates["slurm-new"], "AWS::IAM::Role"))
    assert "secretsmanager:GetSecretValue" in roles


@pytest.mark.parametrize("orchestrator", ["eks", "slurm"])
def test_a_packaged_script_parses_and_downloads_nothing(orchestrator: Any) -> None:
    (script,) = hyperpod.packaged_scripts(orchestrator).iterdir()
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    assert not re.search(r"\b(curl|wget|git|pip|apt|yum|dnf|aws)\b", script.read_text())


def test_the_pinned_chart_is_built_from_its_commit_with_checked_helm(templates: dict[str, Template]) -> None:
    project = the(templates["eks-new"], "AWS::CodeBuild::Project")
    spec = json.loads(project["Source"]["BuildSpec"])
    commands = [command for phase in spec["phases"].values() for command in phase["commands"]]
    for command in commands:
        assert subprocess.run(["bash", "-n"], input=command, text=True, check=False).returncode == 0
    assert any("sha256sum --check" in command for command in commands)
    release = the(templates["eks-new"], "Custom::HyperPodDependencies")
    assert release["Variables"]["COMMIT"] == hyperpod.PINNED_COMMIT
    assert (release["Release"], release["Namespace"]) == ("dependencies", "kube-system")
    # Without a node to ask, the chart would take the agent's image from us-east-1 everywhere.
    assert json.loads(release["Variables"]["VALUES"]) == {"health-monitoring-agent": {"region": "us-east-1"}}


def test_task_governance_is_native_and_pinned(templates: dict[str, Template]) -> None:
    template = templates["eks-new"]
    addon = next(a for a in properties(template, "AWS::EKS::Addon") if "taskgovernance" in a["AddonName"])
    assert addon["AddonVersion"] == "v1.6.1-eksbuild.1"
    # The add-on's configuration schema is empty.
    assert "ConfigurationValues" not in addon
    scheduler = the(template, "AWS::SageMaker::ClusterSchedulerConfig")
    assert scheduler["SchedulerConfig"] == {
        "FairShare": "Enabled",
        "PriorityClasses": [{"Name": "inference", "Weight": 90}, {"Name": "training", "Weight": 70}],
    }
    vision = next(
        q
        for q in properties(template, "AWS::SageMaker::ComputeQuota")
        if q["ComputeQuotaTarget"]["TeamName"] == "vision"
    )
    assert {key: value for key, value in vision.items() if key != "ClusterArn"} == {
        "Name": "vision-quota",
        "ComputeQuotaConfig": {
            "ComputeQuotaResources": [{"InstanceType": "ml.g6.12xlarge", "Accelerators": 2, "VCpu": 48}],
            "ResourceSharingConfig": {"Strategy": "LendAndBorrow", "BorrowLimit": 50},
            "PreemptTeamTasks": "LowerPriority",
        },
        "ComputeQuotaTarget": {"TeamName": "vision", "FairShareWeight": 10},
        "ActivationState": "Enabled",
        "Tags": [{"Key": "hyperpod-fleet:resource", "Value": "eks-new/vision"}],
    }


def test_monitoring_switches_kueue_metrics_on_and_watches_one_cluster(
    templates: dict[str, Template],
) -> None:
    template = templates["eks-new"]
    addon = next(a for a in properties(template, "AWS::EKS::Addon") if "cloudwatch" in a["AddonName"])
    kubernetes = json.loads(addon["ConfigurationValues"])["agent"]["config"]["logs"]["metrics_collected"]
    assert kubernetes["kubernetes"]["kueue_container_insights"] is True
    pattern = the(template, "AWS::Events::Rule")["EventPattern"]
    assert pattern["resources"] == [{"Fn::GetAtt": [only(template, CLUSTER)[0], "ClusterArn"]}]
    assert properties(templates["slurm-new"], "AWS::EKS::Addon") == []


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1", None])
def test_dashboards_of_one_cluster_name_in_two_regions_have_two_names(region: str | None) -> None:
    scope = cdk.Stack(cdk.App(), "S", env=cdk.Environment(region=region))
    monitoring = hyperpod.HyperPodMonitoring(scope, "M", cluster_name="c", cluster_arn="arn")
    name = the(synthesize(monitoring), "AWS::CloudWatch::Dashboard")["DashboardName"]
    joined = {"Fn::Join": ["", ["hyperpod-c-", {"Ref": "AWS::Region"}]]}
    assert name == (f"hyperpod-c-{region}" if region else joined)


def test_a_closed_network_has_endpoints_instead_of_a_way_out(templates: dict[str, Template]) -> None:
    template = templates["eks-closed"]
    assert properties(template, "AWS::EC2::NatGateway") == []
    assert properties(template, "AWS::EC2::InternetGateway") == []
    interface = [
        e for e in properties(template, "AWS::EC2::VPCEndpoint") if e["VpcEndpointType"] == "Interface"
    ]
    assert len(interface) == len(hyperpod.CLOSED_NETWORK_ENDPOINTS)
    zones = {subnet["AvailabilityZoneId"] for subnet in properties(template, "AWS::EC2::Subnet")}
    assert zones == {"use1-az1", "use1-az2", "use1-az4"}


@pytest.mark.parametrize(
    ("zone", "key"), [("us-east-1c", "AvailabilityZone"), ("use1-az6", "AvailabilityZoneId")]
)
def test_nodes_and_their_way_out_lie_in_the_zone_that_is_asked_for(zone: str, key: str) -> None:
    network = hyperpod.HyperPodNetwork(clusters.stack(), "N", node_availability_zone=zone)
    subnets = properties(synthesize(network), "AWS::EC2::Subnet")
    by_name = {subnet["Tags"][-1]["Value"].rpartition("/")[2]: subnet for subnet in subnets}
    assert by_name["Node0"][key] == by_name["Public"][key] == zone
    # The control plane stays in the first zones of the region.
    for i in (0, 1):
        zones = by_name[f"ControlPlane{i}"]["AvailabilityZone"]
        assert zones == {"Fn::Select": [i, {"Fn::GetAZs": ""}]}


@settings(max_examples=15)
@given(prefix=st.integers(16, 24), zones=st.integers(2, 4), data=st.data())
def test_subnets_lie_in_the_block_and_never_overlap(prefix: int, zones: int, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, zones))
    if (prefix, nodes, zones) == (24, 3, 4):
        return  # refused, see below
    block = ipaddress.IPv4Network(f"10.20.0.0/{prefix}")
    network = hyperpod.HyperPodNetwork(
        clusters.stack(), "N", cidr=str(block), control_plane_zones=zones, node_subnet_count=nodes
    )
    assert (len(network.node_subnet_ids), len(network.control_plane_subnet_ids)) == (nodes, zones)
    subnets = [
        ipaddress.IPv4Network(subnet["CidrBlock"])
        for subnet in properties(synthesize(network), "AWS::EC2::Subnet")
    ]
    assert len(subnets) == nodes + zones + 1
    assert all(subnet.subnet_of(block) and subnet.prefixlen <= 28 for subnet in subnets)
    assert sum(subnet.num_addresses for subnet in ipaddress.collapse_addresses(subnets)) == sum(
        subnet.num_addresses for subnet in subnets
    )


def test_a_block_without_room_for_the_control_plane_is_refused() -> None:
    with pytest.raises(ValueError, match=r"leaves 4 /28 blocks beside 3 node subnets: 5 are needed"):
        hyperpod.HyperPodNetwork(
            clusters.stack(), "N", cidr="10.0.0.0/24", control_plane_zones=4, node_subnet_count=3
        )


def test_a_sixteen_bit_block_holds_404_p5_instances_on_eks() -> None:
    subnets = properties(synthesize(hyperpod.HyperPodNetwork(clusters.stack(), "N")), "AWS::EC2::Subnet")
    blocks = [ipaddress.IPv4Network(subnet["CidrBlock"]) for subnet in subnets]
    # AWS keeps five addresses of each subnet; a p5.48xlarge takes 81 on EKS.
    assert (max(block.num_addresses for block in blocks) - 5) // 81 == 404


def test_charts_of_a_private_cluster_are_installed_from_inside_its_vpc(
    templates: dict[str, Template],
) -> None:
    handler = next(
        one
        for one in properties(templates["eks-existing"], "AWS::Lambda::Function")
        if "kubectl" in one.get("Description", "")
    )
    assert handler["VpcConfig"] == {
        "SubnetIds": ["subnet-0123456789abcdef0"],
        "SecurityGroupIds": ["sg-0123456789abcdef0"],
    }
