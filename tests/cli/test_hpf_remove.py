"""`hpf remove-team` and `hpf remove-cluster`: what they print, what they write, and their exit codes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_cli import pipeline, team_stacks
from hyperpod_cli.main import main
from hyperpod_config import edit
from hyperpod_config.edit import EditError
from hyperpod_governance.model import ResolvedFleet
from hyperpod_k8s.helm import helm_chart

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "config"

Captured = pytest.CaptureFixture[str]


def snapshot(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*.yaml")}


def resolved(directory: Path) -> ResolvedFleet:
    fleet = pipeline.check(directory).resolved
    assert fleet is not None
    return fleet


def document(capsys: Captured, *words: str | Path) -> dict[str, Any]:
    assert main([*map(str, words), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


class TestTeam:
    def test_without_write_nothing_is_written(self, config: Path, capsys: Captured) -> None:
        before = snapshot(config)
        for style in ("text", "json", "markdown"):
            assert main(["remove-team", "vision", str(config), "--format", style]) == 0
        assert snapshot(config) == before

    def test_first_the_queues_are_held_then_the_team_goes(self, config: Path, capsys: Captured) -> None:
        before = snapshot(config)
        assert main(["remove-team", "vision", str(config), "--write"]) == 0
        out, err = capsys.readouterr()
        held = snapshot(config)
        name = "teams/vision.yaml"
        lines = before[name].splitlines()
        added = ["      activationState: Disabled"]
        assert held[name].splitlines() == [*lines[:12], *added, *lines[12:16], *added, *lines[16:]]
        assert {key: text for key, text in held.items() if key != name} == {
            key: text for key, text in before.items() if key != name
        }
        assert "Written to the config: step 1" in out
        assert "review, merge and deploy it; then step 2" in err
        assert main(["validate", str(config)]) == 0

        assert main(["remove-team", "vision", str(config), "--write"]) == 0
        assert "1. Hold the queue (done, says the config)" in capsys.readouterr().out
        assert snapshot(config) == {key: text for key, text in before.items() if key != name}
        assert main(["validate", str(config)]) == 0

    def test_the_namespace_is_kept_by_the_chart_that_loses_it(self, config: Path, capsys: Captured) -> None:
        def chart() -> dict[str, str]:
            studio = next(each for each in resolved(config).clusters if each.name == "studio")
            return helm_chart(studio, "teams", teams=None, shared=False)

        objects = list(yaml.safe_load_all(chart()["templates/teams/vision.yaml"]))
        (namespace,) = (each for each in objects if each["kind"] == "Namespace")
        # Helm leaves what has this annotation when a later version of the chart no longer has it.
        assert namespace["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        for _ in range(2):
            assert main(["remove-team", "vision", str(config), "--write"]) == 0
        assert "templates/teams/vision.yaml" not in chart()

    def test_from_one_cluster_the_team_stays_on_the_other(self, config: Path, capsys: Captured) -> None:
        for _ in range(2):
            assert main(["remove-team", "vision", str(config), "--cluster", "studio", "--write"]) == 0
        (vision,) = (each for each in resolved(config).config.teams if each.name == "vision")
        assert [(each.cluster, each.activation_state) for each in vision.spec.allocations] == [
            ("research", "Enabled")
        ]
        assert main(["validate", str(config)]) == 0

    def test_json_has_one_shape(self, config: Path, capsys: Captured) -> None:
        found = document(capsys, "remove-team", "vision", config)
        assert found.keys() == {"kind", "name", "fleet", "clusters", "steps", "kept", "next"}
        for number, step in enumerate(found["steps"], start=1):
            assert step.keys() == {
                *("number", "id", "title", "why", "done", "changes", "commands", "notes", "doneWhen")
            }
            assert step["number"] == number
            for command in step["commands"]:
                assert command.keys() == {"cluster", "run", "purpose", "risk"}
            for change in step["changes"]:
                assert change.keys() == {"change", "file", "line", "column"}
        assert found["steps"][0]["changes"][1] == {
            "change": "set activationState: Disabled for team vision on cluster studio",
            "file": f"{config}/teams/vision.yaml",
            "line": 13,
            "column": 7,
        }
        assert found["next"]["step"] == "hold"
        assert (found["next"]["written"], found["next"]["problem"]) == (False, None)

    def test_the_diff_of_the_next_change_is_what_write_does(self, config: Path, capsys: Captured) -> None:
        told = document(capsys, "remove-team", "llm", config)["next"]["diff"]
        patched = config.parent / "patched"
        shutil.copytree(config, patched)
        diff = told.replace(f"{config}/", "")
        subprocess.run(["git", "apply"], cwd=patched, input=diff, text=True, check=True)
        assert main(["remove-team", "llm", str(config), "--write"]) == 0
        assert snapshot(patched) == snapshot(config) != snapshot(EXAMPLE)

    def test_markdown_marks_what_deletes_data(self, config: Path, capsys: Captured) -> None:
        assert main(["remove-team", "vision", str(config), "--format", "markdown"]) == 0
        lines = capsys.readouterr().out.splitlines()
        at = lines.index("kubectl --context example-studio delete namespace team-vision")
        assert lines[at - 1].endswith("[DELETES DATA]")
        assert lines.count("```diff") == 1

    def test_a_change_that_cannot_be_made_is_1_and_says_so(
        self, config: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise EditError("config/teams/vision.yaml: make it by hand")

        monkeypatch.setattr(edit, "changes", refuse)
        assert main(["remove-team", "vision", str(config)]) == 0
        assert main(["remove-team", "vision", str(config), "--write"]) == 1
        out, err = capsys.readouterr()
        assert "The change of step 1 was not made: config/teams/vision.yaml: make it by hand" in out
        assert "was not written" in err

    def test_output_goes_to_a_file(self, config: Path, tmp_path: Path, capsys: Captured) -> None:
        target = tmp_path / "steps.md"
        assert main(["remove-team", "vision", str(config), "--output", str(target)]) == 0
        assert target.read_text().startswith("Remove team vision from research, studio (fleet example)\n")
        assert capsys.readouterr().out == ""

    def test_what_was_written_is_said_even_if_the_steps_cannot_be_shown(
        self, config: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        """Whoever took it for a failure would run it again, and that is the next step."""
        words = [
            "remove-team",
            "vision",
            str(config),
            "--write",
            "--output",
            str(tmp_path / "none" / "steps"),
        ]
        assert main(words) == 2
        first, second = capsys.readouterr().err.splitlines()
        assert first.startswith("hpf: step 1 (hold) is written to ")
        assert second.startswith("hpf: cannot write ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["remove-team", "visin"], "did you mean vision?"),
        (["remove-team", "nobody-like-that"], "there is llm, onlygputeam, vision"),
        (["remove-team", "onlygputeam", "--cluster", "studio"], "it is on research"),
        (["remove-team", "onlygputeam", "--cluster", "reserch"], "did you mean research?"),
        (["remove-cluster", "studi"], "did you mean studio?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_name_is_2_with_a_suggestion(words: list[str], message: str, capsys: Captured) -> None:
    assert main([*words[:2], str(EXAMPLE), *words[2:]]) == 2
    assert message in capsys.readouterr().err


def test_a_config_with_an_error_is_not_touched(config: Path, capsys: Captured) -> None:
    path = config / "teams" / "onlygputeam.yaml"
    path.write_text(path.read_text().replace("cluster: research", "cluster: nowhere"))
    before = snapshot(config)
    assert main(["remove-team", "vision", str(config), "--write"]) == 1
    assert "HPF401" in capsys.readouterr().err
    assert snapshot(config) == before


class TestCluster:
    def test_the_config_loses_it_only_when_its_stacks_are_said_to_be_gone(
        self, config: Path, capsys: Captured
    ) -> None:
        assert main(["remove-cluster", "studio", str(config), "--write"]) == 0
        held = snapshot(config)
        assert main(["validate", str(config)]) == 0
        assert main(["remove-cluster", "studio", str(config), "--write"]) == 1
        assert "the stacks must be destroyed first" in capsys.readouterr().err
        assert snapshot(config) == held
        assert main(["remove-cluster", "studio", str(config), "--write", "--destroyed"]) == 0
        after = snapshot(config)
        assert after.keys() == held.keys() - {"clusters/studio.yaml"}
        assert "studio" not in "".join(after.values())
        assert after["teams/llm.yaml"] == (EXAMPLE / "teams" / "llm.yaml").read_text().replace(
            """    - cluster: studio
      quota:
        - {hardware: trainium, count: 2}
      resourceSharingConfig: {strategy: Lend}
      fairShareWeight: 50
""",
            "",
        )
        assert main(["validate", str(config)]) == 0

    def test_what_is_gone_needs_no_hold(self, config: Path, capsys: Captured) -> None:
        """To deploy the hold would make the stacks anew."""
        assert main(["remove-cluster", "studio", str(config), "--destroyed"]) == 0
        assert "Hold" not in capsys.readouterr().out
        assert main(["remove-cluster", "studio", str(config), "--write", "--destroyed"]) == 0
        assert capsys.readouterr().err.endswith(": review and merge it\n")
        assert "studio" not in "".join(snapshot(config).values())
        assert main(["validate", str(config), "--base", str(EXAMPLE)]) == 0

    def test_a_slurm_cluster_goes_without_a_hold(self, config: Path, capsys: Captured) -> None:
        assert main(["remove-cluster", "pretrain", str(config), "--write"]) == 1
        capsys.readouterr()
        assert main(["remove-cluster", "pretrain", str(config), "--write", "--destroyed"]) == 0
        assert capsys.readouterr().err.endswith("clusters/pretrain.yaml: review and merge it\n")
        assert not (config / "clusters" / "pretrain.yaml").exists()


class TestShards:
    @pytest.fixture
    def split(self, config: Path) -> Path:
        """The example with two stacks of teams on studio, and a person who is in two teams."""
        path = config / "clusters" / "studio.yaml"
        path.write_text(path.read_text().replace("owner: kueue", "owner: kueue\n    teamStacks: 2"))
        person = "{principalArns: [arn:aws:iam::123456789012:role/both]}"
        for name in ("llm", "vision"):
            path = config / "teams" / f"{name}.yaml"
            text = path.read_text().replace("  access:\n    groups: [llm-engineers]\n", "")
            path.write_text(text + f"  access: {person}\n")
        return config

    def test_the_stacks_are_those_that_are_synthesized(self, split: Path) -> None:
        fleet = resolved(split)
        studio = next(each for each in fleet.clusters if each.name == "studio")
        shards = team_stacks.shards(fleet, studio)
        assert [each.name for each in shards] == ["example-studio-queues", "example-studio-queues-2"]
        assert frozenset().union(*(each.teams for each in shards)) == {"llm", "vision"}
        assert sum(len(each.principals) for each in shards) == 1

    @pytest.mark.parametrize("owner", ["sagemaker", "kueue"])
    def test_what_is_called_small_without_synthesis_is_one_stack(self, owner: str, tmp_path: Path) -> None:
        head = "apiVersion: hyperpod-fleet/v1alpha1\n"
        fleet = (
            head
            + "kind: Fleet\nmetadata: {name: example}\nspec: {tags: {"
            + "é" * 99
            + ": "
            + "ü" * 250
            + "}}\n"
        )
        research = yaml.safe_load((EXAMPLE / "clusters" / "research.yaml").read_text())
        research["spec"]["governance"] = {"owner": owner}
        (tmp_path / "fleet.yaml").write_text(fleet)
        (tmp_path / "research.yaml").write_text(yaml.safe_dump(research))
        group = "g" * 253
        item = "{instanceType: ml.g6.12xlarge, vCpu: 1.5, accelerators: 1}"
        count = 0
        while True:
            (tmp_path / f"{count}.yaml").write_text(
                f"{head}kind: Team\nmetadata: {{name: team-{count}}}\nspec:\n"
                f"  access: {{groups: [{group}, a{group[1:]}]}}\n"
                f"  allocations: [{{cluster: research, quota: [{', '.join([item] * 15)}]}}]\n"
            )
            found = resolved(tmp_path)
            if not team_stacks.is_small(found, found.clusters[0]):
                break
            largest, count = found, count + 1
        from hyperpod_infra.shards import team_shards  # noqa: PLC0415 (starts Node)
        from hyperpod_infra.stacks import tags_of_resources  # noqa: PLC0415

        assert count > 10
        cluster = largest.clusters[0]
        assert len(team_shards(cluster, tags_of_resources(largest, cluster))) == 1

    def test_every_stack_that_the_leaver_changes_is_deployed(self, split: Path, capsys: Captured) -> None:
        assert main(["remove-team", "vision", str(split), "--cluster", "studio", "--write"]) == 0
        capsys.readouterr()
        found = document(capsys, "remove-team", "vision", split, "--cluster", "studio")
        deployed = [
            command["run"].split()[-1]
            for step in found["steps"]
            if step["id"] == "quota"
            for command in step["commands"]
            if command["run"].startswith("cdk")
        ]
        fleet = resolved(split)
        before = {each.name: each for each in team_stacks.shards(fleet, fleet.clusters[2])}
        (vision,) = (each for each in fleet.config.teams if each.name == "vision")
        after = {each.name: each for each in team_stacks.shards_without(fleet, vision, fleet.clusters[2])}
        assert sorted(deployed) == sorted(name for name, each in before.items() if after[name] != each)

    def test_access_that_moves_is_taken_away_before_it_is_given(self, split: Path) -> None:
        paths = [split / "teams" / f"{name}.yaml" for name in ("llm", "vision")]
        moves = set()
        for number in range(8):
            for path in paths:
                path.write_text(path.read_text().replace("role/both", f"role/both{number}"))
            fleet = resolved(split)
            studio = next(each for each in fleet.clusters if each.name == "studio")
            (vision,) = (each for each in fleet.config.teams if each.name == "vision")
            (order,) = team_stacks.stacks_of_team(fleet, vision, ["studio"]).values()
            names = [each.name for each in order if "vision" in each.leavers]
            (old,) = (each.name for each in team_stacks.shards(fleet, studio) if each.principals)
            (new,) = (
                each.name for each in team_stacks.shards_without(fleet, vision, studio) if each.principals
            )
            if old != new:
                assert names.index(old) < names.index(new)
                moves.add((old, new))
            for path in paths:
                path.write_text(path.read_text().replace(f"role/both{number}", "role/both"))
        assert moves

    def test_a_team_whose_leaving_would_move_others_waits_for_a_number_of_stacks(
        self, config: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = team_stacks.shards

        def shards(fleet: ResolvedFleet, cluster: Any) -> list[Any]:
            found = real(fleet, cluster)
            full = cluster.name == "studio" and any(each.name == "vision" for each in fleet.config.teams)
            return [*found, *(each._replace(name="second") for each in found if full)]

        monkeypatch.setattr(team_stacks, "shards", shards)
        assert main(["remove-team", "vision", str(config), "--write"]) == 0
        assert main(["remove-team", "vision", str(config), "--write"]) == 1
        assert "write governance.teamStacks: 2 into it first" in capsys.readouterr().err
        assert (config / "teams" / "vision.yaml").exists()


def test_the_commands_start_without_what_only_synthesis_and_aws_need() -> None:
    code = (
        "import sys; from hyperpod_cli.main import main; "
        f"main(['remove-team', 'vision', {str(EXAMPLE)!r}]); "
        f"main(['remove-cluster', 'studio', {str(EXAMPLE)!r}]); "
        "print(sorted({'aws_cdk', 'cdk8s', 'jsii', 'boto3'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
