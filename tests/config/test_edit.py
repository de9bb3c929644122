"""Edits of a config's text: only what is meant changes, to the byte, or nothing."""

import errno
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_config import edit, load
from hyperpod_config.edit import Edit, EditError, Hold, RemoveAllocation, RemoveDocument
from hyperpod_config.model import Fleet

HEAD = "apiVersion: hyperpod-fleet/v1alpha1\n"
FLEET = HEAD + "kind: Fleet\nmetadata: {name: example}\nspec: {}\n"
VISION = "kind: Team\nmetadata: {name: vision}\n"


def read(directory: Path) -> Fleet:
    loaded = load(directory)
    assert loaded.fleet is not None, loaded.findings
    return loaded.fleet


def team(directory: Path, text: str) -> Path:
    (directory / "fleet.yaml").write_text(FLEET)
    path = directory / "vision.yaml"
    path.write_bytes((HEAD + VISION + text).encode())
    return path


def edited(directory: Path, *edits: Edit) -> None:
    edit.write(edit.changes(directory, read(directory), edits))


HOLD, REMOVE = Hold("vision", "a"), RemoveAllocation("vision", "a")

SPEC = "spec:\n  allocations:\n"
CASES: dict[str, tuple[Edit, str, str]] = {
    "a hold is a line at the end of the allocation, before what follows": (
        HOLD,
        SPEC + "    - cluster: a # big\n      quota:\n        - {instanceType: ml.g5.2xlarge, count: 1}\n"
        "        # more in June\n    - cluster: b\n\n  # people\n  access: {groups: [x]}\n",
        SPEC + "    - cluster: a # big\n      quota:\n        - {instanceType: ml.g5.2xlarge, count: 1}\n"
        "        # more in June\n      activationState: Disabled\n    - cluster: b\n\n  # people\n"
        "  access: {groups: [x]}\n",
    ),
    "a state that is written is replaced where it stands": (
        HOLD,
        SPEC + '    - activationState: "Enabled"  # since May\n      cluster: a\n',
        SPEC + "    - activationState: Disabled  # since May\n      cluster: a\n",
    ),
    "a file without a last line end gets one": (
        HOLD,
        SPEC + "    - cluster: a",
        SPEC + "    - cluster: a\n      activationState: Disabled\n",
    ),
    "a file with CRLF keeps it": (
        HOLD,
        (SPEC + "    - cluster: a\n    - cluster: b\n").replace("\n", "\r\n"),
        (SPEC + "    - cluster: a\n      activationState: Disabled\n    - cluster: b\n").replace(
            "\n", "\r\n"
        ),
    ),
    "a dash on a line of its own": (
        HOLD,
        SPEC + "    -\n      cluster: a\n    - cluster: b\n",
        SPEC + "    -\n      cluster: a\n      activationState: Disabled\n    - cluster: b\n",
    ),
    "flow style stays flow style": (
        HOLD,
        "spec: {allocations: [{cluster: a, quota: []}, {cluster: b}]}\n",
        "spec: {allocations: [{cluster: a, quota: [], activationState: Disabled}, {cluster: b}]}\n",
    ),
    "flow style over several lines": (
        HOLD,
        "spec:\n  allocations: [\n    {cluster: a,  # Ä\n     fairShareWeight: 3  # small\n    }, # a\n  ]\n",
        "spec:\n  allocations: [\n    {cluster: a,  # Ä\n"
        "     fairShareWeight: 3, activationState: Disabled  # small\n    }, # a\n  ]\n",
    ),
    "an item goes with its comments, the others keep theirs": (
        REMOVE,
        SPEC + "    # for b\n    - cluster: b # b\n    # for a\n    # and more\n    - cluster: a\n"
        "      fairShareWeight: 1 # one\n      # in a\n\n    # for c\n    - cluster: c\n",
        SPEC + "    # for b\n    - cluster: b # b\n\n    # for c\n    - cluster: c\n",
    ),
    "the last item in block style leaves an empty list": (
        REMOVE,
        "spec:\n  allocations: # all\n    - cluster: a\n      quota: []\n  access: {groups: [x]}\n",
        "spec:\n  allocations: [] # all\n  access: {groups: [x]}\n",
    ),
    "a list at the indentation of its key": (
        REMOVE,
        "spec:\n  allocations:\n  - cluster: a\n  - cluster: b\n  access: {}\n",
        "spec:\n  allocations:\n  - cluster: b\n  access: {}\n",
    ),
    "the only item in flow style leaves an empty list": (
        REMOVE,
        "spec: {allocations: [ {cluster: a} ]} # x\n",
        "spec: {allocations: []} # x\n",
    ),
    "the first of several in flow style": (
        REMOVE,
        "spec: {allocations: [{cluster: a}, {cluster: b}]}\n",
        "spec: {allocations: [{cluster: b}]}\n",
    ),
    "the last of several in flow style": (
        REMOVE,
        "spec: {allocations: [{cluster: b}, {cluster: a}]}\n",
        "spec: {allocations: [{cluster: b}]}\n",
    ),
    "the last line of several in flow style": (
        REMOVE,
        "spec:\n  allocations: [\n    {cluster: b}, # b, kept\n    {cluster: a} # a, not\n  ]\n",
        "spec:\n  allocations: [\n    {cluster: b}, # b, kept\n  ]\n",
    ),
    "the last in flow style with the bracket behind it": (
        REMOVE,
        "spec:\n  allocations: [{cluster: b}, # b\n    {cluster: a}]\n",
        "spec:\n  allocations: [{cluster: b}, # b\n    ]\n",
    ),
    "a name in quotes is the same name": (
        REMOVE,
        SPEC + "    - 'cluster': \"a\"\n    - cluster: b\n",
        SPEC + "    - cluster: b\n",
    ),
    "a dash in a comment is no item": (
        REMOVE,
        SPEC + "    - cluster: b\n    - # - what\n      cluster: a\n",
        SPEC + "    - cluster: b\n",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_edit_changes(case: tuple[Edit, str, str], tmp_path: Path) -> None:
    change, before, after = case
    path = team(tmp_path, before)
    meant = edit.intended(read(tmp_path), [change])
    edited(tmp_path, change)
    assert path.read_bytes().decode() == HEAD + VISION + after
    assert read(tmp_path) == meant


def one(kind: str, name: str) -> str:
    return f"{HEAD}kind: {kind}\nmetadata: {{name: {name}}}\nspec: {{}}\n"


DOCUMENTS: dict[str, tuple[str, str]] = {
    "the first, without a marker, goes and what stands above it stays": (
        "# Teams of the lab\n\n" + one("Team", "vision") + "---\n" + one("Team", "b"),
        "# Teams of the lab\n\n---\n" + one("Team", "b"),
    ),
    "one in the middle": (
        one("Team", "a")
        + "--- # of vision\n"
        + one("Team", "vision")
        + "# end\n--- # of b\n"
        + one("Team", "b"),
        one("Team", "a") + "--- # of b\n" + one("Team", "b"),
    ),
    "the last": (one("Team", "b") + "---\n" + one("Team", "vision") + "# end\n", one("Team", "b")),
    "documents with end marks": (
        one("Team", "b") + "...\n---\n" + one("Team", "vision") + "...\n---\n" + one("Team", "c"),
        one("Team", "b") + "...\n---\n" + one("Team", "c"),
    ),
    "an empty document counts as one": (
        "---\n---\n" + one("Team", "vision") + "---\n" + one("Team", "b"),
        "---\n---\n" + one("Team", "b"),
    ),
}


@pytest.mark.parametrize("case", DOCUMENTS.values(), ids=DOCUMENTS)
def test_of_several_documents(case: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    path = tmp_path / "teams.yaml"
    path.write_text(case[0])
    edited(tmp_path, RemoveDocument("Team", "vision"))
    assert path.read_text() == case[1]


def test_a_file_without_another_document_is_deleted(tmp_path: Path) -> None:
    path = team(tmp_path, "spec: {}\n---\n# nothing\n")
    edited(tmp_path, RemoveDocument("Team", "vision"))
    assert not path.exists()
    assert read(tmp_path).teams == ()


@pytest.mark.parametrize("directory", [".", "./", "../lab", "teams/.."])
def test_the_directory_may_be_written_in_any_way(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab" / "teams").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "lab")
    path = team(tmp_path / "lab", SPEC + "    - cluster: a\n")
    edited(Path(directory), HOLD)
    assert path.read_text().endswith("activationState: Disabled\n")


def test_a_byte_order_mark_and_permissions_stay(tmp_path: Path) -> None:
    path = team(tmp_path, SPEC + "    - cluster: a\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    path.chmod(0o640)
    edited(tmp_path, HOLD)
    assert path.read_bytes().startswith(b"\xef\xbb\xbfapiVersion")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path = team(tmp_path, SPEC + "    - cluster: a\n")
    real = tmp_path / ".shared"
    path.rename(real)
    path.symlink_to(real)
    edited(tmp_path, HOLD)
    assert path.is_symlink()
    assert "Disabled" in real.read_text()


def test_the_diff_is_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team(tmp_path, SPEC + "    - cluster: a\n")
    monkeypatch.chdir(tmp_path)
    (change,) = edit.changes(tmp_path, read(tmp_path), [HOLD])
    assert change.diff == (
        "--- a/vision.yaml\n+++ b/vision.yaml\n@@ -4,3 +4,4 @@\n spec:\n   allocations:\n     - cluster: a\n"
        "+      activationState: Disabled\n"
    )


@pytest.mark.parametrize("change", [HOLD, REMOVE, RemoveDocument("Team", "vision")], ids=repr)
@pytest.mark.parametrize(
    "text",
    [
        SPEC + "    - cluster: a\n",
        SPEC + "    - cluster: a",
        (SPEC + "    - cluster: a # \u2028 # \x85 # \u00e9\n").replace("\n", "\r\n"),
    ],
    ids=repr,
)
def test_git_makes_of_the_diff_what_is_written(
    change: Edit, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = team(tmp_path, text)
    copy = tmp_path / ".copy"
    copy.mkdir()
    (copy / "vision.yaml").write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    (changed,) = edit.changes(tmp_path, read(tmp_path), [change])
    subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
    subprocess.run(["git", "apply", "-"], cwd=copy, input=changed.diff.encode(), check=True)
    edit.write([changed])
    assert (copy / "vision.yaml").exists() == path.exists()
    if path.exists():
        assert (copy / "vision.yaml").read_bytes() == path.read_bytes()


ODD: dict[str, tuple[Edit, str]] = {
    "an explicit key": (HOLD, SPEC + "    - ? cluster\n      : a\n      ? quota\n      : []\n"),
    "a list under an explicit key": (REMOVE, "spec:\n  ? allocations\n  : - cluster: a\n"),
}


@pytest.mark.parametrize("case", ODD.values(), ids=ODD)
def test_what_cannot_be_changed_safely_is_not_changed_or_is_right(
    case: tuple[Edit, str], tmp_path: Path
) -> None:
    path = team(tmp_path, case[1])
    before, meant = path.read_bytes(), edit.intended(read(tmp_path), [case[0]])
    try:
        edited(tmp_path, case[0])
    except EditError as error:
        assert "by hand" in str(error)
        assert path.read_bytes() == before
    else:
        assert read(tmp_path) == meant


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Hold("nobody", "a"), "there is no Team nobody"),
        (Hold("vision", "b"), "team vision has no allocation on cluster b"),
        (RemoveDocument("Cluster", "a"), "there is no Cluster a"),
    ],
)
def test_an_edit_of_what_is_not_there_is_refused(change: Edit, message: str, tmp_path: Path) -> None:
    team(tmp_path, SPEC + "    - cluster: a\n")
    with pytest.raises(EditError, match=message):
        edited(tmp_path, change)


class TestWriting:
    @pytest.fixture
    def two(self, tmp_path: Path) -> Path:
        team(tmp_path, SPEC + "    - cluster: a\n")
        (tmp_path / "b.yaml").write_text(one("Team", "b"))
        (tmp_path / "c.yaml").write_text(
            HEAD + "kind: Team\nmetadata: {name: c}\n" + SPEC + "    - cluster: a\n"
        )
        return tmp_path

    EDITS = (HOLD, RemoveDocument("Team", "b"), Hold("c", "a"))

    def snapshot(self, directory: Path) -> dict[str, tuple[bytes, int, str | None]]:
        """Content, mode and, of a link, where it leads."""
        return {
            path.name: (
                path.read_bytes(),
                path.stat().st_mode,
                str(path.readlink()) if path.is_symlink() else None,
            )
            for path in directory.iterdir()
        }

    def test_several_files_change_together(self, two: Path) -> None:
        meant = edit.intended(read(two), self.EDITS)
        edited(two, *self.EDITS)
        assert read(two) == meant
        assert sorted(self.snapshot(two)) == ["c.yaml", "fleet.yaml", "vision.yaml"]

    def test_a_file_that_was_changed_meanwhile_is_not_overwritten(self, two: Path) -> None:
        fleet = read(two)
        changed = edit.changes(two, fleet, self.EDITS)
        (two / "c.yaml").write_text("# mine\n" + (two / "c.yaml").read_text())
        before = self.snapshot(two)
        with pytest.raises(EditError, match="changed meanwhile"):
            edit.write(changed)
        with pytest.raises(EditError, match="changed meanwhile"):
            edit.changes(two, fleet, self.EDITS)
        assert self.snapshot(two) == before

    @pytest.mark.parametrize("change", [HOLD, RemoveDocument("Team", "vision")], ids=repr)
    def test_a_read_only_file_is_refused_before_anything_is_written(self, change: Edit, two: Path) -> None:
        changed = edit.changes(two, read(two), [RemoveDocument("Team", "b"), Hold("c", "a"), change])
        (two / "vision.yaml").chmod(0o444)
        before = self.snapshot(two)
        with pytest.raises(EditError) as error:
            edit.write(changed)
        assert str(error.value) == (
            f"{two}/vision.yaml is read-only: make it writable, then run the command again"
        )
        assert self.snapshot(two) == before

    @pytest.mark.parametrize("change", [HOLD, RemoveDocument("Team", "vision")], ids=repr)
    def test_where_no_file_can_be_made_the_message_names_the_file_of_the_config(
        self, change: Edit, two: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(**_: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", f"{two}/.vision.yaml.abc123")

        changed = edit.changes(two, read(two), [change])
        monkeypatch.setattr(tempfile, "mkstemp", refuse)
        with pytest.raises(EditError) as error:
            edit.write(changed)
        assert str(error.value) == f"cannot write {two}/vision.yaml: Permission denied in {two}"

    def test_a_link_that_goes_leaves_what_it_leads_to(self, two: Path) -> None:
        real = two / ".b"
        (two / "b.yaml").rename(real)
        (two / "b.yaml").symlink_to(".b")
        edited(two, RemoveDocument("Team", "b"))
        assert sorted(self.snapshot(two)) == [".b", "c.yaml", "fleet.yaml", "vision.yaml"]

    @pytest.mark.parametrize("link", [False, True], ids=["files", "links"])
    @pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
    @pytest.mark.parametrize(
        ("failure", "raised"),
        [(OSError(errno.ENOSPC, "No space left", "x"), EditError), (KeyboardInterrupt(), KeyboardInterrupt)],
        ids=["a full disk", "an interrupt"],
    )
    def test_a_failure_at_any_file_leaves_all_as_they_were(
        self,
        two: Path,
        failure: BaseException,
        raised: type[BaseException],
        fails_at: int,
        link: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for name in ("b.yaml", "vision.yaml"):
            (two / name).chmod(0o640)
            if link:
                (two / name).rename(two / f".{name}")
                (two / name).symlink_to(f".{name}")
        # Two files go, so that one is gone already when the other cannot.
        edits = (*self.EDITS, RemoveDocument("Team", "d"))
        (two / "d.yaml").write_text(one("Team", "d"))
        changed = edit.changes(two, read(two), edits)
        before, calls = self.snapshot(two), iter(range(9))
        real = Path.replace

        def failing(path: Path, target: Path) -> Path:
            if next(calls) == fails_at:
                raise failure
            return real(path, target)

        monkeypatch.setattr(Path, "replace", failing)
        with pytest.raises(raised, match="No space left" if raised is EditError else None):
            edit.write(changed)
        assert self.snapshot(two) == before


CLUSTERS = ("a", "b", "c")
SMALL = st.fixed_dictionaries(
    {},
    optional={
        "quota": st.lists(
            st.sampled_from(
                [{"instanceType": "ml.g5.2xlarge", "count": 1}, {"hardware": "cpu", "vCpu": 0.5}]
            ),
            max_size=2,
        ),
        "fairShareWeight": st.integers(0, 9),
        "activationState": st.sampled_from(["Enabled", "Disabled"]),
        "resourceSharingConfig": st.just({"strategy": "LendAndBorrow", "borrowLimit": 5}),
    },
)
ALLOCATIONS = st.lists(
    st.tuples(st.sampled_from(CLUSTERS), SMALL), unique_by=lambda each: each[0], max_size=3
)


class _Plain(yaml.SafeDumper):
    """Writes equal values out, each where it stands: aliases are not part of the language."""

    def ignore_aliases(self, data: object) -> bool:
        return True


@st.composite
def texts(draw: st.DrawFn, documents: list[dict[str, Any]]) -> str:
    """Write documents as PyYAML does, in a style, with comments on lines of their own and behind others."""
    flow = draw(st.sampled_from([True, False, None]))
    width = draw(st.sampled_from([20, 100]))
    indent = draw(st.integers(2, 6))
    order = draw(st.booleans())
    style: dict[str, Any] = {"default_flow_style": flow, "width": width, "indent": indent}
    text: str = yaml.dump_all(documents, Dumper=_Plain, sort_keys=order, **style)
    lines = []
    for line in text.splitlines():
        if draw(st.integers(0, 7)) == 0:
            lines.append(" " * draw(st.integers(0, 8)) + "# é - comment: [")
        lines.append(line + (" # behind" if draw(st.integers(0, 7)) == 0 else ""))
    return draw(st.sampled_from(["\n", "\r\n"])).join([*lines, ""])


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, str]:
    """Texts of files with a few teams, one or several of them in a file."""
    names = draw(st.lists(st.sampled_from(["no", "t1", "t2", "x-y"]), min_size=1, unique=True))
    teams = []
    for name in names:
        allocations = [{"cluster": cluster, **rest} for cluster, rest in draw(ALLOCATIONS)]
        spec = {"allocations": allocations, "access": {"groups": ["a: b", "- c"]}}
        teams.append(
            {"apiVersion": HEAD.split()[1], "kind": "Team", "metadata": {"name": name}, "spec": spec}
        )
    together = draw(st.integers(0, len(teams)))
    files = [teams[:together]] if together else []
    files += [[each] for each in teams[together:]]
    return {f"{number}.yaml": draw(texts(file)) for number, file in enumerate(files)} | {"fleet.yaml": FLEET}


@settings(max_examples=200)
@given(fleets(), st.data())
def test_any_edit_of_any_text_gives_the_fleet_that_is_meant(files: dict[str, str], data: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for file, text in files.items():
            (directory / file).write_bytes(text.encode())
        fleet = read(directory)
        team = data.draw(st.sampled_from(fleet.teams))
        steps: list[list[Edit]] = [[Hold(team.name, each.cluster) for each in team.spec.allocations]]
        if data.draw(st.booleans()):
            steps.append([RemoveDocument("Team", team.name)])
        else:
            steps.append([RemoveAllocation(team.name, each.cluster) for each in team.spec.allocations])
        for step in steps:
            meant = edit.intended(fleet, step)
            lines = {line for path in directory.iterdir() for line in path.read_text().splitlines()}
            edited(directory, *step)
            fleet = read(directory)
            assert fleet == meant
            if isinstance(step[0] if step else None, RemoveDocument):
                left = {line for path in directory.iterdir() for line in path.read_text().splitlines()}
                assert left <= lines
