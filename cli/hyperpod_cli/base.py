"""The fleet as it was: of another directory, or of the config directory as of a git revision."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hyperpod_cli import report
from hyperpod_cli.output import UsageError
from hyperpod_config.findings import Finding, Severity
from hyperpod_config.load import load
from hyperpod_config.model import Fleet
from hyperpod_config.source import SUFFIXES, shown

_LINK, _SUBMODULE = "120000", "160000"
# Set while git runs a hook; they would lead away from the repository that holds the config.
_HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


@dataclass(frozen=True)
class Base:
    """A fleet to compare with.

    `fleet` is None when the config did not exist at that revision. `notes` are what a person should know
    about what was read. `named` says places as the user can find them.
    """

    fleet: Fleet | None
    notes: tuple[str, ...] = ()
    _places: tuple[str, str] | None = None

    def named(self, finding: Finding) -> Finding:
        """Give a finding in which places of a revision are written as git writes them: `main:a/b.yaml`."""
        place = replace(finding.place, file=self._say(finding.place.file))
        message, hint = self._say(finding.message), self._say(finding.hint)
        return replace(finding, place=place, message=message, hint=hint)

    def _say(self, text: str) -> str:
        if self._places is None:
            return text
        directory, name = self._places
        return text.replace(f"{directory}/", name).replace(directory, name.rstrip("/"))


def load_base(base: str, config: Path) -> Base:
    """Read the fleet to compare a config directory with.

    Args:
        base: A directory, or a git revision at which the config directory is read. Nothing is checked out.
        config: The config directory.

    Raises:
        UsageError: It is neither, git is missing or refuses, or there is no sound fleet in it.
    """
    if not base:
        raise UsageError("--base is empty: name a config directory, or a git revision")
    directory = Path(base)
    if directory.is_dir():
        return _sound(base, Base(None), directory)
    revision = _Revision(base, config)
    with tempfile.TemporaryDirectory(prefix="hpf-base-") as temporary:
        # Resolved, so that a link is outside of it exactly when its target is.
        root = Path(temporary).resolve()
        notes = revision.write(root)
        if notes is None:
            return Base(None, (f"{config} is not in {base}: nothing to compare with",))
        return _sound(base, Base(None, tuple(notes), (shown(root), revision.name)), root)


def _sound(title: str, base: Base, directory: Path) -> Base:
    loaded = load(directory)
    if loaded.fleet is None:
        errors = [base.named(it) for it in loaded.findings if it.severity is Severity.ERROR]
        said = report.findings(errors, "text").rstrip("\n")
        raise UsageError(f"{title} cannot be compared with: {report.summary(errors)}\n{said}")
    return replace(base, fleet=loaded.fleet)


class _Entry(NamedTuple):
    """A file of a git tree below the config directory."""

    mode: str
    object_id: str
    path: str


class _Revision:
    """The config directory as of a git revision.

    Attributes:
        name: What stands before a path of the directory, as git writes it: `main:config/`.
    """

    def __init__(self, revision: str, config: Path) -> None:
        self._revision = revision
        self._directory = config.resolve()
        commit = self._resolve(f"{revision}^{{commit}}")
        if commit is None:
            raise UsageError(
                f"{revision!r} is no directory, and no revision of the git repository of {config};"
                " in a shallow clone, fetch it first"
            )
        prefix = self._git("rev-parse", "--show-prefix").decode(errors="surrogateescape").rstrip("\n")
        self.name = f"{revision}:{prefix}"
        self._tree = self._resolve(f"{commit}:{prefix.rstrip('/')}" if prefix else f"{commit}^{{tree}}")

    def write(self, root: Path) -> list[str] | None:
        """Write the YAML files into a directory, and give remarks; None if there are none."""
        if self._tree is None:
            return None
        if self._resolve(f"{self._tree}^{{tree}}") is None:
            raise UsageError(f"{self.name.rstrip('/')} is no directory")
        found = list(self._entries())
        submodules = [it.path for it in found if it.mode == _SUBMODULE]
        notes = [f"{self.name}{path} is a submodule, which is not read" for path in submodules]
        entries = [it for it in found if it.mode != _SUBMODULE]
        links = [it for it in entries if it.mode == _LINK]
        if not any(it.path.endswith(SUFFIXES) for it in entries):
            return None
        # A link may lead to a file of any name.
        files = [it for it in entries if it not in links and (links or it.path.endswith(SUFFIXES))]
        for entry, content in self._contents(files):
            path = root / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return [*notes, *self._link(root, links)]

    def _link(self, root: Path, links: list[_Entry]) -> Iterator[str]:
        """Make links that stay inside; the files of this machine are none of that revision."""
        paths = []
        for entry, target in self._contents(links):
            path = root / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(os.fsdecode(target))
            paths.append((path, entry))
        for path, entry in paths:
            # By os.path, which ends at a loop of links where Path.resolve raises.
            if not Path(os.path.realpath(path)).is_relative_to(root):
                path.unlink()
                yield f"{self.name}{entry.path} is a link out of the config directory, which is not followed"

    def _entries(self) -> Iterator[_Entry]:
        """Every file below the directory; a link may lead to a hidden one."""
        listing = self._git("ls-tree", "-r", "-z", "--full-tree", str(self._tree))
        for line in filter(None, listing.split(b"\0")):
            head, _, path = line.partition(b"\t")
            mode, _, object_id = head.decode().split(" ")
            name = os.fsdecode(path)
            path_in_tree = PurePosixPath(name)
            if path_in_tree.is_absolute() or ".." in path_in_tree.parts:  # git makes no such tree; others can
                raise UsageError(f"{self.name} holds {name!r}, a path out of it")
            yield _Entry(mode, object_id, name)

    def _contents(self, entries: list[_Entry]) -> Iterator[tuple[_Entry, bytes]]:
        """Give what the files hold, as committed: by one process for all of them."""
        asked = "".join(f"{entry.object_id}\n" for entry in entries).encode()
        answer, at = self._git("cat-file", "--batch", stdin=asked), 0
        for entry in entries:
            end = answer.index(b"\n", at)
            head = answer[at:end].decode().split(" ")
            if len(head) != 3:
                raise UsageError(f"git does not have the content of {self.name}{entry.path}; fetch it first")
            at = end + 1 + int(head[2])
            yield entry, answer[end + 1 : at]
            at += 1  # the line break behind it

    def _resolve(self, name: str) -> str | None:
        """Id of an object; None if there is none of that name."""
        done = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        if done.returncode not in (0, 1):
            raise UsageError(
                f"{self._revision!r} is no directory, and git does not find a revision: {_said(done)}"
            )
        # Of a range (`main..HEAD`) and an exclusion (`^main`) git prints ids too, some with `^`.
        words = done.stdout.decode().split()
        return words[0] if len(words) == 1 and not words[0].startswith("^") else None

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self._run(*arguments, stdin=stdin)
        if done.returncode:
            raise UsageError(f"git {arguments[0]}: {_said(done)}")
        return done.stdout

    def _run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        git = shutil.which("git")
        if git is None:
            raise UsageError(f"{self._revision!r} is no directory, and git, to find a revision, is missing")
        words = [git, "-C", str(self._directory), *arguments]
        clean = {key: value for key, value in os.environ.items() if key not in _HOOK_VARIABLES}
        return subprocess.run(words, input=stdin, capture_output=True, check=False, env=clean)  # noqa: S603


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
