"""The EKS cluster under a HyperPod cluster: a new one, or yours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from aws_cdk import Annotations, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks_l1
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IDependable

from ._acknowledge import acknowledge, acknowledge_iam
from ._checks import check_range, check_unique
from .network import HyperPodNetwork, HyperPodNetworkBase

KUBERNETES_VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
"""Versions that HyperPod documents (EKS prerequisites, 2026)."""

BASE_ADDONS = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns")
"""Add-ons of a new cluster, in the order in which they are created."""


@dataclass(frozen=True, kw_only=True)
class SystemNodeGroup:
    """A small managed node group for coredns, kueue and other operators.

    Args:
        instance_type: an EC2 type (without `ml.`).
        size: number of instances, 1 to 100.
    """

    instance_type: str = "m7i.large"
    size: int = 2

    def __post_init__(self) -> None:
        check_range("system node group size", self.size, 1, 100)


@dataclass(frozen=True, kw_only=True)
class NewEks:
    """An EKS cluster to be created: API authentication, no Auto Mode, HyperPod groups as the compute.

    Args:
        version: Kubernetes version, one of KUBERNETES_VERSIONS.
        name: None: the HyperPod cluster's name.
        addon_versions: version by add-on name for any of BASE_ADDONS. Missing: EKS's default version.
        system_node_group: None: coredns and operators wait for the first HyperPod instances, so give the
            cluster a CPU group with min_instance_count of at least 1.
        admin_role_arns: IAM roles that become cluster administrators by access entry. The role that deploys
            does not become one.
        kubectl_layer: Lambda layer with kubectl and helm; needed for charts that CDK installs, such as
            DependenciesChart.from_path.
        public_endpoint: False: the API server is reachable only from the VPC.
        public_access_cidrs: who reaches a public endpoint. Empty: everyone with credentials. If given, the
            pinned dependencies chart, which is installed from outside the VPC, cannot be used.

    Raises:
        ValueError: an unsupported version, a version for an unknown add-on, or a role named twice.
    """

    version: str = "1.34"
    name: str | None = None
    addon_versions: Mapping[str, str] = field(default_factory=dict)
    system_node_group: SystemNodeGroup | None = None
    admin_role_arns: Sequence[str] = ()
    kubectl_layer: lambda_.ILayerVersion | None = None
    public_endpoint: bool = True
    public_access_cidrs: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.version not in KUBERNETES_VERSIONS:
            raise ValueError(
                f"Kubernetes version {self.version!r}: HyperPod supports {KUBERNETES_VERSIONS[0]} to "
                f"{KUBERNETES_VERSIONS[-1]}; choose one of them"
            )
        for name in self.addon_versions:
            if name not in BASE_ADDONS:
                raise ValueError(
                    f"addon_versions has {name!r}: the add-ons here are {', '.join(BASE_ADDONS)}; create "
                    "others in your own stack"
                )
        # EKS takes one access entry for each principal.
        check_unique("admin_role_arns", self.admin_role_arns)
        if self.public_access_cidrs and not self.public_endpoint:
            raise ValueError(
                f"public_access_cidrs {list(self.public_access_cidrs)!r} without a public endpoint: they "
                "would mean nothing; remove them or set public_endpoint"
            )


@dataclass(frozen=True, kw_only=True)
class ExistingEks:
    """An EKS cluster that exists already, in the account and region of the stack.

    Its authentication mode must be API or API_AND_CONFIG_MAP, which HyperPod needs anyway; charts are
    installed by access entry.

    Args:
        cluster_name: its name.
        kubectl_layer: as of NewEks.
        public_endpoint: whether its API server is reachable from outside the VPC.
    """

    cluster_name: str
    kubectl_layer: lambda_.ILayerVersion | None = None
    public_endpoint: bool = True


class EksControlPlane(Construct):
    """An EKS cluster for HyperPod.

    Args:
        eks: NewEks or ExistingEks.
        name: name of a new cluster that names none.
        network: where it lies. A new one needs control-plane subnets in at least 2 zones.

    Attributes:
        cluster: the EKS cluster as an L2; charts can be added when there is a kubectl layer.
        cluster_name: its name.
        cluster_arn: its ARN.
        foundation: what must exist before HyperPod instances join and until they are gone.
        public: whether an installer outside the VPC reaches the API server.

    Raises:
        ValueError: fewer than 2 control-plane subnets.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        eks: NewEks | ExistingEks,
        name: str,
        network: HyperPodNetworkBase,
    ) -> None:
        super().__init__(scope, construct_id)
        self._network = network
        self.foundation: list[IDependable] = []
        self._coredns_version: str | None = None
        self._needs_coredns = False
        if isinstance(eks, NewEks):
            self.cluster = self._create(eks, name)
        else:
            self.cluster = self._import(eks)
        self.cluster_name = self.cluster.cluster_name
        self.cluster_arn = self.cluster.cluster_arn
        self.public = eks.public_endpoint and not (isinstance(eks, NewEks) and eks.public_access_cidrs)
        _acknowledge_warnings(self, network)

    def update_after(self, guards: Sequence[IDependable]) -> None:
        """Let updates of a new cluster wait for guards: a step to another Kubernetes version has no way back.

        Args:
            guards: what may refuse the update. It must not depend on the cluster.
        """
        resource = self.cluster.node.default_child
        if isinstance(resource, eks.CfnCluster):
            resource.node.add_dependency(*guards)

    def add_coredns(self, after: Sequence[IDependable], *, scope: Construct | None = None) -> None:
        """Create coredns in a new cluster without system nodes; it is degraded until nodes exist.

        Args:
            after: what brings the first node.
            scope: where, perhaps in another stack. None: here.
        """
        if self._needs_coredns:
            self._addon("coredns", self._coredns_version, after, scope)

    def _create(self, props: NewEks, name: str) -> eks.ICluster:
        if len(self._network.control_plane_subnet_ids) < 2:
            raise ValueError(
                f"control_plane_subnet_ids {self._network.control_plane_subnet_ids!r}: an EKS control plane "
                "needs subnets in at least 2 Availability Zones; add one"
            )
        cluster = self._cluster(props, props.name or name)
        cluster.node.add_dependency(self._network)
        self.foundation.append(cluster)
        versions = props.addon_versions
        for addon in BASE_ADDONS[:-1]:
            self.foundation.append(self._addon(addon, versions.get(addon), [cluster]))
        if props.system_node_group:
            nodes = self._system_nodes(cluster, props.system_node_group)
            self.foundation.append(self._addon("coredns", versions.get("coredns"), [nodes]))
        else:
            self._needs_coredns, self._coredns_version = True, versions.get("coredns")
        for i, arn in enumerate(props.admin_role_arns):
            self.foundation.append(admin_access(self, f"Admin{i}", cluster.cluster_name, arn))
        return cast(eks.ICluster, cluster)

    def _cluster(self, props: NewEks, name: str) -> eks.Cluster:
        key = kms.Key(
            self,
            "SecretsKey",
            description="Encrypts the Kubernetes secrets of one EKS cluster",
            enable_key_rotation=True,
            # What it encrypts goes with the cluster.
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(
            self,
            "ClusterRole",
            assumed_by=iam.ServicePrincipal("eks.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")],
        )
        acknowledge_iam(role, managed="This is the policy EKS documents for its cluster role.")
        vpc = self._network.vpc_for(self)
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=name,
            version=eks.KubernetesVersion.of(props.version),
            vpc=vpc,
            vpc_subnets=[
                ec2.SubnetSelection(
                    subnets=self._subnets("ControlPlane", self._network.control_plane_subnet_ids)
                )
            ],
            security_group=self._security_group("NodeSecurityGroup"),
            role=role,
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_self_managed_addons=False,
            bootstrap_cluster_creator_admin_permissions=False,
            endpoint_access=_endpoint(props),
            secrets_encryption_key=key,
            cluster_logging=list(eks.ClusterLoggingTypes),
            kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=props.kubectl_layer)
            if props.kubectl_layer
            else None,
        )
        acknowledge_kubectl(cluster)
        self._connect(cluster)
        return cluster

    def _connect(self, cluster: eks.Cluster) -> None:
        """Let HyperPod instances and managed nodes talk: EKS puts the latter into a group of its own."""
        ours, theirs = self._network.security_group_ids[0], cluster.cluster_security_group_id
        for construct_id, group, source in (("FromEks", ours, theirs), ("ToEks", theirs, ours)):
            rule = ec2.CfnSecurityGroupIngress(
                self,
                construct_id,
                group_id=group,
                source_security_group_id=source,
                ip_protocol="-1",
                description="HyperPod instances and the EKS cluster security group",
            )
            self.foundation.append(rule)

    def _subnets(self, prefix: str, ids: Sequence[str]) -> list[ec2.ISubnet]:
        return [ec2.Subnet.from_subnet_id(self, f"{prefix}{i}", subnet) for i, subnet in enumerate(ids)]

    def _security_group(self, construct_id: str) -> ec2.ISecurityGroup:
        group_id = self._network.security_group_ids[0]
        return ec2.SecurityGroup.from_security_group_id(self, construct_id, group_id, mutable=False)

    def _addon(
        self, name: str, version: str | None, after: Sequence[IDependable], scope: Construct | None = None
    ) -> eks_l1.CfnAddon:
        addon = eks_l1.CfnAddon(
            scope or self,
            f"Addon-{name}",
            cluster_name=self._addon_cluster,
            addon_name=name,
            addon_version=version,
            resolve_conflicts="OVERWRITE",
        )
        addon.node.add_dependency(*after)
        return addon

    @property
    def _addon_cluster(self) -> str:
        cluster = self.node.find_child("Cluster")
        assert isinstance(cluster, eks.Cluster)
        return cluster.cluster_name

    def _system_nodes(self, cluster: eks.Cluster, props: SystemNodeGroup) -> IDependable:
        role = iam.Role(
            self,
            "SystemNodeRole",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(name)
                for name in (
                    "AmazonEKSWorkerNodePolicy",
                    "AmazonEKS_CNI_Policy",
                    "AmazonEC2ContainerRegistryReadOnly",
                )
            ],
        )
        acknowledge_iam(role, managed="These are the policies EKS documents for managed nodes.")
        nodes = eks.Nodegroup(
            self,
            "SystemNodes",
            cluster=cast(eks.ICluster, cluster),
            node_role=role,
            instance_types=[ec2.InstanceType(props.instance_type)],
            min_size=props.size,
            desired_size=props.size,
            max_size=props.size,
            subnets=ec2.SubnetSelection(subnets=self._subnets("System", self._network.node_subnet_ids)),
        )
        nodes.node.add_dependency(*self.foundation)
        return nodes

    def _import(self, props: ExistingEks) -> eks.ICluster:
        closed = not props.public_endpoint
        cluster = eks.Cluster.from_cluster_attributes(
            self,
            "Cluster",
            cluster_name=props.cluster_name,
            vpc=self._network.vpc_for(self) if closed else None,
        )
        if props.kubectl_layer is None:
            return cluster
        provider = eks.KubectlProvider(
            self,
            "Kubectl",
            cluster=cluster,
            kubectl_layer=props.kubectl_layer,
            private_subnets=self._subnets("Kubectl", self._network.node_subnet_ids) if closed else None,
            security_groups=[self._security_group("KubectlGroup")] if closed else None,
        )
        acknowledge_kubectl(provider)
        role = provider.role
        assert role is not None
        self.foundation.append(admin_access(self, "KubectlAccess", props.cluster_name, role.role_arn))
        return eks.Cluster.from_cluster_attributes(
            self, "ClusterWithKubectl", cluster_name=props.cluster_name, kubectl_provider=provider
        )


def _acknowledge_warnings(scope: Construct, network: HyperPodNetworkBase) -> None:
    """Silence what the CDK says of subnets that it did not make and that need nothing."""
    annotations = Annotations.of(scope)
    annotations.acknowledge_warning(
        "@aws-cdk/aws-ec2:noSubnetRouteTableId", "Subnets are given by their ids; nothing here adds a route."
    )
    if isinstance(network, HyperPodNetwork):
        annotations.acknowledge_warning(
            "@aws-cdk/aws-eks:clusterMustManuallyTagSubnet", "The network has tagged its subnets."
        )


def admin_access(scope: Construct, construct_id: str, cluster_name: str, role_arn: str) -> IDependable:
    """Make an IAM role a cluster administrator by access entry."""
    policy = Stack.of(scope).format_arn(
        service="eks",
        region="",
        account="aws",
        resource="cluster-access-policy",
        resource_name="AmazonEKSClusterAdminPolicy",
    )
    return eks_l1.CfnAccessEntry(
        scope,
        construct_id,
        cluster_name=cluster_name,
        principal_arn=role_arn,
        access_policies=[
            eks_l1.CfnAccessEntry.AccessPolicyProperty(
                policy_arn=policy, access_scope=eks_l1.CfnAccessEntry.AccessScopeProperty(type="cluster")
            )
        ],
    )


def acknowledge_kubectl(scope: Construct) -> None:
    """Accept what the CDK's kubectl handler may do, for cdk-nag.

    Each chart from a directory lets the handler read its asset, so call this after the last chart.

    Args:
        scope: the construct under which the handler lies, such as a HyperPodEksCluster.
    """
    for child in scope.node.find_all():
        if child.node.path.endswith("KubectlProvider") or child.node.id == "Kubectl":
            acknowledge_iam(
                child,
                managed="The CDK's kubectl handler uses the basic Lambda and ECR read policies.",
                wildcards="The CDK's kubectl handler reads chart assets; any version of it is invoked.",
            )
            acknowledge(child, "L1", "The CDK pins the runtime of its kubectl handler.")


def _endpoint(props: NewEks) -> eks.EndpointAccess:
    if not props.public_endpoint:
        return eks.EndpointAccess.PRIVATE
    if props.public_access_cidrs:
        return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*props.public_access_cidrs)
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE
