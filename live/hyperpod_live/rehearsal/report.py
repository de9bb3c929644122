"""The report of a rehearsal as text, JSON and JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from hyperpod_governance.quantity import format_quantity
from hyperpod_live.rehearsal.judge import reasons
from hyperpod_live.rehearsal.result import ClusterResult, JobResult, Judged, PlayResult

# What XML 1.0 cannot hold at all.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(results: Sequence[ClusterResult], style: str) -> str:
    """The report as text, JSON or JUnit XML."""
    if style == "json":
        return json.dumps([_cluster_json(result) for result in results], indent=2) + "\n"
    if style == "junit":
        return _junit(results)
    return "\n".join("\n".join(_cluster_text(result)) + "\n" for result in results)


def summary(results: Sequence[ClusterResult]) -> str:
    """How it went, in a line."""
    scenarios = [item for result in results for item in result.scenarios]
    bad = sum(1 for item in scenarios if item.differences)
    objects = sum(1 for result in results for item in result.objects if item.failed)
    parts = [f"{len(scenarios)} scenarios", f"{bad} not as expected" if bad else "all as expected"]
    if objects:
        parts.append(f"{objects} objects refused or inactive")
    return ", ".join(parts)


# --- text


def _cluster_text(result: ClusterResult) -> Iterator[str]:
    yield f"Cluster {result.cluster} ({result.owner})"
    for line in result.outside:
        yield f"  outside: {line}"
    if result.objects:
        queues = [item for item in result.objects if item.active is not None]
        refused = [item for item in result.objects if item.error]
        active = sum(1 for item in queues if item.active)
        yield (
            f"  objects: {len(result.objects) - len(refused)} of {len(result.objects)} accepted, "
            f"{active} of {len(queues)} queues active"
        )
        for item in result.objects:
            if item.error or item.active is False:
                yield f"    {item.kind} {item.name}: {item.error or item.reason}"
    for judged in result.scenarios:
        yield ""
        yield from _scenario_text(judged)


def _scenario_text(judged: Judged) -> Iterator[str]:
    play = judged.play
    verdict = "FAILED" if judged.differences else "ok"
    yield f"  {verdict:<6} {play.name}" + (f": {play.description}" if play.description else "")
    for job in play.jobs:
        yield from (f"    {line}" for line in _job_text(play, job))
    for name, difference in judged.differences:
        yield f"    DIFFERENCE {name + ': ' if name else ''}{difference}"


def _job_text(play: PlayResult, job: JobResult) -> Iterator[str]:
    size = f"{job.submission.pods} pods" if job.submission.pods else job.submission.kind
    yield f"{job.name} (team {job.submission.team}, {size}): {_fate(job)}"
    for each in play.preemptions:
        if each.victim == job.name:
            yield f"  preempted by {each.preemptor} at {each.time:g}s ({each.reason}): {_short(each.message)}"
    for (flavor, resource), amount in sorted(job.borrowed.items()):
        yield f"  its queue borrowed {format_quantity(resource, amount)} {resource} of {flavor}"
    if job.placed:
        yield "  on " + _places(job)
    if job.at_end in {"pending", "refused"} or job.unscheduled:
        yield from (f"  {reason}" for reason in reasons(job) or ["nothing was said about it"])
    for note in job.submission.notes:
        yield f"  note: {note}"


def _fate(job: JobResult) -> str:
    if not job.admitted:
        return "refused" if job.rejected else "not admitted"
    times = ", ".join(f"{time:g}s" for time in job.admitted)
    ended = ", ".join(f"{time:g}s" for time in job.ended)
    return f"admitted at {times}" + (f", ended at {ended}" if ended else "") + f", {job.at_end} at the end"


def _short(message: str) -> str:
    """Kueue's reason without the UIDs."""
    return re.sub(r"Preempted to accommodate a workload \([^)]*\) due to ", "", message)


def _places(job: JobResult) -> str:
    most = 8
    parts = [f"{part.node} ({part.pods})" if part.pods > 1 else part.node for part in job.placed]
    more = f" and {len(parts) - most} more nodes" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


# --- JSON


def _cluster_json(result: ClusterResult) -> dict[str, Any]:
    return {
        "cluster": result.cluster,
        "owner": result.owner,
        "failed": result.failed,
        "outside": list(result.outside),
        "objects": [
            {
                "kind": item.kind,
                "name": item.name,
                "accepted": not item.error,
                "active": item.active,
                "message": item.error or item.reason,
            }
            for item in result.objects
        ],
        "scenarios": [_scenario_json(item) for item in result.scenarios],
    }


def _scenario_json(judged: Judged) -> dict[str, Any]:
    play = judged.play
    return {
        "name": play.name,
        "description": play.description,
        "nodes": play.nodes,
        "settled": not play.restless,
        "stillChanging": list(play.restless),
        "neverSubmitted": list(play.not_played),
        "expectations": judged.expectations,
        "differences": [{"job": name, "difference": text} for name, text in judged.differences],
        "preemptions": [
            {
                "time": each.time,
                "victim": each.victim,
                "preemptor": each.preemptor,
                "reason": each.reason,
                "message": each.message,
            }
            for each in play.preemptions
        ],
        "jobs": [_job_json(job) for job in play.jobs],
    }


def _job_json(job: JobResult) -> dict[str, Any]:
    return {
        "name": job.name,
        "team": job.submission.team,
        "kind": job.submission.kind,
        "atEnd": job.at_end,
        "admittedAt": list(job.admitted),
        "endedAt": list(job.ended),
        "refused": job.rejected or None,
        "messages": list(job.said),
        "borrowed": [
            {"flavor": flavor, "resource": resource, "amount": format_quantity(resource, amount)}
            for (flavor, resource), amount in sorted(job.borrowed.items())
        ],
        "placement": [
            {"node": part.node, "pods": part.pods, "instanceType": part.instance_type} for part in job.placed
        ],
        "podsWithoutNode": job.waiting_pods,
        "unscheduled": list(job.unscheduled),
        "notes": list(job.submission.notes),
    }


# --- JUnit


def _junit(results: Sequence[ClusterResult]) -> str:
    root = ElementTree.Element("testsuites", name="hpf rehearse")
    for result in results:
        _objects_suite(root, result)
        for judged in result.scenarios:
            _scenario_suite(root, result, judged)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ElementTree.Element, name: str, cases: list[tuple[str, str, str]]) -> None:
    failures = sum(1 for _, failure, _ in cases if failure)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_xml(name),
        tests=str(len(cases)),
        failures=str(failures),
    )
    for case, failure, output in cases:
        element = ElementTree.SubElement(suite, "testcase", classname=_xml(name), name=_xml(case))
        if failure:
            found = ElementTree.SubElement(element, "failure", message=_xml(failure.split("\n")[0]))
            found.text = _xml(failure)
        if output:
            ElementTree.SubElement(element, "system-out").text = _xml(output)


def _objects_suite(root: ElementTree.Element, result: ClusterResult) -> None:
    cases = [
        (f"{item.kind} {item.name}", (item.error or item.reason) if item.failed else "", "")
        for item in result.objects
    ]
    if not cases:
        suite = ElementTree.SubElement(
            root, "testsuite", name=_xml(result.cluster), tests="1", failures="0", skipped="1"
        )
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(result.cluster), name="rehearsal")
        ElementTree.SubElement(case, "skipped", message=_xml("; ".join(result.outside)))
        return
    _suite(root, f"{result.cluster}.objects", cases)


def _scenario_suite(root: ElementTree.Element, result: ClusterResult, judged: Judged) -> None:
    play = judged.play
    cases = []
    for job in play.jobs:
        failure = "\n".join(text for name, text in judged.differences if name == job.name)
        cases.append((job.name, failure, "\n".join(_job_text(play, job))))
    whole = "\n".join(text for name, text in judged.differences if not name)
    cases.append(("settles", whole, ""))
    _suite(root, f"{result.cluster}.{play.name}", cases)


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
