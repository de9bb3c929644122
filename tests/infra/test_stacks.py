"""What lies in which stack, and how large it may grow."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.infra.infra_fleets import EXAMPLE, FLEETS, Stack, resolved, stacks, synthesize

from hyperpod_config.model import Fleet, Monitoring, Team
from hyperpod_governance import naming
from hyperpod_governance.catalog import instance_types
from hyperpod_governance.resolve import resolve
from hyperpod_infra.shards import MAX_TEAM_RESOURCES, team_shards
from hyperpod_k8s import helm

# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
MAX_RESOURCES, MAX_TEMPLATE_BYTES = 500, 1_000_000
MANY = 450
"""Teams: more than one stack holds."""


def changed(before: dict[str, Stack], after: dict[str, Stack]) -> set[str]:
    """Names of the stacks that differ, those that are only on one side included."""
    names = before.keys() | after.keys()
    return {name for name in names if before.get(name) != after.get(name)}


def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "hyperpod-fleet/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def team(name: str, cluster: str, **spec: Any) -> Team:
    quota = [{"instanceType": "ml.m5.2xlarge", "vCpu": 8}]
    return Team.model_validate(
        document("Team", name, {"allocations": [{"cluster": cluster, "quota": quota}], **spec})
    )


def with_teams(*teams: Team) -> Fleet:
    """The example with more teams."""
    fleet = resolved(EXAMPLE).config
    return dataclasses.replace(fleet, teams=tuple(sorted([*fleet.teams, *teams], key=lambda each: each.name)))


@pytest.fixture(scope="module")
def before() -> dict[str, Stack]:
    return stacks(EXAMPLE)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    everyone = "arn:aws:iam::123456789012:role/everyone"
    return with_teams(
        *(
            team(
                f"{cluster}-{number:03}",
                cluster,
                access={"principalArns": [everyone, f"{everyone}-{number}"]},
            )
            for cluster in ("research", "studio")
            for number in range(MANY)
        )
    )


@pytest.fixture(scope="module")
def made(fleet: Fleet) -> dict[str, Stack]:
    return synthesize(resolve(fleet), EXAMPLE)


class TestOrder:
    @pytest.mark.parametrize("directory", FLEETS, ids=lambda path: path.name)
    def test_networks_come_first_and_what_needs_nodes_after_the_gate(self, directory: Path) -> None:
        made = stacks(directory)
        slurm = {
            naming.stack(fleet.name, it.name, "monitoring")
            for fleet in [resolved(directory)]
            for it in fleet.clusters
            if it.config.spec.orchestrator.eks is None
        }
        for name, stack in made.items():
            base, _, part = name.removesuffix("-2").removesuffix("-3").removesuffix("-4").rpartition("-")
            expected = {"network": set(), "cluster": {f"{base}-network"}}.get(part, {f"{base}-cluster"})
            if part not in {"network", "cluster", "capacity"} and name not in slurm:
                expected = expected | {f"{base}-capacity"}
            first = f"{base}-{part}"
            if name != first:
                # After the shard before it, which gives up the teams that move here when shards are split.
                number = int(name.rpartition("-")[2])
                expected = expected | {first, first if number == 2 else f"{first}-{number - 1}"}
            assert stack.dependencies == expected & made.keys(), name

    def test_a_cluster_on_an_existing_network_has_no_network_stack(self) -> None:
        (directory,) = [path for path in FLEETS if path.name == "existing-vpc-and-eks"]
        assert [name for name in stacks(directory) if name.endswith("network")] == []

    def test_no_template_is_empty(self) -> None:
        for directory in FLEETS:
            for stack in stacks(directory).values():
                assert stack.template["Resources"], stack.name


class TestOneStack:
    """A change of a team is a change of one stack."""

    @pytest.mark.parametrize(
        ("cluster", "stack"),
        [("research", "example-research-governance"), ("studio", "example-studio-queues")],
    )
    def test_a_new_team(self, cluster: str, stack: str, before: dict[str, Stack]) -> None:
        access = {"groups": ["g"], "principalArns": ["arn:aws:iam::123456789012:role/new"]}
        fleet = with_teams(team("new", cluster, access=access))
        assert changed(before, synthesize(resolve(fleet), EXAMPLE)) == {stack}

    @pytest.mark.parametrize(
        ("file", "old", "new", "stack"),
        [
            ("onlygputeam", "vCpu: 48", "vCpu: 24", "example-research-governance"),
            ("onlygputeam", "fairShareWeight: 10", "fairShareWeight: 90", "example-research-governance"),
            (
                "vision",
                "{instanceFamily: g5, accelerators: 4}",
                "{instanceFamily: g5, accelerators: 3}",
                "example-studio-queues",
            ),
            ("llm", "groups: [llm-engineers]", "principalArns: [arn:aws:iam::123456789012:role/a]", None),
        ],
    )
    def test_a_changed_team(
        self, file: str, old: str, new: str, stack: str | None, before: dict[str, Stack], tmp_path: Path
    ) -> None:
        copy = tmp_path / "config"
        shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        path = copy / "teams" / f"{file}.yaml"
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
        # People are in both clusters' namespaces.
        expected = {stack} if stack else {"example-research-governance", "example-studio-queues"}
        assert changed(before, synthesize(resolved(copy), copy)) == expected

    def test_a_new_instance_count_is_a_change_of_the_cluster_and_waited_for(
        self, before: dict[str, Stack], tmp_path: Path
    ) -> None:
        copy = tmp_path / "config"
        shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        path = copy / "clusters" / "pretrain.yaml"
        path.write_text(path.read_text().replace("instanceCount: 32", "instanceCount: 33"))
        after = synthesize(resolved(copy), copy)
        assert changed(before, after) == {"example-pretrain-cluster", "example-pretrain-capacity"}


def reconfigured(fleet: Fleet, **changes: Any) -> Fleet:
    """The fleet with other values of its clusters' specs."""
    return dataclasses.replace(
        fleet,
        clusters=tuple(
            cluster.model_copy(update={"spec": cluster.spec.model_copy(update=changes)})
            for cluster in fleet.clusters
        ),
    )


class TestSwitchingOff:
    """What stands on a cluster may go: its stack stays for a while, and what it imports is in use."""

    def clusters(self, fleet: Fleet, directory: Path = EXAMPLE) -> dict[str, dict[str, Any]]:
        made = synthesize(resolve(fleet), directory)
        return {name: stack.template for name, stack in made.items() if name.endswith("-cluster")}

    def test_of_monitoring_leaves_the_cluster_stack_as_it_is(self) -> None:
        fleet = resolved(EXAMPLE).config
        watched = reconfigured(fleet, monitoring=Monitoring(container_insights="Disabled"))
        unwatched = reconfigured(fleet, monitoring=Monitoring(state="Disabled"))
        assert self.clusters(watched) == self.clusters(unwatched)

    # Without and with accounts that the config names.
    @pytest.mark.parametrize("name", ["config", "several-regions"])
    def test_of_governance_changes_nothing_of_the_cluster_stack_but_nodes_labels(self, name: str) -> None:
        (directory,) = [path for path in FLEETS if path.name == name]
        fleet = resolved(directory).config
        teams = tuple(
            it.model_copy(update={"spec": it.spec.model_copy(update={"allocations": []})})
            for it in fleet.teams
        )
        governed = self.clusters(fleet, directory)
        ungoverned = dataclasses.replace(reconfigured(fleet, governance=None), teams=teams)
        free = self.clusters(ungoverned, directory)
        for template in [*governed.values(), *free.values()]:
            for resource in template["Resources"].values():
                if resource["Type"] == "AWS::SageMaker::Cluster":
                    for group in resource["Properties"]["InstanceGroups"]:
                        group.get("KubernetesConfig", {}).get("Labels", {}).pop(
                            "hyperpod-fleet.io/topology", None
                        )
        assert governed == free

    @pytest.mark.parametrize("directory", FLEETS, ids=lambda path: path.name)
    def test_a_cluster_exports_the_same_whatever_stands_on_it(self, directory: Path) -> None:
        for name, stack in stacks(directory).items():
            if name.endswith("-cluster"):
                outputs = " ".join(stack.template["Outputs"])
                assert "ClusterArn" in outputs, name
                # Only an EKS cluster has a handler of charts.
                assert ("frameworkonEvent" in outputs) == ("AWS::EKS" in stack.text), name


class TestCharts:
    def test_each_waits_when_it_goes_too_and_gives_up_before_its_handler_is_stopped(self) -> None:
        made = [it for stack in stacks(EXAMPLE).values() for it in stack.template["Resources"].values()]
        found = [it["Properties"] for it in made if it["Type"] == "Custom::AWSCDK-EKS-HelmChart"]
        assert {it["Release"] for it in found} == {"hyperpod-fleet", "hyperpod-fleet-teams", "kueue"}
        for properties in found:
            assert properties["Wait"] is True
            assert int(properties["Timeout"].removesuffix("s")) < 15 * 60


class TestManyTeams:
    """Stacks and charts split by themselves before a limit breaks them."""

    def test_no_stack_exceeds_what_cloudformation_takes(self, made: dict[str, Stack]) -> None:
        for stack in made.values():
            assert len(stack.template["Resources"]) <= MAX_RESOURCES, stack.name
            assert len(stack.text.encode()) <= MAX_TEMPLATE_BYTES, stack.name

    def test_the_teams_of_owner_sagemaker_are_spread_over_several_stacks(
        self, made: dict[str, Stack]
    ) -> None:
        governance = [stack for name, stack in made.items() if "research-governance" in name]
        assert len(governance) > 1
        kinds = [it["Type"] for stack in governance for it in stack.template["Resources"].values()]
        assert kinds.count("AWS::SageMaker::ComputeQuota") == MANY + 3
        assert kinds.count("AWS::SageMaker::ClusterSchedulerConfig") == 1
        assert kinds.count("AWS::EKS::AccessEntry") == MANY + 1

    def test_principals_lie_with_their_team_unless_they_are_in_several(self, fleet: Fleet) -> None:
        for cluster in resolve(fleet).clusters:
            for shard in team_shards(cluster, {}) if cluster.governance else ():
                for teams in shard.principals.values():
                    assert len(teams) > 1 or shard.teams.issuperset(teams)

    def test_every_chart_fits_a_helm_release(self, fleet: Fleet) -> None:
        for cluster in resolve(fleet).clusters:
            for shard in team_shards(cluster, {}) if cluster.governance else ():
                assert helm.release_bytes(shard.chart) < helm.MAX_RELEASE_BYTES
                assert max(len(text.encode()) for text in shard.chart.values()) < helm.MAX_FILE_BYTES

    def test_one_more_team_is_still_a_change_of_one_stack(self, fleet: Fleet, made: dict[str, Stack]) -> None:
        people = {"principalArns": [f"arn:aws:iam::123456789012:role/zebra-{i}" for i in range(3)]}
        more = dataclasses.replace(fleet, teams=(*fleet.teams, team("zebra", "research", access=people)))
        (name,) = changed(made, synthesize(resolve(more), EXAMPLE))
        assert "research-governance" in name

    @pytest.mark.parametrize(("number", "items", "tags", "length"), [(445, 10, 12, 8), (62, 15, 48, 128)])
    def test_a_template_that_would_be_too_long_is_split(
        self, number: int, items: int, tags: int, length: int
    ) -> None:
        types = sorted(instance_types())[:items]
        quota = [{"instanceType": it, "vCpu": 8, "memoryInGiB": 16} for it in types]
        allocations = [{"cluster": "research", "quota": quota}]
        people = {"principalArns": ["arn:aws:iam::123456789012:role/" + "r" * 64]}
        fleet = with_teams(
            *(
                team(f"team-{i:03}".ljust(40, "x"), "research", allocations=allocations, access=people)
                for i in range(number)
            )
        )
        labels = {f"{i:02}".ljust(length, "k"): "v" * 2 * length for i in range(tags - 1)}
        research = next(it for it in fleet.clusters if it.name == "research")
        tagged = research.model_copy(update={"spec": research.spec.model_copy(update={"tags": labels})})
        fleet = dataclasses.replace(fleet, clusters=(tagged,))
        made = [it for name, it in synthesize(resolve(fleet), EXAMPLE).items() if "governance" in name]
        # One of the two would not hold them, and four are not needed.
        assert len(made) == 2
        assert sum(len(it.text.encode()) for it in made) > MAX_TEMPLATE_BYTES
        assert max(len(it.text.encode()) for it in made) <= MAX_TEMPLATE_BYTES

    def test_principals_that_differ_in_punctuation_only_have_an_entry_each(self) -> None:
        arns = [f"arn:aws:iam::123456789012:role/{name}" for name in ("ml-ops", "mlops", "ml/ops", "ml.ops")]
        made = synthesize(
            resolve(with_teams(team("new", "research", access={"principalArns": arns}))), EXAMPLE
        )
        resources = made["example-research-governance"].template["Resources"].values()
        entries = {
            it["Properties"]["PrincipalArn"] for it in resources if it["Type"] == "AWS::EKS::AccessEntry"
        }
        assert entries >= set(arns)

    def test_a_team_of_many_principals_outgrows_no_stack(self) -> None:
        arns = [f"arn:aws:iam::123456789012:role/{i}" for i in range(600)]
        fleet = resolve(with_teams(team("new", "research", access={"principalArns": arns})))
        (research,) = [cluster for cluster in fleet.clusters if cluster.name == "research"]
        shards = team_shards(research, {})
        assert max(len(shard.principals) for shard in shards) <= MAX_TEAM_RESOURCES
        assert {arn for shard in shards for arn in shard.principals} >= set(arns)
