"""Team access: what a team may do in its namespace, and what it may read of the cluster."""

from __future__ import annotations

from typing import Any

from hyperpod_governance import naming
from hyperpod_governance.model import Namespace
from hyperpod_k8s.workloads import resources_by_group

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC_VERSION = f"{RBAC_GROUP}/v1"

_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "delete", "deletecollection", "patch", "update"]


def _rule(api_group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [api_group], "resources": resources, "verbs": verbs}


def team_role() -> dict[str, Any]:
    """Run jobs, look into them and clean up, and read the queue. No secrets, no roles, no queues to change.

    A ClusterRole only so that its rights stand in one place: it is bound by RoleBindings alone.
    """
    rules = [
        *(_rule(group, resources, _WRITE) for group, resources in resources_by_group().items()),
        _rule("", ["configmaps", "persistentvolumeclaims", "services"], _WRITE),
        _rule("", ["events", "pods/log", "pods/status"], _READ),
        # A client that opens a websocket is asked for "get", any other and newer API servers for "create".
        _rule("", ["pods/exec", "pods/portforward"], ["create", "get"]),
        _rule("kueue.x-k8s.io", ["localqueues", "workloads"], _READ),
    ]
    return _object("ClusterRole", naming.TEAM_ROLE, rules=rules)


def viewer_role() -> dict[str, Any]:
    """Read quotas, priorities and nodes: without them nobody can tell why a job waits."""
    kueue = ["clusterqueues", "cohorts", "resourceflavors", "topologies", "workloadpriorityclasses"]
    rules = [_rule("", ["nodes"], _READ), _rule("kueue.x-k8s.io", kueue, _READ)]
    return _object("ClusterRole", naming.VIEWER_ROLE, rules=rules)


def team_binding(namespace: Namespace) -> dict[str, Any]:
    """Give the team's groups the team role in the team's namespace."""
    binding = _binding("RoleBinding", naming.TEAM_ROLE, naming.TEAM_ROLE, namespace.groups)
    binding["metadata"]["namespace"] = namespace.name
    return binding


def viewer_binding(namespace: Namespace) -> dict[str, Any]:
    """Give the team's groups the viewer role.

    One for each team, not one for all: so a change of a team stays in the team's own file and stack, and no
    object grows with the number of teams.
    """
    name = naming.viewer_binding(namespace.team)
    return _binding("ClusterRoleBinding", name, naming.VIEWER_ROLE, namespace.groups)


def _binding(kind: str, name: str, role: str, groups: tuple[str, ...]) -> dict[str, Any]:
    return _object(
        kind,
        name,
        roleRef={"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        subjects=[{"apiGroup": RBAC_GROUP, "kind": "Group", "name": group} for group in groups],
    )


def _object(kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": RBAC_VERSION, "kind": kind, "metadata": {"name": name}, **content}
