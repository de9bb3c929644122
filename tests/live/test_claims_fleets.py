"""Random valid fleets on a real Kueue: nothing refused, nothing changed, no queue inactive."""

from collections import Counter

import pytest
from tests.k8s.kueue_rules import problems
from tests.live.claims.acceptance import objects_of, run
from tests.live.claims.random_fleets import Drawn, fleets

FLEETS = 200


@pytest.fixture(scope="module")
def drawn() -> list[Drawn]:
    return fleets(FLEETS)


def test_kueue_accepts_every_object_of_random_fleets_as_it_is_and_every_queue_becomes_active() -> None:
    account = run(FLEETS)
    assert account.problems == []
    assert account.fleets == FLEETS
    assert account.queues > FLEETS


def test_the_offline_judge_agrees(drawn: list[Drawn]) -> None:
    found = [
        f"fleet {each.seed}: {item['kind']} {item['metadata']['name']}: {problem}"
        for each in drawn
        for cluster in each.resolved.clusters
        for item in objects_of(cluster)
        for problem in problems(item)
    ]
    assert found == []


def test_the_fleets_reach_what_they_are_to_reach(drawn: list[Drawn]) -> None:
    queues: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for each in drawn:
        for cluster in each.resolved.clusters:
            for item in objects_of(cluster):
                kinds[item["kind"]] += 1
                if item["kind"] == "ClusterQueue":
                    queues.update(_features(item["spec"]))
                elif item["kind"] == "ResourceFlavor":
                    queues.update(key for key in ("tolerations", "topologyName") if key in item["spec"])
                elif item["kind"] == "Cohort":
                    queues.update(f"cohort {key}" for key in item["spec"])
    wanted = {
        *(
            "Hold",
            "StrictFIFO",
            "Never",
            "LowerPriority",
            "weight 0",
            "no flavors",
            "many flavors",
            "lends only",
        ),
        *("borrowingLimit", "lendingLimit", "zero", "millicores", "mig", "neuron", "efa"),
        *("tolerations", "topologyName", "cohort parentName", "cohort fairSharing", "cohort resourceGroups"),
    }
    assert wanted - set(queues) == set()
    assert {"WorkloadPriorityClass", "Topology", "RoleBinding", "ValidatingAdmissionPolicy"} <= set(kinds)


def _features(spec: dict[str, object]) -> set[str]:
    text = str(spec)
    flavors = text.count("'name': 'ml.")
    found = {word for word in ("Hold", "StrictFIFO", "borrowingLimit", "lendingLimit") if word in text}
    found |= {str(spec["preemption"]["withinClusterQueue"])}  # type: ignore[index]
    for feature, words in {
        "weight 0": "'weight': '0'",
        "zero": "'nominalQuota': '0'",
        "millicores": "m'",
        "mig": "nvidia.com/mig-",
        "neuron": "neurondevice",
        "efa": "amazonaws.com/efa",
    }.items():
        if words in text:
            found.add(feature)
    if "namespaceSelector" not in spec:
        found.add("lends only")
    return found | {"no flavors" if not flavors else "many flavors" if flavors >= 40 else "some flavors"}
