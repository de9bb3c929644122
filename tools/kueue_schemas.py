"""Distil Kueue's CRDs into the test data that manifests are judged by.

Run `python tools/kueue_schemas.py [VERSION]`; needs Go, which fetches the module. What is kept: for each kind
that this tool emits, the v1beta2 schema with its CEL rules and defaults, without descriptions and status.
The result is data of the Kueue project (Apache License 2.0); where it comes from stands in its head.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

MODULE = "sigs.k8s.io/kueue"
VERSION = "v0.19.2"
API_VERSION = "v1beta2"
KINDS = (
    "clusterqueues",
    "cohorts",
    "localqueues",
    "resourceflavors",
    "topologies",
    "workloadpriorityclasses",
)
OUT = Path(__file__).resolve().parents[1] / "tests" / "k8s" / "data" / "kueue_crds.json"


def main(version: str) -> None:
    """Write the test data for a version of Kueue."""
    command = ["go", "mod", "download", "-json", f"{MODULE}@{version}"]
    module = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    bases = Path(module["Dir"]) / "config" / "components" / "crd" / "bases"
    crds = [yaml.safe_load((bases / f"kueue.x-k8s.io_{kind}.yaml").read_text("utf-8")) for kind in KINDS]
    source = {
        "module": MODULE,
        "version": version,
        "sum": module["Sum"],
        "path": "config/components/crd/bases",
        "license": "Apache-2.0",
        "generator": "tools/kueue_schemas.py",
    }
    kinds = {crd["spec"]["names"]["kind"]: _distil(crd["spec"]) for crd in crds}
    OUT.write_text(json.dumps({"source": source, "kinds": kinds}, indent=1, sort_keys=True) + "\n", "utf-8")


def _distil(spec: dict[str, Any]) -> dict[str, Any]:
    version = next(entry for entry in spec["versions"] if entry["name"] == API_VERSION)
    schema = _without_descriptions(version["schema"]["openAPIV3Schema"])
    schema["properties"].pop("status", None)
    return {"scope": spec["scope"], "schema": schema}


def _without_descriptions(node: Any) -> Any:
    """Drop texts called description; a property of that name is a mapping and stays."""
    if isinstance(node, dict):
        kept = {key: value for key, value in node.items() if key != "description" or isinstance(value, dict)}
        return {key: _without_descriptions(value) for key, value in kept.items()}
    if isinstance(node, list):
        return [_without_descriptions(value) for value in node]
    return node


if __name__ == "__main__":
    main(*(sys.argv[1:] or [VERSION]))
