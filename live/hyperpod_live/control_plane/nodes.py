"""Fake nodes: what scheduler and Kueue see of an instance, without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

RUN_SECONDS = "hyperpod-fleet/run-seconds"
"""Annotation of a pod on a fake node: it succeeds so many seconds after it got ready; without it, never."""

_PODS = "110"
"""The kubelet's own limit; what HyperPod's nodes set instead must be in `allocatable`."""


def fake_node(
    name: str,
    *,
    allocatable: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> Object:
    """Return a Node that is Ready from the start, for `Client.create_all`.

    `allocatable` has Kubernetes quantities by resource name (`cpu`, `memory`, `nvidia.com/gpu`), `taints`
    the API's `key`, `value` and `effect`. Create it, do not apply it: server-side apply drops the status,
    and with it the figures.
    """
    resources = {"pods": _PODS, **allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
            },
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "FakeNode", "message": "made for a rehearsal"}
            ],
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": "127.0.0.1"},
            ],
        },
    }


def stages(published: Sequence[Object]) -> list[Object]:
    """Return kwok's stages: as published, but a pod succeeds after its `RUN_SECONDS`.

    The published stage ends each pod of a Job at once, so no job would ever hold its quota.
    """
    ours = []
    for stage in published:
        spec = stage["spec"]
        if stage["metadata"]["name"] == "pod-complete":
            spec = {**spec, "selector": _RUNNING_WITH_TIME, "delay": _TIME}
        ours.append({**stage, "spec": spec})
    return ours


_ANNOTATION = f'.metadata.annotations["{RUN_SECONDS}"]'
_RUNNING_WITH_TIME = {
    "matchExpressions": [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": _ANNOTATION, "operator": "Exists"},
    ]
}
_TIME = {"durationFrom": {"expressionFrom": f'{_ANNOTATION} + "s"'}}
