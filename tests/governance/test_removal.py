"""The steps that take a team or a cluster away: their order, their words, and what they keep."""

import re
import subprocess
from pathlib import Path
from typing import Any

import botocore.session  # type: ignore[import-untyped]
import jmespath  # type: ignore[import-untyped]
import pytest
from botocore import xform_name
from tests.governance.fleets import changed, write

from hyperpod_config import edit, load
from hyperpod_governance import naming
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.removal import Command, Removal, Step, TeamStack, remove_team
from hyperpod_governance.removal_cluster import remove_cluster
from hyperpod_governance.resolve import resolve
from hyperpod_governance.updates import refused

ROOT = Path(__file__).parents[2]
FLEETS = sorted(path.name for path in (ROOT / "tests" / "fixtures" / "fleets").iterdir())


def fleet(path: Path) -> ResolvedFleet:
    loaded = load(path)
    assert loaded.fleet is not None
    return resolve(loaded.fleet)


EXAMPLE = fleet(ROOT / "config")


def stacks(of: ResolvedFleet) -> dict[str, list[TeamStack]]:
    """One stack of teams for each governed cluster, as small clusters have."""
    found: dict[str, list[TeamStack]] = {each.name: [] for each in of.clusters}
    for each in of.clusters:
        if each.governance is not None:
            part: naming.StackPart = "governance" if each.governance.owner == "sagemaker" else "queues"
            teams = frozenset(space.team for space in each.governance.namespaces)
            found[each.name].append(TeamStack(naming.stack(of.name, each.name, part), teams, teams))
    return found


def without_team(
    name: str, clusters: list[str] | None = None, of: ResolvedFleet = EXAMPLE, **options: Any
) -> Removal:
    team = next(each for each in of.config.teams if each.name == name)
    return remove_team(of, team, clusters, options.get("stacks", stacks(of)), options.get("config", "config"))


def without_cluster(name: str, of: ResolvedFleet = EXAMPLE, **options: Any) -> Removal:
    cluster = next(each for each in of.clusters if each.name == name)
    return remove_cluster(of, cluster, stacks(of)[name], "config", **options)


def step(removal: Removal, name: str) -> Step:
    return next(each for each in removal.steps if each.id == name)


def runs(commands: tuple[Command, ...], word: str) -> list[str]:
    return [each.run for each in commands if each.run.startswith(word)]


class TestTeam:
    def test_the_queue_is_held_drained_and_deleted_before_the_namespace(self) -> None:
        removal = without_team("vision")
        assert [each.id for each in removal.steps] == ["hold", "drain", "quota", "namespace"]
        assert [bool(each.edits) for each in removal.steps] == [True, False, True, False]

    def test_each_owner_has_its_own_stacks_queues_and_namespaces(self) -> None:
        removal = without_team("vision")
        assert runs(step(removal, "hold").commands, "cdk") == [
            "cdk deploy --exclusively example-research-governance",
            "cdk deploy --exclusively example-studio-queues",
        ]
        waits = [run for run in runs(step(removal, "drain").commands, "kubectl") if " wait " in run]
        condition = "--for=jsonpath='{.status.reservingWorkloads}'=0 --timeout=24h"
        queues = "wait clusterqueues.kueue.x-k8s.io"
        assert waits == [
            f"kubectl --context example-research {queues} hyperpod-ns-vision-clusterqueue {condition}",
            f"kubectl --context example-studio {queues} team-vision {condition}",
        ]
        assert removal.kept == (
            "namespace hyperpod-ns-vision on cluster research, unless the service deletes it",
            "namespace team-vision on cluster studio",
        )

    def test_from_one_cluster_nothing_is_said_of_the_others(self) -> None:
        removal = without_team("vision", ["studio"])
        commands = [command for each in removal.steps for command in each.commands]
        assert {command.cluster for command in commands} == {"studio"}
        assert not any("research" in command.run for command in commands)
        assert step(removal, "quota").edits == (edit.RemoveAllocation("vision", "studio"),)
        assert removal.kept == ("namespace team-vision on cluster studio",)

    def test_from_all_clusters_its_document_goes(self) -> None:
        assert step(without_team("vision"), "quota").edits == (edit.RemoveDocument("Team", "vision"),)

    def test_what_the_config_shows_as_held_is_done(self) -> None:
        held = resolve(edit.intended(EXAMPLE.config, [edit.Hold("vision", "studio")]))
        half, whole = without_team("vision", of=held), without_team("vision", ["studio"], of=held)
        assert step(half, "hold").edits == (edit.Hold("vision", "research"),)
        assert (half.due.id, whole.due.id) == ("hold", "quota")
        assert not step(half, "hold").done
        assert step(whole, "hold").done

    def test_a_team_without_an_allocation_is_a_line_of_yaml(self) -> None:
        alone = resolve(edit.intended(EXAMPLE.config, [edit.RemoveAllocation("onlygputeam", "research")]))
        removal = without_team("onlygputeam", of=alone)
        assert [(each.id, each.commands) for each in removal.steps] == [("quota", ())]

    def test_only_the_namespace_holds_data_and_only_its_own_command_deletes_it(self) -> None:
        for each in without_team("vision").steps:
            marked = [command.run for command in each.commands if command.risk == "data"]
            deletes = [run for run in (command.run for command in each.commands) if " delete " in run]
            assert marked == deletes
            assert bool(marked) == (each.id == "namespace")

    def test_running_jobs_are_evicted_only_from_queues_of_ours(self) -> None:
        commands = step(without_team("vision"), "drain").commands
        assert [each.cluster for each in commands if each.risk == "jobs"] == ["studio"]

    def test_people_who_lose_access_are_named(self) -> None:
        of = fleet(ROOT / "tests" / "fixtures" / "fleets" / "quotas-of-every-kind")
        people = {each.name: each.spec.access.principal_arns for each in of.config.teams}
        name = next(name for name, arns in people.items() if arns)
        (note,) = (note for note in step(without_team(name, of=of), "quota").notes if "access" in note)
        assert all(arn in note for arn in people[name])

    def test_of_several_stacks_those_that_change_are_deployed(self) -> None:
        several = {
            "research": [TeamStack("a", frozenset({"vision"}), frozenset({"vision"}))],
            "studio": [
                TeamStack("s-2", frozenset({"llm"}), frozenset({"llm", "vision"})),
                TeamStack("s-1", frozenset({"vision"}), frozenset({"vision"})),
                TeamStack("s-3", frozenset(), frozenset()),
            ],
        }
        removal = without_team("vision", ["studio"], stacks=several)
        assert runs(step(removal, "hold").commands, "cdk") == ["cdk deploy --exclusively s-1"]
        assert runs(step(removal, "quota").commands, "cdk") == [
            "cdk deploy --exclusively s-2",
            "cdk deploy --exclusively s-1",
        ]

    def test_another_config_directory_is_said_to_cdk(self) -> None:
        (run, *_) = runs(step(without_team("vision", config="my fleet"), "hold").commands, "cdk")
        assert run == "cdk deploy --exclusively -c config='my fleet' example-research-governance"


class TestCluster:
    def test_the_stacks_go_while_the_config_has_the_cluster(self) -> None:
        removal = without_cluster("research")
        assert [each.id for each in removal.steps] == [
            "hold",
            "drain",
            "data",
            "destroy",
            "network",
            "config",
        ]

    def test_all_its_teams_are_held_and_then_leave_it(self) -> None:
        removal = without_cluster("studio")
        assert step(removal, "hold").edits == (edit.Hold("llm", "studio"), edit.Hold("vision", "studio"))
        after = edit.intended(EXAMPLE.config, step(removal, "config").edits)
        assert [each.name for each in after.clusters] == ["pretrain", "research"]
        assert not [
            each for team in after.teams for each in team.spec.allocations if each.cluster == "studio"
        ]

    def test_shards_go_from_last_to_first(self) -> None:
        shards = [TeamStack(name, frozenset(), frozenset()) for name in ("g", "g-2", "g-3")]
        removal = remove_cluster(EXAMPLE, EXAMPLE.clusters[1], shards, "config")
        names = [run.split()[-1] for run in runs(step(removal, "destroy").commands, "cdk")]
        assert names[1:4] == ["g-3", "g-2", "g"]

    def test_quotas_made_by_hand_are_looked_for_before_the_cluster_goes(self) -> None:
        commands = [each.run for each in step(without_cluster("research"), "destroy").commands]
        checks = [index for index, run in enumerate(commands) if "list-c" in run]
        assert len(checks) == 2
        assert checks[-1] < commands.index("cdk destroy --exclusively example-research-cluster")
        assert not any("list-c" in each.run for each in step(without_cluster("studio"), "destroy").commands)

    @pytest.mark.parametrize(
        ("part", "change"),
        [
            ("capacity", {"pretrain/spec/capacityGate": {"waitFor": "None"}}),
            ("monitoring", {"pretrain/spec/monitoring": {"state": "Disabled"}}),
        ],
    )
    def test_a_stack_that_an_earlier_config_had_is_deleted_without_the_config(
        self, part: naming.StackPart, change: dict[str, Any], tmp_path: Path
    ) -> None:
        """It would import from the cluster's stack, which could not be destroyed."""
        of = fleet(write(tmp_path, changed(change)))
        name = naming.stack(of.name, "pretrain", part)
        destroy = step(without_cluster("pretrain", of), "destroy")
        delete = (
            f"aws cloudformation delete-stack --stack-name {name} --region us-east-1"
            f" && aws cloudformation wait stack-delete-complete --stack-name {name} --region us-east-1"
        )
        commands = [each.run for each in destroy.commands]
        assert commands.index(delete) < commands.index("cdk destroy --exclusively fleet-pretrain-cluster")
        assert not any(run.startswith("cdk") and run.endswith(name) for run in commands)
        assert any(name in note for note in destroy.notes)

    def test_a_stack_that_the_config_has_is_destroyed_with_it(self) -> None:
        destroy = step(without_cluster("pretrain"), "destroy")
        assert not any("delete-stack" in each.run for each in destroy.commands)

    def test_file_systems_and_the_network_under_them_stay(self) -> None:
        removal = without_cluster("pretrain")
        commands = [each.run for one in removal.steps for each in one.commands]
        assert not any("fsx delete" in run for run in commands)
        assert "cdk destroy --exclusively example-pretrain-network" not in commands
        assert removal.kept[:2] == (
            "file system scratch (FSx)",
            "stack example-pretrain-network: the file systems use the network",
        )

    def test_file_systems_are_deleted_only_when_asked_and_after_the_cluster(self) -> None:
        removal = without_cluster("pretrain", delete_data=True)
        order = [each.id for each in removal.steps]
        assert order.index("destroy") < order.index("file-systems") < order.index("network")
        (command,) = step(removal, "file-systems").commands
        assert command.risk == "data"
        assert "example-pretrain-cluster/FileSystem-scratch" in command.run
        assert not any("scratch" in each for each in removal.kept)

    def test_the_tag_that_finds_a_file_system_is_the_one_it_is_made_with(self) -> None:
        made = (
            ROOT / "tests" / "golden" / "example" / "templates" / "example-pretrain-cluster.yaml"
        ).read_text()
        (command,) = step(without_cluster("pretrain", delete_data=True), "file-systems").commands
        (name,) = re.findall(r"Value=='(.+?)'", command.run)
        assert f"Value: {name}\n" in made

    def test_what_was_there_before_is_kept(self) -> None:
        of = fleet(ROOT / "tests" / "fixtures" / "fleets" / "existing-vpc-and-eks")
        removal = without_cluster("shared", of)
        assert "network" not in [each.id for each in removal.steps]
        assert removal.kept[:2] == (
            "network vpc-0123456789abcdef0, which was there before",
            "EKS cluster platform with its namespaces, which was there before",
        )
        (last,) = (each for each in step(removal, "destroy").commands if each.risk == "data")
        assert "EKS" not in last.purpose

    def test_slurm_has_no_queue_to_hold_and_is_drained_by_slurm(self) -> None:
        removal = without_cluster("pretrain")
        assert removal.steps[0].id == "drain"
        assert any("squeue" in each.run for each in removal.steps[0].commands)
        assert not any(each.run.startswith("kubectl") for one in removal.steps for each in one.commands)


class TestUpdates:
    """Each change of the config, after the one before, is one that the rules over updates let pass."""

    @pytest.mark.parametrize(
        "removal",
        [
            *(without_team(name) for name in ("vision", "llm", "onlygputeam")),
            without_team("vision", ["studio"]),
            *(without_cluster(name) for name in ("research", "studio", "pretrain")),
        ],
        ids=lambda removal: f"{removal.kind} {removal.name} from {' and '.join(removal.clusters)}",
    )
    def test_one_change_after_the_other_passes(self, removal: Removal) -> None:
        before = EXAMPLE.config
        for each in removal.steps:
            after = edit.intended(before, each.edits)
            errors = [finding for finding in refused(before, after) if finding.severity == "error"]
            assert errors == []
            before = after

    def test_a_team_that_was_not_held_does_not(self) -> None:
        removal = without_team("vision")
        after = edit.intended(EXAMPLE.config, step(removal, "quota").edits)
        assert {each.rule for each in refused(EXAMPLE.config, after) if each.severity == "error"} == {
            "HPF159"
        }


def every_command() -> list[str]:
    """All commands for all teams and clusters of all fleets."""
    found: set[str] = set()
    for path in [ROOT / "config", *(ROOT / "tests" / "fixtures" / "fleets" / name for name in FLEETS)]:
        of = fleet(path)
        removals = [without_team(each.name, of=of) for each in of.config.teams]
        for cluster in of.clusters:
            removals += [without_cluster(cluster.name, of, delete_data=answer) for answer in (False, True)]
        found |= {each.run for one in removals for step in one.steps for each in step.commands}
    return sorted(found)


def test_every_command_is_one_that_a_shell_can_read() -> None:
    for run in every_command():
        done = subprocess.run(["bash", "-n", "-c", run], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), run


AWS = re.compile(r"\baws (?P<service>[a-z0-9]+) (?P<operation>[a-z0-9-]+)(?P<rest>[^)]*)")
# Of the AWS CLI itself, so that no service model has it.
CUSTOM = {"update-kubeconfig"}
GLOBAL = {"--region", "--query", "--output"}


def test_every_call_of_aws_is_one_that_its_model_knows() -> None:
    session = botocore.session.get_session()
    seen = set()
    for run in every_command():
        # A nested call ends at its bracket, and its options are not those of the outer call.
        nested = re.findall(r"\$\((aws [^)]*)\)", run)
        for call in [*nested, re.sub(r"\$\(aws [^)]*\)", "X", run)]:
            found = AWS.search(call)
            if found is None or found["operation"] in CUSTOM:
                continue
            model = session.get_service_model(found["service"])
            operations = {xform_name(name, "-"): name for name in model.operation_names}
            shape = model.operation_model(operations[found["operation"]]).input_shape
            assert shape is not None
            options = set(re.findall(r"(?<= )--[a-z-]+", re.sub(r"\"[^\"]*\"|'[^']*'", "X", call)))
            assert options - GLOBAL <= {f"--{xform_name(name, '-')}" for name in shape.members}, call
            required = {f"--{xform_name(name, '-')}" for name in shape.required_members}
            assert required <= options, call
            seen.add(found["operation"])
    assert {"list-compute-quotas", "delete-file-system", "describe-vpc-endpoints", "delete-stack"} <= seen


def test_every_query_is_one_that_jmespath_can_read() -> None:
    queries = {query for run in every_command() for query in re.findall(r"--query [\"'](.+?)[\"'] --", run)}
    assert len(queries) > 5
    for query in queries:
        jmespath.compile(query)
