"""From a config, scenario files and job files to what is played on which cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hyperpod_config import findings
from hyperpod_config.findings import Finding
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet, ResolvedGovernance
from hyperpod_live.rehearsal.files import unknown_name
from hyperpod_live.rehearsal.nodes import At, Network, counts
from hyperpod_live.rehearsal.play import Play, ScaleStep
from hyperpod_live.rehearsal.promises import promises
from hyperpod_live.rehearsal.scenario import Job, ScenarioFile, ScenarioTopology
from hyperpod_live.rehearsal.submission import Submission, submissions


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a scenario says nothing."""

    at: At = "target"
    network: Network = field(default_factory=Network)


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What is played on one cluster, in order. ``unshown`` are promises that its nodes cannot show."""

    cluster: ResolvedCluster
    plays: tuple[Play, ...]
    at: At
    unshown: tuple[str, ...] = ()


def of_promises(cluster: ResolvedCluster, defaults: Defaults, team: str | None = None) -> ClusterPlan:
    """Scenarios that follow from the config, of one team or all; none for a cluster without governance."""
    governance = cluster.governance
    if governance is None:
        return ClusterPlan(cluster, (), defaults.at)
    numbers = counts(cluster, defaults.at)
    made = promises(cluster, numbers, defaults.network)
    plays = tuple(
        Play(
            promise.name,
            promise.description,
            submissions(governance, promise.jobs),
            numbers,
            defaults.network,
        )
        for promise in made.promises
        if team in {None, promise.team}
    )
    return ClusterPlan(cluster, plays, defaults.at, made.unshown)


def of_jobs(cluster: ResolvedCluster, jobs: Sequence[Submission], defaults: Defaults) -> ClusterPlan:
    """Jobs of files, one after the other."""
    play = Play("jobs", "", tuple(jobs), counts(cluster, defaults.at), defaults.network)
    return ClusterPlan(cluster, (play,), defaults.at)


def of_scenarios(
    fleet: ResolvedFleet, files: Iterable[ScenarioFile], defaults: Defaults
) -> tuple[list[ClusterPlan], list[Finding]]:
    """Scenarios by cluster, in the order of the clusters; or what they name and the fleet does not have."""
    found: list[Finding] = []
    plays: dict[str, list[Play]] = {}
    for file in files:
        cluster = _cluster(fleet, file)
        if isinstance(cluster, Finding):
            found.append(cluster)
            continue
        assert cluster.governance is not None
        mistakes = list(_mistakes(cluster, cluster.governance, file))
        found += mistakes
        if not mistakes:
            plays.setdefault(cluster.name, []).append(_play(cluster, cluster.governance, file, defaults))
    plans = [
        ClusterPlan(cluster, tuple(plays[cluster.name]), defaults.at)
        for cluster in fleet.clusters
        if cluster.name in plays
    ]
    return plans, found


def governed(fleet: ResolvedFleet) -> dict[str, ResolvedCluster]:
    """Clusters that can be rehearsed, by name."""
    return {cluster.name: cluster for cluster in fleet.clusters if cluster.governance is not None}


def _cluster(fleet: ResolvedFleet, file: ScenarioFile) -> ResolvedCluster | Finding:
    known, name = governed(fleet), file.scenario.spec.cluster
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name is None:
        place = file.place(("spec",))
        return findings.missing_field(place, "spec.cluster", f"one of {', '.join(known) or 'no cluster'}")
    if name not in known:
        return unknown_name(file.place(("spec", "cluster")), "cluster with governance", name, list(known))
    return known[name]


def _mistakes(
    cluster: ResolvedCluster, governance: ResolvedGovernance, file: ScenarioFile
) -> Iterator[Finding]:
    config = cluster.config.spec.governance
    known = {
        "team": sorted(namespace.team for namespace in governance.namespaces),
        "priorityClass": [it.name for it in config.scheduler_config.priority_classes] if config else [],
        "instanceType": [flavor.instance_type for flavor in governance.flavors],
    }
    names = [job.name for job in file.scenario.spec.jobs]
    for index, job in enumerate(file.scenario.spec.jobs):
        at = ("spec", "jobs", index)
        if job.name in names[:index]:
            place = file.place((*at, "name"))
            yield findings.contradiction(
                place, "", f"a second job is called {job.name}", "rename one of them"
            )
        given = {"team": job.team, "priorityClass": job.priority_class, "instanceType": job.instance_type}
        for key, value in given.items():
            if value is not None and value not in known[key]:
                yield unknown_name(file.place((*at, key)), f"{key} on {cluster.name}", value, known[key])
        for path, name in _named_jobs(job):
            if name not in names:
                yield unknown_name(file.place((*at, "expect", *path)), "job", name, [*dict.fromkeys(names)])
    groups = [pool.name for pool in cluster.pools]
    for index, step in enumerate(file.scenario.spec.scale):
        if step.instance_group not in groups:
            place = file.place(("spec", "scale", index, "instanceGroup"))
            yield unknown_name(place, f"instance group on {cluster.name}", step.instance_group, groups)


def _named_jobs(job: Job) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Jobs that the expectations of a job name, and where."""
    expect = job.expect
    if expect is None:
        return
    if expect.admitted_after is not None:
        yield ("admittedAfter",), expect.admitted_after
    if expect.preempted_by is not None:
        yield ("preemptedBy",), expect.preempted_by
    for index, name in enumerate(expect.preempts or ()):
        yield ("preempts", index), name


def _play(
    cluster: ResolvedCluster, governance: ResolvedGovernance, file: ScenarioFile, defaults: Defaults
) -> Play:
    scenario = file.scenario
    return Play(
        name=scenario.metadata.name,
        description=scenario.metadata.description or "",
        submissions=submissions(governance, scenario.spec.jobs),
        counts=counts(cluster, scenario.spec.at or defaults.at),
        network=_network(scenario.spec.topology) or defaults.network,
        scale=tuple(
            ScaleStep(step.time, step.instance_group, step.instance_count) for step in scenario.spec.scale
        ),
    )


def _network(topology: ScenarioTopology | None) -> Network | None:
    if topology is None:
        return None
    if topology.shape is not None:
        return Network(shape=tuple(topology.shape))
    return Network(layout=topology.layout)
