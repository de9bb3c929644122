"""Everything that Kueue can refuse is refused by it, by the offline judge, and never asked of it by us."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.governance.fleets import changed, write
from tests.k8s.kueue_rules import problems
from tests.live.claims.acceptance import changes
from tests.live.claims.refusals import CASES, GOOD, Case, Config

from hyperpod_config.findings import Severity
from hyperpod_config.load import load
from hyperpod_governance.review import review
from hyperpod_live.control_plane import ApiError, Client

Object = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def namespace(control_plane: Any) -> None:
    """The namespace of the good objects; nothing else of them is stored by these tests."""
    control_plane.client().apply(GOOD["Namespace"])


@pytest.mark.parametrize("kind", GOOD)
def test_the_object_is_accepted_before_it_is_spoilt(client: Client, kind: str) -> None:
    client.apply(GOOD[kind], dry_run=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_api_server_refuses_it(client: Client, case: Case) -> None:
    with pytest.raises(ApiError) as refused:
        client.apply(case.item(), dry_run=True)
    assert refused.value.status, "the server gave no answer"
    assert case.server in str(refused.value)


@pytest.mark.parametrize("case", [case for case in CASES if case.judge], ids=str)
def test_the_offline_judge_refuses_it(case: Case) -> None:
    assert case.judge in "\n".join(problems(case.item()))


@pytest.mark.parametrize("case", [case for case in CASES if isinstance(case.never, Config)], ids=str)
def test_the_config_that_asks_for_it_is_refused_with_a_place(tmp_path: Path, case: Case) -> None:
    assert isinstance(case.never, Config)
    found = load(write(tmp_path, changed(case.never.changes)))
    findings = [*found.findings, *(review(found.fleet).findings if found.fleet else ())]
    errors = {finding.rule: finding.place for finding in findings if finding.severity is Severity.ERROR}
    assert case.never.rule in errors
    assert errors[case.never.rule].line > 1


CHANGED: dict[str, tuple[str, Callable[[Object], Any], str]] = {
    "a default left out": ("ClusterQueue", lambda item: item["spec"].pop("stopPolicy"), "stopPolicy"),
    "a nested default left out": (
        "ClusterQueue",
        lambda item: item["spec"]["preemption"].pop("borrowWithinCohort"),
        "borrowWithinCohort",
    ),
    "a quantity that is not canonical": (
        "ClusterQueue",
        lambda item: _first_quota(item).update(nominalQuota="1000"),
        "'1000' became '1k'",
    ),
    "a quota left out": ("ClusterQueue", lambda item: _first_quota(item).pop("nominalQuota"), "became '0'"),
    "a quantity beyond 64 bits": (
        "ClusterQueue",
        lambda item: _first_quota(item).update(nominalQuota="8Ei"),
        "'8Ei' became '9223372036854775807'",
    ),
}


def _first_quota(item: Object) -> Object:
    found: Object = item["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    return found


@pytest.mark.parametrize(("kind", "spoil", "words"), CHANGED.values(), ids=CHANGED.keys())
def test_what_the_api_server_changes_the_judge_refuses(
    client: Client, kind: str, spoil: Callable[[Object], Any], words: str
) -> None:
    item = copy.deepcopy(GOOD[kind])
    item["metadata"]["name"] = "changed"
    spoil(item)
    assert words in "\n".join(changes(item, client.apply(item, dry_run=True)))
    assert problems(item) != []


IMMUTABLE: dict[str, tuple[str, Callable[[Object], Any], str]] = {
    "the queue behind a LocalQueue": (
        "LocalQueue",
        lambda item: item["spec"].update(clusterQueue="other"),
        "field is immutable",
    ),
    "the levels of a Topology": (
        "Topology",
        lambda item: item["spec"]["levels"].pop(0),
        "field is immutable",
    ),
    "the labels of a flavor with a topology": (
        "ResourceFlavor",
        lambda item: item["spec"].update(nodeLabels={"a": "b"}),
        "nodeLabels are immutable when topologyName is set",
    ),
    "the tolerations of a flavor with a topology": (
        "ResourceFlavor",
        lambda item: item["spec"].update(tolerations=[{"key": "new", "operator": "Exists"}]),
        "tolerations are immutable when topologyName is set",
    ),
    "the topology of a flavor": (
        "ResourceFlavor",
        lambda item: item["spec"].pop("topologyName"),
        "topologyName is immutable when topologyName is set",
    ),
}


@pytest.mark.parametrize("about", IMMUTABLE)
def test_what_can_never_change_once_it_is_stored(client: Client, about: str) -> None:
    kind, change, words = IMMUTABLE[about]
    item = copy.deepcopy(GOOD[kind])
    # A deleted flavor is there until Kueue lets it go, so each case has its own.
    item["metadata"]["name"] = about.replace(" ", "-").lower()
    if kind == "ResourceFlavor":
        item["spec"]["topologyName"] = "any"
    client.apply(item)
    try:
        change(item)
        with pytest.raises(ApiError, match=words):
            client.apply(item)
    finally:
        metadata = item["metadata"]
        client.delete(item["apiVersion"], kind, metadata["name"], metadata.get("namespace"))
