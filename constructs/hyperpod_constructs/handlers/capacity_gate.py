"""Watch whether a HyperPod cluster gets the instances that were asked for, and tell CloudFormation.

A state machine calls `poll` once a minute with what it returned the minute before; `start` is the custom
resource that starts the machine, `give_up` the machine's last resort. What is watched ("a watch"):

    cluster            name of the cluster
    stack              name of its CloudFormation stack, for advice
    group              name of an instance group; absent: the cluster's first node
    waitFor            "minimum", "target" or "node"
    instanceCount      as declared
    minInstanceCount   as declared; absent if it is not
    url                of the wait condition's handle, to which success or failure is sent
    timeoutMinutes     until the watch itself gives up
    startedAt          when it began
    seen               what earlier polls saw: since when a failure, the last counts, the most instances

Two things make this less simple than a comparison. HyperPod does not say that it missed a minimum: after 3
hours it puts the old counts back, or zero for a new group, and the group is InService again. And a read just
after a change may give the state from before it. So each bad state has to persist for some time to count.
"""

import hashlib
import json
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

if TYPE_CHECKING or __package__:
    from . import service_api
else:
    import service_api

Watch = dict[str, Any]

# [U] How long DescribeCluster may give the state from before an update is not documented. Five minutes are
# little against the three hours of HyperPod's own timer, and much for a service's replicas.
GRACE = timedelta(minutes=5)
# A state that HyperPod does not leave by itself: seen by two polls, which are a minute apart.
CONFIRM = timedelta(seconds=30)
# IAM documents no bound for its propagation either; the policy is created minutes before the first poll.
DENIAL = timedelta(minutes=2)
# Polls that a failure waits for its events, where these cannot be read for a passing reason.
EVENT_TRIES = 3
# Newest events that are asked for their failure message: each is one call.
EVENTS_READ = 10
# CloudFormation cuts the reason of an event at about a thousand characters, of which its own words take some.
REASON_LIMIT = 900
SIGNAL_TRIES = 5
START_TRIES = 6

# [F] HyperPod warns so of each instance that leaves, which while a group changes size is no failure.
_NOISE = "lost orchestration-ready"


@dataclass(frozen=True)
class Verdict:
    """What one look at the cluster means.

    Args:
        kind: "reached", "waiting", "unknown" (nothing was learned), or the name of a failure.
        what: the state in words.
        advice: what to do about a failure.
        patience: how long a failure must persist before it counts.
    """

    kind: str
    what: str
    advice: str = ""
    patience: timedelta = timedelta()


def poll(watch: Watch, _context: object) -> Watch:
    """Look once; when the outcome is known, tell CloudFormation.

    Returns:
        The watch for the next poll, with `done`, `reached` and `progress`, one line that is printed too.
    """
    watch = {**watch, "seen": dict(watch.get("seen") or {}), "done": False, "reached": False}
    verdict = _look(watch)
    if verdict.kind == "reached":
        _signal(watch, "SUCCESS", _counts(watch))
        return _answer(watch, "reached", done=True, reached=True)
    failure = _failure(watch, verdict)
    if failure is None:
        sure = f"; a failure if still so after {_span(verdict.patience)}" if verdict.patience else ""
        return _answer(watch, f"{verdict.what}{sure}")
    reason = _reason(watch, failure)
    if reason is None:
        return _answer(watch, f"{failure.what}; its events will be asked for again")
    _signal(watch, "FAILURE", reason)
    return _answer(watch, f"failed: {reason}", done=True)


def give_up(watch: Watch, _context: object) -> None:
    """Fail the wait condition because `poll` failed again and again."""
    watch = {**watch, "seen": watch.get("seen") or {}}
    error = watch.get("error", {})
    cause = service_api.shorten(f"{error.get('Error', '')} {error.get('Cause', '')}".strip(), 400)
    failure = Verdict("broken", f"The watch itself failed: {cause}", "deploy again")
    reason = _text(watch, failure, "")
    print(f"{_label(watch)}: failed: {reason}", flush=True)
    _signal(watch, "FAILURE", reason)


def start(event: dict[str, Any], _context: object) -> dict[str, str]:
    """Custom resource: start the state machine on creation, stop it on deletion.

    The execution's name is a hash of its input, in which the handle's URL occurs once in the world. So a
    repeated request finds the execution that the first one started. If its Delete never comes, nothing
    leaks: the execution ends by itself, at the latest at its timeout.
    """
    kind, properties = event["RequestType"], event["ResourceProperties"]
    client = service_api.client("stepfunctions")
    if kind == "Create":
        return {"PhysicalResourceId": _start(client, properties["StateMachineArn"], properties["Input"])}
    execution = event["PhysicalResourceId"]
    if kind == "Delete":
        try:
            client.stop_execution(executionArn=execution, cause="The wait condition is deleted.")
        except ClientError as error:
            # An id that is no execution's is CloudFormation's own, for a creation that failed.
            if service_api.code(error) not in {"ExecutionDoesNotExist", "InvalidArn", "ValidationException"}:
                raise RuntimeError(service_api.explain(error, "states")) from error
    return {"PhysicalResourceId": execution}


def _start(client: Any, machine: str, document: str) -> str:
    name = hashlib.sha256(document.encode()).hexdigest()[:32]
    for left in reversed(range(START_TRIES)):
        try:
            started = client.start_execution(stateMachineArn=machine, name=name, input=document)
            return str(started["executionArn"])
        except (BotoCoreError, ClientError) as error:
            if service_api.code(error) == "ExecutionAlreadyExists":
                return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"
            # The role may be seconds old.
            if not left or not (service_api.transient(error) or service_api.denied(error)):
                raise RuntimeError(service_api.explain(error, "states")) from error
        _sleep(10)
    raise AssertionError("unreachable")


def _look(watch: Watch) -> Verdict:
    """Read the cluster, and judge what was read or that it could not be."""
    try:
        cluster = service_api.client().describe_cluster(ClusterName=watch["cluster"])
        if watch["waitFor"] == "node":
            return _judge_cluster(watch, cluster) or _judge_nodes(watch, cluster)
        return _judge_cluster(watch, cluster) or _judge_group(watch, cluster)
    except (BotoCoreError, ClientError) as error:
        return _judge_error(watch, error)


def _judge_error(watch: Watch, error: Exception) -> Verdict:
    said = service_api.shorten(service_api.explain(error), 400)
    if service_api.code(error) == "ResourceNotFound":
        what = f"Cluster {watch['cluster']} does not exist"
        return Verdict("no cluster", what, _bring_back(watch), GRACE)
    if service_api.transient(error):
        return Verdict("unknown", f"The cluster could not be read: {said}", "deploy again")
    if service_api.denied(error):
        return Verdict("denied", f"The cluster could not be read: {said}", "give it and deploy again", DENIAL)
    return Verdict("unreadable", f"The cluster could not be read: {said}", "deploy again", GRACE)


def _judge_cluster(watch: Watch, cluster: dict[str, Any]) -> Verdict | None:
    """Judge what holds for the whole cluster; None if it says nothing against the group."""
    watch["seen"]["cluster"] = status = cluster["ClusterStatus"]
    if status == "Failed":
        said = service_api.shorten(cluster.get("FailureMessage", "HyperPod gave no failure message"), 500)
        what = f"Cluster {watch['cluster']} is Failed: {said}"
        return Verdict("cluster failed", what, f"fix the cause and {_deploy_again(watch)}", CONFIRM)
    if status == "Deleting":
        what = f"Cluster {watch['cluster']} is being deleted"
        return Verdict("cluster deleting", what, _bring_back(watch), CONFIRM)
    return None


def _judge_nodes(watch: Watch, cluster: dict[str, Any]) -> Verdict:
    groups = _groups(cluster)
    nodes, running = _nodes(watch["cluster"])
    watch["seen"]["counts"] = {"current": running, "nodes": nodes}
    if running:
        return Verdict("reached", "")
    if all(group.get("Status") == "InService" and not group.get("TargetCount") for group in groups):
        what = "No instance group wants any instance"
        advice = "give one group a minInstanceCount of at least 1"
        return Verdict("no node wanted", what, f"{advice}, or {_deploy_again(watch)}", GRACE)
    return Verdict("waiting", f"cluster {cluster['ClusterStatus']}")


def _judge_group(watch: Watch, cluster: dict[str, Any]) -> Verdict:
    found = [one for one in _groups(cluster) if one.get("InstanceGroupName") == watch["group"]]
    counts, status = _read(found[0] if found else {}), found[0].get("Status", "") if found else "gone"
    watch["seen"]["counts"] = counts
    watch["seen"]["most"] = max(counts["current"], watch["seen"].get("most", 0))
    if status in {"gone", "Deleting", "Failed"}:
        return _lost(watch, status)
    if cluster["ClusterStatus"] != "InService":
        return Verdict("waiting", f"{status}, cluster {cluster['ClusterStatus']}")
    if status == "InService" and _satisfied(watch, counts):
        return Verdict("reached", "")
    if status in {"InService", "Degraded"} and _changed(watch, counts):
        return _rolled_back(watch, counts)
    return Verdict("waiting", status)


def _lost(watch: Watch, status: str) -> Verdict:
    if status == "gone":
        return Verdict("no group", "The group does not exist (any more)", _bring_back(watch), GRACE)
    if status == "Deleting":
        return Verdict("group deleting", "The group is being deleted", _bring_back(watch), CONFIRM)
    advice = f"fix the cause and {_deploy_again(watch)}"
    return Verdict("group failed", "The group is Failed", advice, CONFIRM)


def _satisfied(watch: Watch, counts: dict[str, int]) -> bool:
    if watch["waitFor"] == "target":
        return counts["current"] == counts["target"] and counts["target"] == int(watch["instanceCount"])
    # Not the target: Karpenter may change it, and the minimum holds none the less.
    declared: int = watch["minInstanceCount"]
    return counts["minimum"] == declared and counts["current"] >= declared


def _changed(watch: Watch, counts: dict[str, int]) -> bool:
    """Whether the counts that HyperPod works towards are others than the declared ones."""
    if watch["waitFor"] == "target" and counts["target"] != watch["instanceCount"]:
        return True
    return "minInstanceCount" in watch and counts["minimum"] != watch["minInstanceCount"]


def _rolled_back(watch: Watch, counts: dict[str, int]) -> Verdict:
    if counts["minimum"] == counts["target"] == 0:
        what = "The minimum was missed: HyperPod rolled the group back to zero"
    else:
        what = (
            "The minimum was missed: HyperPod rolled the group back to its previous counts, "
            "unless someone, or another deployment, set them"
        )
    # [I] The stack keeps the declared counts, so the same template again is no change to CloudFormation.
    advice = (
        f"lower minInstanceCount, or ask for the same again with `cdk deploy --revert-drift {watch['stack']}`"
    )
    return Verdict("rolled back", what, advice, GRACE)


def _groups(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [*cluster.get("InstanceGroups", []), *cluster.get("RestrictedInstanceGroups", [])]


def _read(group: dict[str, Any]) -> dict[str, int]:
    """Counts of a group. [I] An absent one is 0: MinCount is, where no minimum was ever set."""
    return {
        "current": group.get("CurrentCount", 0),
        "minimum": group.get("MinCount", 0),
        "target": group.get("TargetCount", 0),
    }


def _nodes(cluster: str) -> tuple[int, int]:
    """Count the nodes, and those that run; no further than to the first page with one that does."""
    count, running, token = 0, 0, ""
    while True:
        more = {"NextToken": token} if token else {}
        page = service_api.client().list_cluster_nodes(ClusterName=cluster, MaxResults=100, **more)
        states = [node["InstanceStatus"]["Status"] for node in page["ClusterNodeSummaries"]]
        count, running, token = count + len(states), states.count("Running"), page.get("NextToken", "")
        if running or not token:
            return count, running


def _failure(watch: Watch, verdict: Verdict) -> Verdict | None:
    """Give the failure that is certain by now, if there is one, and note how long each has been seen."""
    now, seen = _now(), watch["seen"]
    late = now - datetime.fromisoformat(watch["startedAt"]) >= timedelta(minutes=watch["timeoutMinutes"])
    if verdict.kind in {"waiting", "unknown"}:
        if verdict.kind == "waiting":
            seen.pop("failure", None)
        return _timeout(watch, verdict) if late else None
    if seen.get("failure") != verdict.kind:
        seen["failure"], seen["since"] = verdict.kind, now.isoformat()
    persisted = now - datetime.fromisoformat(seen["since"])
    return verdict if late or persisted >= verdict.patience else None


def _timeout(watch: Watch, verdict: Verdict) -> Verdict:
    what = f"Not reached within {watch['timeoutMinutes']} minutes; last state: {verdict.what}"
    if watch["waitFor"] == "node":
        return Verdict("timeout", what, "see the events of the cluster's groups, then deploy again")
    declared = "instanceCount" if watch["waitFor"] == "target" else "minInstanceCount"
    return Verdict("timeout", what, f"deploy again to wait on, or lower {declared}")


def _reason(watch: Watch, failure: Verdict) -> str | None:
    """Spell a failure out with HyperPod's newest failure message; None while events cannot be read."""
    if failure.kind in {"denied", "unreadable", "no cluster"}:
        return _text(watch, failure, "")
    try:
        news = _news(watch)
    except (BotoCoreError, ClientError) as error:
        tries = watch["seen"]["eventTries"] = watch["seen"].get("eventTries", 0) + 1
        if service_api.transient(error) and tries < EVENT_TRIES:
            return None
        news = f"HyperPod's events could not be read: {service_api.explain(error)}"
    return _text(watch, failure, news)


def _news(watch: Watch) -> str:
    """Give the newest failure message among HyperPod's events, or say that there is none."""
    client = service_api.client()
    only = {"InstanceGroupName": watch["group"]} if "group" in watch else {}
    listed = client.list_cluster_events(
        ClusterName=watch["cluster"], SortBy="EventTime", SortOrder="Descending", MaxResults=100, **only
    )
    telling = [event for event in listed.get("Events", []) if _tells(watch, event)]
    for event in telling[:EVENTS_READ]:
        described = client.describe_cluster_event(ClusterName=watch["cluster"], EventId=event["EventId"])
        details = described.get("EventDetails", {}).get("EventDetails", {})
        for part in details.get("EventMetadata", {}).values():
            if part.get("FailureMessage"):
                return f"Newest failure message ({_when(event)}): {part['FailureMessage']}"
    if telling:
        newest = next((one for one in telling if one.get("EventLevel") != "Info"), telling[0])
        return f"No event has a failure message; newest event ({_when(newest)}): {newest.get('Description')}"
    return "HyperPod has no event about it."


def _tells(watch: Watch, event: dict[str, Any]) -> bool:
    """Whether an event may say why: neither routine of one instance, nor the noise of a change of size."""
    level, described = event.get("EventLevel"), event.get("Description", "")
    counts = watch["seen"].get("counts", {})
    moving = counts.get("current") != counts.get("target")
    if level == "Warn" and _NOISE in described.lower() and moving:
        return False
    return not (level == "Info" and event["ResourceType"] == "Instance")


def _when(event: dict[str, Any]) -> str:
    at: datetime = event["EventTime"]
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC, {event.get('EventLevel', 'no level')}"


def _text(watch: Watch, failure: Verdict, news: str) -> str:
    """Put a failure together; only HyperPod's own words are cut, where it would be too long."""
    head = f"{_label(watch)}: {_counts(watch)}{_history(watch)}. {failure.what}."
    tail = f"Next: {failure.advice}."
    room = REASON_LIMIT - len(head) - len(tail) - 2
    parts = [head, service_api.shorten(news, max(room, 80)) if news else "", tail]
    return service_api.shorten(" ".join(part for part in parts if part), REASON_LIMIT)


def _label(watch: Watch) -> str:
    return str(watch.get("group", "first node"))


def _counts(watch: Watch) -> str:
    """Say how many instances there are and how many were asked for."""
    counts = watch["seen"].get("counts")
    if watch["waitFor"] == "node":
        return f"{counts['current']} of {counts['nodes']} nodes run" if counts else "no node known"
    current = counts["current"] if counts else "unknown number"
    if watch["waitFor"] == "target":
        return f"{current} of {watch['instanceCount']} instances"
    return f"{current} of at least {watch['minInstanceCount']} instances (target {watch['instanceCount']})"


def _history(watch: Watch) -> str:
    """Say how far it got, and what HyperPod works towards now, which may not be what was asked for."""
    counts = watch["seen"].get("counts")
    if not counts or watch["waitFor"] == "node":
        return ""
    most = watch["seen"]["most"]
    before = f", {most} at most before" if most > counts["current"] else ""
    return f"{before}; minInstanceCount is now {counts['minimum']}, instanceCount {counts['target']}"


def _bring_back(watch: Watch) -> str:
    return f"bring it back with `cdk deploy --revert-drift {watch['stack']}`, or remove it from the config"


def _deploy_again(watch: Watch) -> str:
    return f"deploy again with `cdk deploy --revert-drift {watch['stack']}`"


def _answer(watch: Watch, state: str, *, done: bool = False, reached: bool = False) -> Watch:
    elapsed = _span(_now() - datetime.fromisoformat(watch["startedAt"]))
    progress = f"{_label(watch)}: {_counts(watch)}, {state}, {elapsed}"
    print(progress, flush=True)
    return {**watch, "done": done, "reached": reached, "progress": progress}


def _span(time: timedelta) -> str:
    seconds = int(time.total_seconds())
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 60} min" if seconds >= 60 or not seconds else f"{seconds} s"


def _signal(watch: Watch, status: str, reason: str) -> None:
    """Send the outcome to the wait condition's handle. Repeated, it changes nothing.

    Raises:
        OSError: the handle does not take it.
    """
    document = {"Status": status, "Reason": reason, "UniqueId": _label(watch), "Data": _counts(watch)}
    request = urllib.request.Request(  # noqa: S310 (the URL is CloudFormation's)
        watch["url"],
        data=json.dumps(document).encode(),
        method="PUT",
        # The URL is signed for an empty content type; urllib would put one of its own.
        headers={"Content-Type": ""},
    )
    for left in reversed(range(SIGNAL_TRIES)):
        try:
            with urllib.request.urlopen(request, timeout=10):  # noqa: S310
                return
        except (OSError, HTTPException):
            if not left:
                raise
        _sleep(2 ** (SIGNAL_TRIES - left - 1))


def _now() -> datetime:
    return datetime.now(UTC)


def _sleep(seconds: float) -> None:
    time.sleep(seconds)
