"""Kueue outside a cluster: its CRDs, webhooks and configuration for a process on this machine."""

from __future__ import annotations

import base64
import copy
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hyperpod_k8s.manager import CONCURRENCY

Object = dict[str, Any]

KUEUE_GROUP = "kueue.x-k8s.io"

CORE_FRAMEWORKS = ("batch/job", "pod")
"""Job kinds that need no CRD."""

_CHART_SELECTOR = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
    ]
}
"""Which namespaces Kueue's own installation sends to the webhooks of job kinds."""


class WebhookServer:
    """Where Kueue answers webhooks: a port of this machine, and who signed its certificate."""

    def __init__(self, port: int, authority: Path) -> None:
        self.port = port
        self._bundle = base64.b64encode(authority.read_bytes()).decode()

    def client_config(self, service: Mapping[str, Any]) -> Object:
        """Return what takes the place of a reference to a service in the cluster."""
        return {"url": f"https://127.0.0.1:{self.port}{service['path']}", "caBundle": self._bundle}


def crds_for(frameworks: Collection[str], crds: list[Object], server: WebhookServer) -> list[Object]:
    """Return Kueue's CRDs and those of the job kinds, converted by `server`.

    A job kind's whole API group comes along: TrainJob needs its runtimes. Raises `ValueError` for a job kind
    of a group that no CRD here has.
    """
    groups = {name.partition("/")[0] for name in frameworks if "." in name.partition("/")[0]}
    if missing := groups - {crd["spec"]["group"] for crd in crds}:
        raise ValueError(f"no CRDs for the job kinds of {', '.join(sorted(missing))}")
    chosen = [crd for crd in crds if crd["spec"]["group"] in groups | {KUEUE_GROUP}]
    return [_converted(crd, server) for crd in chosen]


def _converted(crd: Object, server: WebhookServer) -> Object:
    crd = copy.deepcopy(crd)
    crd.pop("status", None)
    conversion = crd["spec"].get("conversion", {})
    if conversion.get("strategy") == "Webhook":
        if crd["spec"]["group"] == KUEUE_GROUP:
            conversion["webhook"]["clientConfig"] = server.client_config(
                conversion["webhook"]["clientConfig"]["service"]
            )
        else:
            # Another project's operator would answer, and does not run here.
            del crd["spec"]["conversion"]
    return crd


def webhooks_for(frameworks: Collection[str], webhooks: list[Object], server: WebhookServer) -> list[Object]:
    """Return the webhook configurations of Kueue's own kinds and of the job kinds that run."""
    return [
        {**each, "webhooks": [_local(hook, server) for hook in each["webhooks"] if _wanted(hook, frameworks)]}
        for each in copy.deepcopy(webhooks)
    ]


def _wanted(hook: Object, frameworks: Collection[str]) -> bool:
    (rule,) = hook["rules"]
    (group,) = rule["apiGroups"]
    # "clusterqueues", or with its status "clusterqueues/status".
    kind = rule["resources"][0].partition("/")[0].removesuffix("s")
    if group == KUEUE_GROUP:
        return True
    return (kind if group in {"", "apps"} else f"{group}/{kind}") in frameworks


def _local(hook: Object, server: WebhookServer) -> Object:
    (rule,) = hook["rules"]
    local = {**hook, "clientConfig": server.client_config(hook["clientConfig"]["service"])}
    if rule["apiGroups"] != [KUEUE_GROUP]:
        local["namespaceSelector"] = _CHART_SELECTOR
    return local


def configuration(
    given: Mapping[str, Any] | None, frameworks: Collection[str], webhook_port: int, health_port: int
) -> Object:
    """Return Kueue's `Configuration` for a process on this machine.

    `given` is the one of a cluster (as `hyperpod_k8s.manager.configuration` makes it) and keeps all that
    decides about jobs; ports, certificates and leader election are ours, and so is the list of job kinds.
    """
    config: Object = copy.deepcopy(dict(given or {}))
    config.setdefault("apiVersion", "config.kueue.x-k8s.io/v1beta2")
    config.setdefault("kind", "Configuration")
    config.setdefault("controller", {"groupKindConcurrency": CONCURRENCY})
    config["health"] = {"healthProbeBindAddress": f"127.0.0.1:{health_port}"}
    config["metrics"] = {**config.get("metrics", {}), "bindAddress": "0"}
    config["webhook"] = {"host": "127.0.0.1", "port": webhook_port, "certDir": "certs"}
    config["leaderElection"] = {"leaderElect": False}
    config["internalCertManagement"] = {"enable": False}
    config["integrations"] = {**config.get("integrations", {}), "frameworks": list(frameworks)}
    # It would need certificates at a place of root's, and an aggregated API.
    config["featureGates"] = {**config.get("featureGates", {}), "VisibilityOnDemand": False}
    return config
