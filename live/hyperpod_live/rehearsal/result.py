"""What a rehearsal found: plain values for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hyperpod_live.rehearsal.observe import Preemption, State
from hyperpod_live.rehearsal.submission import Submission


@dataclass(frozen=True, slots=True)
class ObjectResult:
    """One of the cluster's objects; ``error`` when it was refused; ``active`` is None for no queue."""

    kind: str
    name: str
    error: str
    active: bool | None
    reason: str

    @property
    def failed(self) -> bool:
        """Whether it was refused, or is inactive though the config does not stop it."""
        return bool(self.error) or (self.active is False and not self.reason.startswith("Stopped"))


@dataclass(frozen=True, slots=True)
class PlacedPods:
    """Pods of one job on one node."""

    node: str
    pods: int
    instance_type: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of one job. Times are of the scenario; ``said`` is everything that Kueue said, in order.

    ``placed`` and ``waiting_pods`` are of the last time that it ran.
    """

    submission: Submission
    rejected: str
    state: State
    admitted: tuple[float, ...]
    ended: tuple[float, ...]
    said: tuple[str, ...]
    borrowed: Mapping[tuple[str, str], int]
    placed: tuple[PlacedPods, ...]
    waiting_pods: int
    unscheduled: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.submission.name

    @property
    def at_end(self) -> str:
        """``running``, ``finished``, ``pending`` or ``refused``."""
        if self.rejected:
            return "refused"
        words = {"admitted": "running", "stopping": "running", "finished": "finished"}
        return words.get(self.state, "pending")


@dataclass(frozen=True, slots=True)
class PlayResult:
    """What happened in one scenario.

    ``restless`` names what was still going on when the bound of a step was reached; ``not_played`` the jobs
    that were never submitted because of it.
    """

    name: str
    description: str
    jobs: tuple[JobResult, ...]
    preemptions: tuple[Preemption, ...]
    restless: tuple[str, ...]
    not_played: tuple[str, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A scenario and what in it was not as expected: job name and difference; empty name for the whole."""

    play: PlayResult
    differences: tuple[tuple[str, str], ...]
    expectations: int


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """The rehearsal of one cluster. ``outside`` says what of the config it leaves out."""

    cluster: str
    owner: str
    objects: tuple[ObjectResult, ...]
    scenarios: tuple[Judged, ...]
    outside: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether an object was refused or inactive, or anything was not as expected."""
        return any(item.failed for item in self.objects) or any(item.differences for item in self.scenarios)
