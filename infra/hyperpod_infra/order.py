"""What must exist before what, and what must outlive what: one table, proven on every synthesized template.

A row of `ORDER` says which resources come first and which after. `check` proves each row by reachability in
the templates' dependency graph (see `assembly`), so that it holds in whatever order CloudFormation creates or
deletes: a creation may rest on the order in which the CDK CLI deploys stacks, a deletion only on what
CloudFormation itself enforces, because anybody can delete a stack in the console.

The proof is about whole stacks that come and go. It says nothing of two resources in different stacks that
leave both templates in one deployment: the CDK CLI then updates the lower stack first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hyperpod_infra import kinds
from hyperpod_infra.assembly import Assembly, Family, Node
from hyperpod_infra.kinds import Kind, Of

Holds = Literal["creation", "deletion", "both"]
Mark = Literal["S", "D", "R", "F", "I"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One order. It does not apply where there is no `first`, or nothing that comes after it.

    Attributes:
        id: Its name in messages and documents.
        first: What is complete before `then` is created, and there until `then` is gone.
        then: What comes after; None: the stack itself goes, and `first` stays.
        holds: Whether it is about creation, deletion or both.
        why: What happens otherwise.
        source: Where that is said.
        mark: How sure that is. D: documentation of AWS; R: code that AWS publishes; S: read from schemas or
            the CDK's output; F: one report from the field; I: inferred.
    """

    id: str
    first: Kind | Of
    then: Kind | None
    holds: Holds = "both"
    why: str
    source: str
    mark: Mark


@dataclass(frozen=True)
class Violation:
    """A row that a template does not hold.

    Attributes:
        row: The row.
        first: What should come first and go last.
        then: What should come after; the stack (no logical id) if `first` should stay.
        failed: Whether the creation or the deletion is not in order.
        paths: Construct paths of both, or empty texts.
    """

    row: Row
    first: Node
    then: Node
    failed: Literal["creation", "deletion"]
    paths: tuple[str, str]

    def __str__(self) -> str:
        """Both resources, what goes wrong, and what to do."""
        first, then = map(_words, (self.first, self.then), self.paths)
        verb = "be created before" if self.failed == "creation" else "be deleted after"
        return f"{self.row.id}: {first} need not {verb} {then}. {self.row.why} {self._advice()}"

    def _advice(self) -> str:
        if not self.then.logical_id:
            return "Give it the removal policy RETAIN."
        if self.first.stack == self.then.stack:
            return "Make the second depend on the first (node.add_dependency)."
        if self.failed == "creation":
            return (
                "Make the second stack depend on the first (add_stack_dependency), or let it import a value."
            )
        return (
            "Let the second stack import a value of the first: a dependency of stacks is the CDK CLI's alone."
        )


def _words(node: Node, path: str) -> str:
    name = f"{node.logical_id} ({path})" if path else node.logical_id
    return f"{name} of stack {node.stack}" if name else f"stack {node.stack}"


def check(assembly: Path) -> list[Violation]:
    """Prove every row on a cloud assembly.

    Args:
        assembly: Directory with `manifest.json` and the templates.

    Returns:
        What is not proven, in the order of the table.

    Raises:
        OSError: a file is missing.
        ValueError: a file is no JSON.
    """
    return list(violations(Assembly.read(assembly)))


def prove(assembly: Path) -> None:
    """Refuse a cloud assembly that does not hold the table: whoever deploys it could not get out again.

    Raises:
        ValueError: a line for each violation.
    """
    if found := check(assembly):
        raise ValueError(
            "the templates break an order that deployments rest on; this is a fault of hpf, not of the "
            "config. Please report it with these lines:\n" + "\n".join(map(str, found))
        )


def violations(assembly: Assembly, rows: Iterable[Row] | None = None) -> Iterator[Violation]:
    """Give what is not proven of these rows, or of all."""
    families = list(assembly.families())
    for row in ORDER if rows is None else rows:
        for family in families:
            for first, then in pairs(row, family):
                if failed := _failure(row, assembly, first, then):
                    paths = assembly.construct_path(first), assembly.construct_path(then)
                    yield Violation(row, first, then, failed, paths)


def pairs(row: Row, family: Family) -> Iterator[tuple[Node, Node]]:
    """Give what must come first and what after, wherever a row applies."""
    if row.then is None:
        assert isinstance(row.first, Kind)
        for first in row.first.find(family):
            yield first.node, Node(first.node.stack, "")
        return
    for then in row.then.find(family):
        for node in sorted({one.node for one in row.first.before(family, then)} - {then.node}):
            yield node, then.node


def _failure(row: Row, assembly: Assembly, first: Node, then: Node) -> Literal["creation", "deletion"] | None:
    if row.holds != "deletion" and not assembly.created_before(first, then):
        return "creation"
    if row.holds != "creation" and not assembly.deleted_after(first, then):
        return "deletion"
    return None


_HYPERPOD_GUIDE = "HyperPod user guide, EKS prerequisites"
_AWS_TERRAFORM = "awslabs/awsome-distributed-ai, Terraform modules: their order"
_FIELD = "alchemy-run/alchemy, pull request 924: live errors"

ORDER: tuple[Row, ...] = (
    Row(
        id="routing-before-clusters",
        first=kinds.ROUTING,
        then=kinds.CLUSTERS,
        why="Instances without a route fetch neither scripts nor images; a cluster that has lost its subnets "
        "stays in Deleting.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="endpoints-before-clusters",
        first=kinds.ENDPOINTS,
        then=kinds.CLUSTERS,
        why="In a network without NAT, instances cannot join, pull images or read scripts without them.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="security-groups-before-clusters",
        first=kinds.SECURITY_GROUPS,
        then=kinds.CLUSTERS,
        why="A security group goes only when no network interface uses it, and a cluster keeps its own.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="rules-before-clusters",
        first=kinds.RULES_OF_NETWORK,
        then=kinds.CLUSTERS,
        why="EFA's health check fails without the rules to and from the group itself, and instances do not "
        "reach the control plane.",
        source=_HYPERPOD_GUIDE,
        mark="D",
    ),
    Row(
        id="gateway-before-internet",
        first=kinds.INTERNET_GATEWAY,
        then=kinds.INTERNET_USERS,
        why="EC2 refuses such a route, and the release of an address, while the gateway is not attached.",
        source="CloudFormation user guide, DependsOn attribute: VPC-gateway attachment",
        mark="D",
    ),
    Row(
        id="internet-before-nat",
        first=kinds.INTERNET_ROUTES,
        then=kinds.NAT,
        why="Instances that still run would lose their way out.",
        source="CloudFormation user guide, AWS::EC2::NatGateway",
        mark="D",
    ),
    Row(
        id="eks-role-before-eks",
        first=kinds.EKS_ROLE,
        then=kinds.EKS,
        why="EKS makes and removes the control plane's network interfaces with this role.",
        source="EKS user guide, cluster IAM role",
        mark="D",
    ),
    Row(
        id="key-before-eks",
        first=kinds.KMS_KEY,
        then=kinds.EKS,
        why="A cluster whose key is gone cannot read its secrets and does not recover.",
        source="EKS user guide, envelope encryption",
        mark="D",
    ),
    Row(
        id="eks-before-its-parts",
        first=kinds.EKS,
        then=kinds.EKS_PARTS,
        why="EKS knows them only by their cluster; those that are left keep it from going.",
        source="EKS API reference",
        mark="D",
    ),
    Row(
        id="eks-before-hyperpod",
        first=kinds.EKS,
        then=kinds.HYPERPOD,
        why="HyperPod joins its instances to this cluster, and takes them out of it when it goes.",
        source=_HYPERPOD_GUIDE,
        mark="D",
    ),
    Row(
        id="node-add-ons-before-nodes",
        first=kinds.NODE_ADDONS,
        then=kinds.NODES,
        why="Nodes without them are never Ready; pods that are drained still need their network.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="dependencies-before-hyperpod",
        first=kinds.DEPENDENCIES,
        then=kinds.HYPERPOD,
        why='CreateCluster refuses: "Amazon EKS orchestrator cluster is missing required dependencies". The '
        "agents watch the instances until these are gone.",
        source=_HYPERPOD_GUIDE,
        mark="D",
    ),
    Row(
        id="execution-role-before-hyperpod",
        first=kinds.INSTANCE_ROLE,
        then=kinds.HYPERPOD,
        why="HyperPod makes and removes the instances' network interfaces with this role: without its "
        "permissions a cluster is not created, or stays in Deleting.",
        source=_FIELD,
        mark="F",
    ),
    Row(
        id="cluster-role-before-hyperpod",
        first=kinds.AUTOSCALER_ROLE,
        then=kinds.HYPERPOD,
        why="Karpenter adds and removes instances with this role as long as the cluster is there.",
        source="HyperPod user guide, autoscaling",
        mark="D",
    ),
    Row(
        id="scripts-before-hyperpod",
        first=kinds.SCRIPTS,
        then=kinds.HYPERPOD,
        why="An instance without its script fails, also one that is replaced just before the cluster goes.",
        source="HyperPod user guide, lifecycle scripts",
        mark="D",
    ),
    Row(
        id="scripts-emptied-after-hyperpod",
        first=kinds.EMPTIERS,
        then=kinds.HYPERPOD,
        holds="deletion",
        why="It empties the bucket when it is deleted; an instance replaced after that fails.",
        source="HyperPod user guide, lifecycle scripts; aws-cdk-lib, auto_delete_objects",
        mark="I",
    ),
    Row(
        id="bucket-policy-before-emptier",
        first=kinds.EMPTIED_BUCKET_POLICY,
        then=kinds.EMPTIERS,
        why="The policy is what lets it; a bucket that is not empty is not deleted.",
        source="aws-cdk-lib, auto_delete_objects",
        mark="S",
    ),
    Row(
        id="rules-before-file-system",
        first=kinds.RULES_OF_NETWORK,
        then=kinds.LUSTRE,
        holds="creation",
        why="FSx for Lustre refuses a security group that does not permit Lustre's port 988 to itself yet.",
        source="FSx for Lustre user guide, creating a file system fails",
        mark="D",
    ),
    Row(
        id="file-system-before-hyperpod",
        first=kinds.MOUNTED,
        then=kinds.HYPERPOD,
        why="Instances mount it when they start.",
        source="HyperPod API reference, ClusterFsxLustreConfig",
        mark="D",
    ),
    Row(
        id="file-system-kept",
        first=kinds.FILE_SYSTEMS,
        then=None,
        holds="deletion",
        why="It holds the users' data.",
        source="decision 0004",
        mark="I",
    ),
    Row(
        id="accounting-before-hyperpod",
        first=kinds.ACCOUNTING,
        then=kinds.HYPERPOD,
        why="The controller reads it when it starts slurmdbd.",
        source="HyperPod API reference, ClusterSlurmConfig: AccountingDatabase",
        mark="I",
    ),
    Row(
        id="hyperpod-before-what-needs-nodes",
        first=kinds.HYPERPOD,
        then=kinds.NEED_NODES,
        why="Their pods stay pending, and the add-on degraded or the release failed, while no node is there; "
        "what is uninstalled without nodes does not finish.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="system-nodes-before-coredns",
        first=kinds.SYSTEM_NODES,
        then=kinds.COREDNS,
        why="Coredns is degraded until a node is there.",
        source="terraform-aws-modules/terraform-aws-eks, issue 3272",
        mark="F",
    ),
    Row(
        id="cert-manager-before-training-operator",
        first=kinds.CERT_MANAGER,
        then=kinds.TRAINING_OPERATOR,
        why="The operator's webhooks take their certificates from it.",
        source="HyperPod user guide, training operator",
        mark="D",
    ),
    Row(
        id="pod-identity-before-add-on",
        first=kinds.IDENTITIES,
        then=kinds.NEED_IDENTITY,
        why="The add-on's pods start without credentials; associations within the add-on break with its "
        "releases.",
        source="awslabs/awsome-distributed-ai, issues 1075 and 1076",
        mark="R",
    ),
    Row(
        id="workspace-before-add-on",
        first=kinds.WORKSPACE,
        then=kinds.OBSERVABILITY,
        why="The add-on is configured with the workspace's address.",
        source=_AWS_TERRAFORM,
        mark="I",
    ),
    Row(
        id="workspace-kept",
        first=kinds.WORKSPACE,
        then=None,
        holds="deletion",
        why="It holds the metrics of the past.",
        source="decision 0004",
        mark="I",
    ),
    Row(
        id="add-on-before-scheduler-config",
        first=kinds.TASK_GOVERNANCE,
        then=kinds.SCHEDULER_CONFIG,
        why="A scheduler config that is made before the add-on runs is CreateFailed and must be deleted.",
        source="aws/sagemaker-hyperpod-cli, task governance",
        mark="R",
    ),
    Row(
        id="add-on-before-quotas",
        first=kinds.TASK_GOVERNANCE,
        then=kinds.QUOTAS,
        why="The add-on turns a quota into a queue, and takes the queue away.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="scheduler-config-before-quotas",
        first=kinds.SCHEDULER_CONFIG,
        then=kinds.QUOTAS,
        why="Quotas take effect by the priorities and the sharing of the scheduler config.",
        source="schema of AWS::SageMaker::ComputeQuota",
        mark="I",
    ),
    Row(
        id="hyperpod-before-governance",
        first=kinds.HYPERPOD,
        then=kinds.GOVERNANCE,
        why="DeleteCluster fails while a quota or a scheduler config is left.",
        source="SageMaker API reference, DeleteCluster",
        mark="D",
    ),
    Row(
        id="quotas-before-team-objects",
        first=kinds.QUOTAS_OF_STACK,
        then=kinds.TEAM_OBJECTS,
        holds="creation",
        why="The service makes a team's namespace with its quota; before that, nothing can be put into it.",
        source="HyperPod user guide, task governance",
        mark="D",
    ),
    Row(
        id="hyperpod-before-waits",
        first=kinds.HYPERPOD,
        then=kinds.CONDITIONS,
        holds="creation",
        why="A wait for the instances of a cluster that is still being created uses its time up.",
        source="CloudFormation user guide, wait conditions",
        mark="I",
    ),
    Row(
        id="first-node-before-what-needs-nodes",
        first=kinds.FIRST_NODE,
        then=kinds.NEED_NODES,
        holds="creation",
        why="With continuous provisioning a cluster is complete before its first instance; an add-on that "
        "finds none fails its stack.",
        source="decision 0005; " + _AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="capacity-before-what-needs-nodes",
        first=kinds.CAPACITY,
        then=kinds.NEED_NODES,
        holds="creation",
        why="Stacks upon a cluster without the minimum that was asked for would be green.",
        source="decision 0005",
        mark="I",
    ),
    Row(
        id="add-on-before-kueue-wait",
        first=kinds.TASK_GOVERNANCE,
        then=kinds.KUEUE_WAIT,
        holds="creation",
        why="The add-on brings the controller that is waited for.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="kueue-wait-before-governance",
        first=kinds.KUEUE_WAIT,
        then=kinds.GOVERNANCE,
        holds="creation",
        why="The add-on is active before its Kueue controller answers; what is made before that fails.",
        source=_AWS_TERRAFORM,
        mark="R",
    ),
    Row(
        id="guard-before-what-it-guards",
        first=kinds.GUARDS_OF_STACK,
        then=kinds.GUARDED,
        holds="creation",
        why="An update that would be refused, or would lose data, must fail before anything is touched; "
        "CloudFormation updates in the order of creation.",
        source="decision 0007",
        mark="I",
    ),
    Row(
        id="kueue-before-objects",
        first=kinds.KUEUE,
        then=kinds.OBJECTS,
        why="Kueue's webhooks admit the objects, and only Kueue takes away the finalizers of queues.",
        source="kubernetes-sigs/kueue, issues 2835 and 2921",
        mark="R",
    ),
    Row(
        id="shared-objects-before-team-objects",
        first=kinds.SHARED_OBJECTS,
        then=kinds.TEAM_OBJECTS,
        why="Teams' queues name shared flavors and cohorts; a flavor in use is not deleted.",
        source="Kueue documentation, ResourceFlavor",
        mark="D",
    ),
    Row(
        id="servants-before-custom-resources",
        first=kinds.SERVANTS,
        then=kinds.CUSTOM_RESOURCES,
        why="CloudFormation calls the function when the resource is created and again when it is deleted; "
        "without an answer the stack waits an hour and fails.",
        source="CloudFormation user guide, custom resources",
        mark="D",
    ),
    Row(
        id="access-before-custom-resources",
        first=kinds.ACCESS,
        then=kinds.CUSTOM_RESOURCES,
        why="Charts and objects are installed, and uninstalled, with this access.",
        source="EKS user guide, access entries",
        mark="D",
    ),
    Row(
        id="network-before-functions-in-it",
        first=kinds.NETWORK_OF_FUNCTIONS,
        then=kinds.CUSTOM_RESOURCES,
        why="Such a function reaches the Kubernetes API, S3 and CloudFormation by this network only.",
        source="Lambda developer guide, VPC networking",
        mark="D",
    ),
)
