"""Checks of props: a bad prop raises ValueError with the value, the limit and the next step."""

import re
from collections.abc import Collection, Iterable

from aws_cdk import Token

# CreateCluster's ClusterName and InstanceGroupName (botocore sagemaker model).
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
# ComputeQuotaTarget.TeamName and PriorityClass.Name (botocore sagemaker model).
_SHORT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def check_name(what: str, value: str) -> None:
    """Refuse what the API refuses as a cluster, group, quota or scheduler config name (1 to 63 chars)."""
    if Token.is_unresolved(value):
        return
    if not 1 <= len(value) <= 63 or not _NAME.fullmatch(value):
        raise ValueError(
            f"{what} {value!r}: the limit is 1 to 63 letters, digits and single hyphens inside; rename it"
        )


def check_short_name(what: str, value: str) -> None:
    """Refuse what the API refuses as a team or priority class name (1 to 40 characters)."""
    if not 1 <= len(value) <= 40 or not _SHORT_NAME.fullmatch(value):
        raise ValueError(
            f"{what} {value!r}: the limit is 1 to 40 lower-case letters, digits and hyphens inside; rename it"
        )


def check_range(what: str, value: float | None, low: float, high: float) -> None:
    """Refuse a number outside low..high; None and CDK tokens pass."""
    if value is None or Token.is_unresolved(value):
        return
    if not low <= value <= high:
        raise ValueError(f"{what} is {value}: the limit is {low} to {high}; choose a value in that range")


def check_length(what: str, items: Iterable[object], low: int, high: int) -> None:
    """Refuse a list with fewer than low or more than high items."""
    count = len(list(items))
    if not low <= count <= high:
        raise ValueError(f"{what} has {count} items: the limit is {low} to {high}; add or remove items")


def check_unique(what: str, names: Iterable[str]) -> None:
    """Refuse a name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        check_new(what, name, seen)
        seen.add(name)


def check_new(what: str, name: str, seen: Collection[str]) -> None:
    """Refuse a name that was seen before."""
    if name in seen:
        raise ValueError(
            f"{what} {name!r} occurs twice: each must be unique; rename or remove one of the two"
        )
