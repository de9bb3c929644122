"""A real Kueue as the stage of rehearsals: objects in, jobs played, everything removed again.

One cluster of the fleet at a time is on stage.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from hyperpod_governance.model import ResolvedCluster, ResolvedGovernance
from hyperpod_k8s.objects import Manifest, manifests, preview
from hyperpod_live.control_plane.client import ApiError, Client, condition
from hyperpod_live.control_plane.nodes import fake_node
from hyperpod_live.rehearsal.nodes import FakeNode, Network, fake_nodes
from hyperpod_live.rehearsal.result import ObjectResult

KUEUE_API = "kueue.x-k8s.io/v1beta2"
POLL_SECONDS = 0.02

_ACTIVE_SECONDS = 15.0
_GONE_SECONDS = 30.0
_RETRY_SECONDS = 0.1
_ORDER = ("Namespace", "Topology", "WorkloadPriorityClass", "ClusterRole", "ResourceFlavor", "Cohort")
"""Kinds that others name come first, and go last."""


def kueue_objects(cluster: ResolvedCluster) -> list[Manifest]:
    """Objects of a cluster in an order that works: what is applied to it, and the preview for sagemaker."""
    objects = [item for file in (*preview(cluster), *manifests(cluster)) for item in file.objects]
    return sorted(objects, key=_rank)


def _rank(item: Manifest) -> int:
    return _ORDER.index(item["kind"]) if item["kind"] in _ORDER else len(_ORDER)


class Stage:
    """One cluster's objects on an API server; a context manager that removes them in the end.

    Args:
        client: Of the API server; its Kueue must run.
        cluster: Cluster with governance.
        check: Called while waiting; may raise what is known of a stage that has fallen in.
        change: Called on each object before it is sent.
    """

    def __init__(
        self,
        client: Client,
        cluster: ResolvedCluster,
        *,
        check: Callable[[], None] = lambda: None,
        change: Callable[[Manifest], Manifest] = lambda item: item,
    ) -> None:
        if cluster.governance is None:
            raise ValueError(f"cluster {cluster.name} has no governance to rehearse")
        self.client = client
        self.cluster = cluster
        self.governance: ResolvedGovernance = cluster.governance
        self.check = check
        self._change = change
        self.objects = [change(item) for item in kueue_objects(cluster)]
        self._nodes: dict[str, FakeNode] = {}
        self._last_second = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def nodes(self) -> Mapping[str, FakeNode]:
        """The fake nodes there are, by name."""
        return self._nodes

    def apply(self) -> tuple[ObjectResult, ...]:
        """Apply the objects of the cluster and wait until the queues are active, or say why they are not."""
        outcomes = self.client.apply_all(self.objects)
        deadline = time.monotonic() + _ACTIVE_SECONDS
        results = []
        for outcome in outcomes:
            item, error = outcome.sent, str(outcome.error or "")
            active, reason = None, ""
            if not error and item["kind"] in {"ClusterQueue", "LocalQueue"}:
                active, reason = self._active(item, deadline)
            results.append(ObjectResult(item["kind"], item["metadata"]["name"], error, active, reason))
        return tuple(results)

    def _active(self, item: Manifest, deadline: float) -> tuple[bool, str]:
        while True:
            found = condition(self._get(item) or {}, "Active")
            if found.get("status") == "True":
                return True, ""
            # Stopped is what the config asks for; everything else may still come right.
            if found.get("reason") == "Stopped" or time.monotonic() > deadline:
                return False, f"{found.get('reason', 'no condition')}: {found.get('message', '')}"
            self.pause()

    def _get(self, item: Manifest) -> Manifest | None:
        metadata = item["metadata"]
        try:
            return self.client.get(
                item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace")
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def clear(self) -> None:
        """Remove nodes and objects; team namespaces go with all that is in them."""
        self.set_nodes({}, Network())
        for _, group in itertools.groupby(reversed(self.objects), key=lambda item: str(item["kind"])):
            self.client.delete_all(list(group))
        deadline = time.monotonic() + _GONE_SECONDS
        for item in self.objects:
            while self._get(item) is not None and time.monotonic() < deadline:
                self.pause()

    def set_nodes(self, counts: Mapping[str, int], network: Network) -> None:
        """Make the fake nodes so many of each instance group; one that stands elsewhere now is replaced."""
        new = {node.name: node for node in fake_nodes(self.cluster, counts, network)}
        gone = [name for name, node in self._nodes.items() if new.get(name) != node]
        self.client.delete_all([_node(name) for name in gone])
        made = [node for name, node in new.items() if self._nodes.get(name) != node]
        outcomes = self.client.create_all([self._change(_node_manifest(node)) for node in made])
        refused = {outcome.sent["metadata"]["name"]: outcome.error for outcome in outcomes if outcome.error}
        # A node that was refused may be somebody else's: it must not be removed in the end.
        self._nodes = {name: node for name, node in new.items() if name not in refused}
        for error in refused.values():
            raise error

    def remove_jobs(self, objects: Iterable[Manifest], left: Callable[[], list[Manifest]]) -> None:
        """Remove the objects of jobs and what was made of them, and wait until nothing is left.

        The garbage collector would do the second, but takes its time.
        """
        self.client.delete_all(list(objects))
        deadline = time.monotonic() + _GONE_SECONDS
        while (rest := left()) and time.monotonic() < deadline:
            self.client.delete_all(rest)
            time.sleep(_RETRY_SECONDS)
            self.check()

    def pause(self) -> None:
        """Wait a moment; raises if the stage has fallen in."""
        self.check()
        time.sleep(POLL_SECONDS)

    def new_second(self) -> None:
        """Wait for a wall-clock second in which nothing was submitted: API timestamps know no less.

        Kueue orders jobs of equal priority, and the victims of a preemption, by such timestamps.
        """
        while int(time.time()) <= self._last_second:
            self.pause()
        self._last_second = int(time.time())


def _node(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _node_manifest(node: FakeNode) -> Manifest:
    taints = [
        {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
        for taint in node.taints
    ]
    return fake_node(node.name, allocatable=node.quantities(), labels=node.labels, taints=taints)
