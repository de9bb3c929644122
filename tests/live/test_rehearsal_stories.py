"""The stories of task governance, told by a real Kueue."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_cli import main, pipeline
from hyperpod_governance.model import ResolvedCluster, ResolvedFleet
from hyperpod_live.control_plane import ControlPlane
from hyperpod_live.rehearsal import plan, scenario
from hyperpod_live.rehearsal.files import read_jobs
from hyperpod_live.rehearsal.judge import judge
from hyperpod_live.rehearsal.nodes import Network, counts
from hyperpod_live.rehearsal.play import Play, perform
from hyperpod_live.rehearsal.scenario import Job
from hyperpod_live.rehearsal.stage import Stage
from hyperpod_live.rehearsal.submission import submissions

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "scenarios").glob("*.yaml"))


@pytest.fixture(scope="module")
def fleet() -> ResolvedFleet:
    resolved = pipeline.check(ROOT / "config").resolved
    assert resolved is not None
    return resolved


@pytest.fixture(scope="module")
def research(control_plane: ControlPlane, fleet: ResolvedFleet) -> Iterator[Stage]:
    """The cluster of the examples, applied once for all of them."""
    with Stage(control_plane.client(), plan.governed(fleet)["research"], check=control_plane.check) as stage:
        assert [item for item in stage.apply() if item.failed] == []
        yield stage


def play_of(resolved: ResolvedCluster, *jobs: dict[str, Any]) -> Play:
    assert resolved.governance is not None
    models = [Job.model_validate(it) for it in jobs]
    numbers = counts(resolved, "target")
    return Play("test", "", submissions(resolved.governance, models), numbers, Network())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_story_goes_as_the_example_says(research: Stage, fleet: ResolvedFleet, path: Path) -> None:
    plans, found = plan.of_scenarios(fleet, scenario.read([path]).scenarios, plan.Defaults())
    assert found == []
    judged = judge(perform(research, plans[0].plays[0]))
    assert judged.expectations > 0
    assert judged.differences == ()


def test_pods_that_fit_a_quota_but_no_node_wait_and_kueue_says_why(research: Stage) -> None:
    # 48 vCPU are promised; a node of 48 keeps some for itself.
    job = {"name": "whole", "team": "onlygputeam", "instanceType": "ml.g6.12xlarge", "resources": {"cpu": 48}}
    (result,) = perform(research, play_of(research.cluster, job)).jobs
    assert result.at_end == "pending"
    assert "excluded" in str(result.said)


def test_a_group_of_pods_is_admitted_together(research: Stage, tmp_path: Path) -> None:
    pod = """
    apiVersion: v1
    kind: Pod
    metadata:
      name: {0}
      namespace: hyperpod-ns-vision
      labels:
        kueue.x-k8s.io/queue-name: hyperpod-ns-vision-localqueue
        kueue.x-k8s.io/pod-group-name: both
      annotations: {{kueue.x-k8s.io/pod-group-total-count: "2"}}
    spec:
      containers:
        - name: main
          image: none
          resources: {{requests: {{nvidia.com/gpu: 1}}, limits: {{nvidia.com/gpu: 1}}}}
    """
    path = tmp_path / "pods.yaml"
    path.write_text(textwrap.dedent(pod.format("one")) + "---" + textwrap.dedent(pod.format("two")))
    read = read_jobs([path], research.governance)
    assert read.findings == ()
    numbers = counts(research.cluster, "target")
    result = judge(perform(research, Play("pods", "", read.submissions, numbers, Network())))
    assert result.differences == ()
    assert sum(part.pods for part in result.play.jobs[0].placed) == 2


def test_a_manifest_that_the_api_server_refuses_is_told_in_its_words(research: Stage, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: bad\n  namespace: hyperpod-ns-vision\n"
        "  labels: {kueue.x-k8s.io/queue-name: hyperpod-ns-vision-localqueue}\nspec: {template: {spec: {}}}\n"
    )
    read = read_jobs([path], research.governance)
    judged = judge(perform(research, Play("bad", "", read.submissions, {}, Network())))
    assert judged.play.jobs[0].at_end == "refused"
    assert "spec.template.spec.containers" in judged.differences[0][1]


def test_without_nodes_the_job_waits_for_some(research: Stage) -> None:
    job = {
        "name": "a",
        "team": "vision",
        "instanceType": "ml.p5.48xlarge",
        "resources": {"nvidia.com/gpu": 8},
    }
    play = play_of(research.cluster, job)
    none = dict.fromkeys(play.counts, 0)
    result = perform(research, Play("none", "", play.submissions, none, Network()))
    assert (result.nodes, result.jobs[0].at_end) == (0, "pending")


def test_a_step_that_does_not_settle_is_bounded_and_tells_what_was_going_on(research: Stage) -> None:
    jobs = [
        {"name": name, "team": "vision", "resources": {"nvidia.com/gpu": 1}} for name in ("first", "later")
    ]
    result = perform(research, play_of(research.cluster, *jobs), settle_seconds=0.0)
    assert result.restless
    assert result.not_played == ("later",)
    assert any(text.startswith("it did not settle") for _, text in judge(result).differences)


def test_a_cluster_with_the_queues_of_others_is_left_alone(
    research: Stage, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["rehearse", str(ROOT / "config"), "--cluster", "research", "--kubeconfig"]
    assert main.main([*arguments, str(control_plane.kubeconfig)]) == main.USAGE
    said = capsys.readouterr().err
    assert "looks like a cluster that people depend on" in said
    assert "ClusterQueues of somebody else" in said
    assert "--allow-production" in said
