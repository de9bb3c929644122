"""Scenario and job files: what they may hold, and what is said of what they may not."""

from pathlib import Path

import pytest
from tests.k8s.k8s_fleets import cluster, example, team

from hyperpod_config.model import Fleet
from hyperpod_governance.model import ResolvedFleet
from hyperpod_live.rehearsal import plan, scenario
from hyperpod_live.rehearsal.files import read_jobs

HEAD = "apiVersion: hyperpod-fleet/v1alpha1\nkind: Scenario\nmetadata: {name: test}\n"
JOB = "{name: a, team: onlygputeam}"


def said(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    read = scenario.read([path])
    resolved = example("sagemaker")
    fleet = ResolvedFleet("example", Fleet.__new__(Fleet), (resolved,))
    _, found = plan.of_scenarios(fleet, read.scenarios, plan.Defaults())
    return [
        f"{it.place.line}:{it.place.column} {it.rule} {it.message} | {it.hint}"
        for it in (*read.findings, *found)
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{jobs: []}", "4:8 HPF017 spec.jobs is 0 items long; allowed is 1 items or more"),
        (f"{{job: [{JOB}]}}", "4:8 HPF014 spec.job is not a field here | did you mean jobs?"),
        ("{jobs: [{name: a}]}", "HPF015 spec.jobs[0].team is required"),
        ("{jobs: [{name: A, team: onlygputeam}]}", "HPF017 spec.jobs[0].name"),
        ("{jobs: [{name: a, team: onlygpuTeam}]}", "HPF017 spec.jobs[0].team"),
        ("{jobs: [{name: a, team: onlygputeem}]}", "no team on research onlygputeem"),
        (
            "{jobs: [{name: a, team: onlygputeam, pods: 0}]}",
            "HPF017 spec.jobs[0].pods is 0; allowed is 1 or more",
        ),
        (
            "{jobs: [{name: a, team: onlygputeam, resources: {cpu: many}}]}",
            "'many' is not a Kubernetes quantity",
        ),
        ("{jobs: [{name: a, team: onlygputeam, resources: {cpu: -1}}]}", "-1 is negative"),
        ("{jobs: [{name: a, team: onlygputeam, resources: {cpu: true}}]}", "must be a Kubernetes quantity"),
        (
            "{jobs: [{name: a, team: onlygputeam, runTime: never}]}",
            "must be a number of seconds above 0, or forever",
        ),
        ("{jobs: [{name: a, team: onlygputeam, priorityClass: trainng}]}", "did you mean training?"),
        (
            "{jobs: [{name: a, team: onlygputeam, instanceType: ml.p5.4xlarge}]}",
            "did you mean ml.p5.48xlarge?",
        ),
        ("{jobs: [{name: a, team: onlygputeam, topology: {}}]}", "needs exactly one of required, preferred"),
        (f"{{jobs: [{JOB}, {JOB}]}}", "HPF018 a second job is called a"),
        ("{jobs: [{name: a, team: onlygputeam, expect: {preempts: [b]}}]}", "no job b; there is a"),
        ("{jobs: [{name: a, team: onlygputeam, expect: {admittedAfter: b}}]}", "no job b; there is a"),
        ("{jobs: [{name: a, team: onlygputeam, expect: {atEnd: runing}}]}", "did you mean running?"),
        (f"{{cluster: reserch, jobs: [{JOB}]}}", "did you mean research?"),
        (f"{{at: tonight, jobs: [{JOB}]}}", 'spec.at is "tonight"; allowed is target, minimum'),
        (f"{{topology: {{shape: [2, 0]}}, jobs: [{JOB}]}}", "spec.topology.shape[1] is 0"),
        (f"{{topology: {{layout: [[1], 2]}}, jobs: [{JOB}]}}", "must be nested lists"),
        (f"{{topology: {{}}, jobs: [{JOB}]}}", "needs exactly one of shape, layout"),
        (
            f"{{scale: [{{time: 1, instanceGroup: h10, instanceCount: 1}}], jobs: [{JOB}]}}",
            "did you mean h100?",
        ),
    ],
)
def test_a_mistake_in_a_scenario_is_a_finding_with_its_place(
    tmp_path: Path, spec: str, expected: str
) -> None:
    found = said(tmp_path, f"{HEAD}spec: {spec}\n")
    assert len(found) == 1
    assert expected in found[0]


def test_a_scenario_without_mistakes_has_no_finding(tmp_path: Path) -> None:
    assert said(tmp_path, f"{HEAD}spec: {{jobs: [{JOB}]}}\n") == []


def test_the_examples_are_scenarios() -> None:
    directory = Path(__file__).parents[2] / "examples" / "scenarios"
    read = scenario.read(sorted(directory.glob("*.yaml")))
    assert read.findings == ()
    assert {it.scenario.metadata.name for it in read.scenarios} == {
        path.stem for path in directory.glob("*.yaml")
    }


def test_two_scenarios_of_one_name_are_refused(tmp_path: Path) -> None:
    found = said(tmp_path, f"{HEAD}spec: {{jobs: [{JOB}]}}\n---\n{HEAD}spec: {{jobs: [{JOB}]}}\n")
    assert [line.split(" ")[1] for line in found] == ["HPF013"]


# --- manifests of jobs

LABELS = "labels: {kueue.x-k8s.io/queue-name: hyperpod-ns-onlygputeam-localqueue}"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("{apiVersion: v1, kind: ConfigMap}", "HPF850 v1 ConfigMap is no kind of job"),
        ("{apiVersion: batch/v1beta1, kind: Job}", "HPF850 batch/v1beta1 Job is no kind of job"),
        ("[]", "HPF850 no apiVersion no kind"),
        ("{apiVersion: batch/v1, kind: Job, metadata: {}}", "HPF015 metadata.name is required"),
        (
            f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: a, {LABELS}}}}}",
            "HPF851 no namespace default",
        ),
        (
            "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: hyperpod-ns-onlygputeam}}",
            "HPF852 Job a names no queue",
        ),
        (
            "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: hyperpod-ns-onlygputeam, "
            "labels: {kueue.x-k8s.io/queue-name: default}}}",
            "no LocalQueue in namespace hyperpod-ns-onlygputeam default",
        ),
    ],
)
def test_a_mistake_in_a_manifest_is_a_finding(tmp_path: Path, manifest: str, expected: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(manifest + "\n")
    governance = example("sagemaker").governance
    assert governance is not None
    read = read_jobs([path], governance)
    assert read.submissions == ()
    assert [expected in f"{it.rule} {it.message}" for it in read.findings] == [True]


def test_pods_of_one_group_are_one_job(tmp_path: Path) -> None:
    pod = (
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {0}, namespace: team-a, "
        "labels: {{kueue.x-k8s.io/pod-group-name: both}}}}}}\n---\n"
    )
    (tmp_path / "pods.yaml").write_text(pod.format("one") + pod.format("two"))
    governance = cluster("kueue", [team("a", {"quota": []})]).governance
    assert governance is not None
    (only,) = read_jobs([tmp_path / "pods.yaml"], governance).submissions
    assert (only.name, only.team, only.pods, len(only.manifests)) == ("both", "a", 2, 2)


def test_a_job_of_an_operator_has_no_pods_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a, namespace: team-a}}\n"
    )
    governance = cluster("kueue", [team("a", {"quota": []})]).governance
    assert governance is not None
    read = read_jobs([path], governance)
    assert read.frameworks == ("kubeflow.org/pytorchjob",)
    assert read.submissions[0].pods == 0
    assert "no operator" in read.submissions[0].notes[0]
