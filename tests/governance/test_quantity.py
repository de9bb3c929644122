"""Amounts and canonical Kubernetes quantities."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperpod_governance.model import CPU, EFA, GPU, MEMORY
from hyperpod_governance.quantity import GIB, MIB, QuantityError, format_quantity, parse_quantity

RESOURCES = st.sampled_from([CPU, MEMORY, GPU, EFA])
AMOUNTS = st.integers(min_value=0, max_value=10**18)

CANONICAL = {
    "whole cores have no suffix": (CPU, 48_000, "48"),
    "part of a core is in millicores": (CPU, 1_500, "1500m"),
    "a thousand cores are 1k, as an API server writes them": (CPU, 1_000_000, "1k"),
    "gibibytes": (MEMORY, 192 * GIB, "192Gi"),
    "1024 gibibytes are a tebibyte": (MEMORY, 2048 * GIB, "2Ti"),
    "what is no whole gibibyte is in mebibytes": (MEMORY, 37 * GIB + 512 * MIB, "38400Mi"),
    "odd bytes": (MEMORY, 1_000_001, "1000001"),
    "bytes never take a decimal suffix": (MEMORY, 1_000_000, "1000000"),
    "nothing": (MEMORY, 0, "0"),
    "devices": (GPU, 8, "8"),
    "a thousand devices": (GPU, 12_000, "12k"),
}


@pytest.mark.parametrize(("resource", "amount", "text"), CANONICAL.values(), ids=CANONICAL)
def test_canonical_form(resource: str, amount: int, text: str) -> None:
    assert format_quantity(resource, amount) == text


READ = {
    "millicores": (CPU, "1930m", 1930),
    "a decimal number of cores": (CPU, "0.5", 500),
    "an exponent": (CPU, "1e3", 1_000_000),
    "E alone is exa, not an exponent": (GPU, "1E", 10**18),
    "binary memory": (MEMORY, "1.5Gi", 3 * GIB // 2),
    "decimal memory": (MEMORY, "1G", 10**9),
    "less than a millicore rounds up": (CPU, "100u", 1),
    "no digit before the point": (CPU, ".5", 500),
}


@pytest.mark.parametrize(("resource", "text", "amount"), READ.values(), ids=READ)
def test_reading(resource: str, text: str, amount: int) -> None:
    assert parse_quantity(resource, text) == amount


@pytest.mark.parametrize("text", ["", "ten", "1 Gi", "1gi", "1Gib", "--1", "1e", "0x10", "٣"])
def test_a_text_that_is_no_quantity_is_named(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a Kubernetes quantity"):
        parse_quantity(CPU, text)


@given(RESOURCES, AMOUNTS)
def test_a_quantity_survives_the_round_trip(resource: str, amount: int) -> None:
    assert parse_quantity(resource, format_quantity(resource, amount)) == amount


def apimachinery_canonical(resource: str, amount: int) -> str:
    """The rule of k8s.io/apimachinery, stated apart: the largest suffix that leaves no fraction."""
    value = Fraction(amount, 1000) if resource == CPU else Fraction(amount)
    suffixes = (
        [(1024**power, suffix) for power, suffix in enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])]
        if resource == MEMORY
        else [(Fraction(1, 1000), "m")]
        + [(1000**power, suffix) for power, suffix in enumerate(["", "k", "M", "G", "T", "P", "E"])]
    )
    if value == 0:
        return "0"
    return next(
        f"{value / scale}{suffix}" for scale, suffix in reversed(suffixes) if (value / scale).denominator == 1
    )


@given(RESOURCES, AMOUNTS)
def test_the_form_is_the_one_that_kubernetes_writes(resource: str, amount: int) -> None:
    assert format_quantity(resource, amount) == apimachinery_canonical(resource, amount)
