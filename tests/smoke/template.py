"""Templates as CloudFormation reads them: what refers to what, and what expressions give.

Strict: an intrinsic function, a logical id or a section that this does not know is an error.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Any
Template = dict[str, Any]

SECTIONS = {"Description", "Resources", "Parameters", "Rules", "Outputs", "Conditions", "Metadata"}
ATTRIBUTES = {
    "Type",
    "Properties",
    "DependsOn",
    "Condition",
    "Metadata",
    "DeletionPolicy",
    "UpdateReplacePolicy",
}
POLICIES = {
    "DeletionPolicy": {"Delete", "Retain", "RetainExceptOnCreate"},
    "UpdateReplacePolicy": {"Delete", "Retain"},
}
_PLACEHOLDER = re.compile(r"\$\{([^!}][^}]*)\}")


class TemplateError(Exception):
    """A template that CloudFormation would refuse, or that says more than is understood here."""


class NoValue:
    """What `AWS::NoValue` gives: the property is left out."""


@dataclass(frozen=True)
class Values:
    """What expressions may refer to."""

    pseudo: Mapping[str, Json]
    parameters: Mapping[str, Json]
    conditions: Mapping[str, Json]
    ref: Callable[[str], Json]
    attribute: Callable[[str, str], Json]
    imported: Callable[[str], Json]


def check(template: Template) -> None:
    """Refuse unknown sections, resource attributes, references to nothing, and circles."""
    unknown = set(template) - SECTIONS
    if unknown:
        raise TemplateError(f"template sections {sorted(unknown)} are not understood here")
    resources = template.get("Resources", {})
    if not resources:
        raise TemplateError("At least one Resources member must be defined.")
    for logical_id, resource in resources.items():
        if extra := set(resource) - ATTRIBUTES:
            raise TemplateError(f"{logical_id}: attributes {sorted(extra)} are not understood here")
        for policy, known in POLICIES.items():
            if resource.get(policy, "Delete") not in known:
                raise TemplateError(f"{logical_id}: {policy} {resource[policy]} is not understood here")
        if nowhere := depends_on(resource) - set(resources):
            raise TemplateError(f"Unresolved resource dependencies {sorted(nowhere)} in {logical_id}")
        references(template, resource.get("Properties", {}))
    references(template, template.get("Outputs", {}))
    in_some_order = set[str]()
    graph = dependencies(template)
    while ready := {key for key in graph if key not in in_some_order and graph[key] <= in_some_order}:
        in_some_order |= ready
    if circle := sorted(set(graph) - in_some_order):
        raise TemplateError(f"Circular dependency between resources: {circle}")


def dependencies(template: Template) -> dict[str, set[str]]:
    """For each resource, those that must exist before it."""
    return {
        logical_id: depends_on(resource) | references(template, resource.get("Properties", {}))
        for logical_id, resource in template["Resources"].items()
    }


def depends_on(resource: Mapping[str, Json]) -> set[str]:
    """What a resource names in DependsOn."""
    named = resource.get("DependsOn", [])
    return {named} if isinstance(named, str) else set(named)


def references(template: Template, value: Json) -> set[str]:
    """Logical ids of the resources that an expression refers to."""
    resources = template["Resources"]
    others = set(template.get("Parameters", {}))
    found = set[str]()
    for name, must_be_resource in _names(value):
        if name in resources:
            found.add(name)
        elif must_be_resource or not (name in others or name.startswith("AWS::")):
            raise TemplateError(f"Unresolved resource dependencies [{name}] in the template")
    return found


def _names(value: Json) -> Iterator[tuple[str, bool]]:
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key == "Ref":
            yield inner, False
        elif key == "Fn::GetAtt":
            yield (inner.partition(".")[0] if isinstance(inner, str) else inner[0]), True
        elif key == "Fn::Sub":
            text, local = (inner, {}) if isinstance(inner, str) else inner
            yield from _names(local)
            for name in _PLACEHOLDER.findall(text):
                if name not in local:
                    yield name.partition(".")[0], "." in name
        else:
            yield from _names(inner)


class Resolver:
    """Gives the values of expressions."""

    def __init__(self, values: Values) -> None:
        self._values = values
        region = values.pseudo["AWS::Region"]
        self._functions: dict[str, Callable[[Json], Json]] = {
            "Ref": self._ref,
            "Fn::GetAtt": self._get_att,
            "Fn::Sub": self._sub,
            "Fn::Join": lambda it: it[0].join(str(part) for part in self(it[1])),
            "Fn::Select": lambda it: self(it[1])[int(self(it[0]))],
            "Fn::Split": lambda it: self(it[1]).split(it[0]),
            "Fn::GetAZs": lambda it: [f"{self(it) or region}{zone}" for zone in "abc"],
            "Fn::ImportValue": lambda it: self._values.imported(self(it)),
            "Fn::ToJsonString": lambda it: json.dumps(self(it), separators=(",", ":")),
            "Fn::If": lambda it: self(it[1] if self.condition(it[0]) else it[2]),
            "Fn::Equals": lambda it: str(self(it[0])) == str(self(it[1])),
            "Fn::Not": lambda it: not self(it[0]),
            "Fn::And": lambda it: all(self(each) for each in it),
            "Fn::Or": lambda it: any(self(each) for each in it),
            "Fn::Contains": lambda it: self(it[1]) in self(it[0]),
            "Condition": self.condition,
        }

    def __call__(self, value: Json) -> Json:
        """Give the value of an expression."""
        if isinstance(value, list):
            return [item for item in map(self, value) if item is not NoValue]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            # A policy document has a member of this name too.
            if name in self._functions and (name != "Condition" or isinstance(argument, str)):
                return self._functions[name](argument)
        if unknown := [key for key in value if key.startswith("Fn::")]:
            raise TemplateError(f"intrinsic functions {unknown} are not understood here")
        resolved = {key: self(inner) for key, inner in value.items()}
        return {key: inner for key, inner in resolved.items() if inner is not NoValue}

    def condition(self, name: str) -> bool:
        """Whether a condition of the template holds."""
        if name not in self._values.conditions:
            raise TemplateError(f"condition {name} is not defined")
        return bool(self(self._values.conditions[name]))

    def _ref(self, name: str) -> Json:
        if name == "AWS::NoValue":
            return NoValue
        for known in (self._values.pseudo, self._values.parameters):
            if name in known:
                return known[name]
        return self._values.ref(name)

    def _get_att(self, argument: Json) -> Json:
        logical_id, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        return self._values.attribute(logical_id, self(attribute))

    def _sub(self, argument: Json) -> str:
        text, local = (argument, {}) if isinstance(argument, str) else argument
        known = self(local)

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name in known:
                return str(known[name])
            return str(self._get_att(name) if "." in name else self._ref(name))

        return _PLACEHOLDER.sub(value, text).replace("${!", "${")
