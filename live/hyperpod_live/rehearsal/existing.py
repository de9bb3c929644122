"""A cluster that is there already (kind, a dev cluster) as the stage: taken with care, and left as it was."""

from __future__ import annotations

import copy
import ipaddress
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from hyperpod_governance.service import CLUSTER_NAME_LABEL
from hyperpod_k8s.objects import Manifest
from hyperpod_live.control_plane.client import ApiError, Client
from hyperpod_live.control_plane.errors import ControlPlaneError
from hyperpod_live.control_plane.nodes import RUN_SECONDS
from hyperpod_live.rehearsal.stage import KUEUE_API

LABEL = "hyperpod-fleet.io/rehearsal"
"""On everything that a rehearsal makes in a cluster that is not its own; also the key of its nodes' taint."""

_TAINT = {"key": LABEL, "value": "true", "effect": "NoSchedule"}
_TOLERATION = {"key": LABEL, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
# Of minikube's drivers, whose clusters are on a network of this machine.
_MINIKUBE = tuple(map(ipaddress.ip_network, ("192.168.39.0/24", "192.168.49.0/24")))
_LOCAL_SUFFIXES = (".localhost", ".docker.internal", ".minikube.internal")
# Below the 40 s after which a node without a heartbeat counts as lost.
_HEARTBEAT_SECONDS = 10.0
_KUBELET_SECONDS = 0.2


def sandboxed(item: Manifest) -> Manifest:
    """The object as it goes into a cluster that is not ours: marked, and for our own fake nodes only."""
    item = copy.deepcopy(item)
    metadata = item["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), LABEL: "true"}
    if item["kind"] == "Node":
        item["spec"]["taints"] = [*item["spec"].get("taints", []), _TAINT]
    if item["kind"] == "ResourceFlavor":
        item["spec"]["tolerations"] = [*item["spec"].get("tolerations", []), _TOLERATION]
    return item


def signs_of_production(client: Client) -> list[str]:
    """Why a cluster looks like one that people depend on; empty for one that looks like a playground.

    Raises:
        ControlPlaneError: there is no Kueue that takes our objects.
    """
    try:
        queues = client.list(KUEUE_API, "ClusterQueue")
    except ApiError as error:
        raise ControlPlaneError(
            f"{client.url} has no Kueue that serves {KUEUE_API} ({error}). Install Kueue 0.16 or later, "
            "or leave out --kubeconfig to use a control plane of the rehearsal's own."
        ) from error
    signs = []
    host = urlsplit(client.url).hostname or ""
    if not _is_local(host):
        signs.append(f"its server {host} is not on this machine")
    hyperpod = [item for item in client.list("v1", "Node") if _foreign(item, CLUSTER_NAME_LABEL)]
    if hyperpod:
        signs.append(f"it has {len(hyperpod)} HyperPod nodes, such as {hyperpod[0]['metadata']['name']}")
    foreign = [item["metadata"]["name"] for item in queues if _foreign(item)]
    if foreign:
        signs.append(f"it has {len(foreign)} ClusterQueues of somebody else, such as {foreign[0]}")
    return signs


def _foreign(item: Manifest, label: str | None = None) -> bool:
    labels = item["metadata"].get("labels", {})
    return LABEL not in labels and (label is None or label in labels)


def _is_local(host: str) -> bool:
    if host == "localhost" or host.endswith(_LOCAL_SUFFIXES):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or any(address in network for network in _MINIKUBE)


def require_room(client: Client, objects: Iterable[Manifest]) -> list[Manifest]:
    """Give what an earlier rehearsal left behind; nothing of anybody else's may be in the way.

    Raises:
        ControlPlaneError: an object of one of the names is there and not ours.
    """
    left = []
    for item in objects:
        metadata = item["metadata"]
        try:
            found = client.get(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace"))
        except ApiError as error:
            if error.status == 404:
                continue
            raise
        if _foreign(found):
            raise ControlPlaneError(
                f"{client.url} has a {item['kind']} {metadata['name']} already, which no rehearsal made. "
                "Nothing was changed. Use a cluster without the fleet's objects, or leave out --kubeconfig."
            )
        left.append(item)
    return left


@contextmanager
def kubelets(client: Client) -> Iterator[None]:
    """Stand in for the kubelets of our fake nodes: heartbeats, and pods that run, end and go."""
    stop = threading.Event()
    thread = threading.Thread(target=_serve, args=(client, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _serve(client: Client, stop: threading.Event) -> None:
    beat = 0.0
    while not stop.wait(_KUBELET_SECONDS):
        try:
            nodes = {item["metadata"]["name"] for item in client.list("v1", "Node", labels=LABEL)}
            if time.monotonic() - beat > _HEARTBEAT_SECONDS:
                beat = time.monotonic()
                for name in nodes:
                    client.patch("v1", "Node", name, _ready(), type="strategic", subresource="status")
            for pod in client.list("v1", "Pod"):
                if pod["spec"].get("nodeName") in nodes:
                    _serve_pod(client, pod)
        except ApiError as error:
            # A node or pod that went meanwhile is no trouble, nor is an answer that comes later.
            if error.status not in {0, 404, 409}:
                raise


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _ready() -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True", "reason": "FakeNode", "lastHeartbeatTime": _now()}
    return {"status": {"conditions": [condition]}}


def _serve_pod(client: Client, pod: Manifest) -> None:
    metadata, phase = pod["metadata"], pod.get("status", {}).get("phase")
    name, namespace = metadata["name"], metadata["namespace"]
    if "deletionTimestamp" in metadata:
        client.delete("v1", "Pod", name, namespace)
        return
    if phase == "Pending":
        status = {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready")],
        }
    elif phase == "Running" and RUN_SECONDS in metadata.get("annotations", {}):
        status = {"phase": "Succeeded"}
    else:
        return
    client.patch("v1", "Pod", name, {"status": status}, namespace, type="strategic", subresource="status")
