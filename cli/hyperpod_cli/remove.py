"""`hpf remove-team` and `hpf remove-cluster`: the steps, and with --write the next change of the config."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hyperpod_cli.output import UsageError, emit, tell
from hyperpod_cli.pipeline import Checked
from hyperpod_cli.team_stacks import fewer_stacks, shards, stacks_of_team
from hyperpod_config import edit
from hyperpod_config.edit import Edit, EditError, FileChange, Hold, RemoveAllocation
from hyperpod_config.source import shown
from hyperpod_config.suggest import did_you_mean, one_of
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.removal import Command, Removal, Step, TeamStack, remove_team
from hyperpod_governance.removal_cluster import remove_cluster

_RISKS = {"jobs": "MAY STOP JOBS", "data": "DELETES DATA"}


def team(options: argparse.Namespace, checked: Checked) -> bool:
    """Show, and with --write begin, the removal of a team; False if the change could not be made.

    Raises:
        UsageError: there is no such team, or it is not on that cluster.
    """
    fleet = checked.resolved
    assert fleet is not None
    found = {each.name: each for each in fleet.config.teams}
    leaver = found.get(options.team)
    if leaver is None:
        raise UsageError(_unknown("team", options.team, list(found), options))
    on = [each.cluster for each in leaver.spec.allocations]
    if options.cluster is not None and options.cluster not in on:
        raise UsageError(
            f"team {options.team} has no allocation on {options.cluster!r}: "
            + (did_you_mean(options.cluster, on) or f"it is on {', '.join(on) or 'no cluster'}")
        )
    chosen = [options.cluster] if options.cluster is not None else None
    removal = remove_team(fleet, leaver, chosen, stacks_of_team(fleet, leaver, on), str(options.config))
    due = removal.due
    fewer = fewer_stacks(fleet, removal.clusters, due.edits) if due.id == "quota" else None
    if fewer:
        tell(f"hpf: {fewer}")
    return _finish(options, checked, removal, fewer)


def cluster(options: argparse.Namespace, checked: Checked) -> bool:
    """Show, and with --write begin, the removal of a cluster; False if the change could not be made.

    Raises:
        UsageError: there is no such cluster.
    """
    fleet = checked.resolved
    assert fleet is not None
    found = {each.name: each for each in fleet.clusters}
    leaver = found.get(options.cluster)
    if leaver is None:
        raise UsageError(_unknown("cluster", options.cluster, list(found), options))
    stacks = [TeamStack(each.name, each.teams, each.teams) for each in shards(fleet, leaver)]
    removal = remove_cluster(fleet, leaver, stacks, str(options.config), options.delete_data)
    if options.destroyed:
        # To deploy a hold would make the stacks anew.
        removal = replace(removal, steps=tuple(step for step in removal.steps if step.id != "hold"))
        return _finish(options, checked, removal, None)
    held_back = "the stacks must be destroyed first; say --destroyed when they are"
    return _finish(options, checked, removal, held_back)


def _unknown(kind: str, name: str, known: Sequence[str], options: argparse.Namespace) -> str:
    hint = did_you_mean(name, known) or f"there is {one_of(sorted(known)) or 'none'}"
    return f"no {kind} {name!r} in {options.config}: {hint}"


def _finish(options: argparse.Namespace, checked: Checked, removal: Removal, held_back: str | None) -> bool:
    """Show the removal and write what is asked for; False if that could not be written.

    Args:
        held_back: Why the change that deletes something may not be written yet.
    """
    fleet = checked.resolved
    assert fleet is not None
    due = removal.due
    changed: tuple[FileChange, ...] = ()
    problem, written = None, False
    try:
        changed = edit.changes(options.config, fleet.config, due.edits)
        if options.write:
            if held_back is not None and due.id != "hold":
                raise EditError(held_back)
            edit.write(changed)
            written = True
    except EditError as error:
        problem = str(error)
    if options.write:
        # First: if nothing can be shown, who runs the command again must know that it makes the next step.
        tell(f"hpf: {_outcome(removal, changed, problem)}")
    document = _document(removal, fleet, changed, problem, written)
    emit(_FORMATS[options.format](document), options.output)
    return not (options.write and problem)


def _outcome(removal: Removal, changed: Sequence[FileChange], problem: str | None) -> str:
    number = removal.steps.index(removal.due) + 1
    if problem is not None:
        return f"step {number} ({removal.due.id}) was not written: {problem}"
    files = one_of([shown(change.path) for change in changed])
    to_do = "review, merge and deploy it" if removal.due.commands else "review and merge it"
    after = f"; then step {number + 1}" if number < len(removal.steps) else ""
    return f"step {number} ({removal.due.id}) is written to {files}: {to_do}{after}"


# --- what is shown ----------------------------------------------------------------------------------------


def _document(
    removal: Removal, fleet: ResolvedFleet, changed: Sequence[FileChange], problem: str | None, written: bool
) -> dict[str, Any]:
    """The removal as plain values: the shape of --format json."""
    return {
        "kind": removal.kind,
        "name": removal.name,
        "fleet": fleet.name,
        "clusters": list(removal.clusters),
        "steps": [_step(number, step, fleet) for number, step in enumerate(removal.steps, start=1)],
        "kept": list(removal.kept),
        "next": {
            "step": removal.due.id,
            "diff": "".join(change.diff for change in changed),
            "files": [shown(change.path) for change in changed],
            "written": written,
            "problem": problem,
        },
    }


def _step(number: int, step: Step, fleet: ResolvedFleet) -> dict[str, Any]:
    return {
        "number": number,
        "id": step.id,
        "title": step.title,
        "why": step.why,
        "done": step.done,
        "changes": [_change(each, fleet) for each in step.edits],
        "commands": [_command(each) for each in step.commands],
        "notes": list(step.notes),
        "doneWhen": step.done_when,
    }


def _change(change: Edit, fleet: ResolvedFleet) -> dict[str, Any]:
    if isinstance(change, Hold):
        words = f"set activationState: Disabled for team {change.team} on cluster {change.cluster}"
    elif isinstance(change, RemoveAllocation):
        words = f"remove the allocation of team {change.team} on cluster {change.cluster}"
    else:
        words = f"remove the document {change.kind} {change.name}"
    place = edit.place(fleet.config, change)
    return {"change": words, "file": place.file, "line": place.line, "column": place.column}


def _command(command: Command) -> dict[str, Any]:
    return {
        "cluster": command.cluster,
        "run": command.run,
        "purpose": command.purpose,
        "risk": command.risk,
    }


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _heading(document: dict[str, Any]) -> str:
    where = ", ".join(document["clusters"])
    of = f" from {where}" if document["kind"] == "team" and where else ""
    return f"Remove {document['kind']} {document['name']}{of} (fleet {document['fleet']})"


def _purpose(command: dict[str, Any]) -> str:
    risk = _RISKS.get(command["risk"])
    return f"{command['purpose']} [{risk}]" if risk else str(command["purpose"])


def _text(document: dict[str, Any]) -> str:
    lines = [_heading(document), ""]
    for step in document["steps"]:
        lines.append(f"{step['number']}. {step['title']}{_done(step)}")
        lines += _wrapped("", step["why"])
        for change in step["changes"]:
            lines.append(f"   {change['file']}:{change['line']}:{change['column']}: {change['change']}")
        several = len({command["cluster"] for command in step["commands"]}) > 1
        for command in step["commands"]:
            on = f"{command['cluster']}: " if several else ""
            lines += ["", f"   # {on}{_purpose(command)}", f"   {command['run']}"]
        lines += [""] if step["commands"] else []
        for note in step["notes"]:
            lines += _wrapped("Note: ", note)
        lines += [*_wrapped("Done when ", step["doneWhen"] + "."), ""]
    lines += ["Kept:", *(f"- {each}" for each in document["kept"]), ""] if document["kept"] else []
    return "\n".join([*lines, _next(document), document["next"]["diff"]]).rstrip("\n") + "\n"


def _wrapped(lead: str, text: str) -> list[str]:
    """Lines of a paragraph; words stay whole, so that what is to be copied can be."""
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(lead + text, 110, initial_indent="   ", subsequent_indent="   ", **options)


def _done(step: dict[str, Any]) -> str:
    return " (done, says the config)" if step["done"] else ""


def _next(document: dict[str, Any]) -> str:
    following = document["next"]
    number = next(step["number"] for step in document["steps"] if step["id"] == following["step"])
    if following["written"]:
        return f"Written to the config: step {number}"
    if following["problem"] is not None:
        return f"The change of step {number} was not made: {following['problem']}"
    word = "--write --destroyed" if following["step"] == "config" else "--write"
    return f"The change of the config that comes next is that of step {number}; {word} makes it:"


def _markdown(document: dict[str, Any]) -> str:
    parts = [f"# {_heading(document)}"]
    for step in document["steps"]:
        parts += [f"## {step['number']}. {step['title']}{_done(step)}", step["why"]]
        parts += [f"- `{change['file']}:{change['line']}`: {change['change']}" for change in step["changes"]]
        if step["commands"]:
            shell = "\n".join(
                f"# {command['cluster']}: {_purpose(command)}\n{command['run']}"
                for command in step["commands"]
            )
            parts.append(f"```sh\n{shell}\n```")
        parts += [*step["notes"], f"Done when {step['doneWhen']}."]
    if document["kept"]:
        parts += ["## Kept", "\n".join(f"- {each}" for each in document["kept"])]
    parts += ["## Next", _next(document)]
    if document["next"]["diff"]:
        parts.append(f"```diff\n{document['next']['diff']}```")
    return "\n\n".join(parts) + "\n"


_FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {"text": _text, "json": _json, "markdown": _markdown}
