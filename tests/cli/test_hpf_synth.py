"""`hpf synth`: all or nothing, and a sentence for whatever a stage refuses."""

import json
import os
import random
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperpod_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "config"
FLEETS = ROOT / "tests" / "fixtures" / "fleets"

Captured = pytest.CaptureFixture[str]


def tree(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a synth of the example has written."""
    out = tmp_path_factory.mktemp("made") / "new" / "out"
    assert main(["synth", str(EXAMPLE), "--out", str(out)]) == 0
    return out


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may lose."""
    copy = tmp_path / "here" / "out"
    shutil.copytree(made, copy)
    return copy


def no_stacks(_fleet: object, _directory: Path, out: Path) -> None:
    """Write a cloud assembly without a stack."""
    out.mkdir()
    (out / "manifest.json").write_text('{"artifacts": {}}')


def whole(out: Path, made: Path) -> bool:
    """Whether the old result is as it was, with nothing beside it."""
    return tree(out) == tree(made) and list(out.parent.iterdir()) == [out]


def test_it_writes_an_assembly_manifests_and_previews_and_nothing_beside(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == ["cdk.out", "manifests", "preview"]
    assert sorted(path.name for path in (made / "manifests").iterdir()) == ["research", "studio"]
    # Only what SageMaker will own is a preview.
    assert sorted(path.name for path in (made / "preview").iterdir()) == ["research"]
    assert (made / "cdk.out" / "manifest.json").is_file()
    assert list(made.parent.iterdir()) == [made]


def test_a_second_synth_replaces_the_first_whole(out: Path, tmp_path: Path, capsys: Captured) -> None:
    fleet = FLEETS / "slurm-without-continuous"
    assert main(["synth", str(fleet), "--out", str(out)]) == 0
    assert capsys.readouterr().err == f"wrote {out}: no findings\n"
    assert [path.name for path in out.iterdir()] == ["cdk.out"]
    assert not list((out / "cdk.out").glob("example-*"))
    assert list(out.parent.iterdir()) == [out]


def test_findings_that_are_no_errors_are_said_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("hyperpod_infra.app.synthesize", no_stacks)
    assert main(["synth", str(EXAMPLE), "--out", str(tmp_path / "out")]) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert "warning HPF409" in stderr
    assert stderr.splitlines()[-1] == f"wrote {tmp_path / 'out'}: 1 warning, 2 infos"


def test_what_the_cdk_finds_is_said_with_the_place_where_its_report_is_now(tmp_path: Path) -> None:
    # In a process of its own: whether the CDK checks templates is decided when its Node starts.
    done = subprocess.run(
        [sys.executable, "-m", "hyperpod_cli.main", "synth", FLEETS / "closed-network", "--out", "out"],
        cwd=tmp_path,
        env={**os.environ, "CDK_VALIDATION": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *found, place, wrote = done.stderr.splitlines()
    assert "closed-research-network/Network/Node0: warning W3010: " in done.stderr
    assert all("warning" in line for line in found)
    assert place == "report of the CDK's check: out/cdk.out/validation-report.json"
    assert (tmp_path / "out" / "cdk.out" / "validation-report.json").is_file()
    assert wrote.startswith("wrote out: ")
    assert done.stdout == ""


class TestRefusals:
    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (ValueError("chart too large; spread the teams"), 1, "chart too large; spread the teams"),
            (OSError(28, "No space left on device"), 2, "No space left on device"),
            (KeyboardInterrupt(), 130, "interrupted"),
        ],
        ids=["refused", "disk full", "interrupted"],
    )
    def test_what_stops_half_way_leaves_the_old_result_whole(
        self,
        error: BaseException,
        code: int,
        said: str,
        out: Path,
        made: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Captured,
    ) -> None:
        def stop(fleet: object, directory: Path, target: Path) -> None:
            target.mkdir()
            (target / "half.template.json").write_text("{")
            raise error

        monkeypatch.setattr("hyperpod_infra.app.synthesize", stop)
        assert main(["synth", str(EXAMPLE), "--out", str(out)]) == code
        assert said in capsys.readouterr().err.splitlines()[-1]
        assert whole(out, made)

    def test_templates_that_break_an_order_are_refused_whoever_starts_the_synthesis(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        fleet = FLEETS / "slurm-without-continuous"
        monkeypatch.setattr("hyperpod_infra.order.check", lambda _: ["the queues outlive Kueue"])
        assert main(["synth", str(fleet), "--out", str(tmp_path / "out")]) == 1
        assert capsys.readouterr().err.endswith("\nthe queues outlive Kueue\n")
        assert not (tmp_path / "out").exists()

        monkeypatch.setenv("CDK_OUTDIR", str(tmp_path / "cdk.out"))
        monkeypatch.setenv("CDK_CONTEXT_JSON", json.dumps({"config": str(fleet)}))
        with pytest.raises(SystemExit, match="the queues outlive Kueue"):
            runpy.run_path(str(ROOT / "app.py"))

    def test_a_mistake_of_ours_keeps_its_traceback_and_the_old_result(
        self, out: Path, made: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*_: object) -> None:
            raise AssertionError

        monkeypatch.setattr("hyperpod_infra.app.synthesize", stop)
        with pytest.raises(AssertionError):
            main(["synth", str(EXAMPLE), "--out", str(out)])
        assert whole(out, made)

    def test_a_swap_that_fails_brings_the_old_result_back(
        self, out: Path, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        rename: Callable[[Path, Path], Path] = Path.rename

        def refuse(self: Path, target: Path) -> Path:
            if target == out and self.name.startswith(".out."):
                raise PermissionError(13, "Permission denied")
            return rename(self, target)

        monkeypatch.setattr("hyperpod_infra.app.synthesize", no_stacks)
        monkeypatch.setattr(Path, "rename", refuse)
        assert main(["synth", str(EXAMPLE), "--out", str(out)]) == 2
        assert f"cannot write to {out}: Permission denied" in capsys.readouterr().err
        assert whole(out, made)

    def test_a_directory_with_files_of_others_is_left_alone(self, out: Path, capsys: Captured) -> None:
        (out / "notes.txt").write_text("mine")
        before = tree(out)
        assert main(["synth", str(EXAMPLE), "--out", str(out)]) == 2
        assert f"hpf: {out} holds notes.txt, which no synth wrote" in capsys.readouterr().err
        assert tree(out) == before
        assert list(out.parent.iterdir()) == [out]

    def test_a_file_is_no_place_for_a_result(self, tmp_path: Path, capsys: Captured) -> None:
        (tmp_path / "file").write_text("mine")
        for out in (tmp_path / "file", tmp_path / "file" / "out"):
            assert main(["synth", str(EXAMPLE), "--out", str(out)]) == 2
            assert f"hpf: cannot write to {out}: " in capsys.readouterr().err
        assert tree(tmp_path) == {"file": b"mine"}

    @pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
    def test_a_read_only_parent_is_no_place_either(self, tmp_path: Path, capsys: Captured) -> None:
        tmp_path.chmod(0o555)
        assert main(["synth", str(EXAMPLE), "--out", str(tmp_path / "out")]) == 2
        assert "Permission denied" in capsys.readouterr().err

    def test_an_error_in_the_config_writes_nothing(self, out: Path, made: Path, tmp_path: Path) -> None:
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "fleet.yaml").write_text("kind: Fleet\n")
        assert main(["synth", str(tmp_path / "config"), "--out", str(out)]) == 1
        assert whole(out, made)
        assert main(["synth", str(tmp_path / "config"), "--out", str(tmp_path / "new")]) == 1
        assert not (tmp_path / "new").exists()


class TestWhatNoRuleLooksFor:
    """Limits and files that only a later stage knows: a sentence, exit code 1, nothing written."""

    def refused(self, config: Path, tmp_path: Path, capsys: Captured) -> str:
        assert main(["synth", str(config), "--out", str(tmp_path / "out")]) == 1
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err.splitlines()[-1]

    @pytest.mark.parametrize(
        ("chart", "said"),
        [
            ("dependencies: [{name: agent}]", "agent not found under charts/; run `helm dependency update"),
            ("{", "Chart.yaml is no YAML: "),
            ("- name: c", "Chart.yaml is no chart"),
            ("dependencies: agent", "Chart.yaml is no chart"),
            ("dependencies: [agent]", "Chart.yaml is no chart"),
            ("\N{LATIN SMALL LETTER E WITH ACUTE}", "Chart.yaml is no YAML: "),
        ],
    )
    def test_a_chart_that_helm_would_refuse(
        self, chart: str, said: str, tmp_path: Path, capsys: Captured
    ) -> None:
        config = self.with_chart(tmp_path, chart.encode("latin-1"))
        assert said in self.refused(config, tmp_path, capsys)

    def test_a_sub_chart_that_is_no_archive(self, tmp_path: Path, capsys: Captured) -> None:
        config = self.with_chart(tmp_path, b"dependencies: [{name: agent}]")
        (tmp_path / "chart" / "charts").mkdir()
        (tmp_path / "chart" / "charts" / "agent-1.0.0.tgz").write_bytes(b"half a download")
        assert "agent-1.0.0.tgz is no archive of a chart" in self.refused(config, tmp_path, capsys)

    def with_chart(self, tmp_path: Path, chart: bytes) -> Path:
        """Write a chart with a Chart.yaml, and a config that installs it."""
        (tmp_path / "chart").mkdir()
        (tmp_path / "chart" / "Chart.yaml").write_bytes(chart)
        (tmp_path / "config").mkdir()
        text = (FLEETS / "closed-network" / "fleet.yaml").read_text("utf-8")
        text = text.replace("../../charts/hyperpod-dependencies", "../chart")
        (tmp_path / "config" / "fleet.yaml").write_text(text, "utf-8")
        return tmp_path / "config"

    def test_a_team_that_is_more_than_helm_can_hold(
        self, config: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        names = random.Random(0)
        groups = ", ".join(f"g{names.getrandbits(128):x}" for _ in range(9_000))
        team = config / "teams" / "llm.yaml"
        team.write_text(team.read_text().replace("llm-engineers", groups))
        said = self.refused(config, tmp_path, capsys)
        assert "Helm takes 1048576" in said
