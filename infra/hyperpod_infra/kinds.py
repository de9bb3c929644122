"""Resources of a family of stacks by what they are, and by what they are to others.

They are told by type, name and what others say of them, not by the reference that a row of `order` is to
prove: a row must still apply when that reference is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hyperpod_governance import naming
from hyperpod_infra.assembly import Family, Node, Resource


@dataclass(frozen=True)
class Kind:
    """Resources that are told by what they are."""

    words: str
    find: Callable[[Family], Iterable[Resource]]

    def before(self, family: Family, _then: Resource) -> Iterable[Resource]:
        """All of them, whatever comes after."""
        return self.find(family)


@dataclass(frozen=True)
class Of:
    """Resources that are told by what they are to the one that comes after."""

    words: str
    before: Callable[[Family, Resource], Iterable[Resource]]


def _typed(words: str, *types: str) -> Kind:
    return Kind(words, lambda family: family.of_type(*types))


def _addon(words: str, *names: str) -> Kind:
    return Kind(
        words,
        lambda family: [
            one for one in family.of_type("AWS::EKS::Addon") if one.properties.get("AddonName") in names
        ],
    )


def _any(words: str, *kinds: Kind) -> Kind:
    return Kind(words, lambda family: [one for kind in kinds for one in kind.find(family)])


def _resources(family: Family, nodes: Iterable[Node], *types: str) -> list[Resource]:
    found = (family.assembly.resource(node) for node in nodes)
    return [one for one in found if not types or one.type in types]


def _without_those_upon(kind: Kind) -> Of:
    """Those of a kind that do not come after the other themselves."""

    def before(family: Family, then: Resource) -> Iterator[Resource]:
        for one in kind.find(family):
            under = one.node.stack == then.node.stack and then.node.logical_id in family.assembly.needs(
                one.node
            )
            if not under:
                yield one

    return Of(kind.words, before)


def _roles_of_service(family: Family, service: str) -> list[Resource]:
    """Roles that a service may take, by the principals of their trust policies."""

    def trusts(role: Resource) -> bool:
        statements = role.properties.get("AssumeRolePolicyDocument", {}).get("Statement", [])
        principals = [one.get("Principal") for one in statements]
        services = [one.get("Service") for one in principals if isinstance(one, dict)]
        return any(service in one if isinstance(one, list) else service == one for one in services)

    return [role for role in family.of_type("AWS::IAM::Role") if trusts(role)]


def _policies_of(family: Family, roles: Iterable[Resource]) -> Iterator[Resource]:
    wanted = {role.node for role in roles}
    for policy in family.of_type("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
        if wanted & (family.targets(policy, "Roles") | family.targets(policy, "RoleName")):
            yield policy


def _role(words: str, service: str) -> Kind:
    """The role that a service takes, with the policies that are attached to it from outside."""

    def find(family: Family) -> list[Resource]:
        roles = _roles_of_service(family, service)
        return [*roles, *_policies_of(family, roles)]

    return Kind(words, find)


# What a custom resource works by; anything else that its properties name is what it works on.
_MACHINERY = (
    "AWS::CodeBuild::Project",
    "AWS::IAM::Role",
    "AWS::Lambda::Alias",
    "AWS::Lambda::Function",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Version",
    "AWS::Logs::LogGroup",
    "AWS::StepFunctions::StateMachine",
)


def _machinery(family: Family, custom: Resource) -> list[Resource]:
    """Functions, state machines, build projects and roles behind a custom resource."""
    found: dict[Node, Resource] = {}
    todo = [custom]
    while todo:
        for one in _resources(family, family.targets(todo.pop()), *_MACHINERY):
            if one.node not in found:
                found[one.node] = one
                todo.append(one)
    return [*found.values()]


def _servants(family: Family, custom: Resource) -> list[Resource]:
    machinery = _machinery(family, custom)
    nodes = {one.node for one in machinery}
    permissions = [
        one
        for one in family.of_type("AWS::Lambda::Permission")
        if nodes & family.targets(one, "FunctionName")
    ]
    return [*machinery, *_policies_of(family, machinery), *permissions]


def _access(family: Family, custom: Resource) -> list[Resource]:
    machinery = {one.node for one in _machinery(family, custom)}
    entries = family.of_type("AWS::EKS::AccessEntry")
    return [one for one in entries if machinery & family.targets(one, "PrincipalArn")]


def _network_of_functions(family: Family, custom: Resource) -> list[Resource]:
    machinery = _machinery(family, custom)
    if not any("VpcConfig" in one.properties for one in machinery):
        return []
    return [*_without_those_upon(NETWORK).before(family, custom)]


def _custom(family: Family) -> list[Resource]:
    every = (one for resources in family.by_type.values() for one in resources)
    return [one for one in every if "ServiceToken" in one.properties]


def _script_buckets(family: Family) -> set[Node]:
    deployments = family.of_type("Custom::CDKBucketDeployment")
    return {node for one in deployments for node in family.targets(one, "DestinationBucketName")}


def _scripts(family: Family) -> list[Resource]:
    buckets = _script_buckets(family)
    policies = [
        one for one in family.of_type("AWS::S3::BucketPolicy") if buckets & family.targets(one, "Bucket")
    ]
    return [*family.of_type("Custom::CDKBucketDeployment"), *_resources(family, buckets), *policies]


def _emptiers(family: Family) -> list[Resource]:
    buckets = _script_buckets(family)
    emptiers = family.of_type("Custom::S3AutoDeleteObjects")
    return [one for one in emptiers if buckets & family.targets(one, "BucketName")]


def _policies_of_emptied_bucket(family: Family, emptier: Resource) -> list[Resource]:
    buckets = family.targets(emptier, "BucketName")
    return [one for one in family.of_type("AWS::S3::BucketPolicy") if buckets & family.targets(one, "Bucket")]


def _mounted(family: Family, cluster: Resource) -> list[Resource]:
    nodes = family.targets(cluster, "InstanceGroups") | family.targets(cluster, "RestrictedInstanceGroups")
    return _resources(family, nodes, "AWS::FSx::FileSystem")


def _accounting(family: Family, cluster: Resource) -> list[Resource]:
    secrets = family.targets(cluster, "Orchestrator", "Slurm", "AccountingDatabase", "SecretArn")
    attached = family.of_type("AWS::SecretsManager::SecretTargetAttachment")
    return [
        *_resources(family, secrets, "AWS::SecretsManager::Secret"),
        *(one for one in attached if secrets & family.targets(one, "SecretId")),
    ]


def _internet_routes(family: Family) -> list[Resource]:
    return [one for one in family.of_type("AWS::EC2::Route") if "GatewayId" in one.properties]


def _releases(words: str, of: Callable[[str], bool]) -> Kind:
    return Kind(
        words,
        lambda family: [
            one
            for one in family.of_type("Custom::AWSCDK-EKS-HelmChart")
            if of(str(one.properties.get("Release")))
        ],
    )


def _coredns_upon_hyperpod(family: Family) -> list[Resource]:
    """Coredns where HyperPod's instances are the only nodes."""
    return [] if family.of_type("AWS::EKS::Nodegroup") else [*COREDNS.find(family)]


def _literal(value: Any) -> str:
    """The texts in a value, one after the other: a JSON text that names resources is an Fn::Join."""
    if isinstance(value, dict | list):
        return "".join(map(_literal, value.values() if isinstance(value, dict) else value))
    return str(value)


def _first_node(family: Family) -> list[Resource]:
    """Conditions that are fulfilled by the first node, as what starts their watches says."""
    handles = set()
    for gate in family.of_type("Custom::HyperPodCapacityGate"):
        if '"waitFor":"node"' in _literal(gate.properties.get("Input")):
            handles |= family.targets(gate, "Input")
    return [one for one in CONDITIONS.find(family) if handles & family.targets(one, "Handle")]


def _conditions_elsewhere(family: Family, then: Resource) -> list[Resource]:
    return [one for one in CONDITIONS.find(family) if one.node.stack != then.node.stack]


def _same_stack(kind: Kind) -> Of:
    return Of(
        kind.words,
        lambda family, then: [one for one in kind.find(family) if one.node.stack == then.node.stack],
    )


def _lustre(family: Family) -> list[Resource]:
    return [one for one in FILE_SYSTEMS.find(family) if one.properties.get("FileSystemType") == "LUSTRE"]


_SERVICE_ACCOUNTS = {
    "amazon-cloudwatch-observability": "cloudwatch-agent",
    "amazon-sagemaker-hyperpod-observability": "hyperpod-observability-operator-otel-collector",
    "amazon-sagemaker-hyperpod-training-operator": "hp-training-operator-controller-manager",
}
"""Service account that an add-on's pods run with."""


def _identities(family: Family, addon: Resource) -> list[Resource]:
    account = _SERVICE_ACCOUNTS.get(addon.properties["AddonName"])
    identities = family.of_type("AWS::EKS::PodIdentityAssociation")
    return [one for one in identities if one.properties.get("ServiceAccount") == account]


HYPERPOD = _typed("HyperPod cluster", "AWS::SageMaker::Cluster")
EKS = _typed("EKS cluster", "AWS::EKS::Cluster")
CLUSTERS = _any("HyperPod cluster, EKS cluster", HYPERPOD, EKS)
SYSTEM_NODES = _typed("managed node group", "AWS::EKS::Nodegroup")

ROUTING = _typed(
    "VPC, subnets, route tables, routes, NAT and internet gateways",
    "AWS::EC2::EIP",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::NatGateway",
    "AWS::EC2::Route",
    "AWS::EC2::RouteTable",
    "AWS::EC2::Subnet",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCGatewayAttachment",
)
ENDPOINTS = _typed("VPC endpoints", "AWS::EC2::VPCEndpoint")
SECURITY_GROUPS = _typed("security groups", "AWS::EC2::SecurityGroup")
RULES = _typed("security group rules", "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress")
NETWORK = _any("network", ROUTING, ENDPOINTS, SECURITY_GROUPS, RULES)
FILE_SYSTEMS = _typed("FSx file systems", "AWS::FSx::FileSystem")

COREDNS = _addon("add-on coredns", "coredns")
NODE_ADDONS = _addon(
    "add-ons vpc-cni, kube-proxy, eks-pod-identity-agent", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"
)
CERT_MANAGER = _addon("add-on cert-manager", "cert-manager")
TRAINING_OPERATOR = _addon(
    "add-on amazon-sagemaker-hyperpod-training-operator", "amazon-sagemaker-hyperpod-training-operator"
)
TASK_GOVERNANCE = _addon("task governance add-on", "amazon-sagemaker-hyperpod-taskgovernance")
OBSERVABILITY = _addon(
    "observability add-ons", "amazon-cloudwatch-observability", "amazon-sagemaker-hyperpod-observability"
)
KUEUE = _releases("Kueue chart", lambda release: release == "kueue")
DEPENDENCIES = _any(
    "dependencies chart",
    _typed("", "Custom::HyperPodDependencies"),
    _releases("", lambda release: release == "dependencies"),
)
SHARED_OBJECTS = _releases("shared objects", lambda release: release == naming.SHARED_RELEASE)
TEAM_OBJECTS = _releases("teams' objects", lambda release: release.startswith(naming.release()))
NEED_NODES = _any(
    "task governance, observability and training add-ons, Kueue chart, coredns without managed nodes",
    TASK_GOVERNANCE,
    OBSERVABILITY,
    TRAINING_OPERATOR,
    KUEUE,
    Kind("", _coredns_upon_hyperpod),
)

SCHEDULER_CONFIG = _typed(
    "scheduler config",
    "AWS::SageMaker::ClusterSchedulerConfig",
    "Custom::HyperPodClusterSchedulerConfig",
)
KUEUE_WAIT = _typed("wait for the Kueue controller", "Custom::AWSCDK-EKS-KubernetesObjectValue")
GUARDS = _typed("guard against refused updates", "Custom::HyperPodUpdateGuard")
CONDITIONS = _typed("wait conditions for capacity", "AWS::CloudFormation::WaitCondition")
QUOTAS = _typed("compute quotas", "AWS::SageMaker::ComputeQuota", "Custom::HyperPodComputeQuota")

POLICIES = "with the policies attached to it"
INSTANCE_ROLE = _role(f"execution role, {POLICIES}", "sagemaker.amazonaws.com")
AUTOSCALER_ROLE = _role(f"cluster role, {POLICIES}", "hyperpod.sagemaker.amazonaws.com")
EKS_ROLE = _role(f"EKS cluster role, {POLICIES}", "eks.amazonaws.com")

CUSTOM_RESOURCES = Kind("custom resources", _custom)
SERVANTS = Of(f"functions, state machines, build projects behind it, their roles {POLICIES}", _servants)
ACCESS = Of("EKS access entries of the roles behind it", _access)
NETWORK_OF_FUNCTIONS = Of("network of the functions behind it", _network_of_functions)

KMS_KEY = _same_stack(_typed("KMS key", "AWS::KMS::Key"))
RULES_OF_NETWORK = _without_those_upon(RULES)
INTERNET_GATEWAY = _typed("attachment of the internet gateway", "AWS::EC2::VPCGatewayAttachment")
INTERNET_ROUTES = Kind("routes to an internet gateway", _internet_routes)
INTERNET_USERS = _any(
    "routes to an internet gateway, Elastic IPs", INTERNET_ROUTES, _typed("", "AWS::EC2::EIP")
)
NAT = _typed("NAT gateway", "AWS::EC2::NatGateway")
EKS_PARTS = _typed(
    "EKS add-ons, access entries, pod identity associations, managed node groups",
    "AWS::EKS::AccessEntry",
    "AWS::EKS::Addon",
    "AWS::EKS::Nodegroup",
    "AWS::EKS::PodIdentityAssociation",
)
NODES = _any("HyperPod cluster, managed node group", HYPERPOD, SYSTEM_NODES)
SCRIPTS = Kind("lifecycle scripts: bucket, bucket policy, upload", _scripts)
EMPTIERS = Kind("what empties the scripts' bucket", _emptiers)
EMPTIED_BUCKET_POLICY = Of("bucket policy", _policies_of_emptied_bucket)
LUSTRE = Kind("FSx for Lustre file systems", _lustre)
MOUNTED = Of("FSx file systems that its instances mount", _mounted)
ACCOUNTING = Of("secret of the accounting database, with its attachment", _accounting)
IDENTITIES = Of("pod identity association of its service account", _identities)
NEED_IDENTITY = _any("training operator, observability add-ons", TRAINING_OPERATOR, OBSERVABILITY)
WORKSPACE = _typed("Prometheus workspace", "AWS::APS::Workspace")
FIRST_NODE = Kind("wait condition for the first node", _first_node)
CAPACITY = Of("wait conditions for capacity in other stacks", _conditions_elsewhere)
GOVERNANCE = _any("scheduler config, compute quotas", SCHEDULER_CONFIG, QUOTAS)
QUOTAS_OF_STACK = _same_stack(QUOTAS)
OBJECTS = _any("shared objects, teams' objects", SHARED_OBJECTS, TEAM_OBJECTS)
GUARDS_OF_STACK = _same_stack(GUARDS)
GUARDED = _any(
    "EKS and HyperPod clusters, task governance add-on, scheduler config, compute quotas, Kueue",
    EKS,
    HYPERPOD,
    TASK_GOVERNANCE,
    GOVERNANCE,
    KUEUE,
)
