"""Commands, their options and exit codes: 0 fine, 1 findings, 2 wrong usage or broken input."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hyperpod_cli.output import (
    FINDING_FORMATS,
    QUOTA_FORMATS,
    REHEARSAL_FORMATS,
    UsageError,
    emit,
    open_closed,
    tell,
)

if TYPE_CHECKING:
    from hyperpod_cli.pipeline import Checked

OK, FINDINGS, USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    open_closed()
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except UsageError as error:
        tell(f"hpf: {error}")
        return USAGE
    except KeyboardInterrupt:
        tell("hpf: interrupted")
        return 130


def _check(directory: Path, base: str | None = None) -> Checked:
    """Check a config directory, and what it was if `base` says where that is, without garbage collection.

    A fleet is many objects and no cycle: to look through them again and again, and once more at the end,
    takes a sixth of `hpf validate` (docs/performance.md).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        from hyperpod_cli import pipeline  # noqa: PLC0415  (`hpf --help` does without the models)

        return pipeline.check(directory, base)
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hpf", description="SageMaker HyperPod from reviewed configuration."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    validate = _command(commands, "validate", "check the config; exit 1 on errors", _validate)
    _format(validate, FINDING_FORMATS)
    validate.add_argument(
        "--fail-on",
        choices=("error", "warning"),
        default="error",
        help="least severity that makes the exit code 1",
    )
    validate.add_argument(
        "--base",
        metavar="DIR|REV|REV:DIR",
        help="also compare with what is deployed: a config directory, this one at a git revision, or another",
    )

    quotas = _command(commands, "quotas", "show who may use how much", _quotas)
    _format(quotas, QUOTA_FORMATS)
    quotas.add_argument("--cluster", help="only this cluster")
    quotas.add_argument("--team", help="only this team")

    synth = _command(commands, "synth", "write CloudFormation templates and Kubernetes manifests", _synth)
    synth.add_argument(
        "--out", type=Path, default=Path("out"), metavar="DIR", help="directory to write (default: out)"
    )

    _rehearse_options(_command(commands, "rehearse", "try the config and jobs on a real Kueue", _rehearse))

    _remove_options(commands)

    schema = commands.add_parser("schema", help="print the JSON Schema of the config for editors")
    schema.add_argument(
        "--output", type=Path, metavar="FILE", help="write to FILE instead of standard output"
    )
    schema.set_defaults(run=_schema)
    return parser


def _remove_options(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    team = _command(commands, "remove-team", "show the steps that remove a team", _remove_team, "team")
    team.add_argument("--cluster", help="only from this cluster")
    cluster = _command(
        commands, "remove-cluster", "show the steps that remove a cluster", _remove_cluster, "cluster"
    )
    cluster.add_argument(
        "--delete-data", action="store_true", help="show how to delete the file systems made with it"
    )
    cluster.add_argument(
        "--destroyed", action="store_true", help="its stacks are gone: --write may remove it from the config"
    )
    for command in (team, cluster):
        _format(command, QUOTA_FORMATS)
        command.add_argument(
            "--write", action="store_true", help="make the change of the config that comes next, one each run"
        )


def _rehearse_options(command: argparse.ArgumentParser) -> None:
    _format(command, REHEARSAL_FORMATS)
    what = command.add_mutually_exclusive_group()
    files: dict[str, Any] = {"type": Path, "nargs": "+", "action": "extend", "metavar": "PATH"}
    what.add_argument("--scenario", **files, help="scenario files, or directories of them")
    what.add_argument("--job", **files, help="manifests of jobs, or directories of them")
    command.add_argument("--cluster", help="only this cluster")
    command.add_argument("--team", help="without files: only what this team was promised")
    command.add_argument(
        "--at",
        choices=("target", "minimum"),
        default="target",
        help="nodes: instanceCount (target, the default) or minInstanceCount",
    )
    command.add_argument(
        "--topology",
        metavar="N,N,...",
        help="domains in each domain of the layer above, last the nodes in the lowest (default: 2,2,4)",
    )
    command.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="most time that a step of a scenario may take to settle (default: 30)",
    )
    command.add_argument("--log-dir", type=Path, metavar="DIR", help="keep the logs of the control plane")
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="use the cluster of this file, with its own Kueue"
    )
    command.add_argument("--context", help="context of that file")
    command.add_argument(
        "--allow-production", action="store_true", help="use it even if people seem to depend on it"
    )


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    run: object,
    subject: str | None = None,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    if subject is not None:
        command.add_argument(subject, metavar=subject.upper(), help=f"name of the {subject}")
    command.add_argument(
        "config", nargs="?", type=Path, default=Path("config"), help="config directory (default: config)"
    )
    command.set_defaults(run=run)
    return command


def _format(command: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    command.add_argument("--format", choices=formats, default="text", help="default: text")
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="write to FILE instead of standard output"
    )


def _validate(options: argparse.Namespace) -> int:
    checked = _check(options.config, options.base)
    from hyperpod_cli import report  # noqa: PLC0415  (after _check, which loads the models faster)

    for note in checked.notes:
        tell(note)
    color = options.output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    emit(report.findings(checked.findings, options.format, color), options.output)
    tell(f"{options.config}: {report.summary(checked.findings)}")
    if checked.broken:
        return USAGE
    failing = {"error"} if options.fail_on == "error" else {"error", "warning"}
    return FINDINGS if any(finding.severity in failing for finding in checked.findings) else OK


def _quotas(options: argparse.Namespace) -> int:
    checked = _check(options.config)
    from hyperpod_cli import report  # noqa: PLC0415  (after _check, which loads the models faster)

    if checked.resolved is None:
        return _refuse(checked)
    rows = [
        row for cluster in checked.resolved.clusters if cluster.governance for row in cluster.governance.rows
    ]
    for field in ("cluster", "team"):
        wanted = getattr(options, field)
        if wanted is not None:
            known = getattr(checked.resolved.config, f"{field}s")
            if wanted not in {document.name for document in known}:
                raise UsageError(f"no {field} {wanted!r} in {options.config}")
            rows = [row for row in rows if getattr(row, field) == wanted]
    emit(report.quotas(rows, options.format), options.output)
    return OK


def _synth(options: argparse.Namespace) -> int:
    checked = _check(options.config)
    if checked.resolved is None:
        return _refuse(checked)
    from hyperpod_cli import report  # noqa: PLC0415  (see _check)
    from hyperpod_cli.synth import remarks, synth  # noqa: PLC0415  (loads jsii)

    tell(report.findings(checked.findings, "text"), end="")
    try:
        synth(checked.resolved, options.config, options.out)
    except ValueError as error:
        # What a stage refuses although no rule looks for it: a limit of Helm or Kueue, a chart's content.
        tell(f"{options.config}: {error}")
        return FINDINGS
    for line in remarks(options.out):
        tell(line)
    tell(f"wrote {options.out}: {report.summary(checked.findings)}")
    return OK


def _rehearse(options: argparse.Namespace) -> int:
    checked = _check(options.config)
    if checked.resolved is None:
        return _refuse(checked)
    try:
        from hyperpod_cli import rehearse  # noqa: PLC0415  (loads the clients of live clusters)
    except ImportError as error:  # a platform or an installation without a control plane; it says what to do
        raise UsageError(str(error)) from error

    return OK if rehearse.run(options, checked) else FINDINGS


def _remove_team(options: argparse.Namespace) -> int:
    return _remove(options, "team")


def _remove_cluster(options: argparse.Namespace) -> int:
    return _remove(options, "cluster")


def _remove(options: argparse.Namespace, kind: Literal["team", "cluster"]) -> int:
    checked = _check(options.config)
    if checked.resolved is None:
        return _refuse(checked)
    from hyperpod_cli import remove  # noqa: PLC0415  (loads PyYAML)

    done = remove.team(options, checked) if kind == "team" else remove.cluster(options, checked)
    return OK if done else FINDINGS


def _schema(options: argparse.Namespace) -> int:
    from hyperpod_config import schema  # noqa: PLC0415  (builds every model)

    emit(schema.text(), options.output)
    return OK


def _refuse(checked: Checked) -> int:
    """Say why nothing was made of the config."""
    from hyperpod_cli import report  # noqa: PLC0415  (see _check)

    tell(report.findings(checked.findings, "text"), end="")
    tell(f"{checked.directory}: {report.summary(checked.findings)}")
    return USAGE if checked.broken else FINDINGS


if __name__ == "__main__":
    sys.exit(main())
