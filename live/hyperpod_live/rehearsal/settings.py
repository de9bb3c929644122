"""Kueue's configuration as each owner of the Kueue objects sets it."""

from __future__ import annotations

from typing import Any

from hyperpod_governance.model import ResolvedGovernance
from hyperpod_k8s import manager

# [F] the add-on's configuration as one observer saw it (v1.6.1); what it leaves out is Kueue's default.
_ADDON_MANAGES_UNQUEUED_JOBS = False


def configuration(governance: ResolvedGovernance) -> dict[str, Any]:
    """Kueue's ``Configuration``: ours for owner kueue, the add-on's as far as it is known for sagemaker."""
    ours = manager.configuration(governance)
    if governance.owner == "kueue":
        return ours
    ours.pop("managedJobsNamespaceSelector")
    return {**ours, "manageJobsWithoutQueueName": _ADDON_MANAGES_UNQUEUED_JOBS}
