"""The CloudFormation of these tests: strict about what it knows, and never leaves what it should not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.smoke.cloudformation import Made, Region, Request, ResourceError, Stack, ValidationError
from tests.smoke.template import Resolver, Template, TemplateError, Values

Json = Any

POISON = 2
"""The color that no resource can have."""


@dataclass
class Store:
    """What is there: properties by physical id. `stuck`: logical ids that cannot be deleted."""

    live: dict[str, dict[str, Json]] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    log: list[tuple[str, str]] = field(default_factory=list)
    made: int = 0

    def by_name(self) -> dict[str, Json]:
        return {
            properties["Name"]: {key: value for key, value in properties.items() if key != "Uses"}
            for properties in self.live.values()
        }


@dataclass
class Thing:
    """A type whose Size is for life; what it uses must be there as long as it is."""

    store: Store
    delete_before_create: bool = False

    def replaces(self, old: Mapping[str, Json], new: Mapping[str, Json]) -> bool:
        return bool(old["Size"] != new["Size"])

    def create(self, request: Request) -> Made:
        self.store.log.append(("create", request.logical_id))
        assert set(request.properties["Uses"]) <= set(self.store.live)
        self.store.made += 1
        name = f"{request.logical_id}-{self.store.made}"
        if request.properties["Color"] == POISON and self.delete_before_create:
            raise ResourceError("poison, and nothing is left")
        self.store.live[name] = request.properties
        if request.properties["Color"] == POISON:
            raise ResourceError("poison, and something is left", name)
        return Made(name, name, {"Arn": f"arn:{name}"})

    def update(self, request: Request, old: Mapping[str, Json], made: Made) -> Made:
        self.store.log.append(("update", request.logical_id))
        assert self.store.live[made.physical_id] == old
        assert set(request.properties["Uses"]) <= set(self.store.live)
        self.store.live[made.physical_id] = request.properties
        if request.properties["Color"] == POISON:
            raise ResourceError("poison, and it is changed")
        return made

    def delete(self, request: Request, made: Made) -> None:
        self.store.log.append(("delete", request.logical_id))
        if request.logical_id in self.store.stuck:
            raise ResourceError("stuck")
        users = [name for name, it in self.store.live.items() if made.physical_id in it["Uses"]]
        # A type that is deleted before its replacement is there leaves its users alone for a while.
        assert self.delete_before_create or users == []
        del self.store.live[made.physical_id]


def region(store: Store, seed: int = 0) -> Region:
    types = {"Test::Thing": Thing(store), "Test::Single": Thing(store, delete_before_create=True)}
    return Region("us-east-1", types, {"/version": "30"}, seed)


def thing(
    name: str, *uses: str, size: int = 1, color: int = 0, kind: str = "Test::Thing", **more: Json
) -> Json:
    properties = {"Name": name, "Size": size, "Color": color, "Uses": [{"Ref": use} for use in uses]}
    return {"Type": kind, "Properties": properties, **more}


def template(*things: Json, **more: Json) -> Template:
    return {"Resources": {it["Properties"]["Name"]: it for it in things}, **more}


def deploy(where: Region, wanted: Template, name: str = "stack") -> Stack:
    where.validate(wanted)
    stack = where.stacks.get(name) or where.begin(name, "REVIEW_IN_PROGRESS")
    where.deploy(stack, wanted, {}, {})
    return stack


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (template({**thing("A"), "Type": "AWS::EC2::Instance"}), "Unrecognized resource types"),
        (template(thing("A"), Transform="AWS::Serverless-2016-10-31"), "sections"),
        (template(thing("A", CreationPolicy={})), "attributes"),
        (template(thing("A", DeletionPolicy="Snapshot")), "DeletionPolicy"),
        (template(thing("A", "B")), "Unresolved resource dependencies"),
        (template(thing("A", "B"), thing("B", "A")), "Circular"),
        (template(thing("A", DependsOn="Z")), "Unresolved resource dependencies"),
        (template(thing("A"), Outputs={"O": {"Value": {"Ref": "Z"}}}), "Unresolved resource dependencies"),
    ],
    ids=[
        "a type that nobody registered",
        "a section that is not understood",
        "an attribute that is not understood",
        "a policy that is not understood",
        "a reference to nothing",
        "a circle",
        "a dependency on nothing",
        "an output of nothing",
    ],
)
def test_refused_before_anything_is_touched(wanted: Template, said: str) -> None:
    store = Store()
    with pytest.raises(ValidationError, match=said):
        deploy(region(store), wanted)
    assert store.log == []


def resolver(**parameters: Json) -> Resolver:
    def nothing(*_: str) -> Json:
        raise TemplateError("no resource")

    pseudo = {"AWS::Region": "us-east-1", "AWS::AccountId": "1"}
    conditions = {"Yes": {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-east-1"]}}
    return Resolver(Values(pseudo, parameters, conditions, nothing, nothing, {"export": "value"}.__getitem__))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"Fn::Sub": "${AWS::Region}/${!Literal}/${P}"}, "us-east-1/${Literal}/p"),
        ({"Fn::Sub": ["${Local}", {"Local": {"Ref": "P"}}]}, "p"),
        ({"Fn::Join": ["-", ["a", {"Ref": "P"}]]}, "a-p"),
        ({"Fn::Select": ["1", {"Fn::GetAZs": ""}]}, "us-east-1b"),
        ({"Fn::ImportValue": "export"}, "value"),
        ({"A": {"Ref": "AWS::NoValue"}, "B": [{"Ref": "AWS::NoValue"}, 1]}, {"B": [1]}),
        ({"Fn::If": ["Yes", 1, 2]}, 1),
        ({"Fn::Contains": [["1", "2"], {"Ref": "P"}]}, False),
        ({"Condition": {"StringEquals": {"a": "b"}}}, {"Condition": {"StringEquals": {"a": "b"}}}),
    ],
)
def test_values_of_expressions(expression: Json, value: Json) -> None:
    assert resolver(P="p")(expression) == value


def test_a_function_that_is_not_understood_is_an_error() -> None:
    with pytest.raises(TemplateError, match="Fn::Cidr"):
        resolver()({"Fn::Cidr": ["10.0.0.0/16", 1, 8]})


def test_a_rule_that_does_not_hold_refuses_the_deployment() -> None:
    store = Store()
    version = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/version"}
    assertion = {"Fn::Not": [{"Fn::Contains": [["30"], {"Ref": "Version"}]}]}
    rules = {"Check": {"Assertions": [{"Assert": assertion, "AssertDescription": "newer bootstrap"}]}}
    with pytest.raises(ValidationError, match="newer bootstrap"):
        deploy(region(store), template(thing("A"), Parameters={"Version": version}, Rules=rules))
    assert store.log == []


def test_what_is_unchanged_is_not_touched() -> None:
    store = Store()
    where = region(store)
    deploy(where, template(thing("A"), thing("B", "A")))
    store.log.clear()
    stack = deploy(where, template(thing("A"), thing("B", "A", color=1)))
    assert store.log == [("update", "B")]
    assert stack.status == "UPDATE_COMPLETE"


def test_deletions_come_after_all_updates_and_replacements_before_them() -> None:
    store = Store()
    where = region(store)
    deploy(where, template(thing("A"), thing("B"), thing("C", "A")))
    store.log.clear()
    deploy(where, template(thing("A", size=2), thing("C", "A")))
    assert store.log[:2] == [("create", "A"), ("update", "C")]
    assert sorted(store.log[2:]) == [("delete", "A"), ("delete", "B")]


def test_a_single_is_deleted_before_its_replacement_is_made() -> None:
    store = Store()
    where = region(store)
    deploy(where, template(thing("A", kind="Test::Single")))
    store.log.clear()
    deploy(where, template(thing("A", kind="Test::Single", size=2)))
    assert store.log == [("delete", "A"), ("create", "A")]


def test_what_refers_to_a_single_that_a_rollback_made_again_refers_to_that_one() -> None:
    store = Store()
    where = region(store)
    single = thing("A", kind="Test::Single")
    deploy(where, template(single, thing("B", "A"), thing("C", "B")))
    bigger = thing("A", kind="Test::Single", size=2)
    stack = deploy(where, template(bigger, thing("B", "A"), thing("C", "B", color=POISON)))
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    (single_name,) = [name for name in store.live if name.startswith("A")]
    assert [it["Uses"] for it in store.live.values() if it["Name"] == "B"] == [[single_name]]


def test_a_type_cannot_change_in_place() -> None:
    where = region(Store())
    deploy(where, template(thing("A")))
    stack = deploy(where, template(thing("A", kind="Test::Single")))
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert any("Update of resource type is not permitted" in event.reason for event in stack.events)


def test_an_export_in_use_can_neither_change_nor_go() -> None:
    store = Store()
    where = region(store)
    outputs = {"O": {"Value": {"Ref": "A"}, "Export": {"Name": "a"}}}
    importing = thing("B")
    importing["Properties"]["Uses"] = [{"Fn::ImportValue": "a"}]
    first = deploy(where, template(thing("A"), Outputs=outputs), "first")
    deploy(where, template(importing), "second")
    before = dict(store.live)
    for wanted in (template(thing("A", size=2), Outputs=outputs), template(thing("A"))):
        assert deploy(where, wanted, "first").status == "UPDATE_ROLLBACK_COMPLETE"
        assert store.live == before
    where.delete(first)
    assert "in use by second" in first.reason
    assert store.live == before
    where.delete(where.stacks["second"])
    where.delete(first)
    assert (where.stacks, store.live) == ({}, {})


@pytest.mark.parametrize("how", ["its stack is deleted", "its line is removed"])
def test_what_is_to_be_retained_is_kept(how: str) -> None:
    store = Store()
    where = region(store)
    stack = deploy(where, template(thing("A", DeletionPolicy="Retain"), thing("B")))
    if how == "its stack is deleted":
        where.delete(stack)
    else:
        deploy(where, template(thing("B")))
    assert [resource.request.logical_id for resource in where.kept] == ["A"]
    assert "A" in store.by_name()


def test_a_deletion_that_fails_leaves_what_it_depends_on_and_can_be_repeated() -> None:
    store = Store(stuck={"B"})
    where = region(store)
    stack = deploy(where, template(thing("A"), thing("B", "A"), thing("C", "B"), thing("D")))
    where.delete(stack)
    assert (stack.status, sorted(store.by_name())) == ("DELETE_FAILED", ["A", "B"])
    store.stuck.clear()
    where.delete(stack)
    assert (where.stacks, store.live) == ({}, {})


def test_a_clean_up_that_fails_thrice_forgets_what_it_leaves() -> None:
    store = Store(stuck={"A"})
    where = region(store)
    deploy(where, template(thing("A"), thing("B")))
    stack = deploy(where, template(thing("B")))
    assert stack.status == "UPDATE_COMPLETE"
    assert store.log.count(("delete", "A")) == 3
    assert [resource.request.logical_id for resource in where.left] == ["A"]


NAMES = "ABCDE"


@st.composite
def things(draw: st.DrawFn) -> Template:
    """A template in which each resource may use those of smaller names."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(sorted))
    made = []
    for index, name in enumerate(names):
        uses = draw(st.lists(st.sampled_from(names[:index]), unique=True)) if index else []
        kind = "Test::Single" if name in "BD" else "Test::Thing"
        size, color = draw(st.integers(1, 2)), draw(st.integers(0, 1))
        made.append(thing(name, *uses, size=size, color=color, kind=kind))
    return template(*made)


def wanted_state(wanted: Template) -> dict[str, Json]:
    return {
        name: {key: value for key, value in it["Properties"].items() if key != "Uses"}
        for name, it in wanted["Resources"].items()
    }


@settings(max_examples=250)
@given(
    steps=st.lists(st.tuples(things(), st.sampled_from(["", *NAMES])), min_size=1, max_size=4),
    seed=st.integers(0, 9),
)
def test_a_stack_is_as_its_template_says_or_as_it_was_before(
    steps: list[tuple[Template, str]], seed: int
) -> None:
    store = Store()
    where = region(store, seed)
    before: dict[str, Json] = {}
    for wanted, poisoned in steps:
        if poisoned in wanted["Resources"]:
            wanted["Resources"][poisoned]["Properties"]["Color"] = POISON
        status = deploy(where, wanted).status
        if poisoned in wanted["Resources"]:
            assert status == ("UPDATE_ROLLBACK_COMPLETE" if before else "ROLLBACK_COMPLETE")
        else:
            assert status == ("UPDATE_COMPLETE" if before else "CREATE_COMPLETE")
            before = wanted_state(wanted)
        assert store.by_name() == before
        assert len(store.live) == len(before)
        assert all(set(it["Uses"]) <= set(store.live) for it in store.live.values())
        if status == "ROLLBACK_COMPLETE":
            where.delete(where.stacks["stack"])
    if before:
        where.delete(where.stacks["stack"])
    assert (where.stacks, store.live, where.left) == ({}, {}, [])
