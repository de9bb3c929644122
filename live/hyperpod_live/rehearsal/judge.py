"""Compare what happened to jobs with what was expected of them."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_live.rehearsal.result import JobResult, Judged, PlayResult
from hyperpod_live.rehearsal.scenario import Expectation, Placement


def judge(play: PlayResult) -> Judged:
    """The differences between a scenario and its expectations.

    A scenario that did not settle differs as a whole: it has no end that could be compared.
    """
    differences = [("", line) for line in _unsettled(play)]
    checked = 0
    for job in play.jobs:
        expect = job.submission.expect
        if expect is None:
            continue
        checked += len(expect.model_fields_set)
        differences += ((job.name, line) for line in _differences(play, job, expect))
    return Judged(play, tuple(differences), checked)


def _unsettled(play: PlayResult) -> Iterator[str]:
    if not play.restless:
        return
    yield f"it did not settle: {'; '.join(play.restless)}"
    for job in play.jobs:
        if job.at_end == "pending":
            yield f"{job.name} is still pending: {last_word(job)}"
    if play.not_played:
        yield f"never submitted: {', '.join(play.not_played)}"


def last_word(job: JobResult) -> str:
    """The last thing that anybody said about a job."""
    return "; also: ".join(reasons(job)) or "nothing was said about it"


def reasons(job: JobResult) -> list[str]:
    """Why a job is where it is: all that was said since it last had quota.

    Kueue says different things of one job in turn (that it fits no node; which flavors were no choice), so
    the last of them is not the whole.
    """
    if job.rejected or job.unscheduled:
        return [job.rejected] if job.rejected else list(job.unscheduled)
    reserved = [number for number, said in enumerate(job.said) if said.startswith("Quota reserved")]
    since = job.said[reserved[-1] :] if reserved else job.said
    told = [said for said in dict.fromkeys(since) if not said.startswith(("Quota reserved", "Preempted to"))]
    return told or list(job.said[-1:])


def _differences(play: PlayResult, job: JobResult, expect: Expectation) -> Iterator[str]:
    if expect.admitted is not None and expect.admitted != bool(job.admitted):
        if expect.admitted:
            yield f"admitted: expected true, but it never was: {last_word(job)}"
        else:
            yield f"admitted: expected false, but it was at second {job.admitted[0]:g}"
    if expect.admitted_after is not None:
        yield from _admitted_after(play, job, expect.admitted_after)
    if expect.at_end is not None and expect.at_end != job.at_end:
        yield f"atEnd: expected {expect.at_end}, but it is {job.at_end}: {last_word(job)}"
    if expect.scheduled is not None and expect.scheduled != _scheduled(job):
        yield f"scheduled: expected {_word(expect.scheduled)}, but {_pods(job)}"
    if expect.borrows is not None and expect.borrows != bool(job.borrowed):
        borrowed = ", ".join(f"{resource} of {flavor}" for flavor, resource in sorted(job.borrowed))
        yield f"borrows: expected {_word(expect.borrows)}, but it borrowed {borrowed or 'nothing'}"
    yield from _preemption_differences(play, job, expect)
    if expect.reason_contains is not None and not any(
        expect.reason_contains in said for said in (*job.said, *job.unscheduled, job.rejected)
    ):
        yield f"reasonContains: {expect.reason_contains!r} is in nothing that was said: {last_word(job)}"
    if expect.placement is not None:
        yield from _placement_differences(job, expect.placement)


def _word(value: bool) -> str:
    return "true" if value else "false"


def _admitted_after(play: PlayResult, job: JobResult, other: str) -> Iterator[str]:
    before = next((each for each in play.jobs if each.name == other), None)
    if not job.admitted:
        yield f"admittedAfter: expected after {other}, but it never was: {last_word(job)}"
    elif before is None or not before.ended:
        yield f"admittedAfter: {other} never ended, but it was admitted at second {job.admitted[0]:g}"
    elif job.admitted[0] < before.ended[0]:
        ended, first = before.ended[0], job.admitted[0]
        yield f"admittedAfter: {other} ended at second {ended:g}, but it was admitted at second {first:g}"


def _scheduled(job: JobResult) -> bool:
    return bool(job.placed) and not job.waiting_pods


def _pods(job: JobResult) -> str:
    placed = sum(part.pods for part in job.placed)
    return f"{placed} of {max(job.submission.pods, placed)} pods have a node: {last_word(job)}"


def _preemption_differences(play: PlayResult, job: JobResult, expect: Expectation) -> Iterator[str]:
    if expect.preempts is not None:
        victims = sorted({each.victim for each in play.preemptions if each.preemptor == job.name})
        if victims != sorted(set(expect.preempts)):
            expected = ", ".join(sorted(set(expect.preempts))) or "nothing"
            yield f"preempts: expected {expected}, but it preempted {', '.join(victims) or 'nothing'}"
    if expect.preempted_by is not None:
        by = [each.preemptor for each in play.preemptions if each.victim == job.name]
        if expect.preempted_by not in by:
            yield f"preemptedBy: expected {expect.preempted_by}, but it was {', '.join(by) or 'nobody'}"


def _placement_differences(job: JobResult, expect: Placement) -> Iterator[str]:
    if not job.placed:
        yield f"placement: none of its pods has a node: {last_word(job)}"
        return
    if expect.same_domain is not None and len(found := _values(job, expect.same_domain)) != 1:
        yield f"placement.sameDomain: {expect.same_domain} is {', '.join(found)}"
    for label, number in sorted(expect.domains.items()):
        if len(found := _values(job, label)) != number:
            yield f"placement.domains: expected {number} of {label}, but it is {', '.join(found)}"
    types = sorted({part.instance_type for part in job.placed})
    if expect.instance_type is not None and types != [expect.instance_type]:
        yield f"placement.instanceType: expected {expect.instance_type}, but it is {', '.join(types)}"


def _values(job: JobResult, label: str) -> list[str]:
    return sorted({part.labels.get(label, "(no such label)") for part in job.placed})
