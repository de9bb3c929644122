"""What the tools say about a config: findings, the places they point at, and the rules they come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Severity(StrEnum):
    """How much a finding weighs: an error stops every later stage, a warning and an info do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something is written: line and column count from 1, as editors and compilers count them.

    `file` is relative to the current directory when it is below it, and always has `/` as separator.
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule found: what is wrong, where, and what to do about it.

    Raises KeyError when `rule` is not the id of a declared rule, so that no finding lacks its page.
    """

    rule: str
    severity: Severity
    message: str
    place: Place
    hint: str = ""

    def __post_init__(self) -> None:
        RULES[self.rule]


@dataclass(frozen=True, slots=True)
class Rule(Generic[P, R]):
    """A rule: its id, its title, its severity, and the function that looks or words the finding."""

    id: str
    title: str
    severity: Severity
    check: Callable[P, R]

    @property
    def page(self) -> str:
        """What `hpf rules` prints: the docstring of the rule's function, in Markdown."""
        return inspect.getdoc(self.check) or ""

    def finding(self, place: Place, message: str, hint: str = "") -> Finding:
        """Give a finding of this rule."""
        return Finding(self.id, self.severity, message, place, hint)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the rule's function."""
        return self.check(*args, **kwargs)


RULES: dict[str, Rule[..., Any]] = {}


def rule(
    rule_id: str, title: str, severity: Severity = Severity.ERROR
) -> Callable[[Callable[P, R]], Rule[P, R]]:
    """Declare the decorated function as a rule; its docstring becomes the rule's page.

    Raises ValueError when the id is taken or the function has no docstring.
    """

    def declare(check: Callable[P, R]) -> Rule[P, R]:
        if rule_id in RULES:
            raise ValueError(f"rule {rule_id} is declared twice: {RULES[rule_id].title!r} and {title!r}")
        if not check.__doc__:
            raise ValueError(f"rule {rule_id} has no page: write a docstring")
        declared = Rule(rule_id, title, severity, check)
        RULES[rule_id] = declared
        return declared

    return declare
