"""What Kueue and the scheduler say about jobs: objects as plain facts, and the story that these tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hyperpod_governance.model import ResolvedGovernance
from hyperpod_governance.quantity import parse_quantity
from hyperpod_live.rehearsal.submission import GROUP_LABEL, Submission

Object = Mapping[str, Any]
State = Literal["none", "pending", "stopping", "admitted", "finished"]
Usage = Mapping[tuple[str, str], int]
"""Base units by flavor and resource."""

_PREEMPTOR = re.compile(r"\(UID: ([^,)\s]+)(?:, JobUID: ([^)\s]+))?\)")


def conditions(thing: Object) -> dict[str, Object]:
    """Conditions of an object by type."""
    return {entry["type"]: entry for entry in thing.get("status", {}).get("conditions") or []}


def is_true(found: Mapping[str, Object], kind: str) -> bool:
    """Whether a condition is there and True."""
    return found.get(kind, {}).get("status") == "True"


@dataclass(frozen=True, slots=True)
class Workload:
    """A Kueue Workload as far as a rehearsal asks."""

    uid: str
    name: str
    namespace: str
    owners: frozenset[tuple[str, str]]
    state: State
    queue: str
    message: str
    eviction: tuple[str, str, str] | None
    """Reason, message and time of the last eviction."""
    usage: Usage
    assigned: tuple[str, ...]
    """Nodes of its topology assignment, one entry for each pod, where the nodes are its lowest level."""

    @classmethod
    def of(cls, thing: Object) -> Workload:
        """Read a Workload (``kueue.x-k8s.io/v1beta2``)."""
        metadata, found = thing["metadata"], conditions(thing)
        reserved = is_true(found, "QuotaReserved")
        gone = is_true(found, "Evicted")
        admission = thing.get("status", {}).get("admission") or {}
        return cls(
            uid=metadata["uid"],
            name=metadata["name"],
            namespace=metadata["namespace"],
            owners=frozenset((owner["kind"], owner["name"]) for owner in metadata.get("ownerReferences", [])),
            state=_state(found, reserved, gone),
            queue=admission.get("clusterQueue", ""),
            message=_message(found),
            eviction=_eviction(found) if gone else None,
            usage=_usage(admission),
            assigned=tuple(_assigned(admission)),
        )


def _state(found: Mapping[str, Object], reserved: bool, evicted: bool) -> State:
    if is_true(found, "Finished"):
        return "finished"
    if evicted and reserved:
        return "stopping"
    if is_true(found, "Admitted"):
        return "admitted"
    return "pending" if "QuotaReserved" in found or evicted else "none"


def _eviction(found: Mapping[str, Object]) -> tuple[str, str, str]:
    evicted = found["Evicted"]
    why = found.get("Preempted", evicted) if evicted.get("reason") == "Preempted" else evicted
    words = (why.get("reason", ""), evicted.get("message", ""), evicted.get("lastTransitionTime", ""))
    return str(words[0]), str(words[1]), str(words[2])


def _message(found: Mapping[str, Object]) -> str:
    reserved = found.get("QuotaReserved", {})
    if is_true(found, "QuotaReserved") and not is_true(found, "Admitted"):
        return str(found.get("Admitted", {}).get("message") or "quota is reserved, admission is not complete")
    return str(reserved.get("message", ""))


def _usage(admission: Object) -> Usage:
    used: Counter[tuple[str, str]] = Counter()
    for entry in admission.get("podSetAssignments", []):
        for resource, flavor in entry.get("flavors", {}).items():
            amount = entry.get("resourceUsage", {}).get(resource, "0")
            used[flavor, resource] += parse_quantity(resource, str(amount))
    return used


def _assigned(admission: Object) -> Iterator[str]:
    """Node of each pod; v1beta2 packs equal parts of a topology assignment together."""
    for entry in admission.get("podSetAssignments", []):
        for part in (entry.get("topologyAssignment") or {}).get("slices", []):
            levels = part.get("valuesPerLevel", [])
            total = int(part.get("domainCount", 0))
            if levels:
                names = _expand(levels[-1], total)
                pods = _expand(part.get("podCounts", {}), total)
                for name, count in zip(names, pods, strict=False):
                    yield from [str(name)] * int(count)


def _expand(packed: Object, total: int) -> list[Any]:
    """Values of a level or counts of pods for each domain: one for all, or one each with a common frame."""
    if "universal" in packed:
        return [packed["universal"]] * total
    individual = packed.get("individual", [])
    if isinstance(individual, Mapping):
        prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
        return [f"{prefix}{root}{suffix}" for root in individual.get("roots", [])]
    return list(individual)


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod as far as a rehearsal asks."""

    name: str
    namespace: str
    job: str
    node: str
    phase: str
    deleting: bool
    unschedulable: str

    @classmethod
    def of(cls, thing: Object) -> Pod:
        """Read a Pod."""
        metadata, spec, status = thing["metadata"], thing.get("spec", {}), thing.get("status", {})
        owners = [owner["name"] for owner in metadata.get("ownerReferences", []) if owner.get("controller")]
        scheduled = conditions(thing).get("PodScheduled", {})
        waits = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
        labels = metadata.get("labels", {})
        return cls(
            name=metadata["name"],
            namespace=metadata["namespace"],
            job=owners[0] if owners else labels.get(GROUP_LABEL, metadata["name"]),
            node=spec.get("nodeName", ""),
            phase=status.get("phase", ""),
            deleting="deletionTimestamp" in metadata,
            unschedulable=str(scheduled.get("message", "")) if waits else "",
        )


@dataclass(frozen=True, slots=True)
class Preemption:
    """A job that was stopped for another. ``reason`` and ``message`` are Kueue's."""

    time: float
    victim: str
    preemptor: str
    reason: str
    message: str


@dataclass(slots=True)
class Story:
    """What happened to one job."""

    submission: Submission
    uid: str = ""
    workload: Workload | None = None
    admitted: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    borrowed: dict[tuple[str, str], int] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    """Node of each of its pods when it last ran; empty text for a pod without one."""
    rejected: str = ""

    @property
    def state(self) -> State:
        """What it is doing now."""
        return self.workload.state if self.workload else "none"

    def owns(self, workload: Workload) -> bool:
        """Whether a Workload was made of this job's objects."""
        if workload.namespace != self.submission.namespace:
            return False
        own = {(item["kind"], item["metadata"]["name"]) for item in self.submission.manifests}
        return bool(own & workload.owners)


class Chronicle:
    """Stories of all jobs of a scenario, told by what changes. Not for several threads at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stories: dict[str, Story] = {}
        self._preemptions: list[tuple[float, str, tuple[str, str], str, str]] = []
        self.pods: dict[tuple[str, str], Pod] = {}
        self._workloads: dict[str, Workload] = {}
        self._evictions: set[tuple[str, str, str]] = set()

    def submitted(self, submission: Submission, uid: str, rejected: str) -> None:
        """Begin the story of a job; it may have a Workload already."""
        story = Story(submission, uid, rejected=rejected)
        self.stories[submission.name] = story
        for workload in list(self._workloads.values()):
            if story.owns(workload):
                self._tell(story, workload)

    def workload(self, kind: str, thing: Object) -> bool:
        """Take a change of a Workload; True when it says something new."""
        found = Workload.of(thing)
        before = self._workloads.get(found.uid)
        if kind == "DELETED":
            self._workloads.pop(found.uid, None)
            return True
        self._workloads[found.uid] = found
        if found == before:
            return False
        for story in self.stories.values():
            if story.owns(found):
                self._tell(story, found)
        return True

    def pod(self, kind: str, thing: Object) -> bool:
        """Take a change of a Pod; True when it says something new."""
        found = Pod.of(thing)
        key = (found.namespace, found.name)
        before = self.pods.pop(key, None) if kind == "DELETED" else self.pods.get(key)
        if kind == "DELETED":
            return True
        self.pods[key] = found
        return found != before

    def pods_of(self, story: Story) -> list[Pod]:
        """Pods of a job that are not on their way out."""
        names = {story.submission.name, *(item["metadata"]["name"] for item in story.submission.manifests)}
        return [
            pod
            for pod in self.pods.values()
            if pod.namespace == story.submission.namespace and pod.job in names and not pod.deleting
        ]

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """All Workloads there are."""
        return tuple(self._workloads.values())

    def _tell(self, story: Story, found: Workload) -> None:
        before = story.workload
        was = before.state if before and before.uid == found.uid else "none"
        story.workload = found
        if found.message and (not story.said or story.said[-1] != found.message):
            story.said.append(found.message)
        if found.state in {"admitted", "stopping"} and was not in {"admitted", "stopping"}:
            story.admitted.append(self.now)
        elif found.state == "finished" and was != "finished":
            if not story.admitted:
                story.admitted.append(self.now)
            story.ended.append(self.now)
        if found.eviction is not None:
            self._evicted(story, found.uid, *found.eviction)

    def _evicted(self, story: Story, uid: str, reason: str, message: str, time: str) -> None:
        if (uid, message, time) in self._evictions:
            return
        self._evictions.add((uid, message, time))
        story.ended.append(self.now)
        story.said.append(message)
        match = _PREEMPTOR.search(message)
        if match is not None:
            uids = (match[1], match[2] or "")
            self._preemptions.append((self.now, story.submission.name, uids, reason, message))

    @property
    def preemptions(self) -> tuple[Preemption, ...]:
        """Who was stopped for whom.

        A preemptor gets its name only now: Kueue may preempt before the submitter hears that its job exists.
        """
        names = {story.uid: name for name, story in self.stories.items()}
        names |= {story.workload.uid: name for name, story in self.stories.items() if story.workload}
        return tuple(
            Preemption(time, victim, names.get(uids[1]) or names.get(uids[0], f"workload {uids[0]}"), *said)
            for time, victim, uids, *said in self._preemptions
        )


def borrowed(
    governance: ResolvedGovernance, workloads: Iterable[Workload]
) -> dict[str, dict[tuple[str, str], int]]:
    """What each ClusterQueue uses beyond its nominal quota, in base units by flavor and resource."""
    used: dict[str, Counter[tuple[str, str]]] = {}
    for workload in workloads:
        if workload.state in {"admitted", "stopping"}:
            used.setdefault(workload.queue, Counter()).update(workload.usage)
    over: dict[str, dict[tuple[str, str], int]] = {}
    for queue in governance.cluster_queues:
        nominal = {
            (flavor.flavor, entry.resource): entry.nominal
            for flavor in queue.flavors
            for entry in flavor.resources
        }
        beyond = {
            key: amount - nominal.get(key, 0)
            for key, amount in sorted(used.get(queue.name, Counter()).items())
            if amount > nominal.get(key, 0)
        }
        if beyond:
            over[queue.name] = beyond
    return over
