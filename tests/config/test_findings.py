"""Findings and their registry."""

import pytest

from hyperpod_config import RULES, Finding, Place, Severity, rule


def test_a_place_is_written_as_compilers_write_it() -> None:
    assert str(Place("teams/a.yaml", 3, 18)) == "teams/a.yaml:3:18"


def test_places_sort_by_file_then_line_then_column() -> None:
    places = [Place("b", 1, 1), Place("a", 10, 1), Place("a", 9, 2), Place("a", 9, 1)]
    assert [str(place) for place in sorted(places)] == ["a:9:1", "a:9:2", "a:10:1", "b:1:1"]


def test_a_finding_of_an_undeclared_rule_is_refused() -> None:
    with pytest.raises(KeyError, match="HPF999"):
        Finding("HPF999", Severity.ERROR, "x", Place("a", 1, 1))


def test_a_second_rule_of_one_id_is_refused() -> None:
    taken = next(iter(RULES))

    def check() -> None:
        """Page."""

    with pytest.raises(ValueError, match=f"{taken} is declared twice"):
        rule(taken, "again")(check)


def test_a_rule_without_a_page_is_refused() -> None:
    with pytest.raises(ValueError, match="no page"):
        rule("HPF998", "silent")(lambda: None)
    assert "HPF998" not in RULES


def test_a_declared_rule_words_findings_and_runs_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperpod_config.findings.RULES", dict(RULES))

    @rule("HPF997", "Doubled", Severity.INFO)
    def doubled(number: int) -> int:
        """Page of the rule.

        More.
        """
        return 2 * number

    assert doubled(4) == 8
    assert doubled.page == "Page of the rule.\n\nMore."
    place = Place("a", 1, 1)
    assert doubled.finding(place, "m") == Finding("HPF997", Severity.INFO, "m", place)
