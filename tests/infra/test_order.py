"""The table of orders: every fleet holds it, and no row can be broken without being named."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.infra import infra_fleets
from tests.infra.order_deployments import (
    KNOWN,
    SOURCES,
    Deployment,
    Template,
    applications,
    deployment,
    someone_elses,
    where,
)

from hyperpod_cli.main import main
from hyperpod_infra import kinds
from hyperpod_infra.assembly import Assembly, Node
from hyperpod_infra.kinds import Kind
from hyperpod_infra.order import ORDER, Row, check, violations

ROWS = {row.id: row for row in ORDER}

IMAGINED = {
    "accounting-before-hyperpod",
    "cert-manager-before-training-operator",
    "pod-identity-before-add-on",
    "workspace-before-add-on",
    "workspace-kept",
}
"""Rows about resources that no fleet has yet."""


class TestTheTable:
    def test_every_row_has_a_name_of_its_own(self) -> None:
        assert len(ROWS) == len(ORDER)

    @pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
    def test_every_row_says_why_and_where_that_is_said(self, row: Row) -> None:
        assert row.why.endswith(".")
        assert row.source
        assert row.first.words
        assert row.then is None or row.then.words

    @pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
    def test_every_row_applies_somewhere(self, row: Row) -> None:
        fleets = {name for name in SOURCES if applications(name)[row.id]}
        assert fleets
        assert (row.id in IMAGINED) is (fleets == {"imagined"})


@pytest.mark.parametrize("name", SOURCES)
def test_a_deployment_holds_the_table(name: str, tmp_path: Path) -> None:
    found = check(deployment(name).write(tmp_path))
    assert [str(one) for one in found if (name, one.row.id, one.failed) not in KNOWN] == []


def test_what_is_known_to_be_wrong_is_really_wrong() -> None:
    # Whoever puts one of these right takes it off the list. The templates are read from what the CDK wrote.
    assert {("someone_elses_app", one.row.id, one.failed) for one in check(someone_elses())} == KNOWN


NETWORK = {"routing-before-clusters", "security-groups-before-clusters", "rules-before-clusters"}
NAT = {"gateway-before-internet", "internet-before-nat"}
NODES = {"execution-role-before-hyperpod", "scripts-before-hyperpod", "scripts-emptied-after-hyperpod"}
NEW_EKS = {
    "eks-role-before-eks",
    "key-before-eks",
    "eks-before-its-parts",
    "eks-before-hyperpod",
    "node-add-ons-before-nodes",
}
CHARTS = {
    "servants-before-custom-resources",
    "access-before-custom-resources",
    "dependencies-before-hyperpod",
}
GOVERNANCE = {
    "add-on-before-kueue-wait",
    "kueue-wait-before-governance",
    "first-node-before-what-needs-nodes",
    "capacity-before-what-needs-nodes",
    "add-on-before-scheduler-config",
    "add-on-before-quotas",
    "scheduler-config-before-quotas",
    "hyperpod-before-governance",
    "guard-before-what-it-guards",
}
HAS = {
    "eks-new": NETWORK | NAT | NODES | NEW_EKS | CHARTS | {"system-nodes-before-coredns"},
    "eks-closed": NETWORK
    | NODES
    | NEW_EKS
    | CHARTS
    | {"endpoints-before-clusters", "network-before-functions-in-it", "cluster-role-before-hyperpod"},
    "eks-existing": CHARTS,
    "slurm-new": NETWORK | NAT | NODES | {"file-system-before-hyperpod", "rules-before-file-system"},
    "example-research-cluster": NETWORK | NODES | NEW_EKS | CHARTS,
    "example-research-governance": GOVERNANCE
    | {"hyperpod-before-what-needs-nodes", "quotas-before-team-objects", "access-before-custom-resources"},
    "example-research-capacity": {"hyperpod-before-waits", "first-node-before-what-needs-nodes"},
    "example-studio-queues": {"kueue-before-objects", "shared-objects-before-team-objects"},
    "example-research-monitoring": {"hyperpod-before-what-needs-nodes"},
}


@pytest.mark.parametrize(("stack", "rows"), HAS.items(), ids=HAS)
def test_a_row_does_not_hold_because_what_it_orders_is_gone(stack: str, rows: set[str]) -> None:
    name = "config" if stack.startswith("example-") else "someone_elses_app"
    found = {
        row_id for row_id, where in applications(name).items() for _, then in where if then.stack == stack
    }
    assert rows - found == set()


# Breaking it: no resource needs `first` any more for sure, wherever it stands.


def replaced(value: Any, names: Callable[[Any], bool], by: Callable[[Any], Any]) -> Any:
    """Give a value with other things in place of the intrinsic functions that name something."""
    if isinstance(value, dict):
        if len(value) == 1 and names(value):
            return by(value)
        return {key: replaced(item, names, by) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, names, by) for item in value]
    return value


def names_resource(logical_id: str) -> Callable[[Any], bool]:
    def names(function: Any) -> bool:
        ((key, argument),) = function.items()
        text = json.dumps(argument)
        return (
            (key == "Ref" and argument == logical_id)
            or (key == "Fn::GetAtt" and argument[0] == logical_id)
            or (key == "Fn::Sub" and f"${{{logical_id}" in text)
        )

    return names


def perhaps(function: Any) -> Any:
    return {"Fn::If": ["Sometimes", function, "literal"]}


def literal(_: Any) -> Any:
    return "literal"


def cut(whole: Deployment, row: Row, first: Node, then: Node, by: Callable[[Any], Any]) -> Deployment:
    """Take away every order that holds because of what names `first`."""
    templates = copy.deepcopy(whole.templates)
    dependencies = dict(whole.dependencies)
    home = templates[first.stack]
    home["Resources"][first.logical_id].pop("DeletionPolicy", None)
    if first.stack == then.stack:
        for other in home["Resources"].values():
            other["DependsOn"] = [name for name in _depends(other) if name != first.logical_id]
            properties = other.get("Properties", {})
            other["Properties"] = replaced(properties, names_resource(first.logical_id), by)
    else:
        exports = {one["Export"]["Name"] for one in home.get("Outputs", {}).values() if "Export" in one}
        templates = {
            name: replaced(one, lambda it: "Fn::ImportValue" in it and it["Fn::ImportValue"] in exports, by)
            for name, one in templates.items()
        }
        if row.holds == "creation":
            dependencies = {name: below - {first.stack} for name, below in dependencies.items()}
    return replace(whole, templates=templates, dependencies=dependencies)


def _depends(written: Template) -> list[str]:
    depends = written.get("DependsOn", [])
    return [depends] if isinstance(depends, str) else depends


def examples(row: Row) -> Iterator[tuple[str, Node, Node]]:
    """One place for each two types of resources that a row orders, in one stack and across stacks."""
    seen = set()
    for name in SOURCES:
        resources = {key: one["Resources"] for key, one in deployment(name).templates.items()}
        for first, then in applications(name)[row.id]:
            ids = (first, then) if then.logical_id else (first,)
            kind = (*(resources[it.stack][it.logical_id]["Type"] for it in ids), first.stack == then.stack)
            if kind not in seen:
                seen.add(kind)
                yield name, first, then


BY_REFERENCE = {
    "access-before-custom-resources",
    "accounting-before-hyperpod",
    "bucket-policy-before-emptier",
    "file-system-before-hyperpod",
    "hyperpod-before-waits",
}
"""Rows that know by a reference only that two resources, or their stacks, have to do with each other: with a
literal in its place there is nothing to order."""


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_that_is_broken_is_named(row: Row) -> None:
    for name, first, then in examples(row):
        broken = cut(deployment(name), row, first, then, perhaps).assembly()
        failed = {(one.row.id, one.first, one.then) for one in violations(broken, [row])}
        assert (row.id, first, then) in failed, (name, first, then)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_that_is_broken_by_a_literal_is_named(row: Row) -> None:
    named = False
    for name, first, then in examples(row):
        broken = cut(deployment(name), row, first, then, literal).assembly()
        found = (first, then) in {(one.first, one.then) for one in violations(broken, [row])}
        assert found or (first, then) not in where(row, broken), (name, first, then)
        named |= found
    assert named or row.id in BY_REFERENCE


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_that_is_turned_round_is_broken(row: Row) -> None:
    if row.then is None or not isinstance(row.first, Kind) or not any(examples(row)):
        return
    turned = replace(row, first=row.then, then=row.first)
    name, first, then = next(examples(row))
    found = {(one.first, one.then) for one in violations(deployment(name).assembly(), [turned])}
    assert (then, first) in found


# Deploying and deleting: CloudFormation takes any resource that is ready, by an own reading of the templates.

NAMED = re.compile(r'"Ref": "([^"]+)"|"Fn::GetAtt": \["([^"]+)"|\$\{([^!}.:]+)[.}]')
IMPORTED = re.compile(r'"Fn::ImportValue": "([^"]+)"')


class CloudFormation:
    """Creates and deletes stacks one resource after the other, as chance will have it."""

    def __init__(self, whole: Deployment, random: Random) -> None:
        self.random = random
        self.needs: dict[Node, set[Node]] = {}
        self.kept: set[Node] = set()
        self.stacks_under: dict[str, set[str]] = {}
        exporters = {
            (whole.regions[name], output["Export"]["Name"]): name
            for name, template in whole.templates.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }
        for name, template in whole.templates.items():
            written = template["Resources"]
            self.stacks_under[name] = {
                exporters[whole.regions[name], value] for value in IMPORTED.findall(json.dumps(template))
            }
            for logical_id, one in written.items():
                text = json.dumps(one.get("Properties", {}))
                named = {word for words in NAMED.findall(text) for word in words if word}
                self.needs[Node(name, logical_id)] = {
                    Node(name, other) for other in (named | set(_depends(one))) & set(written) - {logical_id}
                }
                if one.get("DeletionPolicy") == "Retain":
                    self.kept.add(Node(name, logical_id))
        self.by_cli = whole.dependencies

    def create(self) -> dict[Node, int]:
        """Deploy all stacks as `cdk deploy` does, several at a time; give when each resource was complete."""
        done: dict[Node, int] = {}
        while len(done) < len(self.needs):
            open_stacks = {node.stack for node in self.needs if node not in done}
            ready = [
                node
                for node, needs in self.needs.items()
                if node not in done
                and needs <= done.keys()
                and not open_stacks & (self.stacks_under[node.stack] | self.by_cli[node.stack])
            ]
            done[self.random.choice(ready)] = len(done)
        return done

    def delete(self) -> dict[Node, int]:
        """Delete stacks as anybody may in the console; give when each resource was gone, if it ever was."""
        left = dict(self.needs)
        gone: dict[Node, int] = {}
        while left:
            used = {under for stack in {node.stack for node in left} for under in self.stacks_under[stack]}
            needed = {need for needs in left.values() for need in needs}
            node = self.random.choice([one for one in left if one.stack not in used and one not in needed])
            del left[node]
            if node not in self.kept:
                gone[node] = len(gone)
        return gone


@pytest.mark.parametrize("name", SOURCES)
# Without shrinking: the seed of a bad choice says no less than a smaller one.
@settings(max_examples=5, phases=[Phase.generate])
@given(random=st.randoms(use_true_random=False))
def test_whatever_cloudformation_chooses_the_table_holds(name: str, random: Random) -> None:
    service = CloudFormation(deployment(name), random)
    created, gone = service.create(), service.delete()
    for row_id, found in applications(name).items():
        for first, then in found:
            if (name, row_id, "creation") in KNOWN:
                continue
            if ROWS[row_id].holds != "deletion":
                assert created[first] < created[then], (row_id, first, then)
            if ROWS[row_id].holds != "creation" and (name, row_id, "deletion") not in KNOWN:
                last = gone.get(then, -1) if then.logical_id else len(gone)
                assert gone.get(first, len(gone)) >= last, (row_id, first, then)


def test_chance_finds_an_order_that_is_missing() -> None:
    row = ROWS["add-on-before-scheduler-config"]
    first, then = applications("config")[row.id][0]
    broken = cut(deployment("config"), row, first, then, literal)
    chances = [CloudFormation(broken, Random(seed)) for seed in range(20)]
    assert any(created[first] > created[then] for created in (one.create() for one in chances))
    assert any(gone[first] < gone[then] for gone in (one.delete() for one in chances))


class TestWhatIsSaid:
    def broken(self, row_id: str, name: str, *, apart: bool = False) -> str:
        row = ROWS[row_id]
        first, then = next(it for it in applications(name)[row_id] if (it[0].stack != it[1].stack) is apart)
        assembly = cut(deployment(name), row, first, then, perhaps).assembly()
        return str(next(violations(assembly, [row])))

    def test_both_resources_are_named_with_what_goes_wrong_and_what_to_do(self) -> None:
        said = self.broken("file-system-kept", "slurm-storage")
        assert re.fullmatch(
            r"file-system-kept: FileSystem\w+ of stack slurm-created-cluster need not be deleted after stack "
            r"slurm-created-cluster\. It holds the users' data\. Give it the removal policy RETAIN\.",
            said,
        )

    def test_the_advice_fits_the_place(self) -> None:
        assert "node.add_dependency" in self.broken("dependencies-before-hyperpod", "config")
        assert "import a value" in self.broken("eks-before-its-parts", "config", apart=True)
        assert "add_stack_dependency" in self.broken("capacity-before-what-needs-nodes", "config", apart=True)

    def test_a_resource_is_named_by_its_construct_too(self) -> None:
        assembly = Assembly.read(someone_elses())
        nodes = [one.node for family in assembly.families() for one in family.of_type("AWS::FSx::FileSystem")]
        assert "slurm-new/Home/FileSystem" in {assembly.construct_path(node) for node in nodes}


class TestSynth:
    def test_templates_that_break_the_table_are_not_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fleet = infra_fleets.ROOT / "tests" / "fixtures" / "fleets" / "slurm-storage"
        row = replace(ROWS["file-system-kept"], first=kinds.HYPERPOD)
        monkeypatch.setattr("hyperpod_infra.order.ORDER", (row,))
        assert main(["synth", str(fleet), "--out", str(tmp_path / "out")]) == 1
        stdout, stderr = capsys.readouterr()
        assert stdout == ""
        assert "this is a fault of hpf, not of the config" in stderr
        assert "file-system-kept: HyperPodCluster" in stderr
        assert "slurm-created-cluster/HyperPod/HyperPod/Cluster" in stderr
        assert "Traceback" not in stderr
        assert list(tmp_path.iterdir()) == []
