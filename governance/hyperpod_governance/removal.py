"""How a team or a cluster is taken away: the steps in their order, as config changes and commands.

Nothing here runs or writes anything. The order is what Kueue and the service ask for: a queue is held before
it is drained, drained before its quota goes, and quotas go before the cluster: while any is left, HyperPod
refuses to delete it. What holds data goes only by a command of its own, which is marked.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hyperpod_config.edit import Edit, Hold, RemoveAllocation, RemoveDocument
from hyperpod_config.model import Team
from hyperpod_governance import naming
from hyperpod_governance.model import Owner, ResolvedCluster, ResolvedFleet

Risk = Literal["jobs", "data"]

DRAIN_TIMEOUT = "24h"
"""How long the commands wait for running jobs; whoever copies them may choose another time."""

_QUEUES = "clusterqueues.kueue.x-k8s.io"
_WORKLOADS = "workloads.kueue.x-k8s.io"
_WORKLOAD_COLUMNS = (
    "NAMESPACE:.metadata.namespace,KIND:.metadata.ownerReferences[0].kind,"
    "NAME:.metadata.ownerReferences[0].name,"
    'ADMITTED:.status.conditions[?(@.type=="Admitted")].status,'
    'FINISHED:.status.conditions[?(@.type=="Finished")].status'
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command to copy.

    Attributes:
        cluster: The cluster it is about.
        run: The command, for a POSIX shell.
        purpose: What it does or shows.
        risk: ``jobs`` if it may stop running jobs, ``data`` if it deletes data.
    """

    cluster: str
    run: str
    purpose: str
    risk: Risk | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        edits: The change of the config: to be reviewed and merged, then deployed with ``commands``.
        notes: What else to know: who has to agree, what gets in the way.
        done_when: How to see that it is done.
        done: The config shows it as done already; whether it is deployed too, the config cannot know.
    """

    id: Literal["hold", "drain", "quota", "namespace", "data", "destroy", "file-systems", "network", "config"]
    title: str
    why: str
    done_when: str
    edits: tuple[Edit, ...] = ()
    commands: tuple[Command, ...] = ()
    notes: tuple[str, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """All steps, and what is still there after the last one."""

    kind: Literal["team", "cluster"]
    name: str
    clusters: tuple[str, ...]
    steps: tuple[Step, ...]
    kept: tuple[str, ...]

    @property
    def due(self) -> Step:
        """The step with the next change of the config."""
        return next(step for step in self.steps if step.edits)


@dataclass(frozen=True, slots=True)
class TeamStack:
    """One of a cluster's stacks of teams.

    Attributes:
        teams: Teams whose queues are made by it.
        leavers: Teams whose removal changes it: its own, and those with people whose access lies in it.
    """

    name: str
    teams: frozenset[str]
    leavers: frozenset[str]


class Site:
    """A cluster and the commands that are about it.

    Args:
        fleet: The fleet.
        cluster: The cluster.
        stacks: Its stacks of teams, in the order of their deployment.
        config: The config directory, as ``cdk`` is to be given it.
    """

    def __init__(
        self, fleet: ResolvedFleet, cluster: ResolvedCluster, stacks: Sequence[TeamStack], config: str
    ) -> None:
        self.fleet = fleet.name
        self.cluster = cluster
        self.name = cluster.name
        self.spec = cluster.config.spec
        self.stacks = stacks
        self.context = "" if config == "config" else f" -c config={shlex.quote(config)}"
        existing = self.spec.orchestrator.eks.existing if self.spec.orchestrator.eks else None
        self.eks_name = existing.cluster_name if existing else cluster.aws_name
        self.makes_eks = self.spec.orchestrator.eks is not None and existing is None

    @property
    def owner(self) -> Owner | None:
        """Who owns the Kueue objects; None without governance."""
        return self.cluster.governance.owner if self.cluster.governance else None

    def namespace(self, team: str) -> str:
        """Namespace of a team."""
        return naming.namespace(self._owner, team)

    def queue(self, team: str) -> str:
        """ClusterQueue of a team."""
        return naming.cluster_queue(self._owner, team)

    @property
    def _owner(self) -> Owner:
        assert self.owner is not None  # a rule refuses allocations on a cluster without governance
        return self.owner

    def stack(self, part: naming.StackPart) -> str:
        """Name of a stack."""
        return naming.stack(self.fleet, self.name, part)

    def run(self, words: str, purpose: str, risk: Risk | None = None) -> Command:
        """Give a command in other words than those below."""
        return Command(self.name, words, purpose, risk)

    def cdk(self, verb: str, stack: str, purpose: str, risk: Risk | None = None) -> Command:
        """Give a command of the CDK CLI for this stack alone.

        Else ``cdk deploy`` would take the stacks below along, and ``cdk destroy`` those above.
        """
        return self.run(f"cdk {verb} --exclusively{self.context} {stack}", purpose, risk)

    def aws(self, words: str, purpose: str, risk: Risk | None = None) -> Command:
        """Give a command of the AWS CLI."""
        return self.run(f"aws {words} --region {self.spec.region}", purpose, risk)

    def kubectl(self, words: str, purpose: str, risk: Risk | None = None) -> Command:
        """Give a command of kubectl, which ``login`` comes before."""
        return self.run(f"kubectl --context {self.eks_name} {words}", purpose, risk)

    def login(self) -> Command:
        """Let kubectl reach the cluster."""
        words = f"eks update-kubeconfig --name {self.eks_name} --alias {self.eks_name}"
        return self.aws(words, "lets kubectl reach the cluster")

    def deploy(self, stacks: Iterable[TeamStack]) -> list[Command]:
        """Deploy stacks of teams."""
        return [self.cdk("deploy", stack.name, "deploys the change and nothing else") for stack in stacks]

    def of_cluster(self, operation: str, query: str, purpose: str) -> Command:
        """List what belongs to the HyperPod cluster."""
        arn = (
            f'"$(aws sagemaker describe-cluster --cluster-name {self.cluster.aws_name}'
            f' --query ClusterArn --output text --region {self.spec.region})"'
        )
        return self.aws(f'sagemaker {operation} --cluster-arn {arn} --query "{query}" --output text', purpose)

    def show_queues(self, teams: Sequence[str], purpose: str) -> Command:
        """Show what became of a team's queue; of all queues if there are several teams."""
        one = teams[0] if len(teams) == 1 else None
        if self.owner == "kueue":
            columns = "NAME:.metadata.name,STOPPED:.spec.stopPolicy"
            which = f"{self.queue(one)} --ignore-not-found " if one else ""
            return self.kubectl(f"get {_QUEUES} {which}-o custom-columns={columns}", purpose)
        which = f"?Name=='{one}'" if one else ""
        query = f"ComputeQuotaSummaries[{which}].[Name,ComputeQuotaId,ActivationState,Status]"
        return self.of_cluster("list-compute-quotas", query, purpose)

    def show_workloads(self, where: str) -> Command:
        """List jobs."""
        return self.kubectl(
            f"get {_WORKLOADS} {where} -o custom-columns='{_WORKLOAD_COLUMNS}'",
            "lists the jobs: running ones are admitted and not finished, waiting ones are neither",
        )

    def wait(self, queues: str) -> Command:
        """Wait until queues have run dry."""
        return self.kubectl(
            f"wait {_QUEUES} {queues} --for=jsonpath='{{.status.reservingWorkloads}}'=0"
            f" --timeout={DRAIN_TIMEOUT}",
            f"returns when no job holds quota; fails after {DRAIN_TIMEOUT}",
        )

    def evict(self, team: str) -> Command:
        """Let Kueue evict what runs; only for queues that this tool owns."""
        policy = '{"spec":{"stopPolicy":"HoldAndDrain"}}'
        return self.kubectl(
            f"patch {_QUEUES} {self.queue(team)} --type merge -p '{policy}'",
            "only if nobody can wait: evicts the running jobs",
            risk="jobs",
        )


def remove_team(
    fleet: ResolvedFleet,
    team: Team,
    clusters: Sequence[str] | None,
    stacks: Mapping[str, Sequence[TeamStack]],
    config: str,
) -> Removal:
    """Give the steps that remove a team.

    Args:
        fleet: The fleet as it is.
        team: The team.
        clusters: Names of the clusters it leaves; None: it leaves all, and its document goes.
        stacks: The stacks of teams of each cluster, in the order in which they are to be deployed.
        config: The config directory, as ``cdk`` is to be given it.
    """
    leaving = [each.cluster for each in team.spec.allocations if clusters is None or each.cluster in clusters]
    sites = [
        Site(fleet, cluster, stacks[cluster.name], config)
        for cluster in fleet.clusters
        if cluster.name in leaving
    ]
    gone: tuple[Edit, ...] = (RemoveDocument("Team", team.name),)
    if clusters is not None:
        gone = tuple(RemoveAllocation(team.name, name) for name in leaving)
    quota = _delete_quota(team, sites, gone)
    steps = (hold([team], sites), _drain(team, sites), quota, _namespace(team, sites)) if sites else (quota,)
    kept = tuple(
        f"namespace {site.namespace(team.name)} on cluster {site.name}"
        + (", unless the service deletes it" if site.owner == "sagemaker" else "")
        for site in sites
    )
    return Removal("team", team.name, tuple(leaving), steps, kept)


def hold(teams: Sequence[Team], sites: Sequence[Site]) -> Step:
    """Hold those of the teams' queues on these clusters that are not held yet."""
    edits: list[Edit] = []
    commands: list[Command] = []
    for site in sites:
        states = {
            team.name: each.activation_state
            for team in teams
            for each in team.spec.allocations
            if each.cluster == site.name
        }
        edits += [Hold(name, site.name) for name, state in states.items() if state != "Disabled"]
        commands += site.deploy(stack for stack in site.stacks if not stack.teams.isdisjoint(states))
        if site.owner == "kueue":
            commands.append(site.login())
        commands.append(site.show_queues(list(states), "shows what is held"))
    return Step(
        id="hold",
        title="Hold the queue" if len(teams) == 1 else "Hold the queues",
        why="A held queue starts nothing new, so that it runs dry. To have been held is also the consent "
        "without which no quota is deleted.",
        edits=tuple(edits),
        commands=tuple(commands),
        # [U] for owner sagemaker no public source says what becomes of running tasks.
        notes=(
            "Running jobs of a held queue go on (Kueue, stopPolicy Hold). Owner sagemaker: AWS does not say "
            "whether they do; look right after the deployment.",
        ),
        done_when="the state shown is Disabled (owner sagemaker) or Hold (owner kueue)",
        done=not edits,
    )


def _drain(team: Team, sites: Sequence[Site]) -> Step:
    commands: list[Command] = []
    for site in sites:
        namespace = site.namespace(team.name)
        commands += [
            site.login(),
            site.show_workloads(f"-n {namespace}"),
            site.wait(site.queue(team.name)),
            site.kubectl(f"get pods -n {namespace}", "shows what runs, whether Kueue knows of it or not"),
        ]
        if site.owner == "kueue":
            commands.append(site.evict(team.name))
    return Step(
        id="drain",
        title="Let the jobs finish",
        why="A ClusterQueue with running jobs hangs in its deletion; jobs that wait for a queue that is gone "
        "wait for ever.",
        commands=tuple(commands),
        notes=(
            f"Agree with team {team.name} on a day. Running jobs finish, or the team deletes them. Waiting "
            "jobs never start any more: the team deletes them, or moves them to another queue.",
            "What the team wants to keep of its namespace it copies now: the next step ends its access.",
        ),
        done_when="the wait returns, and no job is listed that is not finished",
    )


def _delete_quota(team: Team, sites: Sequence[Site], gone: tuple[Edit, ...]) -> Step:
    commands: list[Command] = []
    for site in sites:
        commands += site.deploy(stack for stack in site.stacks if team.name in stack.leavers)
        commands.append(site.show_queues([team.name], "shows nothing when it is gone"))
    notes = []
    people = sorted(set(team.spec.access.principal_arns))
    if sites and people:
        notes.append(f"With it goes the access of {', '.join(people)}, as far as it is by this team.")
    if any(site.owner == "kueue" for site in sites):
        notes.append(
            "A ClusterQueue that is still there has a job that is not finished: see the step before."
        )
    why = (
        "With the quota go the team's queues, its role bindings and its access; others may use the capacity."
    )
    return Step(
        id="quota",
        title="Delete the quota" if sites else "Remove the team",
        why=why if sites else "It has no allocation, so that nothing of it is deployed.",
        edits=gone,
        commands=tuple(commands),
        notes=tuple(notes),
        done_when="the config no longer has it" + (", and nothing is shown of its queue" if sites else ""),
    )


def _namespace(team: Team, sites: Sequence[Site]) -> Step:
    commands: list[Command] = []
    for site in sites:
        namespace = site.namespace(team.name)
        commands += [
            site.kubectl(
                "api-resources --verbs=list --namespaced -o name | xargs -n 1 kubectl --context "
                f"{site.eks_name} get --show-kind --ignore-not-found -n {namespace}",
                "lists all that is left in it",
            ),
            site.kubectl(
                f"delete namespace {namespace}",
                "deletes all of that, and the volumes whose reclaim policy is Delete",
                risk="data",
            ),
        ]
    notes = ["No deployment deletes a namespace that this tool made."]
    if any(site.owner == "sagemaker" for site in sites):
        # [U] no public source says what DeleteComputeQuota does with the namespace.
        notes = [
            "Owner sagemaker: the service made the namespace, and AWS does not say whether it deletes it "
            "with the quota. This tool never does."
        ]
    return Step(
        id="namespace",
        title="The namespace stays until somebody deletes it",
        why="It may hold volumes, secrets and results.",
        commands=tuple(commands),
        notes=tuple(notes),
        done_when="`kubectl get namespaces` no longer lists it, or you decided to keep it",
    )
