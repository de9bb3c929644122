"""`hpf validate --base`: against a directory, and against the config as of a git revision."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperpod_cli.base import load_base
from hyperpod_cli.main import main
from hyperpod_cli.output import UsageError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "config"
TEAM = "teams/vision.yaml"

Captured = pytest.CaptureFixture[str]
Git = Callable[..., str]


def example(directory: Path) -> Path:
    """A copy of the example."""
    ignored = shutil.ignore_patterns("hyperpod_config", "__pycache__", "*.py")
    shutil.copytree(EXAMPLE, directory, ignore=ignored)
    return directory


@pytest.fixture(autouse=True)
def _own_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.com")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose branch `main` has the example, and the working directory in it."""
    root = tmp_path / "repository"
    example(root / "config")
    git(root, "init", "-q", "-b", "main")
    commit(root)
    monkeypatch.chdir(root)
    return root


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def put(root: Path, kind: str, content: bytes) -> str:
    """Write an object as it is, whether git would make it or not."""
    words = ["git", "-C", str(root), "hash-object", "-w", "-t", kind, "--literally", "--stdin"]
    return subprocess.run(words, input=content, capture_output=True, check=True).stdout.decode().strip()


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")


def rename(config: Path) -> None:
    """Make it another fleet."""
    path = config / "fleet.yaml"
    path.write_text(path.read_text().replace("name: example", "name: second"))


def validate(*arguments: str | Path) -> int:
    return main(["validate", *map(str, arguments)])


class TestDirectory:
    def test_a_fleet_may_become_what_it_is(self, tmp_path: Path, capsys: Captured) -> None:
        assert validate(example(tmp_path / "new"), "--base", EXAMPLE) == 0
        assert "HPF15" not in capsys.readouterr().out

    def test_what_was_removed_has_its_place_in_the_base(self, tmp_path: Path, capsys: Captured) -> None:
        new = example(tmp_path / "new")
        (new / TEAM).unlink()
        base = example(tmp_path / "base")
        assert validate(new, "--base", base) == 1
        out = capsys.readouterr().out
        assert f"{base}/{TEAM}:4:" in out
        assert "error HPF159: team vision was here and is gone" in out

    def test_a_directory_goes_before_a_branch_of_its_name(self, repository: Path, capsys: Captured) -> None:
        git(repository, "branch", "config")
        (repository / "config" / TEAM).unlink()
        assert validate("--base", "config") == 0
        assert validate("--base", "refs/heads/config") == 1

    def test_a_base_that_cannot_be_read_is_2_and_says_why(self, tmp_path: Path, capsys: Captured) -> None:
        base = example(tmp_path / "base")
        (base / TEAM).write_text("kind: Teem\n")
        assert validate(EXAMPLE, "--base", base) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"hpf: {base} cannot be compared with: 1 error\n" in err
        assert f"{base}/{TEAM}:1:" in err
        assert "HPF012" in err

    def test_an_empty_base_is_2(self, tmp_path: Path, capsys: Captured) -> None:
        assert validate(EXAMPLE, "--base", tmp_path) == 2
        assert "HPF002" in capsys.readouterr().err

    def test_a_base_in_which_rules_find_errors_can_be_mended(self, tmp_path: Path, capsys: Captured) -> None:
        base = example(tmp_path / "base")
        team = base / TEAM
        team.write_text(team.read_text().replace("cluster: research", "cluster: reserach"))
        assert validate(base) == 1
        assert validate(EXAMPLE, "--base", base) == 0


class TestRevision:
    def test_what_stands_in_the_files_now_is_compared_with_the_revision(
        self, repository: Path, capsys: Captured
    ) -> None:
        (repository / "config" / TEAM).unlink()
        assert validate("--base", "main") == 1
        out = capsys.readouterr().out
        assert "main:config/teams/vision.yaml:4:" in out
        assert "hpf-base-" not in out
        assert git(repository, "status", "--porcelain") == " D config/teams/vision.yaml\n"

    @pytest.mark.parametrize("revision", ["HEAD", "HEAD~1", "v1", "refs/heads/main"])
    def test_any_revision_will_do(self, revision: str, repository: Path, capsys: Captured) -> None:
        commit(repository)
        git(repository, "tag", "-a", "v1", "-m", "v1")
        (repository / "config" / TEAM).unlink()
        assert validate("--base", revision) == 1
        assert f"{revision}:config/{TEAM}:" in capsys.readouterr().out

    def test_a_place_is_what_git_shows(self, repository: Path, capsys: Captured) -> None:
        (repository / "config" / TEAM).unlink()
        validate("--base", "main", "--format", "json")
        (finding,) = [it for it in json.loads(capsys.readouterr().out) if it["rule"] == "HPF159"]
        place = finding["place"]
        line = git(repository, "show", place["file"]).splitlines()[place["line"] - 1]
        assert line[place["column"] - 1 :].startswith("vision")

    def test_an_annotation_names_the_place_too(self, repository: Path, capsys: Captured) -> None:
        (repository / "config" / TEAM).unlink()
        assert validate("--base", "main", "--format", "github") == 1
        assert "file=main%3Aconfig/teams/vision.yaml,line=4" in capsys.readouterr().out

    def test_the_config_may_be_the_whole_repository(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        root = example(tmp_path / "fleet")
        git(root, "init", "-q", "-b", "main")
        commit(root)
        (root / TEAM).unlink()
        assert validate(root, "--base", "main") == 1
        assert f"main:{TEAM}:4:" in capsys.readouterr().out

    def test_the_config_may_lie_beside_the_working_directory(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        other = repository / "docs"
        other.mkdir()
        monkeypatch.chdir(other)
        (repository / "config" / TEAM).unlink()
        assert validate("../config", "--base", "main") == 1
        assert f"main:config/{TEAM}:" in capsys.readouterr().out

    def test_a_link_to_the_config_is_read_at_the_place_it_leads_to(
        self, repository: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        link = tmp_path / "link"
        link.symlink_to(repository / "config")
        (repository / "config" / TEAM).unlink()
        assert validate(link, "--base", "main") == 1
        assert f"main:config/{TEAM}:" in capsys.readouterr().out

    def test_odd_names_of_files_and_branches_are_read(self, repository: Path, capsys: Captured) -> None:
        odd = repository / "config" / "teams" / 'with space, ü and "quotes"\n.yaml'
        (repository / "config" / TEAM).rename(odd)
        commit(repository)
        git(repository, "branch", "feature/ü")
        odd.unlink()
        assert validate("--base", "feature/ü") == 1
        assert f"feature/ü:config/teams/{odd.name}:4:" in capsys.readouterr().out

    def test_a_hook_finds_the_repository(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setenv("GIT_DIR", ".git")
        monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
        assert validate("--base", "main") == 0

    def test_attributes_of_an_archive_change_nothing(self, repository: Path, capsys: Captured) -> None:
        (repository / ".gitattributes").write_text("config/teams/** export-ignore\n")
        commit(repository)
        (repository / "config" / TEAM).unlink()
        assert validate("--base", "main") == 1


class TestMoved:
    """A gate must not turn green just when the directory is renamed."""

    def move(self, repository: Path, name: str = "fleets/research") -> Path:
        """Move the config, without the team, to a directory that the revision does not have."""
        target = repository / name
        target.parent.mkdir(exist_ok=True)
        (repository / "config").rename(target)
        (target / TEAM).unlink()
        return target

    def test_a_directory_that_was_renamed_is_2_and_names_the_old_one(
        self, repository: Path, capsys: Captured
    ) -> None:
        self.move(repository)
        assert validate("fleets/research", "--base", "main") == 2
        err = capsys.readouterr().err
        assert "fleets/research is not in main, but a fleet that seems to have been moved is;" in err
        assert "name the directory where it was: --base main:config\n" in err

    def test_what_the_message_names_compares(self, repository: Path, capsys: Captured) -> None:
        self.move(repository)
        assert validate("fleets/research", "--base", "main:config") == 1
        assert f"main:config/{TEAM}:4:" in capsys.readouterr().out

    def test_a_fleet_that_is_renamed_too_is_found(self, repository: Path, capsys: Captured) -> None:
        rename(self.move(repository))
        assert validate("fleets/research", "--base", "main") == 2
        assert validate("fleets/research", "--base", "main:config") == 1
        assert "HPF150" in capsys.readouterr().out

    def test_a_copy_of_a_fleet_that_stays_is_compared_with_it(
        self, repository: Path, capsys: Captured
    ) -> None:
        example(repository / "copy")
        assert validate("copy", "--base", "main") == 2
        assert validate("copy", "--base", "main:config") == 0

    def test_the_whole_repository_moved_into_a_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        root = example(tmp_path / "fleet")
        git(root, "init", "-q", "-b", "main")
        commit(root)
        (root / "config").mkdir()
        for path in [path for path in root.iterdir() if path.name not in (".git", "config")]:
            path.rename(root / "config" / path.name)
        assert validate(root / "config", "--base", "main") == 2
        assert "name the directory where it was: --base main:\n" in capsys.readouterr().err
        (root / "config" / TEAM).unlink()
        assert validate(root / "config", "--base", "main:") == 1
        assert f"main:{TEAM}:4:" in capsys.readouterr().out

    def test_a_fleet_that_cannot_be_read_there_counts(self, repository: Path, capsys: Captured) -> None:
        path = repository / "config" / "fleet.yaml"
        was = path.read_text()
        path.write_text(was + "spec: {\n")
        commit(repository)
        path.write_text(was)
        self.move(repository)
        assert validate("fleets/research", "--base", "main") == 2

    def test_a_fleet_of_others_is_none(self, repository: Path, capsys: Captured) -> None:
        (repository / "agones.yaml").write_text("apiVersion: agones.dev/v1\nkind: Fleet\n")
        (repository / "config" / "fleet.yaml").unlink()
        commit(repository)
        (repository / "agones.yaml").unlink()
        shutil.copy(EXAMPLE / "fleet.yaml", repository / "config")
        self.move(repository)
        assert validate("fleets/research", "--base", "main") == 0

    def test_several_are_all_named(self, repository: Path, capsys: Captured) -> None:
        example(repository / "other")
        commit(repository)
        shutil.rmtree(repository / "other")
        self.move(repository)
        assert validate("fleets/research", "--base", "main") == 2
        assert "--base main:config, --base main:other\n" in capsys.readouterr().err


class TestDirectoryAtARevision:
    @pytest.mark.parametrize("spelled", ["main:config", "main:config/", "HEAD^{/x: y}:config", "@{0}:config"])
    def test_is_written_as_git_writes_it(self, spelled: str, repository: Path, capsys: Captured) -> None:
        git(repository, "commit", "-q", "--allow-empty", "-m", "x: y")
        (repository / "config" / TEAM).unlink()
        assert validate("--base", spelled) == 1
        assert f"{spelled.rstrip('/')}/{TEAM}:4:" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("spelled", "said"),
        [
            ("main:nope", "main:nope is no directory with YAML files\n"),
            ("main:config/fleet.yaml", "main:config/fleet.yaml is no directory\n"),
            ("main:docs", "main:docs is no directory with YAML files\n"),
            ("main:./config", "'./config' is not below the top of the repository"),
            ("main:../config", "'../config' is not below the top of the repository"),
            ("nope:config", "'nope' is no directory, and no revision"),
        ],
    )
    def test_that_cannot_be_compared_with_is_2(
        self, spelled: str, said: str, repository: Path, capsys: Captured
    ) -> None:
        (repository / "docs").mkdir()
        (repository / "docs" / "notes.md").write_text("soon")
        commit(repository)
        assert validate("--base", spelled) == 2
        assert said in capsys.readouterr().err


class TestNothingToCompare:
    def test_the_first_commit_of_the_config(self, repository: Path, capsys: Captured) -> None:
        rename(example(repository / "fleets" / "second"))
        assert validate("fleets/second", "--base", "main") == 0
        assert "fleets/second is not in main: nothing to compare with\n" in capsys.readouterr().err

    def test_a_directory_without_yaml(self, repository: Path, capsys: Captured) -> None:
        (repository / "second").mkdir()
        (repository / "second" / "notes.md").write_text("soon")
        commit(repository)
        example(repository / "copy")
        shutil.copytree(repository / "copy", repository / "second", dirs_exist_ok=True)
        rename(repository / "second")
        assert validate("second", "--base", "main") == 0
        assert "nothing to compare with" in capsys.readouterr().err

    def test_a_config_that_cannot_be_read_now(self, repository: Path, capsys: Captured) -> None:
        (repository / "config" / TEAM).write_text("kind: Teem\n")
        assert validate("--base", "main") == 1
        out, err = capsys.readouterr()
        assert "HPF012" in out
        assert "HPF159" not in out
        assert "not compared with main: the config cannot be read\n" in err


class TestRefused:
    @pytest.mark.parametrize(
        "revision",
        ["nope", "--upload-pack=x", ":/nope", "HEAD~99", "main..HEAD", "main...HEAD", "^main"],
    )
    def test_an_unknown_revision_is_2(self, revision: str, repository: Path, capsys: Captured) -> None:
        assert validate(f"--base={revision}") == 2
        assert f"hpf: {revision!r} is no directory, and no revision" in capsys.readouterr().err

    @pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
    def test_a_partial_clone_whose_remote_is_gone_is_2_and_says_to_fetch(
        self,
        left_out: str,
        repository: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Captured,
    ) -> None:
        git(repository, "config", "uploadpack.allowFilter", "true")
        clone = tmp_path / "clone"
        words = ["clone", "-q", "--no-checkout", f"--filter={left_out}", f"file://{repository}", str(clone)]
        git(tmp_path, *words)
        repository.rename(tmp_path / "gone")
        monkeypatch.chdir(example(clone / "config").parent)
        assert validate("--base", "main") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("hpf: git does not have all of main, and could not fetch it: could not fetch ")
        assert line.endswith(" from promisor remote; fetch it first")

    def test_an_empty_base_as_of_an_unset_variable_is_2(self, repository: Path, capsys: Captured) -> None:
        assert validate("--base", "") == 2
        assert "--base is empty" in capsys.readouterr().err

    def test_a_path_out_of_the_tree_is_2(self, repository: Path, capsys: Captured) -> None:
        """Git refuses to make such a tree, but it can be sent one."""
        blob = git(repository, "hash-object", "-w", "config/fleet.yaml").strip()
        entry = b"100644 ..\0" + bytes.fromhex(blob)
        tree = b"40000 config\0" + bytes.fromhex(put(repository, "tree", entry))
        made = git(repository, "commit-tree", "-m", "x", put(repository, "tree", tree)).strip()
        assert validate("--base", made) == 2
        assert "holds '..', a path out of it" in capsys.readouterr().err

    def test_a_config_outside_of_a_repository_is_2(
        self, repository: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        assert validate(example(tmp_path / "elsewhere"), "--base", "main") == 2
        assert "not a git repository" in capsys.readouterr().err

    def test_a_machine_without_git_is_2(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        monkeypatch.setenv("PATH", os.devnull)
        assert validate("--base", "main") == 2
        assert (
            "hpf: 'main' is no directory, and git, to find a revision, is missing" in capsys.readouterr().err
        )

    def test_a_broken_config_at_the_revision_is_2_with_its_place(
        self, repository: Path, capsys: Captured
    ) -> None:
        path = repository / "config" / TEAM
        was = path.read_text()
        path.write_text("kind: Teem\n")
        commit(repository)
        path.write_text(was)
        assert validate("--base", "main") == 2
        err = capsys.readouterr().err
        assert "hpf: main cannot be compared with: 1 error\n" in err
        assert f"main:config/{TEAM}:1:" in err

    def test_two_documents_of_one_name_are_both_named_at_the_revision(
        self, repository: Path, capsys: Captured
    ) -> None:
        copy = repository / "config" / "teams" / "copy.yaml"
        shutil.copy(repository / "config" / TEAM, copy)
        commit(repository)
        copy.unlink()
        assert validate("--base", "main") == 2
        err = capsys.readouterr().err
        assert f"main:config/{TEAM}:4:" in err
        assert "main:config/teams/copy.yaml:4:" in err

    def test_a_file_where_the_config_is_now(self, repository: Path, capsys: Captured) -> None:
        (repository / "second").write_text("soon")
        commit(repository)
        (repository / "second").unlink()
        example(repository / "second")
        assert validate("second", "--base", "main") == 2
        assert "main:second is no directory" in capsys.readouterr().err


class TestLinks:
    def test_links_inside_are_followed(self, repository: Path, capsys: Captured) -> None:
        config = repository / "config"
        (config / "teams").rename(config / ".teams")
        (config / "teams").symlink_to(".teams")
        (config / "fleet.yaml").rename(config / "fleet.text")
        (config / "fleet.yaml").symlink_to("fleet.text")
        commit(repository)
        assert validate("--base", "main") == 0
        (config / ".teams" / "vision.yaml").unlink()
        assert validate("--base", "main") == 1
        assert "main:config/teams/vision.yaml:4:" in capsys.readouterr().out

    @pytest.mark.parametrize("inside", ["link.yaml", "teams/link.yaml", "more"])
    @pytest.mark.parametrize("kind", ["absolute", "relative", "by another link"])
    def test_a_link_out_is_said_and_not_followed(
        self, inside: str, kind: str, repository: Path, tmp_path: Path
    ) -> None:
        secret = example(tmp_path / "secret")
        target = secret if inside == "more" else secret / TEAM
        link = repository / "config" / inside
        if kind == "absolute":
            link.symlink_to(target)
        elif kind == "relative":
            link.symlink_to(os.path.relpath(target, link.parent))
        else:
            (repository / "config" / "up").symlink_to("/")
            link.symlink_to(os.path.relpath(repository / "config" / "up", link.parent) + str(target))
        commit(repository)
        base = load_base("main", repository / "config", "example")
        assert (
            f"main:config/{inside} is a link out of the config directory, which is not followed" in base.notes
        )
        assert base.fleet is not None
        here = load_base(str(EXAMPLE), EXAMPLE, "example").fleet
        assert here is not None
        assert [team.name for team in base.fleet.teams] == [team.name for team in here.teams]

    def test_a_link_to_what_holds_it_is_read_once(self, repository: Path) -> None:
        (repository / "config" / "up").symlink_to(".")
        commit(repository)
        assert load_base("main", repository / "config", "example").fleet is not None

    def test_a_loop_of_links_is_an_error_there_as_it_is_here(self, repository: Path) -> None:
        (repository / "config" / "a").symlink_to("b")
        (repository / "config" / "b").symlink_to("a")
        commit(repository)
        with pytest.raises(UsageError, match="main:config/a:1:1: error HPF005"):
            load_base("main", repository / "config", "example")

    def test_a_submodule_is_said(self, repository: Path) -> None:
        inner = repository / "config" / "inner"
        example(inner)
        git(inner, "init", "-q")
        commit(inner)
        commit(repository)
        base = load_base("main", repository / "config", "example")
        assert base.notes == ("main:config/inner is a submodule, which is not read",)


def test_nothing_is_left_in_the_directory_of_temporary_files(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert validate("--base", "main") == 0
    assert list(temporary.iterdir()) == []
