"""Amounts of Kubernetes resources: integers inside, canonical quantities outside.

The canonical form is that of ``k8s.io/apimachinery/pkg/api/resource``: the largest suffix that leaves an
integer, decimal suffixes for cpu and counted resources, binary suffixes for memory. An API server or a GitOps
controller that re-writes a quantity then writes the same bytes, and no drift is seen.
"""

from __future__ import annotations

import re
from fractions import Fraction

from hyperpod_governance.model import CPU, MEMORY

MIB = 1024**2
GIB = 1024**3
MILLI = 1000

_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SCALES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(_DECIMAL)},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(_BINARY)},
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity, or an amount that its resource cannot have."""


def base_units(resource: str) -> int:
    """Base units in one unit of ``resource``: 1000 for cpu (millicores), 1 for everything else."""
    return MILLI if resource == CPU else 1


def format_quantity(resource: str, amount: int) -> str:
    """Write ``amount`` base units of ``resource`` as the canonical Kubernetes quantity."""
    if resource == MEMORY:
        return _scaled(amount, 1024, _BINARY)
    if resource == CPU and amount % MILLI:
        return f"{amount}m"
    return _scaled(amount // base_units(resource), 1000, _DECIMAL)


def _scaled(value: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while value and value % base == 0 and power + 1 < len(suffixes):
        value //= base
        power += 1
    return f"{value}{suffixes[power]}"


def parse_quantity(resource: str, text: str) -> int:
    """Read a Kubernetes quantity as base units of ``resource``.

    A fraction of a base unit is rounded up, as Kubernetes does with precision that a resource cannot hold.

    Raises:
        QuantityError: ``text`` is not a quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(
            f"{text!r} is not a Kubernetes quantity: a number and a suffix such as m, k, Mi or Gi"
        )
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _SCALES[suffix or ""]
    value = Fraction(number) * scale * base_units(resource)
    return -((-value).__floor__())
