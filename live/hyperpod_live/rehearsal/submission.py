"""What is submitted: the Kubernetes objects of one job, whatever it was written as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperpod_config.findings import Place
from hyperpod_governance import naming
from hyperpod_governance.model import ResolvedGovernance
from hyperpod_governance.service import INSTANCE_TYPE_LABEL
from hyperpod_live.rehearsal.scenario import FOREVER, Expectation, Job

Manifest = dict[str, Any]

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"

_IMAGE = "rehearsal.invalid/none"
"""Fake nodes pull no image; this one cannot be pulled anywhere."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One job on its way to the API server.

    ``pods`` is how many pods there will be, 0 for a kind whose operator does not run here.
    """

    name: str
    team: str | None
    manifests: tuple[Manifest, ...]
    pods: int
    arrival: float
    run_time: float = FOREVER
    expect: Expectation | None = None
    place: Place | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def namespace(self) -> str:
        """Namespace of its objects."""
        return str(self.manifests[0]["metadata"].get("namespace", "default"))

    @property
    def kind(self) -> str:
        """Kind of its first object."""
        return str(self.manifests[0]["kind"])


def job_manifest(governance: ResolvedGovernance, job: Job) -> Manifest:
    """A ``batch/v1`` Job of the pods that ``job`` describes, labelled as its team would label it."""
    queue = naming.local_queue(governance.owner, job.team)
    labels = {QUEUE_LABEL: queue}
    if job.priority_class is not None:
        labels[PRIORITY_LABEL] = naming.priority_class(governance.owner, job.priority_class)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": naming.namespace(governance.owner, job.team),
            "labels": labels,
        },
        "spec": {
            "suspend": True,
            "parallelism": job.pods,
            "completions": job.pods,
            "template": _template(job, queue),
        },
    }


def _template(job: Job, queue: str) -> Manifest:
    selector = dict(job.node_selector)
    if job.instance_type is not None:
        selector[INSTANCE_TYPE_LABEL] = job.instance_type
    resources = {"requests": dict(job.resources), "limits": dict(job.resources)}
    spec: Manifest = {
        "restartPolicy": "Never",
        # What is preempted leaves at once: a rehearsal has nothing to save.
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": _IMAGE, "resources": resources}],
    }
    if selector:
        spec["nodeSelector"] = selector
    metadata: Manifest = {"labels": {QUEUE_LABEL: queue}}
    if annotations := _topology(job):
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec}


def _topology(job: Job) -> Mapping[str, str]:
    if job.topology is None:
        return {}
    if job.topology.required is not None:
        return {REQUIRED_TOPOLOGY: job.topology.required}
    return {PREFERRED_TOPOLOGY: str(job.topology.preferred)}


def submissions(governance: ResolvedGovernance, jobs: Sequence[Job]) -> tuple[Submission, ...]:
    """The jobs of a scenario as they arrive; one without an arrival comes a second after the one before."""
    found: list[Submission] = []
    last = -1.0
    for job in jobs:
        last = last + 1 if job.arrival is None else job.arrival
        manifest = job_manifest(governance, job)
        found.append(Submission(job.name, job.team, (manifest,), job.pods, last, job.run_time, job.expect))
    return tuple(sorted(found, key=lambda item: item.arrival))
