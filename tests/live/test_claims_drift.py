"""What is applied is what is stored, and applying it again changes nothing; nothing is of an old version."""

from typing import Any

import pytest
from tests.k8s.k8s_fleets import example
from tests.live.claims.acceptance import apart, changes, objects_of
from tests.live.claims.random_fleets import fleets

from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s.objects import preview
from hyperpod_live.control_plane import Client, failures

Object = dict[str, Any]


def clusters() -> dict[str, ResolvedCluster]:
    """The surveyable example of each owner, and a fleet of random ones."""
    named = {"kueue": example("kueue"), "sagemaker": example("sagemaker")}
    drawn = {f"fleet {each.seed}": each.resolved.clusters[0] for each in fleets(8)}
    return {about: cluster for about, cluster in (named | drawn).items() if objects_of(cluster)}


CLUSTERS = clusters()


def _where(item: Object) -> tuple[str, str, str, str | None]:
    metadata = item["metadata"]
    return item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace")


def _fields(metadata: Object) -> Object:
    """What apply keeps of an object beside its values: who owns which field, and since when."""
    entries = {each["manager"]: each for each in metadata["managedFields"] if each["operation"] == "Apply"}
    return {"generation": metadata.get("generation"), "owners": entries}


@pytest.mark.parametrize("about", CLUSTERS)
def test_the_second_apply_changes_nothing(client: Client, about: str) -> None:
    objects = apart(objects_of(CLUSTERS[about]), f"{about.replace(' ', '-')}-")
    first = client.apply_all(objects)
    try:
        assert failures(first) == []
        stored = {_where(item): client.get(*_where(item)) for item in objects}
        second = client.apply_all(objects)
        assert failures(second) == []
        for outcome in second:
            assert outcome.answer is not None
            assert list(changes(outcome.sent, outcome.answer)) == []
            before = stored[_where(outcome.sent)]
            assert _fields(outcome.answer["metadata"]) == _fields(before["metadata"])
    finally:
        client.delete_all(item for item in objects if item["kind"] != "Namespace")


def test_a_policy_in_force_does_not_change_either(client: Client) -> None:
    policy = [item for item in objects_of(CLUSTERS["kueue"]) if "Policy" in item["kind"]]
    assert len(policy) == 2
    try:
        first = client.apply_all(policy)
        second = client.apply_all(policy)
        versions = [
            [each.answer["metadata"]["resourceVersion"] for each in outcomes if each.answer]
            for outcomes in (first, second)
        ]
        assert versions[0] == versions[1]
    finally:
        client.delete_all(policy)


@pytest.mark.parametrize("about", CLUSTERS)
def test_no_object_is_of_an_old_version_of_kueue(about: str) -> None:
    cluster = CLUSTERS[about]
    kueue = [item for item in objects_of(cluster) if item["apiVersion"].startswith("kueue.x-k8s.io/")]
    assert kueue
    assert {item["apiVersion"] for item in kueue} == {"kueue.x-k8s.io/v1beta2"}


def test_previews_are_of_the_version_that_the_add_on_of_today_stores() -> None:
    versions = {
        item["apiVersion"]
        for file in preview(example("sagemaker"))
        for item in file.objects
        if item["kind"] != "Namespace"
    }
    assert versions == {"kueue.x-k8s.io/v1beta2"}
