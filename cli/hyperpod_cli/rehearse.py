"""`hpf rehearse`: the config's objects and jobs on a real Kueue."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hyperpod_cli import pipeline, report
from hyperpod_cli.output import UsageError, emit, tell
from hyperpod_config.findings import Finding
from hyperpod_config.source import list_files
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_live.control_plane.client import ApiError
from hyperpod_live.control_plane.errors import ControlPlaneError
from hyperpod_live.rehearsal import plan
from hyperpod_live.rehearsal import report as rehearsal_report
from hyperpod_live.rehearsal.files import read_jobs
from hyperpod_live.rehearsal.nodes import DEFAULT_SHAPE, Network
from hyperpod_live.rehearsal.rehearse import Existing, Options, rehearse, rehearse_on
from hyperpod_live.rehearsal.scenario import read


def run(options: argparse.Namespace, checked: pipeline.Checked) -> bool:
    """Rehearse what the options ask for and write the report; True when all was as expected.

    Raises:
        UsageError: the options cannot be followed, or there is no stage to rehearse on.
    """
    assert checked.resolved is not None
    defaults = plan.Defaults(options.at, Network(_shape(options.topology)))
    plans, frameworks, found = _plans(options, checked.resolved, defaults)
    if found:
        tell(report.findings(found, "text"), end="")
        tell(f"nothing was rehearsed: {report.summary(found)}")
        return False
    settings = Options(frameworks, options.timeout, options.log_dir)
    try:
        if options.kubeconfig is not None:
            existing = Existing(options.kubeconfig, options.context, options.allow_production)
            results = rehearse_on(existing, plans, settings, tell)
        else:
            results = rehearse(plans, settings, tell)
    except (ControlPlaneError, ApiError) as error:
        raise UsageError(str(error)) from error
    emit(rehearsal_report.render(results, options.format), options.output)
    tell(rehearsal_report.summary(results))
    return not any(result.failed for result in results)


def _plans(
    options: argparse.Namespace, fleet: ResolvedFleet, defaults: plan.Defaults
) -> tuple[Sequence[plan.ClusterPlan], tuple[str, ...], Sequence[Finding]]:
    """What to play, the job kinds that it needs, and what is wrong with the files."""
    if options.cluster is not None and options.cluster not in {it.name for it in fleet.clusters}:
        raise UsageError(f"no cluster {options.cluster!r} in {options.config}")
    if options.scenario:
        scenarios = read(_files(options.scenario))
        plans, found = plan.of_scenarios(fleet, scenarios.scenarios, defaults)
        if options.cluster is not None:
            plans = [it for it in plans if it.cluster.name == options.cluster]
        return plans, (), sorted([*scenarios.findings, *found], key=lambda it: it.place)
    if options.job:
        cluster = _one_cluster(options, fleet)
        assert cluster.governance is not None
        jobs = read_jobs(_files(options.job), cluster.governance)
        return [plan.of_jobs(cluster, jobs.submissions, defaults)], jobs.frameworks, jobs.findings
    chosen = [it for it in fleet.clusters if options.cluster in {None, it.name}]
    if options.team is not None and options.team not in {it.name for it in fleet.config.teams}:
        raise UsageError(f"no team {options.team!r} in {options.config}")
    return [plan.of_promises(cluster, defaults, options.team) for cluster in chosen], (), ()


def _one_cluster(options: argparse.Namespace, fleet: ResolvedFleet) -> ResolvedCluster:
    known = plan.governed(fleet)
    if options.cluster is None and len(known) != 1:
        raise UsageError(f"say with --cluster where the jobs go: one of {', '.join(known) or 'none'}")
    name = options.cluster or next(iter(known))
    if name not in known:
        raise UsageError(f"cluster {name} has no Kueue: its jobs cannot be rehearsed")
    return known[name]


def _files(paths: Sequence[Path]) -> list[Path]:
    """The files named, and all YAML files below the directories named."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = list_files(path)
            files += map(Path, below.files)
        elif path.exists():
            files.append(path)
        else:
            raise UsageError(f"there is no {path}")
    if not files:
        raise UsageError(f"no *.yaml or *.yml file in {', '.join(map(str, paths))}")
    return files


def _shape(text: str | None) -> tuple[int, ...]:
    if text is None:
        return DEFAULT_SHAPE
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--topology {text}: whole numbers above 0 with commas, such as 2,2,4")
    return tuple(map(int, parts))
