"""What a job can have of a node: the nominal figures of its instance type less what the node keeps.

Quotas count nominal figures, the scheduler counts these, so a job that fits its quota may still fit no node.

Source: aws/sagemaker-hyperpod-cli, ``sagemaker/hyperpod/training/quota_allocation_util.py``, whose formulas
trim the requests of jobs. They leave room for the kubelet and for the agents that HyperPod runs on each node,
so they are the careful side: [F] a node may report more (one observer saw 1930m on 2 vCPU).
"""

from __future__ import annotations

from hyperpod_governance import catalog, quota
from hyperpod_governance.catalog import InstanceType
from hyperpod_governance.model import CPU, GPU, MEMORY
from hyperpod_governance.quantity import GIB, MIB, MILLI

MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""Node label by which the NVIDIA GPU operator learns how to cut the GPUs: ``all-1g.10gb``."""

# Millicores that are kept: a fixed part, then of each core in turn, then of each further core.
_CPU_FIXED = 100
_CPU_FIRST_CORES = (300, 150, 100, 100)
_CPU_FURTHER_CORE = 60
# Memory that is kept: a fixed part, then percent of each tier; the last tier has no end.
_MEMORY_FIXED = GIB // 2
_MEMORY_TIERS = ((4 * GIB, 30), (4 * GIB, 25), (8 * GIB, 20), (112 * GIB, 17))
_MEMORY_REST_PERCENT = 7
# NVIDIA Multi-Instance GPU User Guide: a GPU has seven compute slices and eight memory slices.
_MIG_MEMORY_SLICES = 8


def reserved_cpu(cores: int) -> int:
    """Millicores that a node of that many schedulable vCPUs keeps."""
    first = sum(_CPU_FIRST_CORES[:cores])
    return _CPU_FIXED + first + _CPU_FURTHER_CORE * max(0, cores - len(_CPU_FIRST_CORES))


def reserved_memory(memory: int) -> int:
    """Bytes that a node of that many bytes keeps."""
    kept, rest = _MEMORY_FIXED, memory
    for size, percent in _MEMORY_TIERS:
        part = min(size, rest)
        kept += part * percent // 100
        rest -= part
    return kept + rest * _MEMORY_REST_PERCENT // 100


def mig_partitions(kind: InstanceType, profile: str) -> int:
    """How many partitions of a profile all GPUs of an instance hold: 16 of ``mig-3g.40gb`` on p5.48xlarge.

    Raises:
        ValueError: the text is not of the form ``mig-1g.10gb``.
    """
    compute = catalog.MIG_SLICES_PER_GPU // catalog.mig_slices(profile)
    gigabytes = int(profile.rpartition(".")[2].removesuffix("gb"))
    slices = max(1, round(gigabytes * 1024 * _MIG_MEMORY_SLICES / kind.accelerator_memory_mib))
    return kind.accelerators * min(compute, _MIG_MEMORY_SLICES // slices)


def allocatable(
    kind: InstanceType, threads_per_core: int | None = None, mig_profile: str | None = None
) -> quota.Amounts:
    """What pods can have of one node, in base units by resource.

    Args:
        kind: The node's instance type.
        threads_per_core: Of its group; 1 leaves one vCPU for each core. None is EC2's default.
        mig_profile: ``mig-1g.10gb`` when all GPUs of the node are cut into such partitions.
    """
    amounts = quota.instance_amounts(kind)
    cores = kind.vcpus if threads_per_core is None else kind.cores * threads_per_core
    amounts[CPU] = max(0, cores * MILLI - reserved_cpu(cores))
    memory = amounts[MEMORY]
    amounts[MEMORY] = max(0, memory - reserved_memory(memory)) // MIB * MIB
    if mig_profile is not None:
        amounts.pop(GPU, None)
        amounts[catalog.mig_resource(mig_profile)] = mig_partitions(kind, mig_profile)
    return amounts
