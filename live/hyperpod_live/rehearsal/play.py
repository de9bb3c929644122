"""Play a scenario on a stage: step by step, each until nothing changes any more.

What happens is told by watches, so that a job that is admitted and stopped between two looks is not missed.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hyperpod_live.control_plane.client import ApiError, Client
from hyperpod_live.control_plane.nodes import RUN_SECONDS
from hyperpod_live.rehearsal.nodes import Network
from hyperpod_live.rehearsal.observe import Chronicle, Story, borrowed
from hyperpod_live.rehearsal.result import JobResult, PlacedPods, PlayResult
from hyperpod_live.rehearsal.scenario import FOREVER
from hyperpod_live.rehearsal.stage import KUEUE_API, Stage
from hyperpod_live.rehearsal.submission import Manifest, Submission

SETTLE_SECONDS = 30.0
"""Most wall-clock time that one step of a scenario may take until nothing changes any more."""
_QUIET_SECONDS = 0.4
"""Without any change for so long, a step is over when every job is accounted for."""
_LONG_QUIET_SECONDS = 1.5
"""The same when more is to come: Kueue has announced a preemption, or looks again at those that wait because
something got free, which it does after a second."""
_UNHEARD_SECONDS = 4.0
"""The same when Kueue has said nothing yet about some job: it gathers the pods of a group first."""
_WATCH_SECONDS = 20
_ENDS, _SCALES, _ARRIVES = range(3)


@dataclass(frozen=True, slots=True)
class ScaleStep:
    """An instance group gets another number of nodes at a time of the scenario."""

    time: float
    group: str
    count: int


@dataclass(frozen=True, slots=True)
class Play:
    """A scenario, ready to be played; ``counts`` are the nodes of each instance group to begin with."""

    name: str
    description: str
    submissions: tuple[Submission, ...]
    counts: Mapping[str, int]
    network: Network
    scale: tuple[ScaleStep, ...] = ()


def perform(stage: Stage, play: Play, settle_seconds: float = SETTLE_SECONDS) -> PlayResult:
    """Play a scenario to its end, or until a step does not settle; its jobs are removed afterwards."""
    stage.set_nodes(play.counts, play.network)
    with _Watch(stage.client) as watch:
        try:
            return _Player(stage, play, watch, settle_seconds).run()
        finally:
            objects = [item for submission in play.submissions for item in submission.manifests]
            stage.remove_jobs(objects, lambda: watch.left(play))


class _Watch:
    """Follows Workloads and Pods in threads of its own."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.chronicle = Chronicle()
        self.lock = threading.Lock()
        self.changed = time.monotonic()
        self._stop = threading.Event()
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        for api_version, kind, take in (
            (KUEUE_API, "Workload", self.chronicle.workload),
            ("v1", "Pod", self.chronicle.pod),
        ):
            threading.Thread(target=self._follow, args=(api_version, kind, take), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _follow(self, api_version: str, kind: str, take: Callable[[str, Mapping[str, Any]], bool]) -> None:
        while not self._stop.is_set():
            try:
                for event in self.client.watch(api_version, kind, seconds=_WATCH_SECONDS):
                    if self._stop.is_set():
                        return
                    with self.lock:
                        if take(event.type, event.object):
                            self.changed = time.monotonic()
            except Exception as error:
                self._error = error
                return

    def raise_error(self) -> None:
        """Raise in the waiting thread what stopped a watch."""
        if self._error is not None:
            raise self._error

    def left(self, play: Play) -> list[Manifest]:
        """Workloads and Pods that are still in the namespaces of a scenario."""
        spaces = {submission.namespace for submission in play.submissions}
        with self.lock:
            workloads = [(item.namespace, item.name) for item in self.chronicle.workloads]
            pods = list(self.chronicle.pods)
        found = [(KUEUE_API, "Workload", *key) for key in workloads] + [("v1", "Pod", *key) for key in pods]
        return [
            {"apiVersion": version, "kind": kind, "metadata": {"namespace": space, "name": name}}
            for version, kind, space, name in found
            if space in spaces
        ]


@dataclass(frozen=True, slots=True, order=True)
class _Due:
    """When something is on the program: at one time, what ends, then nodes, then what arrives."""

    time: float
    rank: int
    number: int


class _Player:
    """Plays one scenario."""

    def __init__(self, stage: Stage, play: Play, watch: _Watch, settle_seconds: float) -> None:
        self.stage, self.play, self.watch, self.settle_seconds = stage, play, watch, settle_seconds
        self.chronicle = watch.chronicle
        self.counts = dict(play.counts)
        self.program: list[tuple[_Due, Any]] = []
        self.ending: dict[str, float] = {}
        self.ended = 0
        for step in play.scale:
            self.plan(step.time, _SCALES, step)
        for submission in play.submissions:
            self.plan(submission.arrival, _ARRIVES, submission)

    def plan(self, at: float, rank: int, what: Any) -> None:
        """Put something on the program."""
        heapq.heappush(self.program, (_Due(at, rank, len(self.program)), what))

    def run(self) -> PlayResult:
        """Play until nothing is left on the program, or a step does not settle."""
        restless: tuple[str, ...] = ()
        while self.program and not restless:
            now, rank = self.program[0][0].time, self.program[0][0].rank
            batch = []
            while self.program and (self.program[0][0].time, self.program[0][0].rank) == (now, rank):
                batch.append(heapq.heappop(self.program)[1])
            with self.watch.lock:
                self.chronicle.now = now
            self.act(batch, rank)
            restless = self.settle(rank)
            self.look(now)
        return self.result(restless)

    def act(self, batch: Sequence[Any], rank: int) -> None:
        """Do what is due now."""
        if rank == _ARRIVES:
            self.stage.new_second()
        for item in batch:
            if rank == _ARRIVES:
                self.submit(item)
            elif rank == _ENDS:
                self.finish(*item)
            else:
                self.counts[item.group] = item.count
        if rank == _SCALES:
            self.stage.set_nodes(self.counts, self.play.network)
        with self.watch.lock:
            self.watch.changed = time.monotonic()

    def submit(self, submission: Submission) -> None:
        """Create the objects of a job, or note why they were refused."""
        uid, rejected = "", ""
        for manifest in submission.manifests:
            try:
                created = self.stage.client.create(manifest)
                uid = uid or created["metadata"]["uid"]
            except ApiError as error:
                rejected = str(error)
                break
        with self.watch.lock:
            self.chronicle.submitted(submission, uid, rejected)

    def finish(self, name: str, admitted: float) -> None:
        """Let the pods of a job succeed if it still runs since that admission."""
        with self.watch.lock:
            story = self.chronicle.stories[name]
            if story.state != "admitted" or story.admitted[-1] != admitted:
                return
            pods = self.chronicle.pods_of(story)
        self.ending[name] = admitted
        for pod in pods:
            change = {"metadata": {"annotations": {RUN_SECONDS: "0"}}}
            self.stage.client.patch("v1", "Pod", pod.name, change, pod.namespace)

    def enough(self, stories: Sequence[Story], rank: int) -> float:
        """Seconds without a change after which nothing more is to be expected."""
        if any(story.state == "none" for story in stories):
            return _UNHEARD_SECONDS
        waiting = [story for story in stories if story.state == "pending"]
        free = rank == _SCALES or sum(len(story.ended) for story in stories) > self.ended
        announced = any(story.said and "preempt" in story.said[-1].lower() for story in waiting)
        return _LONG_QUIET_SECONDS if announced or (free and waiting) else _QUIET_SECONDS

    def settle(self, rank: int) -> tuple[str, ...]:
        """Wait until nothing changes any more; give what still does when the bound is reached."""
        deadline = time.monotonic() + self.settle_seconds
        while True:
            self.watch.raise_error()
            with self.watch.lock:
                quiet = time.monotonic() - self.watch.changed
                stories = [story for story in self.chronicle.stories.values() if not story.rejected]
                restless = tuple(filter(None, map(self.restless, stories)))
                enough = self.enough(stories, rank)
            if not restless and quiet > enough:
                return ()
            if time.monotonic() > deadline:
                return restless or ("jobs are admitted and stopped again and again",)
            self.stage.pause()

    def restless(self, story: Story) -> str:
        """Say what a job is still in the middle of; empty when nothing."""
        name = story.submission.name
        if story.state == "stopping":
            return f"{name} is being stopped"
        if story.state != "admitted":
            return ""
        if self.ending.get(name) == story.admitted[-1]:
            return f"{name} is ending"
        started = [
            pod
            for pod in self.chronicle.pods_of(story)
            if pod.phase in {"Running", "Succeeded"} or pod.unschedulable
        ]
        missing = story.submission.pods - len(started)
        return f"{name} waits for {missing} of {story.submission.pods} pods to start" if missing > 0 else ""

    def look(self, now: float) -> None:
        """Note what was borrowed for the jobs that were just admitted, and when they will be over."""
        with self.watch.lock:
            self.ended = sum(len(story.ended) for story in self.chronicle.stories.values())
            over = borrowed(self.stage.governance, self.chronicle.workloads)
            for name, story in self.chronicle.stories.items():
                workload = story.workload
                if workload is None or story.state != "admitted":
                    continue
                pods = self.chronicle.pods_of(story)
                story.nodes = [pod.node for pod in pods] if story.submission.pods else list(workload.assigned)
                if story.admitted[-1] != now:
                    continue
                beyond = over.get(workload.queue, {})
                story.borrowed = {key: beyond[key] for key in beyond if workload.usage.get(key)}
                if story.submission.run_time != FOREVER:
                    self.plan(now + story.submission.run_time, _ENDS, (name, now))

    def result(self, restless: tuple[str, ...]) -> PlayResult:
        """Everything that can be said about the scenario."""
        with self.watch.lock:
            return PlayResult(
                name=self.play.name,
                description=self.play.description,
                jobs=tuple(map(self.job_result, self.chronicle.stories.values())),
                preemptions=self.chronicle.preemptions,
                restless=restless,
                not_played=tuple(it.name for _, it in sorted(self.program) if isinstance(it, Submission)),
                nodes=len(self.stage.nodes),
            )

    def job_result(self, story: Story) -> JobResult:
        """What became of one job."""
        nodes = self.stage.nodes
        placed = [
            PlacedPods(name, story.nodes.count(name), nodes[name].instance_type, nodes[name].labels)
            for name in sorted(set(story.nodes))
            if name in nodes
        ]
        waiting = [pod for pod in self.chronicle.pods_of(story) if not pod.node]
        return JobResult(
            submission=story.submission,
            rejected=story.rejected,
            state=story.state,
            admitted=tuple(story.admitted),
            ended=tuple(story.ended),
            said=tuple(story.said),
            borrowed=story.borrowed,
            placed=tuple(placed),
            waiting_pods=story.nodes.count(""),
            unscheduled=tuple(sorted({pod.unschedulable for pod in waiting if pod.unschedulable})),
        )
