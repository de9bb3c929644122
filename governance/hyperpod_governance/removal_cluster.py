"""The steps that take a cluster away: see ``removal``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperpod_config.edit import Edit, RemoveAllocation, RemoveDocument
from hyperpod_config.model import FileSystem, Team
from hyperpod_governance import naming, stack_parts
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_governance.removal import DRAIN_TIMEOUT, Command, Removal, Site, Step, TeamStack, hold


def remove_cluster(
    fleet: ResolvedFleet,
    cluster: ResolvedCluster,
    stacks: Sequence[TeamStack],
    config: str,
    delete_data: bool = False,
) -> Removal:
    """Give the steps that remove a cluster.

    Args:
        fleet: The fleet as it is.
        cluster: The cluster.
        stacks: Its stacks of teams, in the order of their deployment.
        config: The config directory, as ``cdk`` is to be given it.
        delete_data: Say how to delete the file systems that were made with the cluster.
    """
    site = Site(fleet, cluster, stacks, config)
    teams = [
        team
        for team in fleet.config.teams
        if any(each.cluster == cluster.name for each in team.spec.allocations)
    ]
    made = site.spec.network.create is not None
    keeps_data = bool(site.spec.file_systems) and not delete_data
    steps = [
        *([hold(teams, [site])] if teams else []),
        _drain_slurm(site) if site.spec.orchestrator.slurm else _drain_eks(site),
        _data(site),
        _destroy(site),
        *([_file_systems(site)] if site.spec.file_systems and delete_data else []),
        *([_network_stays(site) if keeps_data else _network(site)] if made else []),
        _config(site, teams),
    ]
    return Removal("cluster", site.name, (site.name,), tuple(steps), tuple(_kept(site, delete_data)))


def destroyed_stacks(site: Site) -> list[str]:
    """Names of the stacks above the network, in the order in which they are destroyed."""
    monitoring = [site.stack("monitoring")] if stack_parts.has_monitoring(site.spec) else []
    capacity = [site.stack("capacity")] if stack_parts.has_capacity(site.spec) else []
    return [*monitoring, *(each.name for each in reversed(site.stacks)), *capacity, site.stack("cluster")]


def _left_behind(site: Site) -> list[str]:
    """Names of stacks that the config may have had: no deployment deletes one that it has no more."""
    there = destroyed_stacks(site)
    parts: tuple[naming.StackPart, ...] = ("monitoring", "capacity")
    return [name for name in map(site.stack, parts) if name not in there]


def _drain_eks(site: Site) -> Step:
    commands = [site.login()]
    if site.owner is not None:
        commands += [site.show_workloads("-A"), site.wait("--all")]
    running = "get pods -A --field-selector=status.phase=Running"
    commands.append(site.kubectl(running, "shows what runs, whether Kueue knows of it or not"))
    return Step(
        id="drain",
        title="Let the jobs finish",
        why="What runs when the nodes go is lost. A ClusterQueue goes only when its last job is done, and "
        "once Kueue is uninstalled nothing lets go of those that are left.",
        commands=tuple(commands),
        notes=("Agree with every team on a day. What still runs then, its team deletes.",),
        done_when="the wait returns and only pods of the system run"
        if site.owner
        else "only pods of the system run",
    )


def _drain_slurm(site: Site) -> Step:
    busy = '[ -n "$(squeue -h -t running,completing)" ]'
    return Step(
        id="drain",
        title="Let the jobs finish",
        why="What runs when the nodes go is lost.",
        commands=(
            site.aws(
                f"sagemaker list-cluster-nodes --cluster-name {site.cluster.aws_name}",
                "names the instance of the controller, where the commands below are to be run",
            ),
            site.run(
                "for p in $(sinfo -h -o %R | sort -u); do "
                'sudo scontrol update PartitionName="$p" State=INACTIVE; done',
                "on the controller: nothing is queued or started any more, running jobs go on",
            ),
            site.run(
                f"timeout {DRAIN_TIMEOUT} bash -c 'while {busy}; do sleep 60; done'",
                f"on the controller: returns when no job runs; fails after {DRAIN_TIMEOUT}",
            ),
        ),
        notes=(
            "Agree with the users on a day. What still runs then, its user cancels.",
            "The controller is reached with `aws ssm start-session --target "
            "sagemaker-cluster:CLUSTERID_GROUP-INSTANCEID`.",
        ),
        done_when="squeue lists no running job",
    )


def _data(site: Site) -> Step:
    commands = []
    if site.spec.file_systems:
        query = "StackResourceSummaries[?ResourceType=='AWS::FSx::FileSystem']"
        commands.append(
            site.aws(
                f"cloudformation list-stack-resources --stack-name {site.stack('cluster')} --query "
                f'"{query}.[LogicalResourceId,PhysicalResourceId]" --output text',
                "names the file systems",
            )
        )
    if site.spec.orchestrator.eks is not None:
        commands.append(
            site.kubectl("get pvc,svc -A", "volumes and load balancers that the cluster made for its users")
        )
    notes = []
    if site.spec.file_systems:
        names = ", ".join(system.name for system in site.spec.file_systems)
        notes.append(f"File systems made with the cluster ({names}) are kept.")
    if site.makes_eks:
        notes.append(
            "No stack knows the volumes and load balancers: delete the Services of type LoadBalancer, which "
            "would block the network, and the PersistentVolumeClaims that nobody wants, which would cost."
        )
    return Step(
        id="data",
        title="See what data there is",
        why=f"The disks of the nodes{' and all namespaces' if site.makes_eks else ''} go with the next step.",
        commands=tuple(commands),
        notes=tuple(notes),
        done_when="its owners have what they want to keep",
    )


def _destroy(site: Site) -> Step:
    lost = "all nodes" + (", the EKS cluster and every namespace in it" if site.makes_eks else "")
    commands: list[Command] = []
    for stack in destroyed_stacks(site)[:-1]:
        commands.append(site.cdk("destroy", stack, "takes away what stands on the cluster"))
    left_behind = _left_behind(site)
    commands += [_delete_if_there(site, stack) for stack in left_behind]
    notes = [
        "The stacks go while the config still has the cluster: `cdk destroy` knows no others.",
        "Roles, subnets and security groups of the nodes outlive the cluster, as the stacks' dependencies "
        "see to: delete none by hand while it is Deleting.",
    ]
    if left_behind:
        notes.append(
            f"The config has no {' and no '.join(left_behind)}, but one from before may be deployed: it uses "
            "exports of the cluster's stack, which then cannot be deleted."
        )
    if site.owner == "sagemaker":
        left = "must show nothing: HyperPod refuses to delete a cluster that has any"
        commands += [
            site.of_cluster("list-compute-quotas", "ComputeQuotaSummaries[].[Name,ComputeQuotaId]", left),
            site.of_cluster(
                "list-cluster-scheduler-configs",
                "ClusterSchedulerConfigSummaries[].[Name,ClusterSchedulerConfigId]",
                left,
            ),
        ]
        notes.append(
            "What somebody made in the console is in no stack: `aws sagemaker delete-compute-quota "
            "--compute-quota-id ID`, `aws sagemaker delete-cluster-scheduler-config "
            "--cluster-scheduler-config-id ID` (the console cannot delete the latter)."
        )
    commands.append(site.cdk("destroy", site.stack("cluster"), f"deletes the cluster: {lost}", risk="data"))
    return Step(
        id="destroy",
        title="Destroy the stacks, the last one first",
        why="Each stands on those after it in this list, and quotas must go before the cluster.",
        commands=tuple(commands),
        notes=tuple(notes),
        done_when="`aws cloudformation describe-stacks` knows none of them",
    )


def _delete_if_there(site: Site, stack: str) -> Command:
    return site.aws(
        f"cloudformation delete-stack --stack-name {stack} --region {site.spec.region}"
        # Until it is gone it uses what the cluster's stack exports.
        f" && aws cloudformation wait stack-delete-complete --stack-name {stack}",
        "if an earlier config had it; says nothing if there is none",
    )


def _file_systems(site: Site) -> Step:
    return Step(
        id="file-systems",
        title="Delete the file systems",
        why="Their stack left them, because they hold data. --delete-data asked for this step.",
        commands=tuple(_delete_file_system(site, system) for system in site.spec.file_systems),
        notes=("Other clusters may mount them: ask before.",),
        done_when="`aws fsx describe-file-systems` lists none of them",
    )


def _delete_file_system(site: Site, system: FileSystem) -> Command:
    """Find a file system by the tag Name, the path of its construct, and delete it."""
    name = f"{site.stack('cluster')}/FileSystem-{system.name}"
    query = f"FileSystems[?Tags[?Key=='Name' && Value=='{name}']].FileSystemId"
    found = f'"$(aws fsx describe-file-systems --query "{query}" --output text --region {site.spec.region})"'
    if system.open_zfs is not None:
        # API reference of DeleteFileSystem: without the option it fails while there are child volumes.
        option = " --open-zfs-configuration Options=DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"
        backup = "FSx makes a last backup"
    else:
        option, backup = "", "FSx makes no backup"
    return site.aws(
        f"fsx delete-file-system --file-system-id {found}{option}",
        f"deletes file system {system.name} with all data in it; {backup}",
        risk="data",
    )


def _network_stays(site: Site) -> Step:
    return Step(
        id="network",
        title="The network stays with the file systems",
        why="They have interfaces in it, so that its stack cannot be deleted before them.",
        commands=(
            site.aws(
                f"cloudformation delete-stack --stack-name {site.stack('network')}",
                "later, when the file systems are gone: it needs no config",
            ),
        ),
        done_when="nothing is to be done now",
    )


def _network(site: Site) -> Step:
    name, region = site.stack("network"), site.spec.region
    query = "StackResourceSummaries[?ResourceType=='AWS::EC2::VPC'].PhysicalResourceId"
    vpc = (
        f'"Name=vpc-id,Values=$(aws cloudformation list-stack-resources --stack-name {name}'
        f' --query "{query}" --output text --region {region})"'
    )
    return Step(
        id="network",
        title="Destroy the network",
        why="It goes last: nodes and file systems have interfaces in it.",
        commands=(
            site.aws(
                f"ec2 describe-vpc-endpoints --filters {vpc}"
                f" Name=service-name,Values=com.amazonaws.{region}.guardduty-data"
                " --query 'VpcEndpoints[].VpcEndpointId' --output text",
                "endpoints that GuardDuty made: while there is one, the VPC cannot go",
            ),
            site.aws(
                f"ec2 describe-network-interfaces --filters {vpc}"
                " --query 'NetworkInterfaces[].[NetworkInterfaceId,Description]' --output text",
                "who else still uses the network",
            ),
            site.cdk("destroy", name, "deletes the VPC with its subnets and endpoints"),
        ),
        notes=(
            "GuardDuty's endpoint goes by `aws ec2 delete-vpc-endpoints --vpc-endpoint-ids ID`, its security "
            "group GuardDutyManagedSecurityGroup-VPC by `aws ec2 delete-security-group --group-id ID`.",
        ),
        done_when="`aws cloudformation describe-stacks` does not know it",
    )


def _config(site: Site, teams: Sequence[Team]) -> Step:
    edits: list[Edit] = [RemoveAllocation(team.name, site.name) for team in teams]
    edits.append(RemoveDocument("Cluster", site.name))
    left = [team.name for team in teams if len(team.spec.allocations) == 1]
    return Step(
        id="config",
        title="Remove the cluster from the config",
        why="Last, because `cdk destroy` finds the stacks by it.",
        edits=tuple(edits),
        notes=(f"No cluster is left for {', '.join(left)}: `hpf remove-team` removes a team.",)
        if left
        else (),
        done_when="the config no longer has it",
    )


def _kept(site: Site, delete_data: bool) -> Iterator[str]:
    region, spec = site.spec.region, site.spec
    if spec.file_systems and not delete_data:
        for system in spec.file_systems:
            yield f"file system {system.name} (FSx)"
        if spec.network.create is not None:
            yield f"stack {site.stack('network')}: the file systems use the network"
    if spec.network.existing is not None:
        yield f"network {spec.network.existing.vpc_id}, which was there before"
    if spec.orchestrator.eks is not None and not site.makes_eks:
        yield f"EKS cluster {site.eks_name} with its namespaces, which was there before"
    # No construct of ours makes a Prometheus workspace.
    yield f"Prometheus workspaces, of which no stack has one: `aws amp list-workspaces --region {region}`"
    prefix = f"/aws/sagemaker/Clusters/{site.cluster.aws_name}/"
    yield (
        "logs of the service: `aws logs describe-log-groups --log-group-name-prefix "
        f"{prefix} --region {region}`"
    )
