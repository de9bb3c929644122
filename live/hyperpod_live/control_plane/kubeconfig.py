"""Kubeconfig files: the one that a control plane writes, and those of other clusters."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hyperpod_live.control_plane.certificates import Certificates
from hyperpod_live.control_plane.errors import ControlPlaneError


@dataclass(frozen=True)
class Access:
    """How to reach an API server: its URL, PEM files of TLS, headers of who asks."""

    url: str
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


CONTROLLER = "system:kube-controller-manager"
"""Who the parts of the control plane are to the API server, as in a real cluster: admission rules tell them
from people."""


def write_kubeconfig(path: Path, url: str, certificates: Certificates, act_as: str | None = None) -> None:
    """Write a kubeconfig of the administrator, who may act as another user; only this user can read it."""

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    name = "rehearsal"
    cluster = {"server": url, "certificate-authority-data": data(certificates.authority)}
    user: dict[str, Any] = {
        "client-certificate-data": data(certificates.admin),
        "client-key-data": data(certificates.admin_key),
    }
    if act_as:
        user |= {"as": act_as, "as-groups": ["system:masters"]}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))


def read_kubeconfig(path: Path, folder: Path, context: str | None = None) -> Access:
    """Return how a kubeconfig reaches a cluster; keys that stand in it are written to `folder` for OpenSSL.

    Takes certificates, tokens and `exec` plugins (as EKS uses). Raises `ControlPlaneError` when the file or
    the context is missing or says nothing usable.
    """
    try:
        config = yaml.safe_load(path.read_bytes())
        chosen = context or config["current-context"]
        found = _named(config["contexts"], chosen)["context"]
        cluster = _named(config["clusters"], found["cluster"])["cluster"]
        user = _named(config["users"], found["user"])["user"] or {}
        url = cluster["server"].rstrip("/")
    except (OSError, yaml.YAMLError, LookupError, TypeError) as error:
        raise ControlPlaneError(f"{path} names no cluster that can be reached: {error}") from error
    token = user.get("token") or _file(user.get("tokenFile"))
    if plugin := user.get("exec"):
        issued = _run_plugin(plugin)
        token = issued.get("token")
        for ours, theirs in (
            ("client-certificate-data", "clientCertificateData"),
            ("client-key-data", "clientKeyData"),
        ):
            if theirs in issued:
                user[ours] = base64.b64encode(issued[theirs].encode()).decode()

    def pem(entry: Mapping[str, Any], name: str) -> Path | None:
        if encoded := entry.get(f"{name}-data"):
            target = folder / f"{name}.pem"
            target.touch(mode=0o600)
            target.write_bytes(base64.b64decode(encoded))
            return target
        # A relative path counts from the kubeconfig.
        return path.parent / entry[name] if entry.get(name) else None

    return Access(
        url,
        pem(cluster, "certificate-authority"),
        pem(user, "client-certificate"),
        pem(user, "client-key"),
        {"Authorization": f"Bearer {token}"} if token else {},
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for each in entries:
        if each["name"] == name:
            return each
    raise LookupError(f'it has no "{name}"')


def _file(path: str | None) -> str | None:
    return Path(path).read_text().strip() if path else None


def _run_plugin(plugin: Mapping[str, Any]) -> dict[str, str]:
    """Return the credential that a command of the kubeconfig prints (client.authentication.k8s.io)."""
    extra = {each["name"]: each["value"] for each in plugin.get("env") or []}
    asked = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    env = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    words = [plugin["command"], *(plugin.get("args") or [])]
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
        status: dict[str, str] = json.loads(done.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        said = getattr(error, "stderr", None) or error
        raise ControlPlaneError(
            f"`{' '.join(words)}` of the kubeconfig gave no credential: {said}"
        ) from error
    return status
