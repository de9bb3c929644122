"""The ValidatingAdmissionPolicy that asks every workload of a team for a queue name (owner kueue).

Kueue leaves alone what names no queue, so such a job would take nodes beside all quotas. Kueue's own webhooks
run earlier and fill the name in where a LocalQueue called ``default`` exists; this policy is for what they do
not manage, and for the day when they are switched off. Defaults of the API server are written out.
"""

from __future__ import annotations

from typing import Any

from hyperpod_governance import naming
from hyperpod_k8s.rbac import KUBEFLOW_JOBS

QUEUE_NAME_LABEL = "kueue.x-k8s.io/queue-name"

_API_VERSION = "admissionregistration.k8s.io/v1"
_WORKLOADS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("pods",)),
    ("apps", ("deployments", "statefulsets")),
    ("batch", ("jobs",)),
    ("jobset.x-k8s.io", ("jobsets",)),
    ("kubeflow.org", KUBEFLOW_JOBS),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets",)),
    ("ray.io", ("rayclusters", "rayjobs", "rayservices")),
    ("sagemaker.amazonaws.com", ("hyperpodpytorchjobs",)),
    ("trainer.kubeflow.org", ("trainjobs",)),
)
# What a controller made counts with its owner. A CronJob is no workload of Kueue, so its Jobs are not exempt.
_STANDS_ALONE = (
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists("
    "owner, has(owner.controller) && owner.controller && owner.kind != 'CronJob')"
)
_HAS_QUEUE_NAME = (
    f"has(object.metadata.labels) && '{QUEUE_NAME_LABEL}' in object.metadata.labels"
    f" && object.metadata.labels['{QUEUE_NAME_LABEL}'] != ''"
)
_MESSAGE = (
    f"add the label {QUEUE_NAME_LABEL} with the name of a LocalQueue of this namespace: "
    "`kubectl get localqueues` lists them"
)


def queue_name_policy() -> dict[str, Any]:
    """Refuse new workloads without a queue name."""
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": list(resources),
            "scope": "*",
        }
        for group, resources in _WORKLOADS
    ]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": _match(resourceRules=rules),
        "matchConditions": [{"name": "not-owned-by-a-controller", "expression": _STANDS_ALONE}],
        "validations": [{"expression": _HAS_QUEUE_NAME, "message": _MESSAGE, "reason": "Invalid"}],
    }
    return _object("ValidatingAdmissionPolicy", spec)


def queue_name_policy_binding() -> dict[str, Any]:
    """Put the policy in force in the namespaces of teams and nowhere else."""
    selector = {"matchExpressions": [{"key": naming.TEAM_LABEL, "operator": "Exists"}]}
    spec = {
        "policyName": naming.QUEUE_NAME_POLICY,
        "validationActions": ["Deny"],
        "matchResources": _match(namespaceSelector=selector),
    }
    return _object("ValidatingAdmissionPolicyBinding", spec)


def _match(**given: Any) -> dict[str, Any]:
    return {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, **given}


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": {"name": naming.QUEUE_NAME_POLICY},
        "spec": spec,
    }
