"""CloudFormation's operations that the CDK CLI and the handlers call."""

import contextlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.constructs.fake_sagemaker import ServiceError
from tests.smoke.cloudformation import ACCOUNT, Event, Region, Stack, ValidationError
from tests.smoke.endpoint import Caller, Operation
from tests.smoke.template import Template

Json = Any
Fields = dict[str, Json]

NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)


@dataclass
class ChangeSet:
    """What a stack is to become."""

    id: str
    name: str
    stack: Stack
    template: Template
    parameters: dict[str, str]
    tags: dict[str, str]
    changes: list[Fields]
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    def describe(self) -> Fields:
        status = {"Status": "CREATE_COMPLETE", "ExecutionStatus": "AVAILABLE"}
        if not self.changes:
            status = {"Status": "FAILED", "StatusReason": NO_CHANGES, "ExecutionStatus": "UNAVAILABLE"}
        return {
            "ChangeSetId": self.id,
            "ChangeSetName": self.name,
            "StackId": self.stack.id,
            "StackName": self.stack.name,
            "CreationTime": self.created,
            "Changes": self.changes,
            **status,
        }


class CloudFormationApi:
    """The operations, over regions.

    Args:
        region: gives a region by name.
        read: gives the text at a template URL.
    """

    def __init__(self, region: Callable[[str], Region], read: Callable[[str], str]) -> None:
        self._region = region
        self._read = read
        self._change_sets: dict[str, ChangeSet] = {}

    def operations(self) -> dict[str, Operation]:
        """Give the operations by name."""
        known = {
            "CreateChangeSet": self._create_change_set,
            "DeleteChangeSet": self._delete_change_set,
            "DeleteStack": self._delete_stack,
            "DescribeChangeSet": self._describe_change_set,
            "DescribeStackEvents": self._describe_stack_events,
            "DescribeStackResources": self._describe_stack_resources,
            "DescribeStacks": self._describe_stacks,
            "ExecuteChangeSet": self._execute_change_set,
            "GetTemplate": self._get_template,
            "ListStackResources": self._list_stack_resources,
        }
        return {name: self._guard(operation) for name, operation in known.items()}

    def _guard(self, operation: Callable[[Region, Fields], Fields]) -> Operation:
        def guarded(caller: Caller, request: Fields) -> Fields:
            try:
                return operation(self._region(caller.region), request)
            except ValidationError as error:
                raise ServiceError(error.code, str(error)) from error

        return guarded

    def _create_change_set(self, region: Region, request: Fields) -> Fields:
        name, kind = request["StackName"], request.get("ChangeSetType", "UPDATE")
        template = json.loads(request.get("TemplateBody") or self._read(request["TemplateURL"]))
        region.validate(template)
        if kind == "CREATE" and name not in region.stacks:
            stack = region.begin(name, "REVIEW_IN_PROGRESS")
        else:
            stack = region.stack(name)
            may = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
            may |= {"REVIEW_IN_PROGRESS"} if kind == "CREATE" else set()
            if stack.status not in may:
                raise ValidationError(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        given = {
            it["ParameterKey"]: stack.parameters[it["ParameterKey"]]
            if it.get("UsePreviousValue")
            else it["ParameterValue"]
            for it in request.get("Parameters", [])
        }
        tags = {it["Key"]: it["Value"] for it in request.get("Tags", [])}
        changes = _changes(stack, template)
        if not changes and (tags != stack.tags or template != stack.template):
            changes = [{"Type": "Resource"}]
        change_set = request["ChangeSetName"]
        identity = f"arn:aws:cloudformation:{region.name}:{ACCOUNT}:changeSet/{change_set}/{uuid.uuid4()}"
        made = ChangeSet(identity, change_set, stack, template, given, tags, changes)
        self._change_sets[identity] = made
        return {"Id": identity, "StackId": stack.id}

    def _change_set(self, request: Fields) -> ChangeSet:
        wanted, stack = request["ChangeSetName"], request.get("StackName")
        for made in reversed(self._change_sets.values()):
            if wanted == made.id or (wanted == made.name and stack in {made.stack.name, made.stack.id}):
                return made
        raise ValidationError(f"ChangeSet [{wanted}] does not exist", "ChangeSetNotFound")

    def _describe_change_set(self, _region: Region, request: Fields) -> Fields:
        return self._change_set(request).describe()

    def _delete_change_set(self, _region: Region, request: Fields) -> Fields:
        with contextlib.suppress(ValidationError):
            del self._change_sets[self._change_set(request).id]
        return {}

    def _execute_change_set(self, region: Region, request: Fields) -> Fields:
        """Carry a change set out, to its end: who asks next finds it done."""
        made = self._change_set(request)
        del self._change_sets[made.id]
        region.deploy(made.stack, made.template, made.parameters, made.tags)
        return {}

    def _delete_stack(self, region: Region, request: Fields) -> Fields:
        """Delete a stack, to the end; one that does not exist is no error."""
        try:
            stack = region.stack(request["StackName"])
        except ValidationError:
            return {}
        region.delete(stack)
        return {}

    def _describe_stacks(self, region: Region, request: Fields) -> Fields:
        if "StackName" in request:
            return {"Stacks": [_described(region.stack(request["StackName"]))]}
        return {"Stacks": [_described(stack) for stack in region.stacks.values()]}

    def _describe_stack_events(self, region: Region, request: Fields) -> Fields:
        name = request["StackName"]
        events = [event for event in region.events if name in {event.stack_name, event.stack_id}]
        if not events:
            raise ValidationError(f"Stack [{name}] does not exist")
        return {"StackEvents": [_event(event) for event in reversed(events)]}

    def _describe_stack_resources(self, region: Region, request: Fields) -> Fields:
        stack = region.stack(request["StackName"])
        return {"StackResources": [{**it, "Timestamp": stack.created} for it in _resources(stack)]}

    def _list_stack_resources(self, region: Region, request: Fields) -> Fields:
        stack = region.stack(request["StackName"])
        listed = [{**it, "LastUpdatedTimestamp": stack.created} for it in _resources(stack)]
        return {"StackResourceSummaries": listed}

    def _get_template(self, region: Region, request: Fields) -> Fields:
        return {"TemplateBody": json.dumps(region.stack(request["StackName"]).template)}


def _changes(stack: Stack, template: Template) -> list[Fields]:
    """What differs between two templates; what differs only by value is found when it is carried out."""
    before: Mapping[str, Json] = stack.template.get("Resources", {})
    after: Mapping[str, Json] = template["Resources"]
    actions = {
        **{key: "Add" for key in after if key not in before},
        **{key: "Modify" for key in after if key in before and after[key] != before[key]},
        **{key: "Remove" for key in before if key not in after},
    }
    return [
        {
            "Type": "Resource",
            "ResourceChange": {
                "Action": action,
                "LogicalResourceId": key,
                "ResourceType": (after.get(key) or before[key])["Type"],
            },
        }
        for key, action in sorted(actions.items())
    ]


def _described(stack: Stack) -> Fields:
    described = {
        "StackName": stack.name,
        "StackId": stack.id,
        "CreationTime": stack.created,
        "StackStatus": stack.status,
        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in sorted(stack.outputs.items())],
        "Tags": [{"Key": key, "Value": value} for key, value in sorted(stack.tags.items())],
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": value} for key, value in sorted(stack.parameters.items())
        ],
    }
    return described | ({"StackStatusReason": stack.reason} if stack.reason else {})


def _event(event: Event) -> Fields:
    described = {
        "StackId": event.stack_id,
        "EventId": event.id,
        "StackName": event.stack_name,
        "LogicalResourceId": event.logical_id,
        "PhysicalResourceId": event.physical_id,
        "ResourceType": event.type,
        "Timestamp": event.at,
        "ResourceStatus": event.status,
    }
    return described | ({"ResourceStatusReason": event.reason} if event.reason else {})


def _resources(stack: Stack) -> list[Fields]:
    return [
        {
            "LogicalResourceId": key,
            "PhysicalResourceId": resource.made.physical_id,
            "ResourceType": resource.request.type,
            "ResourceStatus": "CREATE_COMPLETE",
        }
        for key, resource in sorted(stack.resources.items())
    ]
