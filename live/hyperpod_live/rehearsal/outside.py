"""What of a config a rehearsal leaves out: said by name, so that nobody takes silence for a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from hyperpod_governance.model import ResolvedCluster
from hyperpod_live.rehearsal.nodes import mig_profile

_CLUSTER_USED = {"instance_groups", "orchestrator", "governance", "region", "account", "cluster_name"}
_GROUP_USED = {
    "name",
    "instance_type",
    "instance_requirements",
    "instance_count",
    "min_instance_count",
    "kubernetes_config",
    "threads_per_core",
}
_SAGEMAKER = (
    "owner sagemaker: the objects are a preview of what the add-on is expected to make; its Cohort name, "
    "Topology levels and limits of Lend and DontLend are inferred",
    "owner sagemaker: the add-on's admission policy, which refuses jobs without a queue name, is not there",
)


def outside(cluster: ResolvedCluster, counts: Mapping[str, int]) -> tuple[str, ...]:
    """What is left out for one cluster, in sentences."""
    if cluster.config.spec.orchestrator.slurm is not None:
        return ("a Slurm cluster is outside the rehearsal: its jobs go to Slurm's scheduler, not to Kueue",)
    if cluster.governance is None:
        return ("the cluster has no governance: there is nothing to rehearse",)
    found = ["images: fake nodes pull none, so any image starts, and nothing runs in it"]
    found += [f"{path} is set, and plays no part here" for path in _unused(cluster)]
    if cluster.governance.owner == "sagemaker":
        found = [*_SAGEMAKER, *found]
    return (*found, *_empty(cluster, counts), *_mig(cluster))


def _unused(cluster: ResolvedCluster) -> Iterator[str]:
    spec = cluster.config.spec
    yield from (f"spec.{name}" for name in _set(spec, _CLUSTER_USED))
    for group in spec.instance_groups:
        yield from (f"spec.instanceGroups[{group.name}].{name}" for name in _set(group, _GROUP_USED))


def _set(model: BaseModel, used: set[str]) -> list[str]:
    fields = type(model).model_fields
    return sorted(str(fields[name].alias or name) for name in model.model_fields_set - used)


def _empty(cluster: ResolvedCluster, counts: Mapping[str, int]) -> Iterator[str]:
    for pool in cluster.pools:
        if not counts.get(pool.name):
            yield f"instance group {pool.name} has no nodes at this count: what needs it waits"
        if len(pool.instance_types) > 1:
            yield f"instance group {pool.name}: all its nodes are of its first type, {pool.instance_type}"


def _mig(cluster: ResolvedCluster) -> Iterator[str]:
    """Partitions that a team was promised of nodes whose GPUs nobody cuts."""
    assert cluster.governance is not None
    cut = {(pool.instance_type, f"nvidia.com/{mig_profile(pool)}") for pool in cluster.pools}
    promised = {(row.flavor, row.resource) for row in cluster.governance.rows if row.nominal}
    for flavor, resource in sorted(promised - cut):
        if resource.startswith("nvidia.com/mig-"):
            yield (
                f"{resource} of {flavor} is promised, but no instance group says by the label "
                f"nvidia.com/mig.config that its GPUs are cut so: no node offers it"
            )
