"""The judge of the other tests here: that it refuses what Kueue refuses, each for its own reason."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.k8s.k8s_fleets import example
from tests.k8s.kueue_rules import problems

from hyperpod_k8s.objects import manifests

Object = dict[str, Any]
GOOD = {item["kind"]: item for file in manifests(example("kueue")) for item in file.objects}


def quotas(queue: Object) -> list[Object]:
    found: list[Object] = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    return found


REFUSED: dict[str, tuple[str, Callable[[Object], Any], str]] = {
    "a field that Kueue does not know": (
        "ClusterQueue",
        lambda item: item["spec"].update(cohort="research"),
        "'cohort' was unexpected",
    ),
    "a default left out": ("ClusterQueue", lambda item: item["spec"].pop("stopPolicy"), "fill in 'None'"),
    "a nested default left out": (
        "ClusterQueue",
        lambda item: item["spec"]["preemption"].pop("borrowWithinCohort"),
        "borrowWithinCohort: the API server would fill in",
    ),
    "a quantity that is not canonical": (
        "ClusterQueue",
        lambda item: quotas(item)[0].update(nominalQuota="1000"),
        "'1000' is no canonical quantity",
    ),
    "a quantity beyond 64 bits": (
        "ClusterQueue",
        lambda item: quotas(item)[0].update(nominalQuota="8Ei"),
        "'8Ei' is no canonical quantity",
    ),
    "an unknown policy": (
        "ClusterQueue",
        lambda item: item["spec"].update(queueingStrategy="FIFO"),
        "is not one of",
    ),
    "a borrowing limit without a cohort": (
        "ClusterQueue",
        lambda item: item["spec"].pop("cohortName"),
        "borrowingLimit must be nil when cohort is empty",
    ),
    "a flavor that lacks a covered resource": (
        "ClusterQueue",
        lambda item: quotas(item).pop(),
        "same number of resources",
    ),
    "resources in another order than the covered ones": (
        "ClusterQueue",
        lambda item: quotas(item).reverse(),
        "not in the order of coveredResources",
    ),
    "lending more than the own quota": (
        "ClusterQueue",
        lambda item: quotas(item)[0].update(lendingLimit="1k"),
        "lendingLimit above nominalQuota",
    ),
    "a flavor twice": (
        "ClusterQueue",
        lambda item: item["spec"]["resourceGroups"].append(item["spec"]["resourceGroups"][0]),
        "flavor ml.g6.12xlarge twice",
    ),
    "limits on a Cohort without a parent": (
        "Cohort",
        lambda item: item.update(
            spec={"resourceGroups": copy.deepcopy(GOOD["ClusterQueue"]["spec"]["resourceGroups"])}
        ),
        "limits without a cohort",
    ),
    "a topology on a flavor without node labels": (
        "ResourceFlavor",
        lambda item: item["spec"].update(nodeLabels={}, topologyName="x"),
        "at least one nodeLabel",
    ),
    "a hostname above other levels": (
        "Topology",
        lambda item: item["spec"]["levels"].reverse(),
        "lowest level",
    ),
    "a level twice": (
        "Topology",
        lambda item: item["spec"]["levels"].insert(0, item["spec"]["levels"][0]),
        "must be unique",
    ),
    "an existing-key toleration with a value": (
        "ResourceFlavor",
        lambda item: item["spec"].update(tolerations=[{"key": "gpu", "operator": "Exists", "value": "x"}]),
        "a value must be empty",
    ),
    "a priority beyond int32": (
        "WorkloadPriorityClass",
        lambda item: item.update(value=2**31),
        "greater than the maximum",
    ),
    "a namespaced object without a namespace": (
        "LocalQueue",
        lambda item: item["metadata"].pop("namespace"),
        "LocalQueue with namespace None",
    ),
    "a label value that is not a string": (
        "Namespace",
        lambda item: item["metadata"]["labels"].update(team=True),
        "no label",
    ),
    "a name with an upper-case letter": (
        "Namespace",
        lambda item: item["metadata"].update(name="Team"),
        "no name",
    ),
    "a binding without subjects": (
        "RoleBinding",
        lambda item: item.update(subjects=[]),
        "should be non-empty",
    ),
}


@pytest.mark.parametrize(("kind", "spoil", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses(kind: str, spoil: Callable[[Object], Any], reason: str) -> None:
    item = copy.deepcopy(GOOD[kind])
    assert problems(item) == []
    spoil(item)
    assert reason in "\n".join(problems(item))
