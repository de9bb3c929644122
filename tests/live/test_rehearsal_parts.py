"""The parts of a rehearsal that need no cluster: nodes, observations, judgement, promises, report."""

import itertools
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.k8s.k8s_fleets import cluster, clusters, example, team

from hyperpod_governance.model import ResolvedCluster
from hyperpod_live.control_plane.client import Client
from hyperpod_live.rehearsal import report
from hyperpod_live.rehearsal.existing import LABEL, sandboxed, signs_of_production
from hyperpod_live.rehearsal.judge import judge, reasons
from hyperpod_live.rehearsal.nodes import Network, counts, fake_nodes
from hyperpod_live.rehearsal.observe import Chronicle, Preemption, Workload, borrowed
from hyperpod_live.rehearsal.outside import outside
from hyperpod_live.rehearsal.promises import promises
from hyperpod_live.rehearsal.result import ClusterResult, JobResult, ObjectResult, PlacedPods, PlayResult
from hyperpod_live.rehearsal.scenario import Expectation, Job
from hyperpod_live.rehearsal.submission import Submission, job_manifest, submissions

LAYERS = tuple(f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3))

# --- network and nodes


def test_a_shape_fills_the_lowest_layer_first() -> None:
    network = Network((2, 2, 4))
    paths = [network.path(index) for index in (0, 3, 4, 8, 15, 16)]
    assert paths == [(1, 1, 1), (1, 1, 1), (1, 1, 2), (1, 2, 1), (1, 2, 2), (2, 1, 1)]


def test_a_layout_names_each_domain_and_is_copied_when_it_is_full() -> None:
    network = Network(layout=(((3, 2),), ((2,),)))
    paths = [network.path(index) for index in range(8)]
    assert paths == [(1, 1, 1)] * 3 + [(1, 1, 2)] * 2 + [(2, 1, 1)] * 2 + [(3, 1, 1)]


def test_layers_that_were_not_given_have_one_domain() -> None:
    assert Network((4,)).domains(LAYERS, 5, "nn") == {
        LAYERS[0]: "nn-1",
        LAYERS[1]: "nn-1-1",
        LAYERS[2]: "nn-1-1-2",
    }


def test_layers_that_the_topology_lacks_are_taken_together() -> None:
    names = {Network((2, 2, 1)).domains(LAYERS[2:], index, "nn")[LAYERS[2]] for index in range(8)}
    assert len(names) == 8


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 60))
def test_domains_are_a_tree_whose_lowest_hold_no_more_than_they_may(
    shape: list[int], depth: int, nodes: int
) -> None:
    levels = tuple(f"layer-{number}" for number in range(depth))
    network = Network(tuple(shape))
    labels = [network.domains(levels, index, "nn") for index in range(nodes)]
    for upper, lower in itertools.pairwise(levels):
        parents: dict[str, set[str]] = {}
        for entry in labels:
            parents.setdefault(entry[lower], set()).add(entry[upper])
        assert all(len(found) == 1 for found in parents.values())
    lowest = [entry[levels[-1]] for entry in labels]
    assert max(map(lowest.count, lowest)) <= shape[-1]


def test_nodes_carry_what_the_group_says_and_what_the_flavor_asks() -> None:
    resolved = example("sagemaker")
    nodes = fake_nodes(resolved, counts(resolved, "target"), Network())
    assert len(nodes) == 6
    first = nodes[0]
    assert first.name == "g6-1"
    assert first.labels["node.kubernetes.io/instance-type"] == "ml.g6.12xlarge"
    assert first.labels[LAYERS[2]] == "nn-g6-12xlarge-1-1-1"
    assert [taint.key for taint in first.taints] == ["gpu"]
    assert first.quantities()["cpu"] == "44610m"


def test_a_group_whose_label_says_so_has_partitions() -> None:
    label = {"nvidia.com/mig.config": "all-1g.10gb"}
    group = {
        "name": "mig",
        "instanceType": "ml.p5.48xlarge",
        "instanceCount": 1,
        "kubernetesConfig": {"labels": label},
    }
    resolved = cluster("kueue", [], groups=[group])
    (node,) = fake_nodes(resolved, counts(resolved, "target"), Network())
    assert node.quantities()["nvidia.com/mig-1g.10gb"] == "56"
    assert "nvidia.com/gpu" not in node.allocatable


def test_partitions_that_no_node_offers_are_said() -> None:
    quota = [{"instanceType": "ml.p5.48xlarge", "acceleratorPartition": {"type": "mig-1g.10gb", "count": 4}}]
    group = {"name": "h100", "instanceType": "ml.p5.48xlarge", "instanceCount": 0}
    resolved = cluster("kueue", [team("a", {"quota": quota})], groups=[group])
    said = "\n".join(outside(resolved, counts(resolved, "target")))
    assert "nvidia.com/mig-1g.10gb of ml.p5.48xlarge is promised" in said
    assert "instance group h100 has no nodes" in said


# --- jobs


def test_a_job_is_labelled_as_its_team_would_label_it() -> None:
    governance = example("sagemaker").governance
    assert governance is not None
    job = Job.model_validate(
        {
            "name": "a",
            "team": "onlygputeam",
            "priorityClass": "training",
            "pods": 3,
            "resources": {"nvidia.com/gpu": 1},
            "topology": {"required": LAYERS[2]},
        }
    )
    manifest = job_manifest(governance, job)
    assert manifest["metadata"]["namespace"] == "hyperpod-ns-onlygputeam"
    assert manifest["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "hyperpod-ns-onlygputeam-localqueue",
        "kueue.x-k8s.io/priority-class": "training-priority",
    }
    template = manifest["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-required-topology": LAYERS[2]}


def test_a_job_without_arrival_comes_a_second_after_the_one_before() -> None:
    governance = example("kueue").governance
    assert governance is not None
    given_arrivals: list[float | None] = [None, None, 10, None]
    jobs = [Job(name=f"j{n}", team="onlygputeam", arrival=at) for n, at in enumerate(given_arrivals)]
    assert [it.arrival for it in submissions(governance, jobs)] == [0, 1, 10, 11]


# --- observations


def workload(name: str, *conditions: tuple[str, str, str, str], **more: Any) -> dict[str, Any]:
    metadata = {"uid": f"uid-{name}", "name": name, "namespace": "team-a"}
    metadata |= {"ownerReferences": [{"kind": "Job", "name": name}]}  # type: ignore[dict-item]
    found = [dict(zip(("type", "status", "reason", "message"), it, strict=True)) for it in conditions]
    return {"metadata": metadata, "status": {"conditions": found, **more}}


def submission(name: str, **more: Any) -> Submission:
    manifest = {"kind": "Job", "metadata": {"name": name, "namespace": "team-a"}}
    return Submission(name, "a", (manifest,), more.pop("pods", 1), 0.0, **more)


RESERVED = ("QuotaReserved", "True", "QuotaReserved", "Quota reserved")
ADMITTED = ("Admitted", "True", "Admitted", "admitted")
EVICTION = "Preempted to accommodate a workload (UID: uid-b, JobUID: job-b) due to reclamation"


def test_a_preemption_names_both_sides_even_if_the_preemptor_is_heard_of_later() -> None:
    chronicle = Chronicle()
    chronicle.submitted(submission("a"), "job-a", "")
    chronicle.workload("ADDED", workload("a", RESERVED, ADMITTED))
    chronicle.now = 5.0
    evicted = ("Evicted", "True", "Preempted", EVICTION)
    preempted = ("Preempted", "True", "InCohortReclamation", EVICTION)
    chronicle.workload("MODIFIED", workload("a", RESERVED, ADMITTED, evicted, preempted))
    chronicle.submitted(submission("b"), "job-b", "")
    assert chronicle.preemptions == (Preemption(5.0, "a", "b", "InCohortReclamation", EVICTION),)
    story = chronicle.stories["a"]
    assert (story.admitted, story.ended, story.state) == ([0.0], [5.0], "stopping")


def test_a_job_that_is_admitted_again_is_told_twice() -> None:
    chronicle = Chronicle()
    chronicle.submitted(submission("a"), "job-a", "")
    for state in (
        [RESERVED, ADMITTED],
        [("QuotaReserved", "False", "Pending", "wait")],
        [RESERVED, ADMITTED],
    ):
        chronicle.workload("MODIFIED", workload("a", *state))
        chronicle.now += 1
    assert chronicle.stories["a"].admitted == [0.0, 2.0]
    assert chronicle.stories["a"].said == ["Quota reserved", "wait", "Quota reserved"]


def test_a_topology_assignment_is_unpacked_to_a_node_for_each_pod() -> None:
    packed = {
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"individual": {"prefix": "h100-", "roots": ["1", "2"]}}],
                "podCounts": {"individual": [2, 1]},
            },
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "nn"}, {"universal": "h100-9"}],
                "podCounts": {"universal": 2},
            },
        ]
    }
    admission = {"clusterQueue": "team-a", "podSetAssignments": [{"topologyAssignment": packed}]}
    found = Workload.of(workload("a", RESERVED, ADMITTED, admission=admission))
    assert found.assigned == ("h100-1", "h100-1", "h100-2", "h100-9", "h100-9")


def test_what_a_queue_uses_beyond_its_nominal_quota_is_borrowed() -> None:
    resolved = example("kueue")
    assert resolved.governance is not None
    assignment = {
        "flavors": {"nvidia.com/gpu": "ml.g6.12xlarge"},
        "resourceUsage": {"nvidia.com/gpu": "3"},
    }
    admission = {"clusterQueue": "team-onlygputeam", "podSetAssignments": [assignment]}
    found = Workload.of(workload("a", RESERVED, ADMITTED, admission=admission))
    expected = {"team-onlygputeam": {("ml.g6.12xlarge", "nvidia.com/gpu"): 1}}
    assert borrowed(resolved.governance, [found]) == expected


# --- judgement


def job(name: str = "a", expect: dict[str, Any] | None = None, **more: Any) -> JobResult:
    given_expectation = None if expect is None else Expectation.model_validate(expect)
    values: dict[str, Any] = {
        "rejected": "",
        "state": "admitted",
        "admitted": (0.0,),
        "ended": (),
        "said": ("Kueue's words",),
        "borrowed": {},
        "placed": (PlacedPods("n1", 1, "ml.p5.48xlarge", {"layer": "x"}),),
        "waiting_pods": 0,
        "unscheduled": (),
        **more,
    }
    return JobResult(submission(name, expect=given_expectation), **values)


def differences(*jobs: JobResult, **more: Any) -> list[str]:
    values: dict[str, Any] = {"preemptions": (), "restless": (), "not_played": (), "nodes": 1, **more}
    return [text for _, text in judge(PlayResult("s", "", jobs, **values)).differences]


NEVER: dict[str, Any] = {"state": "pending", "admitted": (), "placed": ()}


@pytest.mark.parametrize(
    ("expect", "actual", "difference"),
    [
        ({"admitted": True}, NEVER, "admitted: expected true, but it never was: Kueue's words"),
        ({"admitted": False}, {}, "admitted: expected false, but it was at second 0"),
        ({"atEnd": "finished"}, {}, "atEnd: expected finished, but it is running: Kueue's words"),
        ({"borrows": True}, {}, "borrows: expected true, but it borrowed nothing"),
        (
            {"borrows": False},
            {"borrowed": {("f", "gpu"): 1}},
            "borrows: expected false, but it borrowed gpu of f",
        ),
        ({"preempts": ["b"]}, {}, "preempts: expected b, but it preempted nothing"),
        ({"preemptedBy": "b"}, {}, "preemptedBy: expected b, but it was nobody"),
        (
            {"reasonContains": "quota"},
            {},
            "reasonContains: 'quota' is in nothing that was said: Kueue's words",
        ),
        (
            {"scheduled": True},
            {"placed": (), "waiting_pods": 1, "unscheduled": ("0/1 nodes",)},
            "scheduled: expected true, but 0 of 1 pods have a node: 0/1 nodes",
        ),
        (
            {"placement": {"sameDomain": "zone"}},
            NEVER,
            "placement: none of its pods has a node: Kueue's words",
        ),
        ({"placement": {"domains": {"layer": 2}}}, {}, "placement.domains: expected 2 of layer, but it is x"),
        (
            {"placement": {"instanceType": "ml.g5.xlarge"}},
            {},
            "placement.instanceType: expected ml.g5.xlarge, but it is ml.p5.48xlarge",
        ),
        ({"admittedAfter": "b"}, {}, "admittedAfter: b never ended, but it was admitted at second 0"),
    ],
)
def test_a_difference_says_what_was_expected_and_what_was(
    expect: dict[str, Any], actual: dict[str, Any], difference: str
) -> None:
    assert differences(job(expect=expect, **actual), job("b")) == [difference]


@pytest.mark.parametrize(
    "expect",
    [
        {"admitted": True, "atEnd": "running", "scheduled": True, "borrows": False, "preempts": []},
        {"reasonContains": "words", "placement": {"sameDomain": "layer", "domains": {"layer": 1}}},
    ],
)
def test_what_is_as_expected_makes_no_difference(expect: dict[str, Any]) -> None:
    assert differences(job(expect=expect)) == []


def test_a_scenario_that_does_not_settle_says_what_is_pending_and_why() -> None:
    found = differences(job("a", **NEVER), restless=("b is being stopped",), not_played=("c",))
    assert found == [
        "it did not settle: b is being stopped",
        "a is still pending: Kueue's words",
        "never submitted: c",
    ]


def test_all_that_was_said_since_a_job_last_had_quota_explains_why_it_waits() -> None:
    said = (
        "old",
        "Quota reserved in x",
        "Preempted to accommodate y",
        "no node fits",
        "no flavor",
        "no node fits",
    )
    assert reasons(job(**{**NEVER, "said": said})) == ["no node fits", "no flavor"]


# --- promises


@settings(max_examples=40)
@given(clusters())
def test_any_config_gives_scenarios_that_can_be_played(resolved: ResolvedCluster) -> None:
    made = promises(resolved, counts(resolved, "target"), Network())
    names = [promise.name for promise in made.promises]
    assert len(names) == len(set(names))
    for promise in made.promises:
        jobs = [it.name for it in promise.jobs]
        assert len(jobs) == len(set(jobs))
        for each in promise.jobs:
            assert each.expect is not None
            assert {*(each.expect.preempts or ()), *filter(None, [each.expect.preempted_by])} <= {*jobs}


def test_each_team_shows_its_nominal_quota_its_limit_and_its_classes() -> None:
    resolved = example("kueue")
    made = {it.name: it for it in promises(resolved, counts(resolved, "target"), Network()).promises}
    jobs = {it.name: it for it in made["onlygputeam-g6-12xlarge-gpu-own"].jobs}
    assert {name: it.pods for name, it in jobs.items()} == {
        "nominal": 2,
        "borrows": 1,
        "beyond": 2,
        "urgent": 1,
    }
    assert jobs["urgent"].expect == Expectation(admitted=True, preempts=["borrows"])


# --- a cluster that is not ours


class Playground(Client):
    """A client that answers from lists."""

    def __init__(self, url: str, **things: list[dict[str, Any]]) -> None:
        self.url, self.things = url, things

    def list(self, api_version: str, kind: str, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return self.things.get(kind, [])


def thing(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {key.replace("__", "/"): it for key, it in labels.items()}}}


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:6443",
        "https://localhost:6443",
        "https://[::1]:6443",
        "https://192.168.49.2:8443",
        "https://kubernetes.docker.internal:6443",
    ],
)
def test_a_playground_on_this_machine_has_no_sign_of_production(url: str) -> None:
    assert signs_of_production(Playground(url)) == []


@pytest.mark.parametrize(
    ("client", "sign"),
    [
        (Playground("https://ABC.gr7.us-east-1.eks.amazonaws.com"), "is not on this machine"),
        (Playground("https://10.0.0.1:6443"), "is not on this machine"),
        (
            Playground(
                "https://127.0.0.1",
                Node=[{"metadata": {"name": "n", "labels": {"sagemaker.amazonaws.com/cluster-name": "c"}}}],
            ),
            "it has 1 HyperPod nodes, such as n",
        ),
        (
            Playground("https://127.0.0.1", ClusterQueue=[thing("q")]),
            "ClusterQueues of somebody else, such as q",
        ),
    ],
)
def test_a_cluster_that_people_depend_on_shows_it(client: Client, sign: str) -> None:
    assert [sign in it for it in signs_of_production(client)] == [True]


def test_what_a_rehearsal_made_itself_is_no_sign() -> None:
    ours = {"metadata": {"name": "n", "labels": {LABEL: "true", "sagemaker.amazonaws.com/cluster-name": "c"}}}
    assert signs_of_production(Playground("https://127.0.0.1", Node=[ours], ClusterQueue=[ours])) == []


def test_only_our_own_pods_go_to_fake_nodes_of_a_cluster_that_is_not_ours() -> None:
    node = sandboxed({"kind": "Node", "metadata": {"name": "n"}, "spec": {}})
    flavor = sandboxed({"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}})
    (taint,), (toleration,) = node["spec"]["taints"], flavor["spec"]["tolerations"]
    assert {key: toleration[key] for key in taint} == taint
    assert node["metadata"]["labels"] == {LABEL: "true"}


# --- report


RESULT = ClusterResult(
    "research",
    "kueue",
    (
        ObjectResult("ClusterQueue", "team-a", "", True, ""),
        ObjectResult("Cohort", "c", "refused: <&", None, ""),
    ),
    (judge(PlayResult("s", "shows", (job(expect={"admitted": False}), job("b")), (), (), (), 1)),),
    ("spec.network is set, and plays no part here",),
)


def test_junit_has_a_case_for_each_object_and_job_and_a_failure_for_each_difference() -> None:
    root = ElementTree.fromstring(report.render([RESULT], "junit"))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["research.objects", "research.s"]
    assert [(it.get("tests"), it.get("failures")) for it in suites.values()] == [("2", "1"), ("3", "1")]
    failure = suites["research.s"].find("testcase/failure")
    assert failure is not None
    assert failure.text == "admitted: expected false, but it was at second 0"


def test_a_cluster_outside_the_rehearsal_is_a_skipped_case_not_a_silent_one() -> None:
    slurm = ClusterResult("pretrain", "no governance", (), (), ("a Slurm cluster is outside",))
    root = ElementTree.fromstring(report.render([slurm], "junit"))
    skipped = root.find("testsuite/testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "a Slurm cluster is outside"
    assert "a Slurm cluster is outside" in report.render([slurm], "text")


def test_text_tells_the_difference_and_json_all_of_it() -> None:
    text = report.render([RESULT], "text")
    assert "FAILED s: shows" in text
    assert "DIFFERENCE a: admitted: expected false" in text
    (data,) = json.loads(report.render([RESULT], "json"))
    assert data["failed"] is True
    assert data["scenarios"][0]["differences"][0]["job"] == "a"
    assert data["scenarios"][0]["jobs"][1]["placement"][0]["node"] == "n1"
