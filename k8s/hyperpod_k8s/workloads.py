"""The kinds of workload that teams run: for Kueue's config, the queue-name policy and team access alike."""

from __future__ import annotations

from typing import NamedTuple


class WorkloadKind(NamedTuple):
    """A kind by API group and plural, and its name in Kueue's ``integrations.frameworks`` if it is there."""

    api_group: str
    resource: str
    framework: str | None


# Kueue's integrations that HyperPod's training operators, Ray and serving need. HyperPodPyTorchJob is no
# integration of Kueue's own; the policy asks it for a queue all the same, as the add-on does [F].
WORKLOAD_KINDS = (
    WorkloadKind("", "pods", "pod"),
    WorkloadKind("apps", "deployments", "deployment"),
    WorkloadKind("apps", "statefulsets", "statefulset"),
    WorkloadKind("batch", "jobs", "batch/job"),
    WorkloadKind("jobset.x-k8s.io", "jobsets", "jobset.x-k8s.io/jobset"),
    *(
        WorkloadKind("kubeflow.org", f"{name}s", f"kubeflow.org/{name}")
        for name in ("jaxjob", "mpijob", "paddlejob", "pytorchjob", "tfjob", "xgboostjob")
    ),
    WorkloadKind("leaderworkerset.x-k8s.io", "leaderworkersets", "leaderworkerset.x-k8s.io/leaderworkerset"),
    WorkloadKind("ray.io", "rayclusters", "ray.io/raycluster"),
    WorkloadKind("ray.io", "rayjobs", "ray.io/rayjob"),
    WorkloadKind("ray.io", "rayservices", "ray.io/rayservice"),
    WorkloadKind("sagemaker.amazonaws.com", "hyperpodpytorchjobs", None),
    WorkloadKind("trainer.kubeflow.org", "trainjobs", "trainer.kubeflow.org/trainjob"),
)


def resources_by_group() -> dict[str, list[str]]:
    """Plurals of all kinds by API group."""
    groups: dict[str, list[str]] = {}
    for kind in WORKLOAD_KINDS:
        groups.setdefault(kind.api_group, []).append(kind.resource)
    return groups
