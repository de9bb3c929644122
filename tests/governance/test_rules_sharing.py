"""HPF5xx: one change of a good fleet, one finding at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.governance.fleets import API, REMOVE, Case, changed, check, reviewed

SHARING = "llm/spec/allocations/0/resourceSharingConfig"
SCHEDULER = "research/spec/governance/schedulerConfig"
WEIGHTS = {f"{team}/spec/allocations/0/fairShareWeight": 0 for team in ("llm", "vision")}


def department(name: str, parent: str) -> dict[str, object]:
    """A document of kind Department."""
    return {
        "apiVersion": API,
        "kind": "Department",
        "metadata": {"name": name},
        "spec": {"parent": parent},
    }


CASES = [
    Case(
        "a borrow limit of a team that only lends",
        "HPF501",
        "llm: borrowLimit: 50",
        ("50 %", "Lend", "LendAndBorrow"),
        {SHARING: {"strategy": "Lend", "borrowLimit": 50}},
    ),
    Case(
        "absolute borrow limits of a team that shares nothing",
        "HPF501",
        "llm: absoluteBorrowLimits:",
        ("1 items", "DontLend"),
        {
            SHARING: {
                "strategy": "DontLend",
                "absoluteBorrowLimits": [{"instanceType": "ml.g6.12xlarge", "count": 1}],
            }
        },
    ),
    Case(
        "a borrow limit that comes to no GPU",
        "HPF502",
        "llm: borrowLimit: 40",
        ("40 %", "2 nvidia.com/gpu", "ml.g6.12xlarge", "at least 50"),
        {SHARING: {"strategy": "LendAndBorrow", "borrowLimit": 40}},
    ),
    Case(
        "the default borrow limit of one GPU",
        "HPF502",
        "llm: cluster: research",
        ("50 %", "1 nvidia.com/gpu", "at least 100"),
        {"llm/spec/allocations/0/quota/0/accelerators": 1},
    ),
    Case(
        "a priority class twice",
        "HPF503",
        "research: name: training",
        ("training", "70"),
        {f"{SCHEDULER}/priorityClasses/2": {"name": "training", "weight": 80}},
    ),
    Case(
        "a misspelt department of a team, and no word about its effect",
        "HPF504",
        "llm: department: sceince",
        ("sceince", "did you mean science?"),
        {"llm/spec/department": "sceince", "llm/spec/allocations/1": REMOVE}
        | {"vision/spec/allocations/1": REMOVE},
    ),
    Case(
        "an unknown parent",
        "HPF504",
        "science: parent: everybody",
        ("everybody", "science", "add a document of kind Department"),
        {"science/spec/parent": "everybody"},
    ),
    Case(
        "a department that is its own parent",
        "HPF505",
        "science: parent: science",
        ("science -> science",),
        {"science/spec/parent": "science"},
    ),
    Case(
        "departments in a circle, named once",
        "HPF505",
        "applied: parent: basic",
        ("applied -> basic -> applied",),
        {
            "applied": department("applied", "basic"),
            "basic": department("basic", "applied"),
            "science/spec/parent": "applied",
        },
    ),
    Case(
        "a department where the add-on owns the queues",
        "HPF506",
        "llm: department: science",
        ("science", "research", "owner: kueue"),
        {"llm/spec/allocations/1": REMOVE, "studio/spec/governance/schedulerConfig/fairShare": "Enabled"}
        | {"vision/spec/allocations/1": REMOVE},
    ),
    Case(
        "weights without fair share",
        "HPF507",
        "research: fairShare: Disabled",
        ("research", "llm 10, vision 10"),
        {f"{SCHEDULER}/fairShare": "Disabled"},
    ),
    Case(
        "fair share without weights",
        "HPF508",
        "research: fairShare: Enabled",
        ("all 2 teams", "weight"),
        WEIGHTS,
    ),
    Case(
        "a borrow limit above the documented one",
        "HPF509",
        "llm: borrowLimit: 501",
        ("501 %", "500 %"),
        {SHARING: {"strategy": "LendAndBorrow", "borrowLimit": 501}},
    ),
    Case(
        "an add-on version where this repository owns the queues",
        "HPF510",
        "studio: addonVersion: v1.6.1-eksbuild.1",
        ("addonVersion", "kueue"),
        {"studio/spec/governance/addonVersion": "v1.6.1-eksbuild.1"},
    ),
    Case(
        "a backend of quotas where this repository owns the queues",
        "HPF510",
        "studio: backend: native",
        ("backend", "owner of cluster studio is kueue"),
        {"studio/spec/governance/backend": "native"},
    ),
    Case(
        "Kueue settings where the add-on owns the queues",
        "HPF510",
        "research: kueue:",
        ("kueue", "sagemaker"),
        {"research/spec/governance/kueue": {"install": "Enabled"}},
    ),
    Case(
        "one team alone",
        "HPF511",
        "vision: cluster: research",
        ("vision", "research", "LendAndBorrow", "2 teams"),
        {"llm/spec/allocations/0": REMOVE},
    ),
    Case(
        "priority classes of equal weight",
        "HPF512",
        "research: weight: 90",
        ("inference", "training", "90"),
        {f"{SCHEDULER}/priorityClasses/1/weight": 90},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gives_its_finding_and_no_other(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {SHARING: {"strategy": "LendAndBorrow", "borrowLimit": 500}},
        {SHARING: {"strategy": "LendAndBorrow", "borrowLimit": 0}},
        {SHARING: {"strategy": "DontLend"}},
        {"llm/spec/allocations/1/resourceSharingConfig": {"strategy": "LendAndBorrow", "borrowLimit": 1000}},
        {f"{SCHEDULER}/fairShare": "Disabled", **WEIGHTS},
        {"llm/spec/allocations/0": REMOVE, f"{SCHEDULER}/idleResourceSharing": "Enabled"},
        {"science/spec/parent": "basic", "basic": {**department("basic", ""), "spec": {}}},
        {"studio/spec/governance/kueue": {"install": "Disabled"}},
    ],
)
def test_what_is_allowed_gives_no_finding(changes: dict[str, object], tmp_path: Path) -> None:
    assert reviewed(tmp_path, changed(changes)).findings == ()
