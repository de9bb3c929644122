"""Give the objects of many fleets to one API server, and tell what it refused, changed or left inactive."""

import copy
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.live.claims.random_fleets import Drawn, fleets

from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s.objects import manifests, preview
from hyperpod_live.control_plane import Client, ControlPlane, Progress, condition

Object = dict[str, Any]

KUEUE = "kueue.x-k8s.io/v1beta2"
BATCH_LABEL = "claims.test/batch"
SHARED = ("ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
"""Kinds whose objects are the same for every cluster."""
SETTLE_SECONDS = 60
BATCH = 40
"""Fleets that are applied together."""
PER_CONTROL_PLANE = 200
"""Kueue's work on an object grows with the number of the others, so the next fleets get a new one."""
ABSENT = None
"""Stands for a value that is not there; no object of ours has a null."""
SERVERS_OWN = ("Namespace.spec", "Namespace.metadata.labels.kubernetes.io/metadata.name")
"""What the server puts on every Namespace, and no tool takes for drift."""


@dataclass
class Account:
    """What became of so many fleets. A problem is one line and begins with the number of its fleet."""

    fleets: int = 0
    objects: int = 0
    queues: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Account") -> None:
        """Count another account in."""
        self.fleets += other.fleets
        self.objects += other.objects
        self.queues += other.queues
        self.problems += other.problems


def objects_of(cluster: ResolvedCluster) -> list[Object]:
    """All objects of a cluster: ours, and for owner sagemaker the add-on's as the preview expects them."""
    return [copy.deepcopy(item) for file in (*manifests(cluster), *preview(cluster)) for item in file.objects]


def apart(objects: Iterable[Object], prefix: str) -> list[Object]:
    """The objects under names of their own, so that many clusters fit into one.

    Every name of ours begins with a letter, so a prefix makes none valid that was not.
    """
    return [_renamed(item, prefix) for item in objects]


def _renamed(item: Object, prefix: str) -> Object:
    if item["kind"] in SHARED:
        return item
    metadata, spec = item["metadata"], item.get("spec", {})
    if item["kind"] not in ("LocalQueue", "RoleBinding"):
        metadata["name"] = prefix + metadata["name"]
    for where, key in (
        (metadata, "namespace"),
        *((spec, key) for key in ("cohortName", "parentName", "topologyName", "clusterQueue")),
        (spec.get("namespaceSelector", {}).get("matchLabels", {}), "kubernetes.io/metadata.name"),
        *((flavor, "name") for group in spec.get("resourceGroups", []) for flavor in group["flavors"]),
    ):
        if key in where:
            where[key] = prefix + where[key]
    return item


def run(count: int, seed: int = 0, progress: Progress = lambda line: None) -> Account:
    """Hold so many random fleets against control planes of their own."""
    total = Account()
    drawn = fleets(count, seed)
    for start in range(0, count, PER_CONTROL_PLANE):
        with ControlPlane(scheduler=False, kwok=False) as control_plane:
            for first in range(start, min(start + PER_CONTROL_PLANE, count), BATCH):
                last = min(first + BATCH, start + PER_CONTROL_PLANE)
                account = hold(control_plane.client(), drawn[first:last], f"from-{first}")
                total.add(account)
                progress(f"{total.fleets} of {count} fleets, {len(total.problems)} problems")
    return total


def hold(client: Client, drawn: Iterable[Drawn], batch: str) -> Account:
    """Apply fleets together, wait until their queues have settled, and account for them."""
    account = Account()
    sent: list[tuple[int, Object]] = []
    for each in drawn:
        account.fleets += 1
        for number, cluster in enumerate(each.resolved.clusters):
            objects = apart(objects_of(cluster), f"f{each.seed}-{number}-")
            sent += [(each.seed, item) for item in objects]
    for _, item in sent:
        item["metadata"].setdefault("labels", {})[BATCH_LABEL] = batch
    account.objects = len(sent)
    outcomes = client.apply_all(item for _, item in sent)
    for (seed, item), outcome in zip(sent, outcomes, strict=True):
        name = f"fleet {seed}: {item['kind']} {item['metadata']['name']}"
        if outcome.answer is None:
            account.problems.append(f"{name} was refused: {outcome.error}")
        else:
            account.problems += (f"{name} was changed: {each}" for each in changes(item, outcome.answer))
    queues = {
        _key(item): (seed, item) for seed, item in sent if item["kind"] in ("ClusterQueue", "LocalQueue")
    }
    account.queues = len(queues)
    account.problems += _inactive(client, queues, batch)
    return account


def _key(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _inactive(
    client: Client, queues: dict[tuple[str, str, str], tuple[int, Object]], batch: str
) -> Iterator[str]:
    """A line for each queue that is not as its config says: active, or stopped if the team is Disabled."""
    stopped = {
        name for (kind, _, name), (_, item) in queues.items() if kind == "ClusterQueue" and _is_stopped(item)
    }
    waiting = dict(queues)
    seen: dict[tuple[str, str, str], Object] = {}
    end = time.monotonic() + SETTLE_SECONDS
    while waiting and time.monotonic() < end:
        for kind in ("ClusterQueue", "LocalQueue"):
            for found in client.list(KUEUE, kind, labels=f"{BATCH_LABEL}={batch}"):
                seen[_key(found)] = active = condition(found, "Active")
                queue = found["spec"].get("clusterQueue", found["metadata"]["name"])
                if _expected(kind, active, queue in stopped):
                    waiting.pop(_key(found), None)
        time.sleep(0.1)
    for key, (seed, _) in waiting.items():
        yield f"fleet {seed}: {key[0]} {key[2]} is not active: {seen.get(key) or 'it has no condition'}"


def _is_stopped(item: Object) -> bool:
    return bool(item["spec"]["stopPolicy"] != "None")


def _expected(kind: str, active: Object, stopped: bool) -> bool:
    if not stopped:
        return active.get("status") == "True"
    reason = "Stopped" if kind == "ClusterQueue" else "ClusterQueueIsInactive"
    return active.get("status") == "False" and active.get("reason") == reason


def changes(sent: Object, stored: Object) -> Iterator[str]:
    """A line for each value that is stored otherwise than it was sent, or beside what was sent.

    Of `metadata` only labels and annotations count, and no `status`: the rest is the server's.
    """
    yield from _changes(_comparable(sent), _comparable(stored), sent["kind"])


def _comparable(item: Object) -> Object:
    metadata = {part: item["metadata"].get(part, {}) for part in ("labels", "annotations")}
    return {key: value for key, value in item.items() if key != "status"} | {"metadata": metadata}


def _changes(sent: Any, stored: Any, path: str) -> Iterator[str]:
    if path in SERVERS_OWN:
        return
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key in sorted({*sent, *stored}):
            yield from _changes(sent.get(key, ABSENT), stored.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for index, (one, other) in enumerate(zip(sent, stored, strict=True)):
            yield from _changes(one, other, f"{path}[{index}]")
    elif sent != stored or type(sent) is not type(stored):
        yield f"{path} {sent!r} became {stored!r}"
