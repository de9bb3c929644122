"""The review as a whole: order, what an error stops, and the pages of the rules."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.governance import (
    test_rules_capacity,
    test_rules_cluster,
    test_rules_kubernetes,
    test_rules_network,
    test_rules_quota,
    test_rules_sharing,
    test_rules_slurm,
    test_updates,
)
from tests.governance.fleets import Case, changed, documents, reviewed, write

from hyperpod_config.findings import Rule, Severity
from hyperpod_config.load import load
from hyperpod_governance import rules
from hyperpod_governance.resolve import resolve
from hyperpod_governance.review import review, review_part

ROOT = Path(__file__).parents[2]
CASES: list[Case] = [
    *test_rules_cluster.CASES,
    *test_rules_network.CASES,
    *test_rules_slurm.CASES,
    *test_rules_capacity.CASES,
    *test_rules_quota.CASES,
    *test_rules_sharing.CASES,
    *test_rules_kubernetes.CASES,
]
ALL: tuple[Rule[..., Any], ...] = (*rules.CONFIG, *rules.RESOLVED, *rules.UPDATES)


def test_a_fleet_without_mistakes_has_no_findings_and_is_resolved(tmp_path: Path) -> None:
    result = reviewed(tmp_path, documents())
    assert result.findings == ()
    assert result.resolved is not None
    assert result.resolved == resolve(result.resolved.config)


def test_the_example_fleet_has_no_errors() -> None:
    fleet = load(ROOT / "config").fleet
    assert fleet is not None
    result = review(fleet)
    assert [finding for finding in result.findings if finding.severity is Severity.ERROR] == []
    assert result.resolved is not None


def test_an_error_in_the_config_leaves_the_fleet_unresolved(tmp_path: Path) -> None:
    result = reviewed(tmp_path, changed({"research/spec/orchestrator/eks/version": "1.29"}))
    assert [finding.rule for finding in result.findings] == ["HPF105"]
    assert result.resolved is None


def test_a_warning_in_the_config_does_not_stop_the_rules_over_figures(tmp_path: Path) -> None:
    result = reviewed(
        tmp_path,
        changed({"research/spec/region": "eu-west-3", "vision/spec/allocations/1/quota/0/count": 9}),
    )
    assert [finding.rule for finding in result.findings] == ["HPF121", "HPF406"]
    assert result.resolved is not None


def test_mistakes_of_all_files_are_reported_together_by_place(tmp_path: Path) -> None:
    result = reviewed(
        tmp_path,
        changed(
            {
                "vision/spec/allocations/0/cluster": "reserach",
                "pretrain/spec/instanceGroups/1/minInstanceCount": 9,
                "llm/spec/department": "sceince",
                "llm/spec/allocations/0/quota/0/instanceType": "ml.g6.12xlrage",
            }
        ),
    )
    stems = [(Path(finding.place.file).stem, finding.rule) for finding in result.findings]
    assert stems == [
        ("llm", "HPF504"),
        ("llm", "HPF101"),
        ("pretrain", "HPF301"),
        ("vision", "HPF401"),
    ]


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.id)
def test_every_page_has_its_four_parts(rule: Rule[..., Any]) -> None:
    parts = re.findall(r"^\*\*(.+?)\.\*\*", rule.page, flags=re.MULTILINE)
    assert parts == ["What it means", "Why it matters", "Example", "Fix"]


def test_every_rule_has_one_id_in_the_hundred_of_its_subject() -> None:
    hundreds = {
        "cluster": "1",
        "network": "1",
        "slurm": "2",
        "capacity": "3",
        "quota": "4",
        "sharing": "5",
        "topology": "6",
        "kubernetes": "7",
        "updates": "1",
    }
    assert len({rule.id for rule in ALL}) == len(ALL)
    for rule in ALL:
        module = rule.check.__module__.rpartition(".")[2]
        assert re.fullmatch(rf"HPF{hundreds[module]}\d\d", rule.id), rule.id


def test_every_rule_but_one_has_a_case_that_gives_it_alone() -> None:
    # HPF106 names each of the settings that restricted groups exclude; see test_rules_cluster.
    found = {case.rule for case in CASES} | {case.rule for case in test_updates.CASES}
    assert {rule.id for rule in ALL} - found == {"HPF106"}


@given(st.lists(st.sampled_from(CASES), min_size=2, max_size=5, unique_by=str))
def test_any_mistakes_together_are_findings_in_order_and_never_an_exception(cases: list[Case]) -> None:
    try:
        files = changed({path: value for case in cases for path, value in case.changes.items()})
    except (KeyError, IndexError, TypeError):
        assume(False)  # one change takes away what the other one is about
    with tempfile.TemporaryDirectory() as directory:
        fleet = load(write(Path(directory), files)).fleet
        assume(fleet is not None)
        assert fleet is not None
        result = review(fleet)
        config = [finding for rule in rules.CONFIG for finding in rule(fleet)]
    keys = [(finding.place, finding.rule, finding.message) for finding in result.findings]
    assert keys == sorted(keys)
    assert (result.resolved is None) == any(finding.severity is Severity.ERROR for finding in config)


def test_documents_that_are_right_by_themselves_are_reviewed_beside_a_broken_one(tmp_path: Path) -> None:
    """A missing cluster is not said: it may be in the file that could not be read."""
    (tmp_path / "fleet.yaml").write_text(
        "apiVersion: hyperpod-fleet/v1alpha1\nkind: Fleet\nmetadata: {name: a-fleet}\nspec: {}\n"
    )
    (tmp_path / "broken.yaml").write_text("kind: Cluster\n\tname: research\n")
    (tmp_path / "team.yaml").write_text(
        "apiVersion: hyperpod-fleet/v1alpha1\nkind: Team\nmetadata: {name: a}\nspec:\n  allocations:\n"
        "    - {cluster: research, quota: [{instanceType: ml.p5.48xlrge, count: 1}]}\n"
    )
    loaded = load(tmp_path)
    assert loaded.fleet is None
    assert loaded.sound is not None
    assert [finding.rule for finding in review_part(loaded.sound)] == ["HPF101"]
