"""An app that uses the constructs without our config. As a script it is checked by cdk-nag's AwsSolutions."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import cx_api
from constructs import Construct

import hyperpod_constructs as hyperpod
from hyperpod_constructs import InstanceGroup, Lifecycle, SlurmGroup

ROLE = "arn:aws:iam::123456789012:role/hyperpod-nodes"
LAYER = "arn:aws:lambda:us-east-1:123456789012:layer:kubectl:1"
HERE = cdk.Environment(account="123456789012", region="us-east-1")

SYSTEM = InstanceGroup(name="system", instance_type="ml.m5.2xlarge", instance_count=2, min_instance_count=1)
G6 = InstanceGroup(name="g6", instance_type="ml.g6.12xlarge", instance_count=4, min_instance_count=2)
HEAD = InstanceGroup(
    name="head", instance_type="ml.m5.xlarge", instance_count=1, slurm=SlurmGroup(node_type="Controller")
)
LOGIN = InstanceGroup(
    name="login", instance_type="ml.m5.xlarge", instance_count=1, slurm=SlurmGroup(node_type="Login")
)
TRAIN = InstanceGroup(
    name="train",
    instance_type="ml.p5.48xlarge",
    instance_count=32,
    min_instance_count=24,
    slurm=SlurmGroup(node_type="Compute", partition_names=["train"]),
)


def quota(team: str) -> hyperpod.ComputeQuota:
    """Give the quota of the announcement's GPU-only team under another name."""
    return hyperpod.ComputeQuota(
        name=f"{team}-quota",
        team_name=team,
        resources=[hyperpod.QuotaResource(instance_type="ml.g6.12xlarge", accelerators=2, v_cpu=48)],
        borrow_limit=50,
        fair_share_weight=10,
    )


SCHEDULER = hyperpod.SchedulerConfig(
    name="research",
    priority_classes=[
        hyperpod.PriorityClass(name="inference", weight=90),
        hyperpod.PriorityClass(name="training", weight=70),
    ],
    fair_share="Enabled",
)


def existing_network(scope: Construct, **props: Any) -> hyperpod.ExistingNetwork:
    """Give a network that is there already."""
    return hyperpod.ExistingNetwork(
        scope,
        "Network",
        vpc_id="vpc-0123456789abcdef0",
        subnet_ids=["subnet-0123456789abcdef0"],
        **props,
    )


def resolved_chart(directory: Path) -> Path:
    """Write a chart whose only dependency is resolved."""
    (directory / "charts" / "agent").mkdir(parents=True)
    dependency = "dependencies: [{name: agent, version: 1.0.0, repository: 'file://charts/agent'}]"
    (directory / "Chart.yaml").write_text(f"apiVersion: v2\nname: deps\nversion: 1.0.0\n{dependency}\n")
    (directory / "charts" / "agent" / "Chart.yaml").write_text(
        "apiVersion: v2\nname: agent\nversion: 1.0.0\n"
    )
    return directory


def eks_in_one_stack(app: cdk.App) -> None:
    """Everything new, in one stack with a concrete environment."""
    stack = cdk.Stack(app, "eks-new", env=HERE)
    cluster = hyperpod.HyperPodEksCluster(
        stack,
        "Cluster",
        cluster_name="research",
        network=hyperpod.HyperPodNetwork(stack, "Network"),
        eks=hyperpod.NewEks(system_node_group=hyperpod.SystemNodeGroup(), admin_role_arns=[ROLE]),
        instance_groups=[SYSTEM, G6],
        container_insights=True,
        tags={"owner": "ml-platform"},
    )
    hyperpod.TaskGovernance(
        stack,
        "Governance",
        cluster_arn=cluster.cluster_arn,
        eks_cluster_name=cluster.eks_cluster_name,
        scheduler_config=SCHEDULER,
        quotas=[quota("vision"), quota("speech")],
        after=[cluster.ready],
    )
    hyperpod.HyperPodMonitoring(
        stack,
        "Monitoring",
        cluster_name=cluster.cluster_name,
        cluster_arn=cluster.cluster_arn,
        eks_cluster_name=cluster.eks_cluster_name,
        after=[cluster.ready],
    )


def eks_in_a_closed_network(app: cdk.App, chart: Path) -> None:
    """No NAT, private endpoint, chart from a directory, Karpenter, coredns after the first instances."""
    stack = cdk.Stack(app, "eks-closed")
    network = hyperpod.HyperPodNetwork(
        stack,
        "Network",
        cidr="10.0.0.0/20",
        availability_zones=["use1-az1", "use1-az2", "use1-az4"],
        node_subnet_count=2,
        nat_gateway=False,
    )
    hyperpod.HyperPodEksCluster(
        stack,
        "Cluster",
        cluster_name="closed",
        network=network,
        eks=hyperpod.NewEks(
            public_endpoint=False,
            kubectl_layer=lambda_.LayerVersion.from_layer_version_arn(stack, "Kubectl", LAYER),
        ),
        dependencies=hyperpod.DependenciesChart.from_path(chart, values={"mlflow": {"enabled": False}}),
        instance_groups=[SYSTEM],
        karpenter=True,
    )


def eks_on_what_exists(app: cdk.App, chart: Path) -> None:
    """An existing VPC and private EKS cluster; own lifecycle script; chart from a directory."""
    stack = cdk.Stack(app, "eks-existing")
    hyperpod.HyperPodEksCluster(
        stack,
        "Cluster",
        cluster_name="existing",
        network=existing_network(stack, security_group_ids=["sg-0123456789abcdef0"]),
        eks=hyperpod.ExistingEks(
            cluster_name="platform",
            kubectl_layer=lambda_.LayerVersion.from_layer_version_arn(stack, "Kubectl", LAYER),
            public_endpoint=False,
        ),
        dependencies=hyperpod.DependenciesChart.from_path(chart),
        instance_groups=[SYSTEM],
        lifecycle=Lifecycle(mode="OnCreate", script="setup.sh", source_s3_uri="s3://my-scripts/hyperpod"),
    )


def eks_with_restricted_groups(app: cdk.App) -> None:
    """Restricted groups only, on an EKS cluster that has the chart already."""
    stack = cdk.Stack(app, "eks-restricted")
    hyperpod.HyperPodEksCluster(
        stack,
        "Cluster",
        cluster_name="nova",
        network=existing_network(stack),
        eks=hyperpod.ExistingEks(cluster_name="platform"),
        dependencies=hyperpod.DependenciesChart.none(),
        restricted_instance_groups=[
            hyperpod.RestrictedInstanceGroup(
                name="nova",
                instance_type="ml.p5.48xlarge",
                instance_count=4,
                environment_lustre=hyperpod.RestrictedLustre(
                    size_in_gib=1200, per_unit_storage_throughput=250
                ),
            )
        ],
        restricted_groups_config=hyperpod.RestrictedGroupsConfig(deletion_policy="Keep"),
        node_provisioning_mode=None,
        execution_role_arn=ROLE,
    )


def slurm_in_one_stack(app: cdk.App) -> None:
    """Everything new, with both kinds of file system and accounting."""
    stack = cdk.Stack(app, "slurm-new", env=HERE)
    network = hyperpod.HyperPodNetwork(stack, "Network")
    lustre = hyperpod.LustreFileSystem(stack, "Lustre", network=network)
    home = hyperpod.OpenZfsFileSystem(stack, "Home", network=network)
    cluster = hyperpod.HyperPodSlurmCluster(
        stack,
        "Cluster",
        cluster_name="pretrain",
        network=network,
        instance_groups=[HEAD, LOGIN, TRAIN],
        shared_storage=[lustre.mount(), home.mount()],
        accounting_database=hyperpod.AccountingDatabase(
            endpoint="slurm.cluster-abc.us-east-1.rds.amazonaws.com",
            secret_arn="arn:aws:secretsmanager:us-east-1:123456789012:secret:slurm-AbCdEf",
            name="slurm_acct_db",
            port=3306,
        ),
    )
    hyperpod.HyperPodMonitoring(
        stack, "Monitoring", cluster_name=cluster.cluster_name, cluster_arn=cluster.cluster_arn
    )


def eks_in_several_stacks(app: cdk.App) -> None:
    """Network, cluster, governance and further quotas apart, so that each changes by itself."""
    network = hyperpod.HyperPodNetwork(cdk.Stack(app, "split-network"), "Network")
    stack = cdk.Stack(app, "split-cluster")
    cluster = hyperpod.HyperPodEksCluster(
        stack,
        "Cluster",
        cluster_name="split",
        network=network,
        eks=hyperpod.NewEks(),
        instance_groups=[SYSTEM],
    )
    governance = hyperpod.TaskGovernance(
        cdk.Stack(app, "split-governance"),
        "Governance",
        cluster_arn=cluster.cluster_arn,
        eks_cluster_name=cluster.eks_cluster_name,
        scheduler_config=SCHEDULER,
        quotas=[quota("vision")],
        after=[cluster.ready],
    )
    governance.add_quota(quota("speech"), scope=cdk.Stack(app, "split-more-quotas"))


def eks_behind_a_capacity_gate(app: cdk.App) -> None:
    """The cluster apart from the gate, and coredns and the CloudWatch add-on behind the first node."""
    stack = cdk.Stack(app, "gated-cluster")
    cluster = hyperpod.HyperPodEksCluster(
        stack,
        "Cluster",
        cluster_name="gated",
        network=hyperpod.HyperPodNetwork(stack, "Network"),
        eks=hyperpod.NewEks(),
        instance_groups=[SYSTEM, G6],
        coredns=False,
    )
    gate = cdk.Stack(app, "gated-capacity")
    capacity = hyperpod.HyperPodCapacity(
        gate,
        "Capacity",
        cluster_name=cluster.cluster_name,
        cluster_arn=cluster.cluster_arn,
        cluster_stack_name=stack.stack_name,
        groups=cluster.gated_groups,
        first_node=True,
    )
    assert capacity.first_node is not None
    cluster.add_coredns(gate, after=[capacity.first_node])
    hyperpod.HyperPodMonitoring(
        gate,
        "Monitoring",
        cluster_name=cluster.cluster_name,
        cluster_arn=cluster.cluster_arn,
        eks_cluster_name=cluster.eks_cluster_name,
        after=[capacity.first_node],
    )


def slurm_behind_a_capacity_gate(app: cdk.App) -> None:
    """A Slurm cluster whose every group must have all that it asks for."""
    stack = cdk.Stack(app, "gated-slurm", env=HERE)
    cluster = hyperpod.HyperPodSlurmCluster(
        stack,
        "Cluster",
        cluster_name="gated-slurm",
        network=existing_network(stack),
        instance_groups=[HEAD, LOGIN, TRAIN],
    )
    hyperpod.HyperPodCapacity(
        cdk.Stack(app, "gated-slurm-capacity", env=HERE),
        "Capacity",
        cluster_name=cluster.cluster_name,
        cluster_arn=cluster.cluster_arn,
        cluster_stack_name=stack.stack_name,
        groups=cluster.gated_groups,
        wait_for="target",
        timeout=cdk.Duration.hours(6),
    )


def governance_without_native_types(app: cdk.App) -> None:
    """Quotas and scheduler config by custom resource, in two stacks; a wait for Kueue's controller."""
    stack = cdk.Stack(app, "custom-governance")
    control_plane = hyperpod.EksControlPlane(
        stack,
        "Eks",
        eks=hyperpod.ExistingEks(
            cluster_name="platform",
            kubectl_layer=lambda_.LayerVersion.from_layer_version_arn(stack, "Kubectl", LAYER),
        ),
        name="platform",
        network=existing_network(stack),
    )
    governance = hyperpod.TaskGovernance(
        stack,
        "Governance",
        cluster_arn="arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl",
        eks_cluster_name="platform",
        scheduler_config=SCHEDULER,
        quotas=[quota("vision")],
        # Among it the access of the kubectl role, by which Kueue's controller is waited for.
        after=control_plane.foundation,
        scheduler_config_backend="custom-resource",
        compute_quota_backend="custom-resource",
        kubectl_cluster=control_plane.cluster,
    )
    governance.add_quota(quota("speech"), scope=cdk.Stack(app, "custom-more-quotas"))


def build(app: cdk.App) -> None:
    """Build every stack."""
    chart = resolved_chart(Path(tempfile.mkdtemp()))
    eks_in_one_stack(app)
    eks_in_a_closed_network(app, chart)
    eks_on_what_exists(app, chart)
    eks_with_restricted_groups(app)
    slurm_in_one_stack(app)
    eks_in_several_stacks(app)
    eks_behind_a_capacity_gate(app)
    slurm_behind_a_capacity_gate(app)
    governance_without_native_types(app)


@functools.cache
def assembly() -> cx_api.CloudAssembly:
    """Synthesize every stack, once for each process."""
    app = cdk.App()
    build(app)
    return app.synth()


def main() -> None:
    """Synthesize with cdk-nag; raises when a finding is not acknowledged."""
    import cdk_nag  # noqa: PLC0415

    app = cdk.App()
    build(app)
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    app.synth()


if __name__ == "__main__":
    main()
