"""HyperPod clusters of one region: changed by API calls, with instances that come or do not."""

import itertools
from collections.abc import Callable
from typing import Any

from tests.constructs.fake_cluster import FakeCluster
from tests.constructs.fake_sagemaker import Clock, FakeSageMaker, ServiceError

Json = dict[str, Any]

ARRIVAL = 600.0
"""Seconds after which instances come that there is capacity for."""


class _Operations:
    """What one fake cluster answers, apart from those of other clusters."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.known: dict[str, Callable[[Json], Json]] = {}

    def register(self, operation: str, answer: Callable[[Json], Json]) -> None:
        self.known[operation] = answer


class Cluster:
    """One cluster: what it was made with, and the fake that its groups live in."""

    def __init__(self, arn: str, request: Json, clock: Clock) -> None:
        self.arn = arn
        self.name: str = request["ClusterName"]
        self.request = request
        self._operations = _Operations(clock)
        self.fake = FakeCluster(self._operations, self.name, arn)

    def ask(self, operation: str, request: Json) -> Json:
        """Let the fake answer."""
        return self._operations.known[operation](request)

    def describe(self, request: Json) -> Json:
        answer = self.ask("DescribeCluster", request)
        declared = {
            group["InstanceGroupName"]: group
            for key in ("InstanceGroups", "RestrictedInstanceGroups")
            for group in self.request.get(key, [])
        }
        # A removed group is told of until it is gone, when nothing declares it any more.
        shown = ("InstanceType", "OverrideVpcConfig", "ExecutionRole", "LifeCycleConfig")
        for group in [*answer["InstanceGroups"], *answer["RestrictedInstanceGroups"]]:
            settings = declared.get(group["InstanceGroupName"], {})
            group |= {key: settings[key] for key in shown if key in settings}
        kept = ("VpcConfig", "Orchestrator", "NodeProvisioningMode", "NodeRecovery")
        own = {key: self.request[key] for key in kept if key in self.request}
        return {**answer, **own}


class HyperPod:
    """The clusters of a region; they are operations of its SageMaker.

    Args:
        service: where the operations are registered.
        region: for ARNs.

    Attributes:
        capacity: instances that there are for a group of a cluster; without an entry, all that are wanted.
    """

    def __init__(self, service: FakeSageMaker, region: str) -> None:
        self._service = service
        self._region = region
        self._numbers = itertools.count(1)
        self.clusters: dict[str, Cluster] = {}
        self.capacity: dict[tuple[str, str], int] = {}
        # The fake begins with a cluster, which nobody here made.
        service.clusters.clear()
        service.register("CreateCluster", self._create)
        service.register("UpdateCluster", self._update)
        service.register("DeleteCluster", self._delete)
        service.register("DescribeCluster", lambda request: self._find(request).describe(request))
        for operation in ("ListClusterNodes", "ListClusterEvents", "DescribeClusterEvent"):
            service.register(operation, self._asker(operation))

    def running(self, name: str) -> int:
        """How many instances of a cluster run."""
        cluster = self.clusters.get(name)
        if cluster is None:
            return 0
        cluster.fake.run()
        return sum(group.current for group in cluster.fake.now.groups.values())

    def _find(self, request: Json) -> Cluster:
        for cluster in self.clusters.values():
            if request["ClusterName"] in {cluster.name, cluster.arn}:
                return cluster
        raise ServiceError("ResourceNotFound", f"Cluster {request['ClusterName']} not found")

    def _asker(self, operation: str) -> Callable[[Json], Json]:
        return lambda request: self._find(request).ask(operation, request)

    def _create(self, request: Json) -> Json:
        name = request["ClusterName"]
        if name in self.clusters:
            raise ServiceError("ResourceInUse", f"Cluster {name} exists")
        arn = f"arn:aws:sagemaker:{self._region}:123456789012:cluster/{next(self._numbers):012d}"
        cluster = self.clusters[name] = Cluster(arn, request, self._service.clock)
        self._service.clusters.add(arn)
        self._declare(cluster, request)
        return {"ClusterArn": arn}

    def _update(self, request: Json) -> Json:
        cluster = self._find(request)
        for name in request.get("InstanceGroupsToDelete", []):
            cluster.fake.lose(name)
        self._declare(cluster, request)
        cluster.request = {**cluster.request, **request, "ClusterName": cluster.name}
        return {"ClusterArn": cluster.arn}

    def _declare(self, cluster: Cluster, request: Json) -> None:
        for key in ("InstanceGroups", "RestrictedInstanceGroups"):
            for group in request.get(key, []):
                name, count = group["InstanceGroupName"], group["InstanceCount"]
                live = cluster.fake.now.groups.get(name)
                minimum = group.get("MinInstanceCount", 0)
                if live and (live.target, live.minimum) == (count, minimum):
                    continue
                cluster.fake.declare(name, count, minimum, restricted=key.startswith("Restricted"))
                there = self.capacity.get((cluster.name, name), count)
                now = cluster.fake.now.groups[name].current
                cluster.fake.arrive(name, min(there, count) - now, after=ARRIVAL)

    def _delete(self, request: Json) -> Json:
        cluster = self._find(request)
        left = [item.name for item in self._service.items.values() if item.cluster == cluster.arn]
        if left:
            raise ServiceError(
                "ValidationException", f"delete {', '.join(left)} before cluster {cluster.name}"
            )
        del self.clusters[cluster.name]
        self._service.clusters.discard(cluster.arn)
        return {"ClusterArn": cluster.arn}
