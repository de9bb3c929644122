"""The stacks of one cluster: network, cluster, capacity, governance or queues, monitoring.

They are apart so that a change of a quota never touches a network: a team change is a change of one stack.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from aws_cdk import CfnOutput, CfnResource, Duration, Environment, Fn, Stack, Tags, Token
from aws_cdk import aws_eks as eks_l1
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from aws_cdk.lambda_layer_kubectl_v34 import KubectlV34Layer
from constructs import Construct, IDependable

import hyperpod_constructs as hyperpod
from hyperpod_config.model import Eks
from hyperpod_governance import naming, service, stack_parts
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_infra import charts, groups
from hyperpod_infra.quotas import compute_quotas
from hyperpod_infra.shards import Shard
from hyperpod_k8s import helm


def tags_of_resources(fleet: ResolvedFleet, cluster: ResolvedCluster) -> Mapping[str, str]:
    """Tags of every resource of a cluster's stacks: the fleet's, and over them the cluster's."""
    return dict(sorted({**fleet.config.document.spec.tags, **cluster.config.spec.tags}.items()))


class FleetStack(Stack):
    """A stack of one cluster, named and tagged as the config says."""

    def __init__(
        self,
        scope: Construct,
        fleet: ResolvedFleet,
        cluster: ResolvedCluster,
        part: naming.StackPart,
        shard: int = 0,
    ) -> None:
        spec = cluster.config.spec
        name = naming.stack(fleet.name, cluster.name, part, shard)
        super().__init__(
            scope,
            name,
            stack_name=name,
            env=Environment(account=spec.account, region=spec.region),
            description=f"HyperPod cluster {cluster.name} of fleet {fleet.name}: {part}",
        )
        self.cluster = cluster
        self.tags_of_resources = tags_of_resources(fleet, cluster)
        for key, value in self.tags_of_resources.items():
            Tags.of(self).add(key, value)


class NetworkStack(FleetStack):
    """A new VPC."""

    def __init__(self, scope: Construct, fleet: ResolvedFleet, cluster: ResolvedCluster) -> None:
        super().__init__(scope, fleet, cluster, "network")
        self.network = _new_network(self, cluster)


class ClusterStack(FleetStack):
    """The HyperPod cluster with its roles, scripts, file systems and, for EKS, the EKS cluster.

    Attributes:
        eks: The construct of an EKS cluster, None for Slurm.
        gated_groups: Its instance groups, as the capacity gate takes them.
        cluster_arn: ARN of the HyperPod cluster.
    """

    def __init__(
        self,
        scope: Construct,
        fleet: ResolvedFleet,
        cluster: ResolvedCluster,
        network: hyperpod.HyperPodNetworkBase | None,
        directory: Path,
    ) -> None:
        super().__init__(scope, fleet, cluster, "cluster")
        self.network = network or _existing_network(self, cluster)
        mounts = self._file_systems()
        scripts = self._scripts(directory)
        uris = {path: upload.source_s3_uri for path, upload in scripts.items()}
        members = groups.instance_groups(cluster, mounts, uris)
        self.eks: hyperpod.HyperPodEksCluster | None = None
        made: hyperpod.HyperPodEksCluster | hyperpod.HyperPodSlurmCluster
        if cluster.config.spec.orchestrator.eks is not None:
            made = self.eks = self._eks(cluster.config.spec.orchestrator.eks, members, mounts, directory)
        else:
            made = self._slurm(members)
        self.cluster_arn = made.cluster_arn
        self.gated_groups = made.gated_groups
        made.cluster.node.add_dependency(*scripts.values())
        self._keep_what_others_may_use()

    def _keep_what_others_may_use(self) -> None:
        """Export, and allow, all that stacks upon this one use, whether they are there now or not.

        CloudFormation refuses to take an export away that is in use. So switching monitoring or governance
        off, whose stacks stay until somebody destroys them, would block every deployment of this stack.
        """
        self.export_value(self.cluster_arn)
        if self.eks is None:
            return
        provider = self.eks.eks_cluster.kubectl_provider
        assert provider is not None  # each control plane here has a kubectl layer
        assert provider.role is not None
        for value in (self.eks.eks_cluster_name, provider.service_token):
            if Token.is_unresolved(value):
                self.export_value(value)
        # To the letter the statement that each chart from a directory would add.
        prefix = f"cdk-{self.synthesizer.bootstrap_qualifier}-assets"
        name = (
            Fn.sub(f"{prefix}-${{AWS::AccountId}}-{self.region}")
            if Token.is_unresolved(self.account)
            else f"{prefix}-{self.account}-{self.region}"
        )
        s3.Bucket.from_bucket_name(self, "Assets", name).grant_read(provider.role)
        hyperpod.acknowledge_kubectl(self.eks)

    def _file_systems(self) -> groups.Mounts:
        mounts: dict[str, hyperpod.FsxLustreMount | hyperpod.FsxOpenZfsMount] = {}
        for system in self.cluster.config.spec.file_systems:
            if system.lustre is not None:
                mounts[system.name] = hyperpod.LustreFileSystem(
                    self,
                    f"FileSystem-{system.name}",
                    network=self.network,
                    storage_capacity_in_gib=system.lustre.storage_capacity_gib,
                    per_unit_storage_throughput=system.lustre.per_unit_storage_throughput,
                    data_compression=system.lustre.data_compression,
                    kms_key_id=system.lustre.kms_key_id,
                ).mount()
            elif system.open_zfs is not None:
                mounts[system.name] = hyperpod.OpenZfsFileSystem(
                    self,
                    f"FileSystem-{system.name}",
                    network=self.network,
                    storage_capacity_in_gib=system.open_zfs.storage_capacity_gib,
                    throughput_in_mbps=system.open_zfs.throughput_capacity,
                    kms_key_id=system.open_zfs.kms_key_id,
                ).mount()
        return mounts

    def _scripts(self, directory: Path) -> dict[str, hyperpod.LifecycleScripts]:
        found = groups.local_scripts(self.cluster, directory)
        return {
            path: hyperpod.LifecycleScripts(self, f"Scripts-{path}", directory=source)
            for path, source in found.items()
        }

    def _eks(
        self,
        orchestrator: Eks,
        members: Sequence[hyperpod.InstanceGroup],
        mounts: groups.Mounts,
        directory: Path,
    ) -> hyperpod.HyperPodEksCluster:
        spec = self.cluster.config.spec
        return hyperpod.HyperPodEksCluster(
            self,
            "HyperPod",
            cluster_name=self.cluster.aws_name,
            network=self.network,
            eks=self._control_plane(orchestrator),
            dependencies=_dependencies(orchestrator, directory),
            instance_groups=members,
            restricted_instance_groups=groups.restricted_groups(self.cluster, mounts),
            restricted_groups_config=groups.restricted_config(self.cluster),
            node_provisioning_mode=spec.node_provisioning_mode,
            node_recovery=spec.node_recovery,
            karpenter=None if spec.auto_scaling is None else spec.auto_scaling.mode == "Enable",
            cluster_role_arn=spec.cluster_role,
            tiered_storage=self._tiered_storage(),
            container_insights=_insights(self.cluster),
            update_guard=spec.update_guard == "Enabled",
            # It needs a node: the capacity stack has it.
            coredns=False,
        )

    def _control_plane(self, orchestrator: Eks) -> hyperpod.NewEks | hyperpod.ExistingEks:
        public = orchestrator.endpoint_public_access == "Enabled"
        layer = KubectlV34Layer(self, "Kubectl")
        if orchestrator.existing is not None:
            name = orchestrator.existing.cluster_name
            return hyperpod.ExistingEks(cluster_name=name, kubectl_layer=layer, public_endpoint=public)
        return hyperpod.NewEks(
            version=str(orchestrator.version),
            admin_role_arns=orchestrator.admin_role_arns,
            kubectl_layer=layer,
            public_endpoint=public,
            public_access_cidrs=orchestrator.public_access_cidrs or (),
        )

    def _slurm(self, members: Sequence[hyperpod.InstanceGroup]) -> hyperpod.HyperPodSlurmCluster:
        spec = self.cluster.config.spec
        assert spec.orchestrator.slurm is not None
        database = spec.orchestrator.slurm.accounting_database
        return hyperpod.HyperPodSlurmCluster(
            self,
            "HyperPod",
            cluster_name=self.cluster.aws_name,
            network=self.network,
            instance_groups=members,
            node_provisioning_mode=spec.node_provisioning_mode,
            node_recovery=spec.node_recovery,
            slurm_config_strategy=spec.orchestrator.slurm.slurm_config_strategy,
            accounting_database=hyperpod.AccountingDatabase(
                endpoint=database.endpoint,
                port=database.port,
                name=database.name,
                secret_arn=database.secret_arn,
            )
            if database is not None
            else None,
            tiered_storage=self._tiered_storage(),
            update_guard=spec.update_guard == "Enabled",
        )

    def _tiered_storage(self) -> hyperpod.TieredStorage | None:
        tiered = self.cluster.config.spec.tiered_storage_config
        if tiered is None:
            return None
        return hyperpod.TieredStorage(
            mode=tiered.mode,
            instance_memory_allocation_percentage=tiered.instance_memory_allocation_percentage,
        )


class CapacityStack(FleetStack):
    """The gate that holds a deployment until the instances are there, and coredns, which needs one."""

    def __init__(
        self,
        scope: Construct,
        fleet: ResolvedFleet,
        cluster: ResolvedCluster,
        cluster_stack: ClusterStack,
    ) -> None:
        super().__init__(scope, fleet, cluster, "capacity")
        gate = cluster.config.spec.capacity_gate
        capacity = hyperpod.HyperPodCapacity(
            self,
            "Capacity",
            cluster_name=cluster.aws_name,
            cluster_arn=cluster_stack.cluster_arn,
            cluster_stack_name=cluster_stack.stack_name,
            groups=_waited_for(cluster, cluster_stack),
            wait_for="target" if gate.wait_for == "Target" else "minimum",
            first_node=stack_parts.needs_node(cluster.config.spec),
            timeout=Duration.minutes(gate.timeout_in_minutes),
        )
        if cluster_stack.eks is not None and capacity.first_node is not None:
            cluster_stack.eks.add_coredns(self, [capacity.first_node])


class TeamsStack(FleetStack):
    """What all teams of a cluster share (first shard), and the access and objects of a shard's teams.

    A shard's stack is deployed after the one before it: when shards are split, that one gives up the names of
    the teams that move here. What all teams share cannot go before a shard that uses it: each imports a value
    of the first, which always exports it, also while there is no other.
    """

    def __init__(
        self,
        scope: Construct,
        fleet: ResolvedFleet,
        cluster: ResolvedCluster,
        part: naming.StackPart,
        shard: Shard,
        previous: TeamsStack | None,
    ) -> None:
        super().__init__(scope, fleet, cluster, part, shard.index)
        self._shard = shard
        self._first = f"{naming.stack(fleet.name, cluster.name, part)}:Foundation"
        if previous is None:
            CfnOutput(self, "Foundation", value=self.stack_id, export_name=self._first)
        else:
            self.add_stack_dependency(previous)

    def _install(
        self,
        cluster: hyperpod.HyperPodEksCluster,
        after: Sequence[IDependable],
        guard: Sequence[IDependable],
    ) -> None:
        """Let the teams' IAM principals into the cluster, and install the teams' objects."""
        entries = Construct(self, "Access")
        # Before the other owner's stack is gone, they would fail as entries that are there already.
        entries.node.add_dependency(*guard)
        for arn, teams in self._shard.principals.items():
            eks_l1.CfnAccessEntry(
                entries,
                # Logical ids are made of letters and digits only, ARNs are told apart by the rest too.
                hashlib.sha256(arn.encode()).hexdigest()[:16],
                cluster_name=cluster.eks_cluster_name,
                principal_arn=arn,
                kubernetes_groups=[naming.team_group(team) for team in teams],
            )
        release = naming.release(self._shard.index)
        chart = charts.install_objects(self, release, self._shard.chart, cluster.eks_cluster, after)
        if self._shard.index:
            resource = chart.node.find_child("Resource").node.default_child
            assert isinstance(resource, CfnResource)
            # The CDK's handler ignores it. An output would do for CloudFormation, but not for cfn-lint.
            resource.add_property_override("StandsOn", Fn.import_value(self._first))


class GovernanceStack(TeamsStack):
    """Owner sagemaker: the add-on and the scheduler config (first shard), quotas and access of some teams."""

    def __init__(
        self,
        scope: Construct,
        fleet: ResolvedFleet,
        cluster: ResolvedCluster,
        hyperpod_cluster: hyperpod.HyperPodEksCluster,
        shard: Shard,
        previous: GovernanceStack | None,
    ) -> None:
        super().__init__(scope, fleet, cluster, "governance", shard, previous)
        assert cluster.governance is not None
        guard = self._guard(fleet, hyperpod_cluster, is_first=previous is None)
        self.task_governance: hyperpod.TaskGovernance = (
            previous.task_governance if previous else self._task_governance(hyperpod_cluster, guard)
        )
        if previous is None and self.task_governance.service_token is not None:
            # Also while there is no further shard: one that was there may still import it.
            self.export_value(self.task_governance.service_token)
        quotas = [
            self.task_governance.add_quota(quota, scope=None if previous is None else self)
            for team, quota in compute_quotas(cluster.governance, self.tags_of_resources).items()
            if team in shard.teams
        ]
        for quota in quotas:
            quota.node.add_dependency(*guard)
        # The service makes a team's namespace with its quota; a role binding before that has no place.
        self._install(hyperpod_cluster, after=[*guard, self.task_governance, *quotas], guard=guard)

    def _guard(
        self, fleet: ResolvedFleet, cluster: hyperpod.HyperPodEksCluster, *, is_first: bool
    ) -> list[IDependable]:
        if self.cluster.config.spec.update_guard == "Disabled":
            return []
        guard = hyperpod.GovernanceUpdateGuard(
            self,
            "UpdateGuard",
            cluster_arn=cluster.cluster_arn,
            eks_cluster_name=_eks_name(self.cluster),
            teams=sorted(self._shard.teams),
            # In every shard: a team's new name may belong to another than its old one.
            renamed_from=[team.spec.renamed_from for team in fleet.config.teams if team.spec.renamed_from],
            addon_version=self._addon_version() if is_first else None,
            stacks_gone=[naming.stack(fleet.name, self.cluster.name, "queues")] if is_first else [],
        )
        return [guard.resource]

    def _addon_version(self) -> str:
        governance = self.cluster.config.spec.governance
        assert governance is not None
        return governance.addon_version or service.DEFAULT_ADDON_VERSION

    def _task_governance(
        self, cluster: hyperpod.HyperPodEksCluster, guard: Sequence[IDependable]
    ) -> hyperpod.TaskGovernance:
        governance, resolved = self.cluster.config.spec.governance, self.cluster.governance
        assert governance is not None
        assert resolved is not None
        policy = governance.scheduler_config
        classes = sorted((entry.name, entry.weight) for entry in policy.priority_classes)
        return hyperpod.TaskGovernance(
            self,
            "TaskGovernance",
            cluster_arn=cluster.cluster_arn,
            eks_cluster_name=_eks_name(self.cluster),
            scheduler_config=hyperpod.SchedulerConfig(
                name=self.cluster.aws_name,
                priority_classes=[
                    hyperpod.PriorityClass(name=name, weight=weight) for name, weight in classes
                ],
                fair_share=policy.fair_share,
                idle_resource_sharing=policy.idle_resource_sharing,
                tags=self.tags_of_resources,
            ),
            addon_version=self._addon_version(),
            after=guard,
            scheduler_config_backend=resolved.scheduler_config_backend,
            compute_quota_backend=resolved.compute_quota_backend,
            kubectl_cluster=cluster.eks_cluster,
        )


class QueuesStack(TeamsStack):
    """Owner kueue: Kueue and what teams share (first shard), namespaces and queues of some teams."""

    def __init__(
        self,
        scope: Construct,
        fleet: ResolvedFleet,
        cluster: ResolvedCluster,
        hyperpod_cluster: hyperpod.HyperPodEksCluster,
        shard: Shard,
        previous: QueuesStack | None,
    ) -> None:
        super().__init__(scope, fleet, cluster, "queues", shard, previous)
        guard = [] if previous else self._guard(fleet)
        self.shared: IDependable = (
            previous.shared if previous else self._shared(hyperpod_cluster.eks_cluster, guard)
        )
        self._install(hyperpod_cluster, after=[self.shared], guard=guard)

    def _shared(self, eks_cluster: eks.ICluster, after: Sequence[IDependable]) -> IDependable:
        governance = self.cluster.config.spec.governance
        assert governance is not None
        if governance.kueue is None or governance.kueue.install == "Enabled":
            after = [charts.install_kueue(self, self.cluster, eks_cluster, after)]
        files = helm.helm_chart(self.cluster, naming.SHARED_RELEASE, teams=(), shared=True)
        return charts.install_objects(self, naming.SHARED_RELEASE, files, eks_cluster, after)

    def _guard(self, fleet: ResolvedFleet) -> list[IDependable]:
        if self.cluster.config.spec.update_guard == "Disabled":
            return []
        other = naming.stack(fleet.name, self.cluster.name, "governance")
        return [hyperpod.KueueOwnerGuard(self, "UpdateGuard", stacks_gone=[other]).resource]


class MonitoringStack(FleetStack):
    """Dashboard, alarms, event log and, for EKS, the CloudWatch add-on."""

    def __init__(
        self,
        scope: Construct,
        fleet: ResolvedFleet,
        cluster: ResolvedCluster,
        cluster_stack: ClusterStack,
    ) -> None:
        super().__init__(scope, fleet, cluster, "monitoring")
        eks_cluster = cluster_stack.eks
        hyperpod.HyperPodMonitoring(
            self,
            "Monitoring",
            cluster_name=cluster.aws_name,
            cluster_arn=cluster_stack.cluster_arn,
            eks_cluster_name=eks_cluster.eks_cluster_name if eks_cluster else None,
            install_addon=_insights(cluster),
            alarm_actions=cluster.config.spec.monitoring.alarm_topic_arns,
        )


def _existing_network(scope: Construct, cluster: ResolvedCluster) -> hyperpod.HyperPodNetworkBase:
    existing = cluster.config.spec.network.existing
    assert existing is not None
    return hyperpod.ExistingNetwork(
        scope,
        "Network",
        vpc_id=existing.vpc_id,
        subnet_ids=existing.subnet_ids,
        security_group_ids=existing.security_group_ids,
        control_plane_subnet_ids=existing.control_plane_subnet_ids or (),
    )


def _new_network(scope: Construct, cluster: ResolvedCluster) -> hyperpod.HyperPodNetworkBase:
    create = cluster.config.spec.network.create
    assert create is not None
    return hyperpod.HyperPodNetwork(
        scope,
        "Network",
        cidr=create.cidr,
        availability_zones=create.availability_zones,
        node_availability_zone=create.node_availability_zone,
        nat_gateway=create.nat_gateway == "Enabled",
        interface_endpoints=create.interface_endpoints,
    )


def _dependencies(orchestrator: Eks, directory: Path) -> hyperpod.DependenciesChart:
    chart = orchestrator.dependencies
    if chart.install == "Disabled":
        return hyperpod.DependenciesChart.none()
    if chart.path is not None:
        return hyperpod.DependenciesChart.from_path(directory / chart.path)
    return hyperpod.DependenciesChart.pinned(commit=chart.commit or hyperpod.PINNED_COMMIT)


def _insights(cluster: ResolvedCluster) -> bool:
    monitoring = cluster.config.spec.monitoring
    return monitoring.state == "Enabled" and monitoring.container_insights == "Enabled"


def _waited_for(cluster: ResolvedCluster, cluster_stack: ClusterStack) -> list[hyperpod.GatedGroup]:
    wait_for = cluster.config.spec.capacity_gate.wait_for
    if wait_for == "None":
        return []
    mode: Literal["target", "minimum"] = "target" if wait_for == "Target" else "minimum"
    return hyperpod.HyperPodCapacity.waited_for(cluster_stack.gated_groups, mode)


def _eks_name(cluster: ResolvedCluster) -> str:
    """The EKS cluster's name as a word: policies of another stack, and cdk-nag, read it more easily."""
    eks = cluster.config.spec.orchestrator.eks
    assert eks is not None
    return eks.existing.cluster_name if eks.existing is not None else cluster.aws_name
