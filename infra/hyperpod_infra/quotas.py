"""Spell the resolved quotas of a cluster as props of the construct library."""

from __future__ import annotations

from collections.abc import Mapping

import hyperpod_constructs as hyperpod
from hyperpod_governance.model import ComputeQuotaResource, ResolvedGovernance


def compute_quotas(
    governance: ResolvedGovernance, tags: Mapping[str, str]
) -> dict[str, hyperpod.ComputeQuota]:
    """Compute quota of each team, by the team's name; empty unless SageMaker owns the quotas."""
    return {
        quota.team: hyperpod.ComputeQuota(
            name=quota.name,
            team_name=quota.team,
            resources=[_resource(entry) for entry in quota.resources],
            strategy=quota.strategy,
            borrow_limit=quota.borrow_limit,
            absolute_borrow_limits=[_resource(entry) for entry in quota.absolute_borrow_limits],
            preempt_team_tasks=quota.preempt_team_tasks,
            fair_share_weight=quota.fair_share_weight,
            activation_state=quota.activation_state,
            tags=tags,
        )
        for quota in governance.compute_quotas
    }


def _resource(entry: ComputeQuotaResource) -> hyperpod.QuotaResource:
    partition = None
    if entry.partition_type is not None:
        partition = hyperpod.AcceleratorPartition(type=entry.partition_type, count=entry.partition_count or 0)
    return hyperpod.QuotaResource(
        instance_type=entry.instance_type,
        count=entry.count,
        accelerators=entry.accelerators,
        v_cpu=entry.v_cpu,
        memory_in_gib=entry.memory_in_gib,
        accelerator_partition=partition,
    )
