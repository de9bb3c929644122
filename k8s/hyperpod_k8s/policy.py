"""The ValidatingAdmissionPolicy that asks every workload of a team for a queue name (owner kueue).

Kueue leaves alone what names no queue, so such a job would take nodes beside all quotas. Kueue's own webhooks
run earlier and fill the name in where a LocalQueue called ``default`` exists; this policy is for what they do
not manage, and for the day when they are switched off. Defaults of the API server are written out.
"""

from __future__ import annotations

from typing import Any

from hyperpod_governance import naming
from hyperpod_k8s.workloads import resources_by_group

QUEUE_NAME_LABEL = "kueue.x-k8s.io/queue-name"

_API_VERSION = "admissionregistration.k8s.io/v1"
# What a controller made counts with its owner, if a controller did make it: a person, or a service account of
# the team, could name any owner. A CronJob is no workload of Kueue, so its Jobs are not exempt.
_STANDS_ALONE = (
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists("
    "owner, has(owner.controller) && owner.controller && owner.kind != 'CronJob')"
    " || !request.userInfo.username.startsWith('system:')"
    " || request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')"
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
            "resources": resources,
            "scope": "*",
        }
        for group, resources in resources_by_group().items()
    ]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": _match(resourceRules=rules),
        "matchConditions": [{"name": "not-made-by-a-controller", "expression": _STANDS_ALONE}],
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
