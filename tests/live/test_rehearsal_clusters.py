"""Clusters of other kinds on a real Kueue, each removed before the next."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.k8s.k8s_fleets import cluster, team

from hyperpod_cli import pipeline
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_governance.service import CLUSTER_NAME_LABEL
from hyperpod_live.control_plane import ControlPlane
from hyperpod_live.rehearsal import plan, rehearse
from hyperpod_live.rehearsal.judge import judge
from hyperpod_live.rehearsal.nodes import Network, counts
from hyperpod_live.rehearsal.play import Play, perform
from hyperpod_live.rehearsal.scenario import Job
from hyperpod_live.rehearsal.stage import Stage
from hyperpod_live.rehearsal.submission import submissions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fleet() -> ResolvedFleet:
    resolved = pipeline.check(ROOT / "config").resolved
    assert resolved is not None
    return resolved


def play_of(resolved: ResolvedCluster, *jobs: dict[str, Any]) -> Play:
    assert resolved.governance is not None
    models = [Job.model_validate(it) for it in jobs]
    numbers = counts(resolved, "target")
    return Play("test", "", submissions(resolved.governance, models), numbers, Network())


def test_partitions_of_gpus_are_handed_out_one_by_one(control_plane: ControlPlane) -> None:
    quota = [{"instanceType": "ml.p5.48xlarge", "acceleratorPartition": {"type": "mig-1g.10gb", "count": 4}}]
    sharing = {"strategy": "DontLend"}
    group = {
        "name": "mig",
        "instanceType": "ml.p5.48xlarge",
        "instanceCount": 1,
        "kubernetesConfig": {"labels": {"nvidia.com/mig.config": "all-1g.10gb"}},
    }
    resolved = cluster(
        "kueue", [team("mig-team", {"quota": quota, "resourceSharingConfig": sharing})], groups=[group]
    )
    ask = {"team": "mig-team", "resources": {"nvidia.com/mig-1g.10gb": 1}}
    runs, waits = {"admitted": True, "scheduled": True}, {"admitted": False, "reasonContains": "mig-1g.10gb"}
    play = play_of(
        resolved,
        {"name": "four", **ask, "pods": 4, "expect": runs},
        {"name": "fifth", **ask, "expect": waits},
    )
    with Stage(control_plane.client(), resolved) as stage:
        assert [item for item in stage.apply() if item.failed] == []
        assert judge(perform(stage, play)).differences == ()


def test_what_the_config_promises_holds_on_each_cluster_in_turn(
    control_plane: ControlPlane, fleet: ResolvedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearse, "ControlPlane", lambda **_: nullcontext(control_plane))
    plans = [plan.of_promises(it, plan.Defaults()) for it in fleet.clusters if it.name != "research"]
    resolved = plan.governed(fleet)["studio"]
    progress: list[str] = []
    try:
        results = rehearse.rehearse(plans, rehearse.Options(), progress.append)
    finally:
        Stage(control_plane.client(), resolved).clear()
        client = control_plane.client()
        client.delete_all(client.list("v1", "Node", labels=CLUSTER_NAME_LABEL))
        control_plane.configure_kueue(None)
    assert [result.cluster for result in results] == ["pretrain", "studio"]
    assert results[0].scenarios == ()
    assert "Slurm" in results[0].outside[0]
    assert [item.differences for item in results[1].scenarios] == [()] * len(plans[1].plays)
    assert not results[1].failed
