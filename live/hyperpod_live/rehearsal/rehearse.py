"""Rehearse plans on a control plane of our own, or on a cluster that is there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperpod_live.control_plane.client import Client
from hyperpod_live.control_plane.errors import ControlPlaneError
from hyperpod_live.control_plane.kubeconfig import read_kubeconfig
from hyperpod_live.control_plane.kueue import CORE_FRAMEWORKS
from hyperpod_live.control_plane.run import ControlPlane
from hyperpod_live.rehearsal.existing import kubelets, require_room, sandboxed, signs_of_production
from hyperpod_live.rehearsal.judge import judge
from hyperpod_live.rehearsal.nodes import counts
from hyperpod_live.rehearsal.outside import outside
from hyperpod_live.rehearsal.plan import ClusterPlan
from hyperpod_live.rehearsal.play import SETTLE_SECONDS, perform
from hyperpod_live.rehearsal.result import ClusterResult
from hyperpod_live.rehearsal.settings import configuration
from hyperpod_live.rehearsal.stage import Stage

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How to rehearse. ``settle_seconds`` bounds each step of a scenario, in wall-clock time."""

    frameworks: tuple[str, ...] = ()
    settle_seconds: float = SETTLE_SECONDS
    log_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Existing:
    """A cluster to use instead of our own."""

    kubeconfig: Path
    context: str | None = None
    allow_production: bool = False


def rehearse(plans: Sequence[ClusterPlan], options: Options, progress: Progress) -> list[ClusterResult]:
    """Rehearse on a control plane of our own; each cluster gets Kueue as its owner configures it.

    Raises:
        ControlPlaneError: it cannot be built, started or kept running.
    """
    playable = [plan for plan in plans if plan.cluster.governance is not None]
    results = {plan.cluster.name: _left_out(plan) for plan in plans}
    if playable:
        frameworks = (*CORE_FRAMEWORKS, *sorted({*options.frameworks} - {*CORE_FRAMEWORKS}))
        first = playable[0].cluster.governance
        assert first is not None
        with ControlPlane(
            kueue_config=configuration(first),
            frameworks=frameworks,
            log_dir=options.log_dir,
            progress=progress,
        ) as control_plane:
            for plan in playable:
                last = plan is playable[-1]
                stage = Stage(control_plane.client(), plan.cluster, check=control_plane.check)
                if plan is not playable[0]:
                    control_plane.configure_kueue(configuration(stage.governance))
                results[plan.cluster.name] = on_stage(stage, plan, options.settle_seconds, progress)
                if not last:  # the control plane goes with all that the last one left
                    stage.clear()
    return [results[plan.cluster.name] for plan in plans]


def rehearse_on(
    existing: Existing, plans: Sequence[ClusterPlan], options: Options, progress: Progress
) -> list[ClusterResult]:
    """Rehearse on a cluster that is there, with its own Kueue configuration; all that was made is removed.

    Raises:
        ControlPlaneError: it cannot be used, looks like production, or has objects of the fleet's names.
    """
    with tempfile.TemporaryDirectory(prefix="hyperpod-fleet-") as folder:
        client = Client(read_kubeconfig(existing.kubeconfig, Path(folder), existing.context))
        signs = signs_of_production(client)
        if signs and not existing.allow_production:
            raise ControlPlaneError(
                f"{client.url} looks like a cluster that people depend on: {'; '.join(signs)}. Nothing was "
                "changed. Name another cluster, or say --allow-production."
            )
        return [_on_existing(client, plan, options, progress) for plan in plans]


def _on_existing(client: Client, plan: ClusterPlan, options: Options, progress: Progress) -> ClusterResult:
    if plan.cluster.governance is None:
        return _left_out(plan)
    stage = Stage(client, plan.cluster, change=sandboxed)
    left = require_room(client, stage.objects)
    if left:
        progress(f"removing {len(left)} objects of an earlier rehearsal")
        stage.clear()
    with stage, kubelets(client):
        return on_stage(stage, plan, options.settle_seconds, progress)


def on_stage(stage: Stage, plan: ClusterPlan, settle_seconds: float, progress: Progress) -> ClusterResult:
    """Apply the cluster's objects and play its scenarios; what is there afterwards stays."""
    progress(f"{plan.cluster.name}: applying its objects")
    objects = stage.apply()
    judged = []
    for number, play in enumerate(plan.plays, 1):
        progress(f"{plan.cluster.name}: {play.name} ({number} of {len(plan.plays)})")
        judged.append(judge(perform(stage, play, settle_seconds)))
    left_out = _left_out(plan)
    return ClusterResult(left_out.cluster, left_out.owner, objects, tuple(judged), left_out.outside)


def _left_out(plan: ClusterPlan) -> ClusterResult:
    cluster = plan.cluster
    owner = cluster.governance.owner if cluster.governance else "no governance"
    said = (*outside(cluster, counts(cluster, plan.at)), *(f"not shown: {line}" for line in plan.unshown))
    return ClusterResult(cluster.name, owner, (), (), said)
