"""The dependency graph of templates, held against a CloudFormation that does whatever it may."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperpod_infra.assembly import Assembly, Node, Reference, Stack, mentions, references

Template = dict[str, Any]


def assembly(templates: dict[str, Template], dependencies: dict[str, list[str]] | None = None) -> Assembly:
    return Assembly(
        {
            name: Stack.of(
                name, template, environment="here", dependencies=(dependencies or {}).get(name, ())
            )
            for name, template in templates.items()
        }
    )


def one_stack(resources: Template, **more: Any) -> Assembly:
    resources = {name: {"Type": "X", **resource} for name, resource in resources.items()}
    return assembly({"s": {"Resources": resources, **more}})


@pytest.mark.parametrize(
    ("value", "names"),
    [
        pytest.param({"Ref": "A"}, {"A"}, id="what Ref names"),
        pytest.param({"Fn::GetAtt": ["A", "Arn"]}, {"A"}, id="what GetAtt names"),
        pytest.param({"Fn::GetAtt": "A.Nested.Arn"}, {"A"}, id="what GetAtt names in one text"),
        pytest.param({"Fn::Sub": "x-${A}-${B.Arn}"}, {"A", "B"}, id="all that Sub names"),
        pytest.param({"Fn::Sub": "x-${!A}"}, set(), id="no literal of Sub"),
        pytest.param(
            {"Fn::Sub": ["${A}-${B}", {"A": {"Ref": "C"}}]}, {"B", "C"}, id="no variable of Sub but its value"
        ),
        pytest.param({"Fn::Join": ["", ["x", {"Ref": "A"}]]}, {"A"}, id="what lies in a Join"),
        pytest.param([{"deep": [{"Ref": "A"}]}, {"Ref": "B"}], {"A", "B"}, id="what lies deep"),
        pytest.param({"Fn::If": ["c", {"Ref": "A"}, "x"]}, set(), id="nothing of one branch"),
        pytest.param(
            {"Fn::If": ["c", {"Ref": "A"}, [{"Ref": "B"}, {"Ref": "A"}]]}, {"A"}, id="what both branches name"
        ),
        pytest.param({"Ref": "A", "more": "so it is no function"}, set(), id="no map that looks like a Ref"),
        pytest.param("${A}", set(), id="no text outside Sub"),
    ],
)
def test_a_value_refers_to(value: Any, names: set[str]) -> None:
    assert {one.name for one in references(value)} == names
    assert not any(one.imported for one in references(value))


def test_an_import_is_told_from_a_resource() -> None:
    assert references({"Fn::ImportValue": "net:Vpc"}) == {Reference("net:Vpc", imported=True)}
    assert references({"Fn::ImportValue": {"Fn::Sub": "${A}-vpc"}}) == {Reference("A")}


def test_either_branch_may_be_what_a_value_comes_from() -> None:
    assert mentions({"Fn::If": ["c", {"Ref": "A"}, {"Ref": "B"}]}) == {Reference("A"), Reference("B")}


class TestOneStack:
    def test_an_order_goes_through_other_resources(self) -> None:
        found = one_stack(
            {"A": {}, "B": {"DependsOn": "A"}, "C": {"DependsOn": ["B"], "Properties": {"x": "y"}}}
        )
        assert found.created_before(Node("s", "A"), Node("s", "C"))
        assert found.deleted_after(Node("s", "A"), Node("s", "C"))
        assert not found.created_before(Node("s", "C"), Node("s", "A"))

    def test_an_order_does_not_go_through_a_resource_that_may_be_missing(self) -> None:
        found = one_stack({"A": {}, "B": {"DependsOn": "A", "Condition": "c"}, "C": {"DependsOn": "B"}})
        assert found.created_before(Node("s", "A"), Node("s", "B"))
        assert found.created_before(Node("s", "B"), Node("s", "C"))
        assert not found.created_before(Node("s", "A"), Node("s", "C"))

    def test_parameters_and_pseudo_parameters_are_no_resources(self) -> None:
        found = one_stack({"A": {"Properties": {"x": [{"Ref": "AWS::Region"}, {"Ref": "P"}]}}})
        assert found.needs(Node("s", "A")) == frozenset()

    @pytest.mark.parametrize(
        ("policies", "stays"),
        [
            ({"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}, True),
            ({"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}, True),
            ({"DeletionPolicy": "Retain"}, False),
            ({"DeletionPolicy": "Snapshot", "UpdateReplacePolicy": "Snapshot"}, False),
            ({}, False),
        ],
        ids=str,
    )
    def test_a_resource_outlives_its_stack_only_if_it_is_kept(
        self, policies: dict[str, str], stays: bool
    ) -> None:
        found = one_stack({"A": policies, "B": {}})
        assert found.deleted_after(Node("s", "A"), Node("s", "")) is stays
        assert found.deleted_after(Node("s", "A"), Node("s", "B")) is stays


def three_stacks(importing: Any, dependencies: dict[str, list[str]] | None = None) -> Assembly:
    """`low` exports A; `high` has B, which holds `importing`; `other` has C."""
    export = {"O": {"Value": {"Ref": "A"}, "Export": {"Name": "low:A"}}}
    return assembly(
        {
            "low": {"Resources": {"A": {"Type": "X"}, "A2": {"Type": "X"}}, "Outputs": export},
            "high": {"Resources": {"B": {"Type": "X", **importing}, "B2": {"Type": "X"}}},
            "other": {"Resources": {"C": {"Type": "X"}}},
        },
        dependencies,
    )


IMPORT = {"Fn::ImportValue": "low:A"}


class TestStacks:
    def test_one_import_orders_whole_stacks(self) -> None:
        found = three_stacks({"Properties": {"x": IMPORT}})
        for first, then in itertools.product(("A", "A2"), ("B", "B2")):
            assert found.created_before(Node("low", first), Node("high", then))
            assert found.deleted_after(Node("low", first), Node("high", then))
        assert found.targets("high", IMPORT) == {Node("low", "A")}

    @pytest.mark.parametrize(
        "importing",
        [
            {"Properties": {"x": {"Fn::If": ["c", IMPORT, "y"]}}},
            {"Condition": "c", "Properties": {"x": IMPORT}},
            {"Metadata": {"x": IMPORT}},
        ],
        ids=["in one branch", "by a resource that may be missing", "in metadata"],
    )
    def test_an_import_that_is_not_certain_orders_nothing(self, importing: Any) -> None:
        found = three_stacks(importing)
        assert not found.created_before(Node("low", "A"), Node("high", "B2"))
        assert not found.deleted_after(Node("low", "A"), Node("high", "B2"))

    def test_what_only_the_cdk_cli_knows_is_an_order_of_creation(self) -> None:
        found = three_stacks({}, {"high": ["other"], "other": ["low"]})
        assert found.created_before(Node("low", "A"), Node("high", "B"))
        assert not found.deleted_after(Node("low", "A"), Node("high", "B"))

    def test_an_output_that_imports_orders_its_stack(self) -> None:
        low = {"Resources": {}, "Outputs": {"O": {"Value": "v", "Export": {"Name": "low:A"}}}}
        high = {"Resources": {"B": {"Type": "X"}}, "Outputs": {"O": {"Value": IMPORT}}}
        low["Resources"] = {"A": {"Type": "X"}}
        assert assembly({"low": low, "high": high}).deleted_after(Node("low", "A"), Node("high", "B"))

    def test_an_import_from_another_region_is_none(self) -> None:
        found = three_stacks({"Properties": {"x": IMPORT}})
        moved = {**found.stacks, "low": Stack(**{**vars(found.stacks["low"]), "environment": "there"})}
        assert not Assembly(moved).deleted_after(Node("low", "A"), Node("high", "B"))

    def test_stacks_that_have_nothing_to_do_with_each_other_are_apart(self) -> None:
        def names(found: Assembly) -> list[set[str]]:
            return [{one.node.stack for one in family.of_type("X")} for family in found.families()]

        assert names(three_stacks({"Properties": {"x": {"Fn::If": ["c", IMPORT, "y"]}}})) == [
            {"low", "high"},
            {"other"},
        ]
        assert names(three_stacks({}, {"other": ["high"]})) == [{"low"}, {"high", "other"}]


# What CloudFormation may do, without reachability: do everything that it may before it does what it should
# have done first.


def nodes_of(found: Assembly) -> Iterator[Node]:
    for stack in found.stacks.values():
        for name in stack.resources:
            yield Node(stack.name, name)


def lower(found: Assembly, stack: str, *, by_cli: bool) -> set[str]:
    """Stacks that must be whole before this one."""
    exporters = {name: one.name for one in found.stacks.values() for name in one.exports}
    below = {exporters[name] for name in found.stacks[stack].imports}
    return below | (set(found.stacks[stack].dependencies) if by_cli else set())


def created_without(found: Assembly, first: Node) -> set[Node]:
    """Everything that can be there before `first` is."""
    there: set[Node] = set()
    while True:
        whole = {
            name
            for name, stack in found.stacks.items()
            if all(Node(name, resource) in there for resource in stack.resources)
        }
        new = {
            node
            for node in set(nodes_of(found)) - there - {first}
            if lower(found, node.stack, by_cli=True) <= whole
            and all(Node(node.stack, name) in there for name in found.resource(node).needs)
        }
        if not new:
            return there
        there |= new


def left_with(found: Assembly, then: Node) -> set[Node]:
    """Everything that must still be there while `then` is; kept resources are passed over in their turn."""
    there = set(nodes_of(found))
    while True:
        stacks = {node.stack for node in there}
        used = {below for stack in stacks for below in lower(found, stack, by_cli=False)}
        gone = {
            node
            for node in there - {then}
            if node.stack not in used
            and not any(
                node.logical_id in found.resource(other).needs for other in there if other.stack == node.stack
            )
        }
        if not gone:
            return there
        there -= gone


@st.composite
def assemblies(draw: st.DrawFn) -> Assembly:
    """A few stacks with a few resources; everything refers to what was made before it only."""
    templates: dict[str, Template] = {}
    dependencies: dict[str, list[str]] = {}
    for stack in [f"s{i}" for i in range(draw(st.integers(1, 4)))]:
        below = list(templates)
        some = st.lists(st.sampled_from(below), max_size=2, unique=True) if below else st.just([])
        resources: Template = {}
        for name in [f"R{i}" for i in range(draw(st.integers(1, 4)))]:
            made = st.lists(st.sampled_from(list(resources)), max_size=2) if resources else st.just([])
            shapes = st.sampled_from(
                [
                    lambda one: {"Ref": one},
                    lambda one: {"Fn::GetAtt": [one, "Arn"]},
                    lambda one: {"Fn::Sub": f"x${{{one}.Arn}}"},
                ]
            )
            resources[name] = {
                "Type": "X",
                "DependsOn": draw(made),
                "Properties": {
                    "here": [draw(shapes)(one) for one in draw(made)],
                    "there": [{"Fn::ImportValue": f"{one}:x"} for one in draw(some)],
                },
            }
        export = {"O": {"Value": {"Ref": "R0"}, "Export": {"Name": f"{stack}:x"}}}
        templates[stack] = {"Resources": resources, "Outputs": export}
        dependencies[stack] = draw(some)
    return assembly(templates, dependencies)


@given(assemblies())
def test_an_order_is_found_exactly_where_cloudformation_has_no_choice(found: Assembly) -> None:
    for first in nodes_of(found):
        early = created_without(found, first)
        for then in set(nodes_of(found)) - {first}:
            assert found.created_before(first, then) is (then not in early), (first, then)
    for then in nodes_of(found):
        late = left_with(found, then)
        for first in set(nodes_of(found)) - {then}:
            assert found.deleted_after(first, then) is (first in late), (first, then)
