"""Custom resources for compute quotas and scheduler configs, where CloudFormation has no type for them.

The properties are those of AWS::SageMaker::ComputeQuota and AWS::SageMaker::ClusterSchedulerConfig.

`on_event` calls nothing: it names the resource and notes the time. CloudFormation forgets a resource whose
`on_event` failed, so whatever that function made would be left behind. All work is in `is_complete`, which is
asked every few seconds: each time it looks at what is there and takes one step towards what is asked. It may
die between any two calls, or be asked again after it has succeeded.

Whose a quota is, a tag says: OWNER_TAG holds the stack and the logical id. Only what carries the tag of this
very resource is ever deleted. One of the same name without owner, made in the console, is adopted.

What the service fills in by itself (memory to a number of vCPUs, a borrow limit) is not compared: only what
the properties say.
"""

import hashlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore import xform_name  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

if TYPE_CHECKING or __package__:
    from . import service_api
else:
    import service_api

OWNER_TAG = "hyperpod-fleet:resource"
"""Tag that says which resource of which stack a quota or scheduler config belongs to."""

ADOPTED_TAG = "hyperpod-fleet:adopted"
"""Tag of what was there before the stack: a rollback leaves it."""

# Seconds since the event.
_PERMISSIONS_SPREAD = 2 * 60
"""How long a denial may come of a role that is new."""
_LAST_REPAIR = 15 * 60
"""Until when what has failed is made again."""
_GIVE_UP = 50 * 60
"""CloudFormation hears nothing more after an hour; the reason must come before."""
_SETTLED = 30
"""[U] After this, a list has what an earlier call made. The service does not say how late its lists are."""

_STABLE = ("Created", "Updated")
_IN_FLIGHT = ("Creating", "Updating", "Deleting")
# What to do about each is documented: these are deleted and made again, ...
_BROKEN = ("CreateFailed", "CreateRollbackFailed", "UpdateRollbackFailed")
# ... these deleted again.
_HALF_DELETED = ("DeleteFailed", "DeleteRollbackFailed")

_VALUE_LIMIT = 256
# Characters of the service's part of a message, so that the next step is in it too.
_REASON_LIMIT = 1000
_NEXT_STEPS = {
    "ResourceLimitExceeded": "delete what is not used any more, or ask for a higher quota in Service Quotas",
    "ValidationException": "correct what it names and deploy again",
}

clock = time.time
"""Seconds since the epoch; tests have their own."""


@dataclass(frozen=True)
class Kind:
    """What differs between the two kinds.

    Args:
        title: as people say it.
        noun: as operations and their members say it.
        path: as ARNs say it.
        settings: members of its Update operation beside id and version.
    """

    title: str
    noun: str
    path: str
    settings: tuple[str, ...]


KINDS = {
    "Custom::HyperPodComputeQuota": Kind(
        title="compute quota",
        noun="ComputeQuota",
        path="compute-quota",
        settings=("ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "Description"),
    ),
    "Custom::HyperPodClusterSchedulerConfig": Kind(
        title="scheduler config",
        noun="ClusterSchedulerConfig",
        path="cluster-scheduler-config",
        settings=("SchedulerConfig", "Description"),
    ),
}


@dataclass(frozen=True)
class Identity:
    """What names one quota or scheduler config. A change of any part is a replacement.

    Args:
        cluster: id of the HyperPod cluster, the end of its ARN.
        path: of the kind.
        name: of the quota or scheduler config.
        team: empty for a scheduler config.
    """

    cluster: str
    path: str
    name: str
    team: str

    @classmethod
    def of(cls, kind: Kind, properties: Mapping[str, Any]) -> "Identity":
        """Take it from a resource's properties."""
        cluster = str(properties["ClusterArn"]).rpartition("/")[2]
        return cls(cluster, kind.path, str(properties["Name"]), _team(properties))

    @classmethod
    def parse(cls, physical_id: str) -> "Identity":
        """Take it from a physical id."""
        cluster, path, name, team = [*physical_id.split("/"), ""][:4]
        return cls(cluster, path, name, team)

    @property
    def physical_id(self) -> str:
        """What CloudFormation knows it by."""
        return "/".join(part for part in (self.cluster, self.path, self.name, self.team) if part)


@dataclass(frozen=True)
class Live:
    """A quota or scheduler config as the service has it now."""

    described: Mapping[str, Any]
    tags: Mapping[str, str]
    arn: str
    id: str
    version: int

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.described["Name"])

    @property
    def team(self) -> str:
        """Its team; empty for a scheduler config."""
        return _team(self.described)

    @property
    def status(self) -> str:
        """Its status, as the service spells it."""
        return str(self.described["Status"])

    @property
    def why(self) -> str:
        """Why it has failed, in the service's words."""
        reason = self.described.get("FailureReason") or "no reason given"
        return service_api.shorten(f"{self.status}: {reason}", _REASON_LIMIT)

    @property
    def created(self) -> float:
        """When it was made."""
        return float(self.described["CreationTime"].timestamp())

    @property
    def modified(self) -> float:
        """When it was changed last."""
        changed = self.described.get("LastModifiedTime") or self.described["CreationTime"]
        return float(changed.timestamp())

    @property
    def owner(self) -> str | None:
        """Who owns it, for people; None if nobody said.

        What somebody else's template made by CloudFormation's own types cannot be told: these put no tags of
        CloudFormation on it (registry schema, cloudFormationSystemTags). This library's templates add ours.
        """
        if OWNER_TAG not in self.tags:
            return None
        stack, _, resource = self.tags[OWNER_TAG].rpartition("/")
        return f"resource {resource} of stack {stack}"


class _Waiting(Exception):  # noqa: N818 (no error)
    """What the next poll will look for."""


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Name the resource. Nothing is called here; see the module's docstring."""
    kind = KINDS[event["ResourceType"]]
    if event["RequestType"] == "Delete":
        physical_id = event["PhysicalResourceId"]
    else:
        physical_id = Identity.of(kind, event["ResourceProperties"]).physical_id
    return {"PhysicalResourceId": physical_id, "StartedAt": clock()}


def is_complete(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Take one step towards what is asked, and say whether nothing is left to do.

    Raises:
        RuntimeError: what is asked cannot be had; with the service's reason and the next step.
    """
    poll = _Poll(event, context)
    step = "deploy again"
    try:
        return {"IsComplete": True, **poll.run()}
    except _Waiting as waiting:
        reason, limit = str(waiting), _GIVE_UP
    except (ClientError, BotoCoreError) as error:
        reason, limit = service_api.explain(error), _patience(error)
        step = _NEXT_STEPS.get(service_api.code(error), step)
    if poll.elapsed < limit:
        # The function's log is where one sees what a deployment waits for.
        print(f"{poll.subject}: {reason}")
        return {"IsComplete": False}
    waited = f" for {poll.elapsed / 60:.0f} minutes" if limit == _GIVE_UP else ""
    reason = service_api.shorten(reason, _REASON_LIMIT)
    raise RuntimeError(f"{poll.subject}{waited}: {reason}; {step}")


def _patience(error: Exception) -> int:
    if service_api.denied(error):
        return _PERMISSIONS_SPREAD
    return _GIVE_UP if service_api.transient(error) else 0


class _Service:
    """Calls about one kind, each of which ends before the function is stopped."""

    def __init__(self, kind: Kind, context: Any) -> None:
        self._noun = kind.noun
        self._context = context

    def listed(self, cluster_arn: str) -> list[dict[str, Any]]:
        """List all of the kind on a cluster.

        Not by NameContains: another quota of the team, or another scheduler config, matters as well.
        """
        return list(self._pages(f"List{self._noun}s", f"{self._noun}Summaries", ClusterArn=cluster_arn))

    def read(self, summary: Mapping[str, Any]) -> Live | None:
        """Return what a summary of a list stands for; None if it is there no more."""
        key = f"{self._noun}Id"
        try:
            described = self.call(f"Describe{self._noun}", **{key: summary[key]})
            arn = described[f"{self._noun}Arn"]
            tags = {tag["Key"]: tag["Value"] for tag in self._pages("ListTags", "Tags", ResourceArn=arn)}
        except ClientError as error:
            if service_api.code(error) == "ResourceNotFound":
                return None
            raise
        if described["Status"] == "Deleted":
            return None
        return Live(described, tags, arn, described[key], described[f"{self._noun}Version"])

    def change(self, operation: str, **request: Any) -> None:
        """Change what was there a moment ago."""
        try:
            self.call(operation, **request)
        except ClientError as error:
            if service_api.code(error) != "ResourceNotFound":
                raise
            raise _Waiting("was deleted meanwhile") from error

    def call(self, operation: str, **request: Any) -> Any:
        """Call an operation, if there is time for it."""
        # A function that is stopped in the middle fails the resource.
        if self._context.get_remaining_time_in_millis() < service_api.LONGEST_CALL * 1000:
            raise _Waiting(f"no time was left in this poll for {operation}")
        client = service_api.client("cloudformation" if operation == "DescribeStacks" else "sagemaker")
        return getattr(client, xform_name(operation))(**request)

    def _pages(self, operation: str, key: str, **request: Any) -> Iterator[dict[str, Any]]:
        answer = self.call(operation, **request)
        yield from answer.get(key, [])
        while answer.get("NextToken"):
            answer = self.call(operation, **request, NextToken=answer["NextToken"])
            yield from answer.get(key, [])


class _Poll:
    """One look at what is there, and one step."""

    def __init__(self, event: Mapping[str, Any], context: Any) -> None:
        self._event = event
        self._kind = KINDS[event["ResourceType"]]
        self._service = _Service(self._kind, context)
        self._properties: Mapping[str, Any] = event["ResourceProperties"]
        self._cluster_arn = str(self._properties["ClusterArn"])
        self._identity = Identity.parse(event["PhysicalResourceId"])
        self._owner = _owner(event["StackId"], event["LogicalResourceId"])
        self.elapsed = clock() - float(event["StartedAt"])

    @property
    def subject(self) -> str:
        """What the poll is about, for people."""
        team = f" of team {self._identity.team!r}" if self._identity.team else ""
        return f"{self._kind.title} {self._identity.name!r}{team} on cluster {self._identity.cluster}"

    def run(self) -> dict[str, Any]:
        """Take a step; what is returned goes to CloudFormation.

        Raises:
            _Waiting: more steps are left.
        """
        if self._event["RequestType"] == "Delete":
            self._remove(self._identity, self._cluster_arn)
            return {}
        live = self._reconcile()
        self._remove_leftover()
        return {"Data": {"Arn": live.arn, "Id": live.id}}

    # Create and Update.

    def _reconcile(self) -> Live:
        listed = self._service.listed(self._cluster_arn)
        wanted = self._wanted()
        live = self._choose([one for one in listed if one["Name"] == self._identity.name])
        if live is None:
            self._make_way([one for one in listed if one["Name"] != self._identity.name])
            self._service.call(f"Create{self._kind.noun}", **{**wanted, "Tags": _tag_list(self._tags())})
            raise _Waiting("create was called")
        if live.status in _IN_FLIGHT:
            raise _Waiting(f"is {live.status}")
        self._adopt(live)
        if live.status in _BROKEN + _HALF_DELETED:
            self._check_repair(live)
            self._delete(live)
            raise _Waiting(f"is made again after {live.why}")
        if live.status not in (*_STABLE, "UpdateFailed"):
            raise _Waiting(f"has the unknown status {live.status}")
        self._update(live, wanted)
        self._retag(live)
        # A create that timed out and was repeated, as long as lists did not show it, made another, which
        # lists may show as late again.
        if clock() < live.created + 2 * _SETTLED:
            raise _Waiting(f"is {live.status}; waits in case a repeated create made another")
        return live

    def _choose(self, summaries: list[dict[str, Any]]) -> Live | None:
        """Find the one to work on among those of the name.

        There may be several: a create that timed out may have been repeated before a list showed its effect.
        """
        found = [live for one in summaries if (live := self._service.read(one))]
        ours = [live for live in found if self._is_ours(live)]
        if not ours:
            return self._adoptable(found)
        if len(ours) > 1 and any(live.status in _IN_FLIGHT for live in ours):
            raise _Waiting(f"there are {len(ours)} of the name, and one of them is in change")
        right = [live for live in ours if live.team == self._identity.team]
        kept = min(right, key=lambda live: (live.status not in _STABLE, live.created, live.id), default=None)
        for extra in ours:
            if extra is not kept:
                self._discard(extra)
        if kept is None or len(ours) > 1:
            raise _Waiting("others of the name that this resource made are deleted first")
        return kept

    def _adoptable(self, found: list[Live]) -> Live | None:
        for live in sorted(found, key=lambda live: (live.created, live.id)):
            if live.status == "Deleting":
                raise _Waiting("another of the name is Deleting")
            if live.owner:
                raise self._refuse(
                    f"it belongs to {live.owner}; remove it there first, or choose another name here"
                )
            if live.team != self._identity.team:
                raise self._refuse(
                    f"a quota of this name is there for team {live.team!r}, made by hand, and a quota keeps "
                    "its team; delete it or choose another name"
                )
            return live
        return None

    def _make_way(self, others: list[dict[str, Any]]) -> None:
        """Deal with what excludes a new one: another quota of the team, another scheduler config."""
        for summary in others:
            if _team(summary) != self._identity.team:
                continue
            live = self._service.read(summary)
            if live is None:
                continue
            if self._is_ours(live):
                self._discard(live)
            elif live.status != "Deleting":
                whose = live.owner or "nobody's by its tags, so made by hand"
                holder = f"team {live.team!r}" if live.team else "the cluster"
                raise self._refuse(
                    f"{holder} has {self._kind.title} {live.name!r} already, and can have one; it is "
                    f"{whose}; delete that one there, or give this one its name"
                )
            raise _Waiting(f"{self._kind.title} {live.name!r} in its place is deleted first")

    def _adopt(self, live: Live) -> None:
        if not self._is_ours(live):
            self._service.change(
                "AddTags", ResourceArn=live.arn, Tags=_tag_list({**self._tags(), ADOPTED_TAG: "true"})
            )
            raise _Waiting("was there already and is adopted")

    def _check_repair(self, live: Live) -> None:
        if self.elapsed >= _LAST_REPAIR:
            raise self._refuse(f"{live.why}; remove the cause it names and deploy again")

    def _update(self, live: Live, wanted: Mapping[str, Any]) -> None:
        settings = {key: wanted[key] for key in self._kind.settings if key in wanted}
        before = self._settings_before()
        if "Description" in before:
            settings.setdefault("Description", "")
        # What the service puts in the place of a setting that was dropped is its own affair, and cannot be
        # compared: it is updated once.
        dropped = not _has(settings, before) and live.modified < float(self._event["StartedAt"])
        if live.status in _STABLE and not dropped and _has(live.described, settings):
            return
        if live.status == "UpdateFailed":
            self._check_repair(live)
        noun = self._kind.noun
        self._service.change(
            f"Update{noun}", **{f"{noun}Id": live.id, "TargetVersion": live.version, **settings}
        )
        raise _Waiting(f"update of version {live.version} was called")

    def _settings_before(self) -> dict[str, Any]:
        """Return what the old properties say, if they are of this one."""
        old = self._old()
        if old is None or Identity.of(self._kind, old) != self._identity:
            return {}
        try:
            before = self._typed(old)
        except ValueError:
            # In a rollback, the old is what has just been refused for this.
            return {}
        return {key: before[key] for key in self._kind.settings if key in before}

    def _retag(self, live: Live) -> None:
        wanted = self._tags()
        missing = {key: value for key, value in wanted.items() if live.tags.get(key) != value}
        gone = [key for key in _given_tags(self._old() or {}) if key in live.tags and key not in wanted]
        if missing:
            self._service.change("AddTags", ResourceArn=live.arn, Tags=_tag_list(missing))
        if gone:
            self._service.change("DeleteTags", ResourceArn=live.arn, TagKeys=sorted(gone))
        if missing or gone:
            raise _Waiting("its tags are changed")

    def _remove_leftover(self) -> None:
        """Remove in a rollback what the failed update put beside the old.

        [U] Whether CloudFormation remembers the physical id of an update that failed is not documented. If
        it does, it asks for this by a Delete, which then finds nothing.
        """
        old = self._old()
        if old is None:
            return
        other = Identity.of(self._kind, old)
        if other != self._identity and self._rolls_back():
            self._remove(other, str(old["ClusterArn"]))

    # Delete.

    def _remove(self, identity: Identity, cluster_arn: str) -> None:
        left = self._left(identity, cluster_arn)
        for live in left:
            self._discard(live)
        if left:
            state = left[0].why if left[0].status in _HALF_DELETED else left[0].status
            raise _Waiting(f"removal waits until it is gone: it is {state}")
        if self.elapsed < _SETTLED:
            raise _Waiting("removal waits in case the list is late")

    def _left(self, identity: Identity, cluster_arn: str) -> list[Live]:
        """Return all of the name and team that this resource owns; none if the cluster is gone."""
        try:
            listed = self._service.listed(cluster_arn)
        except ClientError as error:
            if self._cluster_is_gone(error, cluster_arn):
                return []
            raise
        # A quota of the name may be of another team by now: the team was changed and the name kept.
        same = [one for one in listed if one["Name"] == identity.name and _team(one) == identity.team]
        return [live for one in same if (live := self._service.read(one)) and self._is_ours(live)]

    def _cluster_is_gone(self, error: ClientError, cluster_arn: str) -> bool:
        if service_api.code(error) == "ResourceNotFound":
            return True
        if service_api.code(error) != "ValidationException":
            return False
        try:
            self._service.call("DescribeCluster", ClusterName=cluster_arn)
        except ClientError as other:
            return service_api.code(other) == "ResourceNotFound"
        return False

    def _discard(self, live: Live) -> None:
        """Delete what is ours, or release it in the rollback of what adopted it.

        A released one keeps the settings that an update gave it.
        """
        if not (ADOPTED_TAG in live.tags and self._rolls_back()):
            self._delete(live)
            return
        ours = {*_given_tags(self._properties), OWNER_TAG, ADOPTED_TAG}
        self._service.change("DeleteTags", ResourceArn=live.arn, TagKeys=sorted(ours & set(live.tags)))

    def _delete(self, live: Live) -> None:
        if live.status in _IN_FLIGHT:
            return
        self._service.change(f"Delete{self._kind.noun}", **{f"{self._kind.noun}Id": live.id})

    def _rolls_back(self) -> bool:
        stacks = self._service.call("DescribeStacks", StackName=self._event["StackId"])["Stacks"]
        return "ROLLBACK" in stacks[0]["StackStatus"]

    # What is asked, and whose it is.

    def _old(self) -> Mapping[str, Any] | None:
        """Return the old properties, if they name something: in a rollback they may not."""
        old: Mapping[str, Any] = self._event.get("OldResourceProperties") or {}
        return old if {"ClusterArn", "Name"} <= set(old) else None

    def _wanted(self) -> dict[str, Any]:
        try:
            return self._typed(self._properties)
        except ValueError as error:
            raise self._refuse(str(error)) from error

    def _typed(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of the Create call that properties have, in their types."""
        model = service_api.client().meta.service_model
        members = model.operation_model(f"Create{self._kind.noun}").input_shape.members
        return {key: _typed(properties[key], members[key]) for key in members if key in properties}

    def _tags(self) -> dict[str, str]:
        return {**_given_tags(self._properties), OWNER_TAG: self._owner}

    def _is_ours(self, live: Live) -> bool:
        return live.tags.get(OWNER_TAG) == self._owner

    def _refuse(self, why: str) -> RuntimeError:
        return RuntimeError(f"{self.subject}: {why}")


def _team(settings: Mapping[str, Any]) -> str:
    return str(settings.get("ComputeQuotaTarget", {}).get("TeamName", ""))


def _given_tags(properties: Mapping[str, Any]) -> dict[str, str]:
    return {str(tag["Key"]): str(tag["Value"]) for tag in properties.get("Tags", [])}


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def _owner(stack_id: str, logical_id: str) -> str:
    """Spell the owner as a tag's value: `<stack name>/<logical id>`.

    Without the stack's UUID: what a deployment left behind belongs to the next stack of its name, of which
    there can only be one at a time.
    """
    stack = stack_id.partition(":stack/")[2].partition("/")[0]
    value = f"{stack}/{logical_id}"
    if len(value) <= _VALUE_LIMIT:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:16]
    return f"{value[: _VALUE_LIMIT - 17]}-{digest}"


def _typed(value: Any, shape: Any) -> Any:
    """Give a property the types of the API: CloudFormation makes strings of numbers in custom resources.

    Raises:
        ValueError: a text where a number belongs.
    """
    match shape.type_name:
        case "structure" if isinstance(value, Mapping):
            members = shape.members
            return {
                key: _typed(item, members[key]) if key in members else item for key, item in value.items()
            }
        case "list" if isinstance(value, list):
            return [_typed(item, shape.member) for item in value]
        case "integer" | "long" | "float" | "double":
            return _number(value, whole=shape.type_name in ("integer", "long"))
        case "string":
            return str(value)
    return value


def _number(value: Any, *, whole: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is no number; correct the property") from error
    return int(number) if whole and number.is_integer() else number


def _has(live: Any, wanted: Any) -> bool:
    """Whether live says all that wanted says; lists have the same items in any order."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(_has(live.get(key), wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        left = list(live or [])
        # The item that says most first: one that says less could take its place.
        for item in sorted(wanted, key=len, reverse=True):
            match = next((other for other in left if _has(other, item)), None)
            if match is None:
                return False
            left.remove(match)
        return not left
    if isinstance(wanted, float | int) and isinstance(live, float | int):
        # The service keeps some amounts in 32 bits.
        return math.isclose(live, wanted, rel_tol=1e-6)
    return (live or "") == wanted if wanted == "" else bool(live == wanted)
