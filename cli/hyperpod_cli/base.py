"""The fleet as it was: of another directory, or of a directory as of a git revision."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import yaml

from hyperpod_cli import report
from hyperpod_cli.output import UsageError
from hyperpod_config.findings import Finding, Severity
from hyperpod_config.load import load
from hyperpod_config.model import API_VERSION, Fleet
from hyperpod_config.source import SUFFIXES, shown
from hyperpod_config.suggest import one_of

_LINK, _SUBMODULE = "120000", "160000"
# A revision and a directory as git parts them: a colon in braces (`HEAD^{/fix: x}`) is of the revision.
_AT_REVISION = re.compile(r"((?:[^:{]|\{[^}]*\})+):(.*)", re.DOTALL)
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


def load_base(base: str, config: Path, fleet: str) -> Base:
    """Read the fleet to compare a config directory with.

    Args:
        base: A directory, or a git revision at which the config directory is read, or both as git writes it:
            `main:config`, from the top of the repository. Nothing is checked out.
        config: The config directory.
        fleet: The name of the fleet in it.

    Raises:
        UsageError: It is none of them, git is missing or refuses, there is no sound fleet in it, or the
            directory is not in the revision but seems to have been moved.
    """
    if not base:
        raise UsageError("--base is empty: name a config directory, or a git revision")
    directory = Path(base)
    if directory.is_dir():
        return _sound(base, Base(None), directory)
    named = _AT_REVISION.fullmatch(base)
    revision = _Revision(named[1], config, named[2]) if named else _Revision(base, config)
    with tempfile.TemporaryDirectory(prefix="hpf-base-") as temporary:
        # Resolved, so that a link is outside of it exactly when its target is.
        root = Path(temporary).resolve()
        notes = revision.write(root)
        if notes is None and named:
            raise UsageError(f"{base} is no directory with YAML files")
        if notes is None:
            if elsewhere := revision.elsewhere(fleet):
                raise UsageError(_moved(base, config, elsewhere))
            return Base(None, (f"{config} is not in {base}: nothing to compare with",))
        return _sound(base, Base(None, tuple(notes), (shown(root), revision.name)), root)


def _moved(revision: str, config: Path, directories: list[str]) -> str:
    spelled = one_of([f"--base {revision}:{directory}" for directory in directories])
    return (
        f"{config} is not in {revision}, but a fleet that seems to have been moved is;"
        f" name the directory where it was: {spelled}"
    )


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
    """A directory as of a git revision: the config directory, unless another is named.

    Attributes:
        name: What stands before a path of the directory, as git writes it: `main:config/`.
    """

    def __init__(self, revision: str, config: Path, directory: str | None = None) -> None:
        self._revision = revision
        self._directory = config.resolve()
        commit = self._resolve(f"{revision}^{{commit}}")
        if commit is None:
            raise UsageError(
                f"{revision!r} is no directory, and no revision of the git repository of {config};"
                " in a shallow clone, fetch it first"
            )
        self._commit = commit
        if directory is None:
            directory = self._path("--show-prefix")
        elif directory.split("/")[0] in (".", ".."):
            raise UsageError(f"{directory!r} is not below the top of the repository: write it from there")
        directory = directory.rstrip("/")
        self.name = f"{revision}:{directory}/" if directory else f"{revision}:"
        self._tree = self._resolve(f"{commit}:{directory}" if directory else f"{commit}^{{tree}}")

    def write(self, root: Path) -> list[str] | None:
        """Write the YAML files into a directory, and give remarks; None if there are none."""
        if self._tree is None:
            return None
        if self._resolve(f"{self._tree}^{{tree}}") is None:
            raise UsageError(f"{self.name.rstrip('/')} is no directory")
        found = list(self._entries(self._tree))
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

    def elsewhere(self, name: str) -> list[str]:
        """Directories at the revision with a fleet of this name, or one whose file is gone from there now.

        A fleet that has another name and stays where it was is another fleet.
        """
        top = Path(self._path("--show-toplevel"))
        files = [it for it in self._entries(self._commit) if it.mode not in (_LINK, _SUBMODULE)]
        files = [it for it in files if it.path.endswith(SUFFIXES)]
        found = set()
        for entry, content in self._contents(files):
            names = _fleets(content)
            if name in names or (names and not (top / entry.path).is_file()):
                found.add(entry.path.rpartition("/")[0])
        return sorted(found)

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

    def _entries(self, tree: str) -> Iterator[_Entry]:
        """Every file below a directory; a link may lead to a hidden one."""
        listing = self._git("ls-tree", "-r", "-z", "--full-tree", tree)
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
            self._need_content(done)
            raise UsageError(
                f"{self._revision!r} is no directory, and git does not find a revision: {_said(done)}"
            )
        # Of a range (`main..HEAD`) and an exclusion (`^main`) git prints ids too, some with `^`.
        words = done.stdout.decode().split()
        return words[0] if len(words) == 1 and not words[0].startswith("^") else None

    def _path(self, question: str) -> str:
        return os.fsdecode(self._git("rev-parse", question)).rstrip("\n")

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self._run(*arguments, stdin=stdin)
        if done.returncode:
            self._need_content(done)
            raise UsageError(f"git {arguments[0]}: {_said(done)}")
        return done.stdout

    def _need_content(self, done: subprocess.CompletedProcess[bytes]) -> None:
        """Refuse a partial clone, for which git fetches what it lacks, when that fails."""
        if b"promisor remote" in done.stderr:
            said = _said(done).splitlines()[-1].removeprefix("fatal: ")
            raise UsageError(
                f"git does not have all of {self._revision}, and could not fetch it: {said}; fetch it first"
            )

    def _run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        git = shutil.which("git")
        if git is None:
            raise UsageError(f"{self._revision!r} is no directory, and git, to find a revision, is missing")
        words = [git, "-C", str(self._directory), *arguments]
        clean = {key: value for key, value in os.environ.items() if key not in _HOOK_VARIABLES}
        clean["LC_ALL"] = "C"  # its messages in one language: see _need_content
        return subprocess.run(words, input=stdin, capture_output=True, check=False, env=clean)  # noqa: S603


def _fleets(content: bytes) -> list[str]:
    """Names of the fleets in a file; one without a name if it cannot be read but seems to have one."""
    if not (b"Fleet" in content and API_VERSION.encode() in content):
        return []
    try:
        documents = list(yaml.load_all(content, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError):
        return [""]
    found = [each for each in documents if isinstance(each, dict) and each.get("kind") == "Fleet"]
    heads = [each.get("metadata") for each in found if each.get("apiVersion") == API_VERSION]
    return [str(head.get("name", "")) if isinstance(head, dict) else "" for head in heads]


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
