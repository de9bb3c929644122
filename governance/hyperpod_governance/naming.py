"""Every name that this tool gives or expects: AWS names, stacks and Kubernetes objects.

In sagemaker mode the names are those the service makes (aws/sagemaker-hyperpod-cli, command constants). In
kueue mode none of them is ever used, so that the add-on can be installed later without a clash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hyperpod_governance.model import Owner

StackPart = Literal["network", "cluster", "capacity", "governance", "queues", "monitoring"]

# [F] scheduler event text of a live cluster; the levels are inferred, see TOPOLOGY_LEVELS in service.py.
SAGEMAKER_TOPOLOGY = "hyperpod-default"
# [U] no public source names the add-on's Cohort. Only previews use this name; nothing is applied with it.
SAGEMAKER_COHORT = "hyperpod-cohort"
# [F] one observer; the service appends a number.
SAGEMAKER_IDLE_QUEUE = "hyperpod-ns-idle-resource-sharing-cq-1"

MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "hyperpod-fleet"
TEAM_LABEL = "hyperpod-fleet.io/team"
CLUSTER_LABEL = "hyperpod-fleet.io/cluster"

TEAM_ROLE = "hyperpod-fleet-team"
"""ClusterRole of what a team may do; bound in the team's namespace only, by a RoleBinding of this name."""
VIEWER_ROLE = "hyperpod-fleet-viewer"
"""ClusterRole that reads what decides over a team's jobs but lies in no namespace."""
QUEUE_NAME_POLICY = "hyperpod-fleet-queue-name"
"""ValidatingAdmissionPolicy, and its binding, that asks for a queue name (kueue mode)."""
SHARED_RELEASE = "hyperpod-fleet"
"""Helm release of the objects that all teams of a cluster share."""

INSTANCE_GROUP_LABEL = "hyperpod-fleet.io/instance-group"
TOPOLOGY_LABEL = "hyperpod-fleet.io/topology"


def aws_name(fleet: str, cluster: str) -> str:
    """Name of the HyperPod cluster, and of an EKS cluster made with it."""
    return f"{fleet}-{cluster}"


def stack(fleet: str, cluster: str, part: StackPart, shard: int = 0) -> str:
    """Name of a stack; shards after the first are numbered from 2."""
    return f"{fleet}-{cluster}-{part}" + (f"-{shard + 1}" if shard else "")


def release(shard: int = 0) -> str:
    """Helm release of the objects of a shard's teams."""
    return "hyperpod-fleet-teams" + (f"-{shard + 1}" if shard else "")


def namespace(owner: Owner, team: str) -> str:
    """Namespace of a team."""
    return f"hyperpod-ns-{team}" if owner == "sagemaker" else f"team-{team}"


def cluster_queue(owner: Owner, team: str) -> str:
    """ClusterQueue of a team."""
    return f"{namespace(owner, team)}-clusterqueue" if owner == "sagemaker" else f"team-{team}"


def local_queue(owner: Owner, team: str) -> str:
    """LocalQueue of a team.

    In kueue mode it is ``default``: Kueue puts a job without a queue name into the LocalQueue of that name.
    """
    return f"{namespace(owner, team)}-localqueue" if owner == "sagemaker" else "default"


def priority_class(owner: Owner, name: str) -> str:
    """WorkloadPriorityClass of a priority class."""
    return f"{name}-priority" if owner == "sagemaker" else name


def flavor(instance_type: str) -> str:
    """ResourceFlavor of an instance type: the type itself, in both modes."""
    return instance_type


def root_cohort(owner: Owner, cluster: str) -> str:
    """Cohort at the top of a cluster."""
    return SAGEMAKER_COHORT if owner == "sagemaker" else f"cluster-{cluster}"


def department_cohort(department: str) -> str:
    """Cohort of a department (kueue mode)."""
    return f"department-{department}"


def topology(owner: Owner, labels: Sequence[str]) -> str:
    """Topology for instance types whose nodes carry these topology labels."""
    if owner == "sagemaker":
        return SAGEMAKER_TOPOLOGY
    ultraserver = any(label.endswith("/ultraserver-id") for label in labels)
    return f"ec2-network-{len(labels) - ultraserver}" + ("-ultraserver" if ultraserver else "")


def team_group(team: str) -> str:
    """Kubernetes group that a team's access entries and role binding share."""
    return f"hyperpod-fleet:team:{team}"


def viewer_binding(team: str) -> str:
    """ClusterRoleBinding of a team's groups to ``VIEWER_ROLE``."""
    return f"{VIEWER_ROLE}-{team}"
