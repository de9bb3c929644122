"""CloudFormation as its documentation describes it, in memory and strict.

It knows the resource types that it is given and no others: a template with another type is refused. It
creates in an order that the template's dependencies allow, chosen at random from a seed, one resource at a
time. An update touches what changed, makes replacements before it deletes what they replace (or after, where
the type's schema says so), and deletes last. A failure rolls back. What this does not have: changes at the
same time within a stack, nested stacks, stack policies, transforms, drift.
"""

import copy
import random
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from tests.smoke import template as templates
from tests.smoke.template import Json, Resolver, Template, TemplateError, Values

ACCOUNT = "123456789012"


class ValidationError(Exception):
    """A request that CloudFormation refuses before it does anything."""

    def __init__(self, message: str, code: str = "ValidationError") -> None:
        super().__init__(message)
        self.code = code


class ResourceError(Exception):
    """A resource could not be created, changed or deleted.

    Args:
        reason: for the event.
        physical_id: of what a failed creation left, which a rollback then deletes.
    """

    def __init__(self, reason: str, physical_id: str | None = None) -> None:
        super().__init__(reason)
        self.physical_id = physical_id


@dataclass(frozen=True)
class Request:
    """What CloudFormation tells the code of a resource type."""

    stack_name: str
    stack_id: str
    region: str
    logical_id: str
    type: str
    properties: dict[str, Json]


@dataclass(frozen=True)
class Made:
    """What the code of a resource type gives back.

    Args:
        physical_id: the resource's id. A new one after an update: the old resource is deleted later.
        ref: what Ref gives.
        attributes: what Fn::GetAtt gives.
    """

    physical_id: str
    ref: str
    attributes: Mapping[str, Json] = field(default_factory=dict)


class ResourceType(Protocol):
    """The code of a resource type; each method raises ResourceError."""

    @property
    def delete_before_create(self) -> bool:
        """Whether a replacement deletes the old resource first."""

    def replaces(self, old: Mapping[str, Json], new: Mapping[str, Json]) -> bool:
        """Whether a change of properties needs another resource."""

    def create(self, request: Request) -> Made:
        """Create a resource."""

    def update(self, request: Request, old: Mapping[str, Json], made: Made) -> Made:
        """Change a resource."""

    def delete(self, request: Request, made: Made) -> None:
        """Delete a resource; one that is gone is no failure."""


@dataclass(frozen=True)
class Resource:
    """A resource of a stack that exists."""

    request: Request
    definition: Mapping[str, Json]
    made: Made


@dataclass(frozen=True)
class Event:
    """A stack event."""

    stack_name: str
    stack_id: str
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str
    at: datetime
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class Stack:
    """A stack."""

    name: str
    id: str
    region: str
    status: str
    created: datetime
    reason: str = ""
    template: Template = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    exports: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)


class Region:
    """The stacks of one account in one region.

    Args:
        name: of the region.
        types: code of each resource type.
        parameter_values: values of SSM parameters, for template parameters of that type.
        seed: of the order among what may happen in any order.

    Attributes:
        stacks: those that exist, by name.
        events: of all stacks that ever existed.
        kept: resources that were left when their stack let go of them, as their policy said.
        left: resources that a clean-up could not delete; CloudFormation knows them no longer.
    """

    def __init__(
        self,
        name: str,
        types: Mapping[str, ResourceType],
        parameter_values: Mapping[str, str],
        seed: int = 0,
    ) -> None:
        self.name = name
        self.types = dict(types)
        self.parameter_values = parameter_values
        self.stacks: dict[str, Stack] = {}
        self.events: list[Event] = []
        self.kept: list[Resource] = []
        self.left: list[Resource] = []
        self.random = random.Random(seed)

    def stack(self, name: str) -> Stack:
        """Give a stack by name or id."""
        for stack in self.stacks.values():
            if name in {stack.name, stack.id}:
                return stack
        raise ValidationError(f"Stack with id {name} does not exist")

    def begin(self, name: str, status: str) -> Stack:
        """Make a stack without resources."""
        stack_id = f"arn:aws:cloudformation:{self.name}:{ACCOUNT}:stack/{name}/{uuid.uuid4()}"
        stack = Stack(name, stack_id, self.name, status, datetime.now(UTC))
        self.stacks[name] = stack
        return stack

    def deploy(
        self, stack: Stack, template: Template, parameters: Mapping[str, str], tags: Mapping[str, str]
    ) -> None:
        """Create the stack's resources, or change them; afterwards its status says how that ended."""
        Deployment(self, stack, template, dict(parameters), dict(tags)).run()

    def delete(self, stack: Stack) -> None:
        """Delete a stack's resources in the reverse order, and the stack if nothing failed."""
        Deletion(self, stack).run()

    def importers(self, exports: Iterable[str]) -> set[tuple[str, str]]:
        """Give the given exports that are in use, each with a stack that uses it."""
        return {
            (export, other.name)
            for export in exports
            for other in self.stacks.values()
            if export in other.imports
        }

    def exported(self, name: str) -> str:
        """Give the value of an export of any stack."""
        for stack in self.stacks.values():
            if name in stack.exports:
                return stack.exports[name]
        raise TemplateError(f"No export named {name} found.")

    def validate(self, template: Template) -> None:
        """Refuse a template before anything is touched."""
        try:
            templates.check(template)
        except TemplateError as error:
            raise ValidationError(f"Template error: {error}") from error
        types = {resource["Type"] for resource in template["Resources"].values()}
        if unknown := sorted(types - set(self.types)):
            raise ValidationError(
                f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]"
            )


class _Work:
    """What an operation on a stack needs: events, and the code of resource types."""

    def __init__(self, region: Region, stack: Stack) -> None:
        self.region = region
        self.stack = stack

    def say(self, logical_id: str, physical_id: str, kind: str, status: str, reason: str = "") -> None:
        stack = self.stack
        event = Event(stack.name, stack.id, logical_id, physical_id, kind, status, reason, datetime.now(UTC))
        stack.events.append(event)
        self.region.events.append(event)

    def turn(self, status: str, reason: str = "") -> None:
        """Put the stack into a state."""
        self.stack.status = status
        self.stack.reason = reason
        self.say(self.stack.name, self.stack.id, "AWS::CloudFormation::Stack", status, reason)

    def say_of(self, resource: Resource, status: str, reason: str = "") -> None:
        request = resource.request
        self.say(request.logical_id, resource.made.physical_id, request.type, status, reason)

    def code(self, resource: Resource) -> ResourceType:
        return self.region.types[resource.request.type]

    def remove(self, resource: Resource) -> bool:
        """Delete a resource; False and an event if it cannot be."""
        self.say_of(resource, "DELETE_IN_PROGRESS")
        try:
            self.code(resource).delete(resource.request, resource.made)
        except ResourceError as failure:
            self.say_of(resource, "DELETE_FAILED", str(failure))
            return False
        self.say_of(resource, "DELETE_COMPLETE")
        return True

    def keep(self, resource: Resource) -> None:
        self.say_of(resource, "DELETE_SKIPPED")
        self.region.kept.append(resource)

    def any_of(self, ready: Iterable[str]) -> str:
        return self.region.random.choice(sorted(ready))


class Deletion(_Work):
    """The deletion of a stack."""

    def run(self) -> None:
        if used := sorted(self.region.importers(self.stack.exports)):
            # The stack's state does not change, and no call fails: an event says why.
            reason = f"Delete canceled. Cannot delete export {used[0][0]} as it is in use by {used[0][1]}."
            self.turn(self.stack.status, reason)
            return
        if self.stack.template:
            self.turn("DELETE_IN_PROGRESS")
        failed = self.remove_all()
        if failed:
            names = ", ".join(sorted(failed))
            self.turn("DELETE_FAILED", f"The following resource(s) failed to delete: [{names}]. ")
            return
        self.turn("DELETE_COMPLETE")
        del self.region.stacks[self.stack.name]

    def remove_all(self, *, created_now: bool = False) -> set[str]:
        """Delete all resources, each after those that depend on it; give those that failed."""
        graph = templates.dependencies(self.stack.template)
        failed = set[str]()
        while left := set(self.stack.resources) - failed:
            blocked = {it for key in self.stack.resources for it in graph[key]}
            ready = left - blocked
            if not ready:
                break
            logical_id = self.any_of(ready)
            resource = self.stack.resources[logical_id]
            policy = resource.definition.get("DeletionPolicy", "Delete")
            if policy == "Retain" or (policy == "RetainExceptOnCreate" and not created_now):
                self.keep(resource)
            elif not self.remove(resource):
                failed.add(logical_id)
                continue
            del self.stack.resources[logical_id]
        return failed


@dataclass(frozen=True)
class _Change:
    """What has been done to a logical id.

    Args:
        old: the resource before; None: there was none.
        new: the resource that was made or changed, perhaps in part; None: there is none.
        replaced: whether the two are different resources by the type's schema.
        gone: whether the old one has been deleted already.
    """

    old: Resource | None
    new: Resource | None
    replaced: bool = False
    gone: bool = False


class Deployment(_Work):
    """The creation or update of a stack."""

    def __init__(
        self,
        region: Region,
        stack: Stack,
        template: Template,
        parameters: dict[str, str],
        tags: dict[str, str],
    ) -> None:
        super().__init__(region, stack)
        self.resolve = self._resolver(template, parameters)
        _check_rules(template, self.resolve)
        self.creates = not stack.template
        self.before = copy.copy(stack)
        stack.template, stack.parameters, stack.tags = template, parameters, tags
        self.imports = set[str]()
        self.changes: dict[str, _Change] = {}

    def _resolver(self, template: Template, parameters: Mapping[str, str]) -> Resolver:
        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": self.region.name,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": self.stack.name,
            "AWS::StackId": self.stack.id,
        }
        return Resolver(
            Values(
                pseudo=pseudo,
                parameters=self._parameters(template, parameters),
                conditions=template.get("Conditions", {}),
                ref=lambda logical_id: self._resource(logical_id).made.ref,
                attribute=self._attribute,
                imported=self._import,
            )
        )

    def _parameters(self, template: Template, parameters: Mapping[str, str]) -> dict[str, str]:
        values = {}
        for name, declared in template.get("Parameters", {}).items():
            given = parameters.get(name, declared.get("Default"))
            if given is None:
                raise ValidationError(f"Parameters: [{name}] must have values")
            if declared["Type"] == "AWS::SSM::Parameter::Value<String>":
                if given not in self.region.parameter_values:
                    raise ValidationError(f"Unable to fetch parameters [{given}] from parameter store")
                given = self.region.parameter_values[given]
            elif declared["Type"] != "String":
                raise ValidationError(f"parameters of type {declared['Type']} are not understood here")
            values[name] = given
        return values

    def _resource(self, logical_id: str) -> Resource:
        if logical_id not in self.stack.resources:
            raise TemplateError(f"{logical_id} is referred to and does not exist")
        return self.stack.resources[logical_id]

    def _attribute(self, logical_id: str, name: str) -> Json:
        resource = self._resource(logical_id)
        if name not in resource.made.attributes:
            raise TemplateError(f"{logical_id} ({resource.request.type}) has no attribute {name}")
        return resource.made.attributes[name]

    def _import(self, name: str) -> str:
        value = self.region.exported(name)
        self.imports.add(name)
        return value

    def run(self) -> None:
        """Carry it out."""
        verb = "CREATE" if self.creates else "UPDATE"
        self.turn(f"{verb}_IN_PROGRESS", "User Initiated")
        self.before.resources = dict(self.stack.resources)
        try:
            self._forward()
            self._give_outputs()
        except (ResourceError, TemplateError) as failure:
            if self.creates:
                self._roll_back_creation(failure)
            else:
                self._roll_back_update(failure)
            return
        if not self.creates:
            self.turn("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            old = {key: change.old for key, change in self.changes.items() if not change.gone}
            self._clean_up(old, self.before.template, keeping={"Retain", "RetainExceptOnCreate"})
        self.turn(f"{verb}_COMPLETE")

    # Forward.

    def _forward(self) -> None:
        definitions = self.stack.template["Resources"]
        graph = templates.dependencies(self.stack.template)
        wanted = {
            key
            for key, definition in definitions.items()
            if "Condition" not in definition or self.resolve.condition(definition["Condition"])
        }
        done = set(graph) - wanted
        while left := wanted - done:
            logical_id = self.any_of(key for key in left if graph[key] <= done)
            self._bring_about(logical_id, definitions[logical_id])
            done.add(logical_id)
        for logical_id in set(self.stack.resources) - wanted:
            self._note(logical_id, _Change(self.stack.resources[logical_id], None))

    def _bring_about(self, logical_id: str, definition: Mapping[str, Json]) -> None:
        stack = self.stack
        properties = self.resolve(copy.deepcopy(definition.get("Properties", {})))
        request = Request(stack.name, stack.id, stack.region, logical_id, definition["Type"], properties)
        old = stack.resources.get(logical_id)
        if old is None:
            self._create(request, definition, _Change(None, None))
        elif old.request.type != request.type:
            reason = f"Update of resource type is not permitted. The new template modifies [{logical_id}]"
            raise ResourceError(reason)
        elif old.request.properties == properties:
            stack.resources[logical_id] = replace(old, definition=definition)
        elif self.code(old).replaces(old.request.properties, properties):
            self._replace(request, definition, old)
        else:
            self._update(request, definition, old)

    def _create(self, request: Request, definition: Mapping[str, Json], change: _Change) -> None:
        self.say(request.logical_id, "", request.type, "CREATE_IN_PROGRESS")
        try:
            made = self.region.types[request.type].create(request)
        except ResourceError as failure:
            physical_id = failure.physical_id or ""
            remains = Resource(request, definition, Made(physical_id, physical_id)) if physical_id else None
            self._note(request.logical_id, replace(change, new=remains))
            self.say(request.logical_id, physical_id, request.type, "CREATE_FAILED", str(failure))
            raise
        resource = Resource(request, definition, made)
        self._note(request.logical_id, replace(change, new=resource))
        self.say_of(resource, "CREATE_COMPLETE")

    def _replace(self, request: Request, definition: Mapping[str, Json], old: Resource) -> None:
        self.say_of(old, "UPDATE_IN_PROGRESS", "Requested update requires the creation of a new resource")
        gone = self.code(old).delete_before_create
        if gone and not self.remove(old):
            raise ResourceError(f"{request.logical_id} could not be deleted for its replacement")
        self._create(request, definition, _Change(old, None, replaced=True, gone=gone))

    def _update(self, request: Request, definition: Mapping[str, Json], old: Resource) -> None:
        self.say_of(old, "UPDATE_IN_PROGRESS")
        try:
            made = self.code(old).update(request, old.request.properties, old.made)
        except ResourceError as failure:
            # It may have changed something: a rollback changes it back.
            self._note(request.logical_id, _Change(old, Resource(request, definition, old.made)))
            self.say_of(old, "UPDATE_FAILED", str(failure))
            raise
        resource = Resource(request, definition, made)
        self._note(request.logical_id, _Change(old, resource))
        self.say_of(resource, "UPDATE_COMPLETE")

    def _note(self, logical_id: str, change: _Change) -> None:
        self.changes[logical_id] = change
        if change.new is not None:
            self.stack.resources[logical_id] = change.new
        else:
            self.stack.resources.pop(logical_id, None)

    def _give_outputs(self) -> None:
        outputs, exports = {}, {}
        for name, declared in self.stack.template.get("Outputs", {}).items():
            if "Condition" in declared and not self.resolve.condition(declared["Condition"]):
                continue
            outputs[name] = str(self.resolve(declared["Value"]))
            if "Export" in declared:
                exports[self.resolve(declared["Export"]["Name"])] = outputs[name]
        others = {key for it in self.region.stacks.values() if it is not self.stack for key in it.exports}
        if twice := sorted(others & set(exports)):
            raise TemplateError(f"Export with name {twice[0]} is already exported")
        lost = {key for key, value in self.stack.exports.items() if exports.get(key) != value}
        if used := sorted(self.region.importers(lost)):
            what = "update" if used[0][0] in exports else "delete"
            raise TemplateError(f"Cannot {what} export {used[0][0]} as it is in use by {used[0][1]}")
        self.stack.outputs, self.stack.exports, self.stack.imports = outputs, exports, self.imports

    # Back.

    def _roll_back_creation(self, failure: Exception) -> None:
        self.turn("ROLLBACK_IN_PROGRESS", f"{failure} Rollback requested by user.")
        failed = Deletion(self.region, self.stack).remove_all(created_now=True)
        self.turn("ROLLBACK_FAILED" if failed else "ROLLBACK_COMPLETE")

    def _roll_back_update(self, failure: Exception) -> None:
        self.turn("UPDATE_ROLLBACK_IN_PROGRESS", str(failure))
        stack, before, after = self.stack, self.before, self.stack.template
        self.resolve = self._resolver(before.template, before.parameters)
        graph = templates.dependencies(before.template)
        done = set(graph) - set(before.resources)
        while left := set(before.resources) - done:
            logical_id = self.any_of(key for key in left if graph[key] <= done)
            try:
                self._change_back(before.resources[logical_id], self.changes.get(logical_id))
            except ResourceError as another:
                self.turn("UPDATE_ROLLBACK_FAILED", str(another))
                return
            done.add(logical_id)
        stack.template, stack.parameters, stack.tags = before.template, before.parameters, before.tags
        for logical_id, change in self.changes.items():
            if change.old is None:
                stack.resources.pop(logical_id, None)
        self.turn("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        new = {key: change.new for key, change in self.changes.items() if not change.gone}
        self._clean_up(new, after, keeping={"Retain"})
        self.turn("UPDATE_ROLLBACK_COMPLETE")

    def _change_back(self, old: Resource, change: _Change | None) -> None:
        """Bring a resource back to what it was; what it refers to may have been made anew."""
        properties = self.resolve(copy.deepcopy(old.definition.get("Properties", {})))
        request = replace(old.request, properties=properties)
        if change is not None and change.gone:
            if change.new is not None and not self.remove(change.new):
                raise ResourceError(f"{request.logical_id} could not be deleted for what it replaced")
            made = self.code(old).create(request)
        else:
            new = change.new if change and change.new and not change.replaced else old
            made = new.made
            if new.request.properties != properties:
                made = self._update_back(request, new)
        self.stack.resources[request.logical_id] = Resource(request, old.definition, made)
        if change is not None:
            self.say_of(self.stack.resources[request.logical_id], "UPDATE_COMPLETE")

    def _update_back(self, request: Request, new: Resource) -> Made:
        self.say_of(new, "UPDATE_IN_PROGRESS")
        try:
            return self.code(new).update(request, new.request.properties, new.made)
        except ResourceError as failure:
            self.say_of(new, "UPDATE_FAILED", str(failure))
            raise

    def _clean_up(
        self, candidates: Mapping[str, Resource | None], template: Template, keeping: set[str]
    ) -> None:
        """Delete those that the stack does not have any more, dependents first.

        CloudFormation tries thrice and then forgets what it could not delete.
        """
        ids = {key: it.made.physical_id for key, it in self.stack.resources.items()}
        waste = {key: it for key, it in candidates.items() if it and ids.get(key) != it.made.physical_id}
        graph = templates.dependencies(template)
        while waste:
            blocked = {it for key in waste for it in graph[key]}
            logical_id = self.any_of(set(waste) - blocked)
            resource = waste.pop(logical_id)
            policy = "UpdateReplacePolicy" if logical_id in ids else "DeletionPolicy"
            if resource.definition.get(policy, "Delete") in keeping:
                self.keep(resource)
            elif not any(self.remove(resource) for _ in range(3)):
                self.region.left.append(resource)


def _check_rules(template: Template, resolve: Resolver) -> None:
    for name, rule in template.get("Rules", {}).items():
        for assertion in rule["Assertions"]:
            if not resolve(assertion["Assert"]):
                raise ValidationError(f"Rule {name}: {assertion.get('AssertDescription', '')}")
