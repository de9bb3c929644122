"""HPF2xx: Slurm clusters."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_config.findings import Finding, Severity, rule
from hyperpod_config.model import Cluster, Fleet, InstanceGroup, Slurm
from hyperpod_governance.rules import walk


def _clusters(fleet: Fleet) -> Iterator[tuple[Cluster, Slurm]]:
    for cluster in fleet.clusters:
        if cluster.spec.orchestrator.slurm is not None:
            yield cluster, cluster.spec.orchestrator.slurm


def _controllers(cluster: Cluster) -> list[tuple[walk.Path, InstanceGroup]]:
    return [
        (path, group)
        for path, group in walk.instance_groups(cluster)
        if group.slurm_config is not None and group.slurm_config.node_type == "Controller"
    ]


@rule("HPF201", "Exactly one controller")
def one_controller(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A Slurm cluster does not have exactly one Controller group with one instance.

    **Why it matters.** HyperPod refuses it: "Cluster must have exactly one InstanceGroup with Controller node
    type". Continuous provisioning has no multi-head clusters.

    **Example.** Two groups with `slurmConfig: {nodeType: Controller}`, or `instanceCount: 2` in the one.

    **Fix.** Keep one Controller group with `instanceCount: 1`.
    """
    for cluster, _ in _clusters(fleet):
        groups = cluster.spec.instance_groups
        found = _controllers(cluster)
        if not found and groups and all(group.slurm_config is not None for group in groups):
            yield one_controller.finding(
                cluster.place("spec", "instanceGroups"),
                f"cluster {cluster.name} has 0 Controller groups; exactly 1 is needed",
                "add a group with instanceCount: 1 and slurmConfig: {nodeType: Controller}",
            )
        for path, group in found[1:]:
            yield one_controller.finding(
                cluster.place(*path, "slurmConfig", "nodeType"),
                f"group {group.name} is one of {len(found)} Controller groups; exactly 1 is allowed",
                "make it a Login or Compute group",
            )
        for path, group in found[:1]:
            if group.instance_count != 1:
                yield one_controller.finding(
                    cluster.place(*path, "instanceCount"),
                    f"instanceCount of the Controller group {group.name} is {group.instance_count}; it"
                    " must be 1",
                    "set instanceCount: 1",
                )


@rule("HPF202", "A Slurm group without slurmConfig")
def slurm_config_missing(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A group of a Slurm cluster does not say what its nodes are.

    **Why it matters.** HyperPod needs `SlurmConfig` on every group to write Slurm's configuration.

    **Example.** A group without `slurmConfig` beside a Controller group.

    **Fix.** Add `slurmConfig: {nodeType: Compute}`, or `Login`, or `Controller`.
    """
    for cluster, _ in _clusters(fleet):
        for path, group in walk.instance_groups(cluster):
            if group.slurm_config is None:
                yield slurm_config_missing.finding(
                    cluster.place(*path),
                    f"group {group.name} has no slurmConfig; every group of a Slurm cluster needs one",
                    "add slurmConfig: {nodeType: Compute}",
                )


@rule("HPF203", "Partition of a group that computes nothing")
def partition_not_compute(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `partitionNames` is set on a Controller or Login group.

    **Why it matters.** HyperPod refuses it: "Partitions can only be assigned to Compute node types".

    **Example.** `slurmConfig: {nodeType: Login, partitionNames: [dev]}`.

    **Fix.** Remove `partitionNames`, or make it a Compute group.
    """
    for cluster, _ in _clusters(fleet):
        for path, group in walk.instance_groups(cluster):
            config = group.slurm_config
            if config is not None and config.partition_names and config.node_type != "Compute":
                yield partition_not_compute.finding(
                    cluster.place(*path, "slurmConfig", "partitionNames"),
                    f"partition {config.partition_names[0]} is of a {config.node_type} group; only"
                    " Compute groups"
                    " have partitions",
                    "remove partitionNames",
                )


@rule("HPF204", "slurmConfigStrategy with Continuous provisioning")
def strategy_with_continuous(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `slurmConfigStrategy` is set in a cluster with `nodeProvisioningMode: Continuous`.

    **Why it matters.** Continuous provisioning always merges; the API refuses the field.

    **Example.** `orchestrator: {slurm: {slurmConfigStrategy: Managed}}` with Continuous.

    **Fix.** Remove `slurmConfigStrategy`.
    """
    for cluster, slurm in _clusters(fleet):
        if slurm.slurm_config_strategy is not None and cluster.spec.node_provisioning_mode == "Continuous":
            yield strategy_with_continuous.finding(
                cluster.place("spec", "orchestrator", "slurm", "slurmConfigStrategy"),
                f"slurmConfigStrategy is {slurm.slurm_config_strategy}; Continuous provisioning takes none",
                "remove slurmConfigStrategy",
            )


@rule("HPF205", "Accounting database without Continuous provisioning")
def accounting_needs_continuous(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `accountingDatabase` is set in a cluster without `nodeProvisioningMode: Continuous`.

    **Why it matters.** HyperPod sets up Slurm accounting with Continuous provisioning only.

    **Example.** `orchestrator: {slurm: {accountingDatabase: ...}}` and no `nodeProvisioningMode`.

    **Fix.** Set `nodeProvisioningMode: Continuous`.
    """
    for cluster, slurm in _clusters(fleet):
        if slurm.accounting_database is not None and cluster.spec.node_provisioning_mode is None:
            yield accounting_needs_continuous.finding(
                cluster.place("spec", "orchestrator", "slurm", "accountingDatabase"),
                "accountingDatabase needs nodeProvisioningMode: Continuous; it is not set",
                "set nodeProvisioningMode: Continuous",
            )


@rule("HPF206", "A script that must set Slurm up by itself", Severity.WARNING)
def customer_managed_script(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A group of a Slurm cluster with Continuous provisioning has `onCreate`.

    **Why it matters.** With `onCreate` the script sets the node up; with `onInitComplete` HyperPod's image
    sets up Slurm first, from `slurmConfig`. The base scripts that AWS publishes for `onCreate` read
    provisioning_parameters.json, and the API refuses that file beside a Slurm orchestrator.

    **Example.** `lifeCycleConfig: {sourceS3Uri: s3://sagemaker-scripts/, onCreate: on_create.sh}`.

    **Fix.** Rename `onCreate` to `onInitComplete`, and leave to the script what Slurm does not need.
    """
    for cluster, _ in _clusters(fleet):
        if cluster.spec.node_provisioning_mode is None:
            continue
        for path, group in walk.instance_groups(cluster):
            script = group.life_cycle_config.on_create if group.life_cycle_config else None
            if script is not None:
                yield customer_managed_script.finding(
                    cluster.place(*path, "lifeCycleConfig", "onCreate"),
                    f"onCreate: {script} must set Slurm up by itself, without provisioning_parameters.json",
                    "use onInitComplete: HyperPod then sets Slurm up before the script runs",
                )


CONFIG = (
    one_controller,
    slurm_config_missing,
    partition_not_compute,
    strategy_with_continuous,
    accounting_needs_continuous,
    customer_managed_script,
)
