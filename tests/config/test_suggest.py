"""Did you mean."""

import pytest

from hyperpod_config.suggest import closest, did_you_mean, one_of

FIELDS = ["instanceCount", "minInstanceCount", "instanceType", "vCpu", "memoryInGiB"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("InstanceCount", "instanceCount"),
        ("min_instance_count", "minInstanceCount"),
        ("minInstances", "minInstanceCount"),
        ("VCpu", "vCpu"),
        ("vcpus", "vCpu"),
        ("memoryInGib", "memoryInGiB"),
        ("colour", None),
        ("", None),
    ],
)
def test_the_closest_word(word: str, meant: str | None) -> None:
    assert closest(word, FIELDS) == meant


def test_the_order_of_what_is_allowed_changes_nothing() -> None:
    assert closest("ab", ["aa", "bb", "a-a"]) == closest("ab", ["a-a", "bb", "aa"])


def test_what_is_right_or_no_text_has_no_suggestion() -> None:
    assert did_you_mean("vCpu", FIELDS) == ""
    assert did_you_mean(3, FIELDS) == ""


def test_at_most_eight_words_are_listed() -> None:
    assert one_of("abc") == "a, b, c"
    assert one_of("abcdefghij") == "a, b, c, d, e, f, g, h and 2 more"
