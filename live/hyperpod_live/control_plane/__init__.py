"""A real control plane on this machine: etcd, API server, scheduler, controllers, Kueue, fake nodes.

    with ControlPlane() as cp:
        client = cp.client()
        client.create_all([fake_node("a", allocatable={"cpu": "8", "memory": "32Gi"})])
        client.apply_all(objects)

The programs are built once, with Go, into a cache (`ensure_built`).

Importing raises `ImportError` with a sentence for the user on Windows, and without the extra `rehearse`.
"""

import importlib.util
import sys

if sys.platform == "win32":
    raise ImportError("A control plane runs on Linux and macOS; on Windows run this inside WSL.")
if not all(importlib.util.find_spec(name) for name in ("cryptography", "urllib3")):
    raise ImportError(
        "A control plane needs more packages: install them with `pip install 'hyperpod-fleet[rehearse]'`, "
        "then run the same command again."
    )

from hyperpod_live.control_plane.build import Files, Progress, cache_dir, ensure_built, to_stderr
from hyperpod_live.control_plane.client import ApiError, Client, Event, Outcome, condition, failures, holds
from hyperpod_live.control_plane.errors import ControlPlaneError
from hyperpod_live.control_plane.kubeconfig import Access, read_kubeconfig
from hyperpod_live.control_plane.nodes import RUN_SECONDS, fake_node
from hyperpod_live.control_plane.run import ControlPlane

__all__ = [
    "RUN_SECONDS",
    "Access",
    "ApiError",
    "Client",
    "ControlPlane",
    "ControlPlaneError",
    "Event",
    "Files",
    "Outcome",
    "Progress",
    "cache_dir",
    "condition",
    "ensure_built",
    "failures",
    "fake_node",
    "holds",
    "read_kubeconfig",
    "to_stderr",
]
