"""A HyperPod cluster that changes with time, for the fake SageMaker; and the handle of a wait condition.

From the reference: the timer of three hours, which each change of the minimum starts again; what a group goes
back to when it runs out; that the group is InService then; the events' descriptions and metadata. Assumed:
that instances above a rolled-back count leave at once, and what the events' failure messages say.
"""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import loads
from typing import Any, Protocol

from tests.constructs.fake_sagemaker import CLUSTER, Clock, ServiceError

Json = dict[str, Any]
ARN = CLUSTER
NAME = "research"
ROLE = "arn:aws:sts::123456789012:assumed-role/gate-poll-role/gate-poll"
TIMER = 3 * 3600.0
NO_CAPACITY = "Insufficient capacity for ml.p5.48xlarge in use1-az4."


def denied(operation: str) -> ServiceError:
    """Give IAM's refusal of an operation."""
    said = f"User: {ROLE} is not authorized to perform: sagemaker:{operation} on resource: {ARN}"
    return ServiceError("AccessDeniedException", said)


@dataclass
class Group:
    """An instance group.

    Args:
        previous: minimum and target to go back to; zeros for a new group.
        deadline: when it goes back; None: no timer runs.
    """

    name: str
    minimum: int
    target: int
    current: int = 0
    status: str = "Creating"
    previous: tuple[int, int] = (0, 0)
    deadline: float | None = None
    restricted: bool = False

    def described(self) -> Json:
        counts = {"CurrentCount": self.current, "TargetCount": self.target}
        minimum = {} if self.restricted else {"MinCount": self.minimum}
        return {"InstanceGroupName": self.name, "Status": self.status, **counts, **minimum}


@dataclass
class Outage:
    """An operation that fails whenever a condition holds."""

    operation: str
    error: Callable[[], BaseException]
    now: Callable[[], bool]


@dataclass
class View:
    """What a read gives."""

    status: str | None = "InService"
    failure: str = ""
    groups: dict[str, Group] = field(default_factory=dict)


class Service(Protocol):
    """What answers the calls, such as a FakeSageMaker."""

    clock: Clock

    def register(self, operation: str, answer: Callable[[Json], Json]) -> None:
        """Take an operation's answers from here."""


@dataclass
class FakeCluster:
    """The cluster. Times of what is to come are seconds from the clock's now.

    Args:
        service: answers the calls.
        lag: seconds by which a read of the cluster is late; called once for each read.
    """

    service: Service
    name: str = NAME
    arn: str = ARN
    lag: Callable[[], float] = lambda: 0.0
    continuous: bool = True

    def __post_init__(self) -> None:
        self.clock = self.service.clock
        self.now = View()
        # What the last DescribeCluster gave, which may be older than now.
        self.shown = View()
        self.events: list[Json] = []
        self.outages: list[Outage] = []
        self.pending = 0
        self.page = 100
        # Groups that had the minimum of their last declaration, as the service itself saw it.
        self.reached: set[str] = set()
        self._plan: list[tuple[float, int, Callable[[], None]]] = []
        self._history: list[tuple[float, View]] = [(0.0, View())]
        for operation, answer in (
            ("DescribeCluster", self._describe),
            ("ListClusterNodes", self._list_nodes),
            ("ListClusterEvents", self._list_events),
            ("DescribeClusterEvent", self._describe_event),
        ):
            self.service.register(operation, self._unless_broken(operation, answer))

    # What deployments and people do.

    def declare(self, name: str, count: int, minimum: int = 0, *, restricted: bool = False) -> None:
        """Create a group or change its counts."""
        self.run()
        self.reached.discard(name)
        group = self.now.groups.get(name)
        if group is None:
            group = self.now.groups[name] = Group(name, minimum, count, restricted=restricted)
        else:
            group.previous = (group.minimum, group.target)
            group.minimum, group.target, group.status = minimum, count, "Updating"
            group.current = min(group.current, count)
        group.deadline = self.clock() + TIMER
        self._settle(group)
        self._remember(self.clock())

    def at(self, seconds: float, change: Callable[[], None]) -> None:
        """Let something happen later."""
        self._plan.append((self.clock() + seconds, len(self._plan), change))

    def arrive(self, name: str, count: int, *, after: float = 0.0) -> None:
        """Let instances come, no more than are wanted then; fewer than 0: let them go."""
        self.at(after, lambda: self._arrive(name, count))

    def set(self, name: str, *, after: float = 0.0, **values: Any) -> None:
        """Let fields of a group change by themselves."""

        def change() -> None:
            for key, value in values.items():
                setattr(self.now.groups[name], key, value)

        self.at(after, change)

    def become(self, status: str | None, failure: str = "", *, after: float = 0.0) -> None:
        """Let the cluster have another status; None: it is gone."""

        def change() -> None:
            self.now.status, self.now.failure = status, failure

        self.at(after, change)

    def lose(self, name: str, *, after: float = 0.0) -> None:
        """Let a group be deleted."""
        self.at(after, lambda: self.now.groups.__delitem__(name))

    def breaks(
        self, operation: str, error: Callable[[], BaseException], *, after: float = 0.0, until: float = 1e9
    ) -> None:
        """Let an operation fail for some time."""
        begin, end = self.clock() + after, self.clock() + until
        self.outages.append(Outage(operation, error, lambda: begin <= self.clock() < end))

    def event(
        self,
        group: str | None,
        description: str,
        *,
        level: str = "Info",
        resource: str = "InstanceGroup",
        metadata: Json | None = None,
    ) -> None:
        """Note an event now."""
        number = len(self.events)
        named = {"InstanceGroupName": group} if group else {}
        self.events.append(
            {
                "EventId": f"{number:08d}-0000-0000-0000-000000000000",
                "ClusterArn": self.arn,
                "ClusterName": self.name,
                "ResourceType": resource,
                "EventTime": datetime.fromtimestamp(self._time, UTC),
                "EventLevel": level,
                "Description": description,
                "metadata": metadata,
                **named,
            }
        )

    # Time.

    @property
    def _time(self) -> float:
        return self._at if self._running else self.clock()

    _running = False
    _at = 0.0

    def run(self) -> None:
        """Let happen, in order, what was to happen by now."""
        self._running = True
        while (due := self._next()) is not None:
            self._at, change = due
            change()
            self._remember(self._at)
        self._running = False

    def _next(self) -> tuple[float, Callable[[], None]] | None:
        """Give what comes next by now; instances that come at the very end of a timer are in time."""
        timers = [
            (group.deadline, 1, self._roll_back_of(group))
            for group in self.now.groups.values()
            if group.deadline is not None
        ]
        planned = [(time, 0, change) for time, _, change in sorted(self._plan, key=lambda one: one[:2])]
        for time, kind, change in sorted([*planned, *timers], key=lambda one: one[:2]):
            if time > self.clock():
                return None
            if kind == 0:
                self._plan.remove(next(one for one in self._plan if one[2] is change))
            return time, change
        return None

    def _arrive(self, name: str, count: int) -> None:
        group = self.now.groups.get(name)
        if group is not None:
            group.current = max(0, min(group.current + count, group.target))
            self._settle(group)

    def _settle(self, group: Group) -> None:
        if group.status in {"Creating", "Updating"} and group.current >= group.minimum:
            group.status, group.deadline = "InService", None
            self.reached.add(group.name)
            if group.minimum:
                self.event(group.name, "Minimum capacity reached")

    def _roll_back_of(self, group: Group) -> Callable[[], None]:
        def roll_back() -> None:
            scaling = {"MinCount": group.minimum, "TargetCount": group.target, "FailureMessage": NO_CAPACITY}
            self.event(group.name, "Rollback initiated", metadata={"InstanceGroupScaling": scaling})
            group.minimum, group.target = group.previous
            group.current = min(group.current, group.target)
            group.status, group.deadline = "InService", None

        return roll_back

    def _remember(self, time: float) -> None:
        self._history.append((time, copy.deepcopy(self.now)))

    def _read(self) -> View:
        self.run()
        seen = self.clock() - self.lag()
        return next(view for time, view in reversed(self._history) if time <= seen)

    # Operations.

    def _unless_broken(self, operation: str, answer: Callable[[Json], Json]) -> Callable[[Json], Json]:
        def checked(request: Json) -> Json:
            for outage in self.outages:
                if outage.operation == operation and outage.now():
                    raise outage.error()
            if request["ClusterName"] not in {self.name, self.arn} or self._read().status is None:
                raise ServiceError("ResourceNotFound", f"Cluster {request['ClusterName']} not found")
            return answer(request)

        return checked

    def _describe(self, _request: Json) -> Json:
        view = self.shown = self._read()
        groups = view.groups.values()
        return {
            "ClusterArn": self.arn,
            "ClusterName": self.name,
            "ClusterStatus": view.status,
            "InstanceGroups": [one.described() for one in groups if not one.restricted],
            "RestrictedInstanceGroups": [one.described() for one in groups if one.restricted],
            **({"FailureMessage": view.failure} if view.failure else {}),
        }

    def _list_nodes(self, request: Json) -> Json:
        running = [(one.name, "Running") for one in self.now.groups.values() for _ in range(one.current)]
        states = [*([("h100", "Pending")] * self.pending), *running]
        start = int(request.get("NextToken", "0"))
        end = start + min(self.page, request.get("MaxResults", 10))
        nodes = [
            {
                "InstanceGroupName": group,
                "InstanceId": f"i-{number:017d}",
                "InstanceType": "ml.p5.48xlarge",
                "LaunchTime": datetime.fromtimestamp(0, UTC),
                "InstanceStatus": {"Status": status},
            }
            for number, (group, status) in enumerate(states)
        ]
        more = {"NextToken": str(end)} if end < len(nodes) else {}
        return {"ClusterNodeSummaries": nodes[start:end], **more}

    def _list_events(self, request: Json) -> Json:
        self.run()
        if not self.continuous:
            raise ServiceError(
                "ValidationException", "Events are only available with NodeProvisioningMode Continuous"
            )
        only = request.get("InstanceGroupName")
        found = [one for one in self.events if only in (None, one.get("InstanceGroupName"))]
        if request.get("SortOrder") == "Descending":
            found = found[::-1]
        shown = found[: request.get("MaxResults", 10)]
        return {"Events": [{key: one[key] for key in one if key != "metadata"} for one in shown]}

    def _describe_event(self, request: Json) -> Json:
        event = next(one for one in self.events if one["EventId"] == request["EventId"])
        details = {key: event[key] for key in event if key != "metadata"}
        if event["metadata"] is not None:
            details["EventDetails"] = {"EventMetadata": event["metadata"]}
        return {"EventDetails": details}


@dataclass
class Handle:
    """A wait condition's handle: takes PUTs as S3 does for a URL that is signed for an empty content type.

    Args:
        failures: answers 500 so many times first, and takes nothing.
        lost: then takes so many signals without answering.
    """

    url: str = ""
    failures: int = 0
    lost: int = 0
    signals: list[Json] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> Json:
        """The first signal, which decides a condition of count 1."""
        return self.signals[0]

    def take(self, content_type: str, body: bytes) -> int | None:
        """Give the status to answer with; None: no answer."""
        if content_type:
            self.refused.append(content_type)
            return 403
        if self.failures:
            self.failures -= 1
            return 500
        self.signals.append(loads(body))
        if self.lost:
            self.lost -= 1
            return None
        return 200


@contextmanager
def handles() -> Iterator[Callable[[], Handle]]:
    """Serve handles on this machine; gives what makes a new one."""
    made: list[Handle] = []

    class Server(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            handle = made[int(self.path.removeprefix("/"))]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = handle.take(self.headers.get("Content-Type", ""), body)
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def make() -> Handle:
        made.append(Handle(url=f"http://127.0.0.1:{server.server_port}/{len(made)}"))
        return made[-1]

    yield make
    server.shutdown()
    server.server_close()
