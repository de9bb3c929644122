"""Findings and quotas as text, JSON, Markdown and GitHub annotations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from hyperpod_config.findings import Finding, Severity
from hyperpod_governance.model import QuotaRow
from hyperpod_governance.quantity import format_quantity

_COLUMNS = ("CLUSTER", "TEAM", "FLAVOR", "RESOURCE", "NOMINAL", "MAY BORROW", "MAY LEND")
_COLORS = {Severity.ERROR: "\033[31m", Severity.WARNING: "\033[33m", Severity.INFO: "\033[36m"}


def findings(found: Sequence[Finding], style: str, color: bool = False) -> str:
    """All findings in one of ``FINDING_FORMATS``; empty text for none, an empty list in JSON."""
    if style == "json":
        return json.dumps([asdict(finding) for finding in found], indent=2, ensure_ascii=False) + "\n"
    write = _annotation if style == "github" else (lambda finding: _line(finding, color))
    return "".join(write(finding) for finding in found)


def summary(found: Iterable[Finding]) -> str:
    """How many findings of each severity, as a person says it: ``2 errors, 1 warning``."""
    counts = dict.fromkeys(Severity, 0)
    for finding in found:
        counts[finding.severity] += 1
    parts = [f"{count} {severity}{'s' if count != 1 else ''}" for severity, count in counts.items() if count]
    return ", ".join(parts) or "no findings"


def _line(finding: Finding, color: bool) -> str:
    severity = str(finding.severity)
    if color:
        severity = f"{_COLORS[finding.severity]}{severity}\033[0m"
    hint = f"\n    {finding.hint}" if finding.hint else ""
    return f"{finding.place}: {severity} {finding.rule}: {finding.message}{hint}\n"


def _annotation(finding: Finding) -> str:
    """A workflow command of GitHub Actions."""
    command = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}[
        finding.severity
    ]
    place = finding.place
    message = finding.message + (f"\n{finding.hint}" if finding.hint else "")
    data = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    file = place.file.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{command} file={file},line={place.line},col={place.column},title={finding.rule}::{data}\n"


def quotas(rows: Sequence[QuotaRow], style: str) -> str:
    """Quota rows in one of ``QUOTA_FORMATS``; quantities are canonical Kubernetes ones."""
    if style == "json":
        return json.dumps([_row(row) for row in rows], indent=2) + "\n"
    cells = [tuple(_shown(value) for value in _row(row).values()) for row in rows]
    if style == "markdown":
        lines = [_COLUMNS, tuple("---" for _ in _COLUMNS), *cells]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *cells, strict=True)]
    lines = [_COLUMNS, *cells]
    return "".join(_columns(line, widths) for line in lines)


def _columns(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"


def _shown(value: str | None) -> str:
    return "no limit" if value is None else value


def _row(row: QuotaRow) -> dict[str, str | None]:
    def amount(value: int | None) -> str | None:
        return None if value is None else format_quantity(row.resource, value)

    return {
        "cluster": row.cluster,
        "team": row.team,
        "flavor": row.flavor,
        "resource": row.resource,
        "nominal": amount(row.nominal),
        "borrowingLimit": amount(row.borrowing_limit),
        "lendingLimit": amount(row.lending_limit),
    }
