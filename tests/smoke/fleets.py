"""A fleet of one cluster, in variants, and its cloud assembly as `hpf synth` writes it."""

import functools
import tempfile
from pathlib import Path

from tests.smoke.assembly import Assembly

from hyperpod_cli import pipeline

FLEET = """\
apiVersion: hyperpod-fleet/v1alpha1
kind: Fleet
metadata: {name: smoke}
spec: {tags: {owner: ml-platform}}
---
apiVersion: hyperpod-fleet/v1alpha1
kind: Cluster
metadata: {name: research}
spec:
  region: us-east-1
  orchestrator: {eks: {version: "1.34"}}
  network: {create: {cidr: 10.192.0.0/16}}
  nodeProvisioningMode: Continuous
  nodeRecovery: Automatic
  instanceGroups:
    - {name: system, instanceType: ml.m5.2xlarge, instanceCount: 2, minInstanceCount: 1}
    - {name: g6, instanceType: ml.g6.12xlarge, instanceCount: 4, minInstanceCount: 2}
  governance:
    owner: sagemaker
    schedulerConfig:
      fairShare: Enabled
      priorityClasses: [{name: inference, weight: 90}, {name: training, weight: 70}]
  monitoring: {state: Disabled}
---
apiVersion: hyperpod-fleet/v1alpha1
kind: Team
metadata: {name: llm}
spec:
  allocations:
    - cluster: research
      quota: [{instanceType: ml.g6.12xlarge, accelerators: 8}]
---
apiVersion: hyperpod-fleet/v1alpha1
kind: Team
metadata: {name: vision}
spec:
  allocations:
    - cluster: research
      quota: [{instanceType: ml.g6.12xlarge, accelerators: 4}]
"""

NETWORK, CLUSTER, CAPACITY, GOVERNANCE = (
    f"smoke-research-{part}" for part in ("network", "cluster", "capacity", "governance")
)

# It goes when the process ends.
_DIRECTORY = tempfile.TemporaryDirectory()

Edits = tuple[tuple[str, str], ...]

CUSTOM = (
    ("region: us-east-1", "region: us-west-2"),
    ("owner: sagemaker", "owner: sagemaker\n    backend: custom-resource"),
)
"""A region that has not all native types."""

MORE_FOR_VISION = (("accelerators: 4", "accelerators: 6"),)
VISION_HELD = (("accelerators: 4}]", "accelerators: 4}]\n      activationState: Disabled"),)
WITHOUT_VISION = ((FLEET[FLEET.rindex("---") :], ""),)
OTHER_TYPE = (("ml.g6.12xlarge", "ml.g6.24xlarge"),)
LOWER_MINIMUM = (("instanceCount: 4, minInstanceCount: 2", "instanceCount: 4, minInstanceCount: 1"),)
MORE_INSTANCES = (("instanceCount: 4, minInstanceCount: 2", "instanceCount: 8, minInstanceCount: 6"),)


@functools.cache
def assembly(*edits: tuple[str, str]) -> Assembly:
    """Give the assembly of the fleet after replacements in its text; each is made once."""
    text = FLEET
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    config = Path(tempfile.mkdtemp(dir=_DIRECTORY.name))
    (config / "fleet.yaml").write_text(text)
    return assembly_of(config)


@functools.cache
def example() -> Assembly:
    """Give the assembly of the example in this repository."""
    return assembly_of(Path(__file__).resolve().parents[2] / "config")


def assembly_of(config: Path) -> Assembly:
    """Give the assembly of a config directory as it is now."""
    from hyperpod_infra.app import synthesize  # noqa: PLC0415 (starts Node)

    checked = pipeline.check(config)
    assert checked.resolved is not None, [f"{it.place}: {it.message}" for it in checked.errors]
    out = Path(tempfile.mkdtemp(dir=_DIRECTORY.name))
    synthesize(checked.resolved, config, out)
    for layer in out.glob("*.zip"):
        # 60 MB to copy and to publish, which nothing here opens.
        layer.write_bytes(b"")
    return Assembly(out)
