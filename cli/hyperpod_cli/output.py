"""Where results go: whole files or standard output, never half of either."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

FINDING_FORMATS = ("text", "json", "github")
"""Formats of findings."""
QUOTA_FORMATS = ("text", "json", "markdown")
"""Formats of quotas."""
REHEARSAL_FORMATS = ("text", "json", "junit")
"""Formats of a rehearsal."""


class UsageError(Exception):
    """Something the user asked for that cannot be done; the message says what to do instead (exit code 2)."""


def emit(text: str, output: Path | None) -> None:
    """Write text to a file, or to standard output if there is none.

    Who reads standard output may go away: `hpf quotas | head`.

    Raises:
        UsageError: it cannot be written.
    """
    if output is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # The same bytes on every locale; a file name that is no UTF-8 has its odd bytes escaped.
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        _print(text)
        return
    try:
        if output.exists() and not output.is_file():
            # A pipe or a device, such as /dev/null: it is written to, not replaced.
            output.write_text(text, "utf-8", "backslashreplace", newline="\n")
            return
        with _beside(output.resolve()) as fresh:
            fresh.write_text(text, "utf-8", "backslashreplace", newline="\n")
            fresh.chmod(0o666 & ~_umask())
            fresh.replace(output.resolve())
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _forget(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"cannot write standard output: {error.strerror or error}") from error


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error, if it takes it: no exit code depends on that."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """Let what a stream could not take go nowhere; Python would complain of it again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_closed() -> None:
    """Let a standard stream that is closed (`hpf validate >&-`) go nowhere: Python has None for it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (until the end)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Give a new file in the directory of ``target``, which is gone afterwards unless it was renamed."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def replacing(directory: Path, entries: frozenset[str]) -> Iterator[Path]:
    """Give a directory to fill; when all went well it takes the place of ``directory``, else it is removed.

    Args:
        directory: What to replace; it may be missing.
        entries: Names that only an earlier result has at its top. A directory with any other is not ours.

    Raises:
        UsageError: ``directory`` is a file, holds something else, or its parent cannot be written.
    """
    directory = directory.absolute()
    try:
        foreign = sorted(path.name for path in directory.iterdir() if path.name not in entries)
    except FileNotFoundError:
        foreign = []
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror or error}") from error
    if foreign:
        raise UsageError(
            f"{directory} holds {foreign[0]}, which no synth wrote: name an empty or a new directory"
        )
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror or error}") from error
    try:
        fresh.chmod(0o777 & ~_umask())
        yield fresh
        _swap(fresh, directory)
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _swap(fresh: Path, directory: Path) -> None:
    """Put the new directory in place; the old one comes back if that fails."""
    if not directory.exists():
        fresh.rename(directory)
        return
    old = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}.old."))
    try:
        directory.rename(old / "was")
        try:
            fresh.rename(directory)
        except OSError:
            (old / "was").rename(directory)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
