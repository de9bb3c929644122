"""A synthesized cloud assembly as CloudFormation orders it: what is created before, and deleted after, what.

Only what is certain counts as an order, so that an order that is found here holds however CloudFormation
chooses:

- Within a stack, a resource waits for those that its DependsOn, Ref, Fn::GetAtt or Fn::Sub names; of an
  Fn::If only what both branches name counts. A way through a resource that has a Condition does not count,
  for without that resource nothing waits.
- Across stacks, CloudFormation itself knows imports only: a stack that imports a value cannot be created
  before the stack that exports it is complete, and that one cannot be deleted while the other is there. That
  the CDK CLI deploys one stack before another is an order too, but only for those who deploy by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

_SUBSTITUTION = re.compile(r"\$\{([^!}][^}]*)\}")


class Node(NamedTuple):
    """A resource of a stack; an empty logical id stands for the whole stack."""

    stack: str
    logical_id: str


class Reference(NamedTuple):
    """What an intrinsic function names: a logical id or parameter of the same template, or an export."""

    name: str
    imported: bool = False


def references(value: Any) -> frozenset[Reference]:
    """Everything that the intrinsic functions in a value are sure to name."""
    return frozenset(_references(value, certain=True))


def mentions(value: Any) -> frozenset[Reference]:
    """Everything that the intrinsic functions in a value may name, whichever branch of an Fn::If is taken."""
    return frozenset(_references(value, certain=False))


def _references(value: Any, *, certain: bool) -> Iterator[Reference]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item, certain=certain)
    elif isinstance(value, Mapping):
        if len(value) == 1:
            ((function, argument),) = value.items()
            if certain and function == "Fn::If":
                yield from references(argument[1]) & references(argument[2])
                return
            yield from _named(function, argument)
        for item in value.values():
            yield from _references(item, certain=certain)


def _named(function: str, argument: Any) -> Iterator[Reference]:
    """What one intrinsic function names itself, without its arguments' own functions."""
    if function == "Ref":
        yield Reference(argument)
    elif function == "Fn::GetAtt":
        yield Reference(argument[0] if isinstance(argument, list) else argument.partition(".")[0])
    elif function == "Fn::ImportValue" and isinstance(argument, str):
        yield Reference(argument, imported=True)
    elif function == "Fn::Sub":
        text, given = (argument, {}) if isinstance(argument, str) else argument
        names = {name.partition(".")[0] for name in _SUBSTITUTION.findall(text) if name not in given}
        yield from map(Reference, names)


@dataclass(frozen=True)
class Resource:
    """A resource of a template.

    Attributes:
        needs: Logical ids of the same stack that are complete before it is created.
        kept: Whether it stays when it leaves the template or its stack is deleted.
        conditional: Whether it may be missing.
    """

    node: Node
    type: str
    properties: Mapping[str, Any]
    needs: frozenset[str]
    imports: frozenset[str]
    kept: bool
    conditional: bool


@dataclass(frozen=True)
class Stack:
    """A stack of an assembly.

    Attributes:
        name: Its id in the assembly.
        environment: Account and region; exports are told apart by name within one.
        exports: Value by export name.
        imports: Names of the exports that it cannot do without.
        may_import: Names of all exports that it mentions.
        dependencies: Stacks that the CDK CLI deploys before it.
        metadata: File with the construct paths.
    """

    name: str
    environment: str
    resources: Mapping[str, Resource]
    exports: Mapping[str, Any]
    imports: frozenset[str]
    may_import: frozenset[str]
    dependencies: frozenset[str]
    metadata: Path | None = None

    @classmethod
    def of(
        cls,
        name: str,
        template: Mapping[str, Any],
        *,
        environment: str,
        dependencies: Iterable[str] = (),
        metadata: Path | None = None,
    ) -> Stack:
        """Read a template."""
        written = template["Resources"]
        resources = {
            logical_id: _resource(Node(name, logical_id), one, written) for logical_id, one in written.items()
        }
        outputs = [one for one in template.get("Outputs", {}).values() if "Condition" not in one]
        imports = {ref.name for ref in references([one["Value"] for one in outputs]) if ref.imported}
        for resource in resources.values():
            imports |= set() if resource.conditional else resource.imports
        return cls(
            name=name,
            environment=environment,
            resources=resources,
            exports={
                one["Export"]["Name"]: one["Value"]
                for one in outputs
                if isinstance(one.get("Export", {}).get("Name"), str)
            },
            imports=frozenset(imports),
            may_import=frozenset(
                ref.name for ref in mentions([written, template.get("Outputs")]) if ref.imported
            ),
            dependencies=frozenset(dependencies),
            metadata=metadata,
        )


@dataclass
class Assembly:
    """The stacks of a cloud assembly by name. Stages (assemblies within it) are not read."""

    stacks: Mapping[str, Stack]
    _needs: dict[Node, frozenset[str]] = field(default_factory=dict, repr=False)
    _paths: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, directory: Path) -> Assembly:
        """Read `manifest.json` and the templates of a directory.

        Raises:
            OSError: a file is missing.
            ValueError: a file is no JSON.
        """
        artifacts = json.loads((directory / "manifest.json").read_bytes())["artifacts"]
        names = {name for name, one in artifacts.items() if one["type"] == "aws:cloudformation:stack"}
        stacks = {}
        for name in sorted(names):
            artifact = artifacts[name]
            metadata = artifact.get("additionalMetadataFile")
            stacks[name] = Stack.of(
                name,
                json.loads((directory / artifact["properties"]["templateFile"]).read_bytes()),
                environment=artifact["environment"],
                dependencies=names.intersection(artifact.get("dependencies", ())),
                metadata=directory / metadata if metadata else None,
            )
        return cls(stacks)

    @cached_property
    def _exporters(self) -> dict[tuple[str, str], str]:
        return {
            (stack.environment, name): stack.name for stack in self.stacks.values() for name in stack.exports
        }

    def _exporting(self, stack: Stack, names: Iterable[str]) -> frozenset[str]:
        """Stacks that export these names to a stack."""
        keys = ((stack.environment, name) for name in names)
        return frozenset(self._exporters[key] for key in keys if key in self._exporters)

    @cached_property
    def _after(self) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
        """Stacks under each stack: by imports, and by what the CDK CLI knows as well."""
        imports = {name: self._exporting(stack, stack.imports) for name, stack in self.stacks.items()}
        both = {name: imports[name] | stack.dependencies for name, stack in self.stacks.items()}
        return _closures(imports), _closures(both)

    def resource(self, node: Node) -> Resource:
        """The resource of a node."""
        return self.stacks[node.stack].resources[node.logical_id]

    def targets(self, stack: str, value: Any) -> set[Node]:
        """Resources that a value in a stack may come from, through imports too."""
        found = set()
        for name, imported in mentions(value):
            if not imported:
                found |= {Node(stack, name)} if name in self.stacks[stack].resources else set()
            elif exporter := self._exporters.get((self.stacks[stack].environment, name)):
                found |= self.targets(exporter, self.stacks[exporter].exports[name])
        return found

    def needs(self, node: Node) -> frozenset[str]:
        """Logical ids of the same stack that are there before a resource is created and until it is gone."""
        if node not in self._needs:
            resources = self.stacks[node.stack].resources
            seen: set[str] = set()
            todo = [*resources[node.logical_id].needs]
            while todo:
                name = todo.pop()
                if name not in seen:
                    seen.add(name)
                    todo += () if resources[name].conditional else resources[name].needs
            self._needs[node] = frozenset(seen)
        return self._needs[node]

    def created_before(self, first: Node, then: Node) -> bool:
        """Whether a resource is complete before another is created, if the CDK CLI deploys the stacks."""
        if first.stack == then.stack:
            return first.logical_id in self.needs(then)
        return first.stack in self._after[1][then.stack]

    def deleted_after(self, first: Node, then: Node) -> bool:
        """Whether a resource is there until another is gone, whoever deletes what.

        `then` may be a whole stack: is the resource still there when its own stack has gone?
        """
        if self.resource(first).kept:
            return True
        if first.stack == then.stack:
            return bool(then.logical_id) and first.logical_id in self.needs(then)
        return first.stack in self._after[0][then.stack]

    def families(self) -> Iterator[Family]:
        """Stacks that have to do with each other, such as those of one cluster."""
        left = dict(self.stacks)
        near: dict[str, set[str]] = {name: set() for name in left}
        for name, stack in self.stacks.items():
            for other in self._exporting(stack, stack.may_import) | stack.dependencies:
                near[name].add(other)
                near[other].add(name)
        while left:
            group, todo = set(), [next(iter(left))]
            while todo:
                name = todo.pop()
                if name in left:
                    group.add(left.pop(name).name)
                    todo += near[name]
            yield Family(self, sorted(group))

    def construct_path(self, node: Node) -> str:
        """Where the app made a resource, such as `stack/TaskGovernance/Addon`; empty if it is not said."""
        if node.stack not in self._paths:
            file = self.stacks[node.stack].metadata
            said = json.loads(file.read_bytes()) if file is not None and file.is_file() else {}
            self._paths[node.stack] = {
                entry["data"]: path.lstrip("/")
                for path, entries in said.items()
                for entry in entries
                if entry["type"] == "aws:cdk:logicalId"
            }
        return self._paths[node.stack].get(node.logical_id, "")


class Family:
    """Some stacks of an assembly, with their resources by type."""

    def __init__(self, assembly: Assembly, stacks: Iterable[str]) -> None:
        self.assembly = assembly
        self.by_type: dict[str, list[Resource]] = {}
        for name in stacks:
            for resource in assembly.stacks[name].resources.values():
                self.by_type.setdefault(resource.type, []).append(resource)

    def of_type(self, *types: str) -> list[Resource]:
        """Resources of any of these types."""
        return [resource for each in types for resource in self.by_type.get(each, ())]

    def targets(self, resource: Resource, *path: str) -> set[Node]:
        """Resources that a property of a resource may come from; without a path, any property."""
        value: Any = resource.properties
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return self.assembly.targets(resource.node.stack, value)


def _closures(edges: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    found = {}
    for name in edges:
        seen: set[str] = set()
        todo = [*edges[name]]
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += edges[one]
        found[name] = frozenset(seen)
    return found


def _resource(node: Node, written: Mapping[str, Any], resources: Mapping[str, Any]) -> Resource:
    found = references(written.get("Properties", {}))
    depends = written.get("DependsOn", [])
    needs = {ref.name for ref in found if not ref.imported} | set(
        [depends] if isinstance(depends, str) else depends
    )
    keeps = {"Retain", "RetainExceptOnCreate"}
    return Resource(
        node=node,
        type=written["Type"],
        properties=written.get("Properties", {}),
        needs=frozenset(needs.intersection(resources)) - {node.logical_id},
        imports=frozenset(ref.name for ref in found if ref.imported),
        kept={written.get("DeletionPolicy"), written.get("UpdateReplacePolicy")} <= keeps,
        conditional="Condition" in written,
    )
