"""`hpf validate`, `quotas` and `schema`: what they print where, and their exit codes."""

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_cli.main import main
from hyperpod_config import schema

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "config"
GOLDEN = ROOT / "tests" / "golden" / "example" / "quotas"

Captured = pytest.CaptureFixture[str]


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def typo(config: Path) -> Path:
    """The example with one error: an unknown cluster at line 7, column 16."""
    replace(config / "teams" / "onlygputeam.yaml", "cluster: research", "cluster: reserach")
    return config


@pytest.fixture
def clean(config: Path) -> Path:
    """The example without the team that draws a warning."""
    (config / "teams" / "vision.yaml").unlink()
    return config


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "hyperpod_cli.main", *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


class TestExitCodes:
    @pytest.mark.parametrize("command", ["validate", "quotas"])
    def test_the_example_is_fine(self, command: str, capsys: Captured) -> None:
        assert main([command, str(EXAMPLE)]) == 0

    @pytest.mark.parametrize("command", ["validate", "quotas", "synth"])
    def test_an_error_in_the_config_is_1(self, command: str, typo: Path, capsys: Captured) -> None:
        assert main([command, str(typo)]) == 1
        assert "error HPF401" in "".join(capsys.readouterr())

    @pytest.mark.parametrize("command", ["validate", "quotas", "synth"])
    def test_a_path_that_is_no_fleet_is_2(self, command: str, tmp_path: Path, capsys: Captured) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "empty").mkdir()
        for path in ("missing", "file", "empty"):
            assert main([command, str(tmp_path / path)]) == 2, path
            assert "error HPF00" in "".join(capsys.readouterr()), path

    @pytest.mark.parametrize(
        "words",
        [[], ["deploy"], ["validate", "--format", "sarif"], ["quotas", "a", "b"], ["schema", "config"]],
        ids=" ".join,
    )
    def test_wrong_usage_is_2(self, words: list[str], capsys: Captured) -> None:
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 2
        assert "usage: hpf" in capsys.readouterr().err

    def test_a_process_returns_what_main_returns(self, typo: Path, tmp_path: Path) -> None:
        assert run("validate", EXAMPLE).returncode == 0
        assert run("validate", typo).returncode == 1
        assert run("validate", tmp_path / "missing").returncode == 2


class TestValidate:
    def test_text_names_the_place_the_value_and_a_suggestion(self, typo: Path, capsys: Captured) -> None:
        assert main(["validate", str(typo)]) == 1
        out, err = capsys.readouterr()
        line = next(line for line in out.splitlines() if "HPF401" in line)
        assert line.startswith(f"{typo}/teams/onlygputeam.yaml:7:16: error HPF401: ")
        assert "reserach" in line
        assert "    did you mean research?" in out
        assert re.fullmatch(rf"{re.escape(str(typo))}: 1 error(, \d+ (warning|info)s?)*\n", err)

    def test_json_is_a_list_of_findings(self, typo: Path, capsys: Captured) -> None:
        assert main(["validate", str(typo), "--format", "json"]) == 1
        (finding,) = [each for each in json.loads(capsys.readouterr().out) if each["rule"] == "HPF401"]
        assert finding.keys() == {"rule", "severity", "message", "place", "hint"}
        assert finding["severity"] == "error"
        assert finding["place"] == {"file": f"{typo}/teams/onlygputeam.yaml", "line": 7, "column": 16}

    def test_json_without_findings_is_an_empty_list(self, clean: Path, capsys: Captured) -> None:
        for path in clean.rglob("*.yaml"):
            if path.name != "fleet.yaml":
                path.unlink()
        assert main(["validate", str(clean), "--format", "json"]) == 0
        assert capsys.readouterr().out == "[]\n"

    def test_github_annotations_escape_what_the_runner_reads(self, config: Path, capsys: Captured) -> None:
        odd = config / "teams" / "a,b%c.yaml"
        (config / "teams" / "onlygputeam.yaml").rename(odd)
        replace(odd, "cluster: research", "cluster: reserach")
        assert main(["validate", str(config), "--format", "github"]) == 1
        lines = capsys.readouterr().out.splitlines()
        error = next(line for line in lines if "HPF401" in line)
        place = f"file={config}/teams/a%2Cb%25c.yaml,line=7,col=16,title=HPF401"
        assert error.startswith(f"::error {place}::")
        assert "%0Adid you mean research?" in error
        assert {line.split(" ")[0] for line in lines} <= {"::error", "::warning", "::notice"}

    @pytest.mark.parametrize(("least", "code"), [("error", 0), ("warning", 1)])
    def test_fail_on_decides_whether_a_warning_fails(self, least: str, code: int, capsys: Captured) -> None:
        assert main(["validate", str(EXAMPLE), "--fail-on", least]) == code
        assert "warning HPF409" in capsys.readouterr().out

    def test_an_info_never_fails(self, clean: Path, capsys: Captured) -> None:
        assert main(["validate", str(clean), "--fail-on", "warning"]) == 0
        assert "info HPF407" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("tty", "no_color", "colored"), [(True, None, True), (True, "1", False), (False, None, False)]
    )
    def test_color_is_for_terminals_that_want_it(
        self, tty: bool, no_color: str | None, colored: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return tty

        monkeypatch.delenv("NO_COLOR", raising=False)
        if no_color:
            monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setattr(sys, "stdout", Terminal())
        main(["validate", str(EXAMPLE)])
        assert isinstance(sys.stdout, Terminal)
        assert ("\033[" in sys.stdout.getvalue()) == colored

    def test_neither_jsii_nor_boto3_is_imported(self) -> None:
        code = (
            "import sys; from hyperpod_cli.main import main; main(['validate', 'config']);"
            "print({'jsii', 'aws_cdk', 'boto3', 'cdk8s'} & sys.modules.keys(), file=sys.stderr)"
        )
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stderr.splitlines()[-1] == "set()"


class TestQuotas:
    @pytest.mark.parametrize(("style", "end"), [("text", "txt"), ("json", "json"), ("markdown", "md")])
    def test_each_format_of_the_example_is_the_committed_one(
        self, style: str, end: str, capsys: Captured
    ) -> None:
        assert main(["quotas", str(EXAMPLE), "--format", style]) == 0
        assert capsys.readouterr().out == (GOLDEN / f"quotas.{end}").read_text("utf-8")

    def test_the_figures_of_the_announcement_are_in_it(self, capsys: Captured) -> None:
        arguments = ["--cluster", "research", "--team", "onlygputeam", "--format", "json"]
        assert main(["quotas", str(EXAMPLE), *arguments]) == 0
        where = {"cluster": "research", "team": "onlygputeam", "flavor": "ml.g6.12xlarge"}
        figures = [("cpu", "48", "24"), ("memory", "192Gi", "96Gi"), ("nvidia.com/gpu", "2", "1")]
        assert json.loads(capsys.readouterr().out) == [
            {**where, "resource": name, "nominal": own, "borrowingLimit": more, "lendingLimit": None}
            for name, own, more in figures
        ]

    @pytest.mark.parametrize("words", [["--cluster", "reserach"], ["--team", "nobody"]], ids=" ".join)
    def test_a_name_that_the_fleet_lacks_is_wrong_usage(self, words: list[str], capsys: Captured) -> None:
        assert main(["quotas", str(EXAMPLE), *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err == f"hpf: no {words[0][2:]} '{words[1]}' in {EXAMPLE}\n"

    def test_a_fleet_without_quotas_is_an_empty_list_or_a_bare_heading(
        self, clean: Path, capsys: Captured
    ) -> None:
        shutil.rmtree(clean / "teams")
        assert main(["quotas", str(clean), "--format", "json"]) == 0
        assert capsys.readouterr().out == "[]\n"
        assert main(["quotas", str(clean)]) == 0
        assert capsys.readouterr().out.split() == [
            "CLUSTER",
            "TEAM",
            "FLAVOR",
            "RESOURCE",
            "NOMINAL",
            "MAY",
            "BORROW",
            "MAY",
            "LEND",
        ]


class TestOutput:
    def test_schema_prints_what_editors_use(self, capsys: Captured) -> None:
        assert main(["schema"]) == 0
        assert capsys.readouterr().out == schema.text()

    def test_a_file_is_written_whole_with_the_usual_mode(self, tmp_path: Path, capsys: Captured) -> None:
        target = tmp_path / "quotas.json"
        target.write_text("old")
        mask = os.umask(0o027)
        try:
            assert main(["quotas", str(EXAMPLE), "--format", "json", "--output", str(target)]) == 0
        finally:
            os.umask(mask)
        assert capsys.readouterr().out == ""
        assert target.read_text("utf-8") == (GOLDEN / "quotas.json").read_text("utf-8")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        assert list(tmp_path.iterdir()) == [target]

    def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        target = tmp_path / "schema.json"
        target.write_text("old")
        monkeypatch.setattr(Path, "replace", full)
        assert main(["schema", "--output", str(target)]) == 2
        assert capsys.readouterr().err == f"hpf: cannot write {target}: No space left on device\n"
        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    def test_a_place_that_cannot_be_written_is_wrong_usage(self, tmp_path: Path, capsys: Captured) -> None:
        (tmp_path / "file").write_text("")
        for path in (tmp_path / "missing" / "x", tmp_path / "file" / "x", tmp_path):
            assert main(["schema", "--output", str(path)]) == 2
            assert capsys.readouterr().err.startswith(f"hpf: cannot write {path}: ")
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
    def test_a_read_only_directory_is_wrong_usage(self, tmp_path: Path, capsys: Captured) -> None:
        tmp_path.chmod(0o555)
        assert main(["schema", "--output", str(tmp_path / "x")]) == 2
        assert "Permission denied" in capsys.readouterr().err

    @pytest.mark.parametrize("gone", ["stdout", "stderr", "stdout and stderr"])
    def test_a_reader_that_goes_away_changes_no_exit_code(self, gone: str, typo: Path) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        out = writer if "stdout" in gone else subprocess.PIPE
        err = writer if "stderr" in gone else subprocess.PIPE
        for config, code in ((EXAMPLE, 0), (typo, 1), (typo / "missing", 2)):
            words = [sys.executable, "-m", "hyperpod_cli.main", "validate", str(config)]
            done = subprocess.run(words, stdout=out, stderr=err, check=False)
            assert done.returncode == code, done.stderr
            assert b"BrokenPipe" not in (done.stderr or b"")
        os.close(writer)

    def test_a_reader_that_goes_away_is_no_failure(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "hyperpod_cli.main", "schema"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, b"")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
    @pytest.mark.parametrize("command", ["validate", "quotas", "schema"])
    def test_a_full_disk_behind_standard_output_is_wrong_usage(self, command: str) -> None:
        words = [sys.executable, "-m", "hyperpod_cli.main", command]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        expected = "hpf: cannot write standard output: No space left on device\n"
        assert (done.returncode, done.stderr) == (2, expected)

    def test_closed_streams_change_no_exit_code(self, typo: Path) -> None:
        shell = f"{sys.executable} -m hyperpod_cli.main validate"
        for config, code in ((EXAMPLE, 0), (typo, 1)):
            words = ["sh", "-c", f"{shell} {config} >&- 2>&-"]
            assert subprocess.run(words, cwd=ROOT, check=False).returncode == code
        done = subprocess.run(
            ["sh", "-c", f"{shell} {EXAMPLE} 2>&-"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.stdout == run("validate", EXAMPLE).stdout

    def test_a_terminal_without_utf_8_gets_its_output(self, config: Path) -> None:
        replace(config / "teams" / "onlygputeam.yaml", "cluster: research", "cluster: forschung-ä")
        environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        for style in ("text", "json", "github"):
            words = [sys.executable, "-m", "hyperpod_cli.main", "validate", str(config), "--format", style]
            done = subprocess.run(words, env=environment, capture_output=True, check=False)
            assert done.returncode == 1, done.stderr
            assert "forschung-ä" in done.stdout.decode("utf-8")

    def test_a_file_name_that_is_no_utf_8_is_shown_escaped(self, config: Path) -> None:
        name = os.fsdecode(b"caf\xe9.yaml")
        try:
            (config / "teams" / name).write_text("kind: Team\n")
        except OSError:
            pytest.skip("this file system takes no such name")
        for style in ("text", "json", "github"):
            done = run("validate", config, "--format", style)
            assert done.returncode == 1, done.stderr
            assert "caf\\udce9.yaml" in done.stdout


def test_every_command_that_a_text_names_is_one(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    known = set(re.findall(r"^    ([a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    packages = [path for path in ROOT.glob("*/hyperpod_*") if path.is_dir()]
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    texts += [path for package in packages for path in package.rglob("*.py")]
    named = {word for path in texts for word in re.findall(r"\bhpf ([a-z][a-z-]+)", path.read_text("utf-8"))}
    assert named <= known


EXAMPLE_TEXTS = {
    path.relative_to(EXAMPLE): path.read_text("utf-8").splitlines(keepends=True)
    for path in sorted(EXAMPLE.rglob("*.yaml"))
}
LINES = [
    "",
    "\n",
    "\t\n",
    "---\n",
    "  - \n",
    "a: &a [*a]\n",
    "metadata: {name: 1}\n",
    "\N{BYTE ORDER MARK}",
    "- {",
    "'",
]


@st.composite
def broken_fleets(draw: st.DrawFn) -> dict[Path, str]:
    """The example with lines dropped, doubled, moved and replaced."""
    texts = {path: list(lines) for path, lines in EXAMPLE_TEXTS.items()}
    everything = [line for lines in texts.values() for line in lines]
    for _ in range(draw(st.integers(1, 4))):
        lines = texts[draw(st.sampled_from(sorted(texts)))]
        at = draw(st.integers(0, max(len(lines) - 1, 0)))
        new = draw(st.sampled_from(LINES) | st.sampled_from(everything) | st.text(max_size=20))
        match draw(st.sampled_from(["drop", "double", "replace", "insert", "cut"])):
            case "drop":
                del lines[at : at + 1]
            case "double":
                lines[at:at] = lines[at : at + 1]
            case "replace":
                lines[at : at + 1] = [new]
            case "insert":
                lines.insert(at, new)
            case "cut":
                del lines[at:]
    return {path: "".join(lines) for path, lines in texts.items()}


@settings(max_examples=60)
@given(broken_fleets())
def test_whatever_the_files_hold_the_answer_is_findings_or_quotas(files: dict[Path, str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for path, text in files.items():
            target = Path(directory, "config", path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode("utf-8", "surrogatepass"))
        out = Path(directory, "out.json")
        code = main(["validate", f"{directory}/config", "--format", "json", "--output", str(out)])
        severities = [finding["severity"] for finding in json.loads(out.read_text("utf-8"))]
        assert code in (0, 1, 2)
        assert (code == 0) == ("error" not in severities)
        assert main(["quotas", f"{directory}/config", "--format", "json", "--output", str(out)]) == code


def test_a_pipe_or_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text("utf-8")))
    reader.start()
    assert main(["schema", "--output", str(pipe)]) == 0
    reader.join(timeout=10)
    assert pipe.is_fifo()
    assert got[0].startswith("{")


def test_a_link_stays_a_link_to_the_file_that_is_written(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "schema.json")
    (tmp_path / "schema.json").write_text("old")
    assert main(["schema", "--output", str(link)]) == 0
    assert link.is_symlink()
    assert (tmp_path / "schema.json").read_text("utf-8").startswith("{")
