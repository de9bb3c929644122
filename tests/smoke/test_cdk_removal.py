"""Teams and clusters go by the steps that `hpf remove-team` and `hpf remove-cluster` give, and not otherwise.

What the steps ask of kubectl and the AWS CLI is left out: there is no Kubernetes here. See test_cdk_deploy
for what these deployments show and what they cannot.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.smoke import fleets
from tests.smoke.conftest import Cdk
from tests.smoke.fleets import CAPACITY, CLUSTER, GOVERNANCE, NETWORK, assembly
from tests.smoke.state import NATIVE_AND_CUSTOM, accelerators, nothing_is_left, place_of, said, statuses
from tests.smoke.world import World

from hyperpod_cli.main import main


@NATIVE_AND_CUSTOM
def test_a_team_goes_when_its_line_is_removed_after_it_was_held_and_not_before(
    world: World, cdk: Cdk, base: fleets.Edits
) -> None:
    place = place_of(world, assembly(*base))
    assembly(*base).deploy(world)
    without = assembly(*base, *fleets.WITHOUT_VISION)
    refused = cdk("deploy", without, GOVERNANCE, "--exclusively")
    assert refused.returncode == 1
    assert "The queue of team vision would be deleted" in said(refused.stderr)
    assert statuses(place)[GOVERNANCE] == "UPDATE_ROLLBACK_COMPLETE"
    assert accelerators(place) == {"llm": 8, "vision": 4}
    for made in (assembly(*base, *fleets.VISION_HELD), without):
        done = cdk("deploy", made, GOVERNANCE, "--exclusively")
        assert done.returncode == 0, done.stderr
    assert accelerators(place) == {"llm": 8}


class Steps:
    """The steps of a removal, of a config that they change."""

    def __init__(self, config: Path, cdk: Cdk, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = config
        self._cdk = cdk
        self._capsys = capsys
        (config / "fleet.yaml").write_text(fleets.FLEET)
        self.ran: list[tuple[str, str]] = []

    def write(self, *words: str) -> Any:
        """Make the next change of the config; gives the steps as they were before."""
        arguments = [*words, str(self._config), "--format", "json"]
        assert main(arguments) == 0
        plan = json.loads(self._capsys.readouterr().out)
        assert main([*arguments, "--write"]) == 0
        self._capsys.readouterr()
        return plan

    def run(self, plan: Any, *wanted: str) -> None:
        """Run the CDK commands of steps with the config as it is now."""
        made = fleets.assembly_of(self._config)
        for step in plan["steps"]:
            for command in step["commands"] if step["id"] in wanted else []:
                program, verb, *arguments = command["run"].split()
                if program == "cdk":
                    done: subprocess.CompletedProcess[str] = self._cdk(verb, made, *arguments)
                    assert done.returncode == 0, done.stderr
                    self.ran.append((verb, arguments[-1]))


@pytest.fixture
def steps(tmp_path: Path, cdk: Cdk, capsys: pytest.CaptureFixture[str]) -> Steps:
    config = tmp_path / "config"
    config.mkdir()
    return Steps(config, cdk, capsys)


def test_the_steps_of_remove_team_take_its_quota_and_leave_the_others(world: World, steps: Steps) -> None:
    place = world.place("us-east-1")
    assembly().deploy(world)
    for step in ("hold", "quota"):
        plan = steps.write("remove-team", "vision")
        assert plan["next"]["step"] == step
        steps.run(plan, step)
    assert steps.ran == [("deploy", GOVERNANCE)] * 2
    assert accelerators(place) == {"llm": 8}


def test_the_steps_of_remove_cluster_leave_nothing(world: World, steps: Steps) -> None:
    assembly().deploy(world)
    plan = steps.write("remove-cluster", "research")
    steps.run(plan, "hold", "destroy", "network")
    stacks = (GOVERNANCE, CAPACITY, CLUSTER, NETWORK)
    assert steps.ran == [("deploy", GOVERNANCE), *(("destroy", stack) for stack in stacks)]
    nothing_is_left(world.place("us-east-1"))


def test_a_cluster_is_not_destroyed_under_what_stands_on_it(world: World, cdk: Cdk) -> None:
    place = world.place("us-east-1")
    assembly().deploy(world)
    done = cdk("destroy", assembly(), CLUSTER, "--exclusively")
    assert done.returncode == 1
    assert "in use by smoke-research-" in said(done.stderr)
    assert accelerators(place) == {"llm": 8, "vision": 4}
    assert set(statuses(place).values()) == {"CREATE_COMPLETE"}
