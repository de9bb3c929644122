"""`hpf remove-cluster` names the stacks that are synthesized, in an order in which they can go."""

from pathlib import Path

import pytest
from tests.infra.infra_fleets import FLEETS, resolved, stacks

from hyperpod_cli.team_stacks import shards
from hyperpod_governance.removal import TeamStack
from hyperpod_governance.removal_cluster import remove_cluster


@pytest.mark.parametrize("directory", FLEETS, ids=lambda path: path.name)
def test_a_cluster_is_destroyed_with_all_its_stacks_each_before_what_it_stands_on(directory: Path) -> None:
    fleet, made = resolved(directory), stacks(directory)
    for cluster in fleet.clusters:
        teams = [TeamStack(each.name, each.teams, each.teams) for each in shards(fleet, cluster)]
        removal = remove_cluster(fleet, cluster, teams, "config", delete_data=True)
        commands = [command.run.split() for step in removal.steps for command in step.commands]
        gone = [words[-1] for words in commands if words[:2] == ["cdk", "destroy"]]
        assert sorted(gone) == sorted(
            name for name in made if name.startswith(f"{fleet.name}-{cluster.name}-")
        )
        for index, name in enumerate(gone):
            assert made[name].dependencies <= set(gone[index + 1 :])
