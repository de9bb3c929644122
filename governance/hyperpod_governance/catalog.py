"""The HyperPod instance types: what a node of each has, as far as quota, placement and networking ask.

The figures are EC2's nominal capacity, not what Kubernetes can allocate. They come from
`data/instance_catalog.json`, which `tools/generate_catalog.py` writes; docs/catalog.md says from where.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

# Every GPU that HyperPod partitions (A100 and its successors) has seven compute slices.
# Source: NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles.
MIG_SLICES_PER_GPU = 7

_MIG_PROFILE = re.compile(r"mig-([1-7])g\.[1-9][0-9]*gb")
_TUPLES = ("valid_threads_per_core", "topology_labels", "mig_profiles")


class Hardware(StrEnum):
    """The kind of accelerator on an instance, in the words of the config language's `hardware`.

    No HyperPod instance type has Inferentia today; the word is there because AWS has the kind.
    """

    NVIDIA = "nvidia"
    TRAINIUM = "trainium"
    INFERENTIA = "inferentia"
    CPU = "cpu"


_ACCELERATOR_RESOURCES: dict[Hardware, str | None] = {
    Hardware.NVIDIA: "nvidia.com/gpu",
    Hardware.TRAINIUM: "aws.amazon.com/neurondevice",
    Hardware.INFERENTIA: "aws.amazon.com/neurondevice",
    Hardware.CPU: None,
}


class UnknownInstanceType(KeyError):  # noqa: N818 - a lookup that failed, named as its callers say it
    """A name that is no HyperPod instance type. `name` is what was asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name!r} is not a SageMaker HyperPod instance type"


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One HyperPod instance type. Figures are of one whole instance unless they say "per device".

    `cores` and `threads_per_core` are EC2's defaults; their product is `vcpus`. A group with
    `threadsPerCore: 1` schedules `cores` vCPUs. `valid_threads_per_core` is empty when EC2 lists none.
    `accelerators` counts devices (GPUs, Trainium chips), `neuron_cores` the cores of all of them.
    `topology_labels` are the network labels of the type's node, from the top of the network to the
    node; the labels that every node has (zone, hostname) are not among them.
    `mig_profiles` are all that the type's GPU takes; see `compute_quota_mig_profiles`.
    """

    name: str
    vcpus: int
    cores: int
    threads_per_core: int
    valid_threads_per_core: tuple[int, ...]
    memory_mib: int
    architecture: str
    hardware: Hardware
    accelerators: int = 0
    accelerator_name: str = ""
    accelerator_memory_mib: int = 0
    neuron_cores: int = 0
    efa_interfaces: int = 0
    topology_labels: tuple[str, ...] = ()
    mig_profiles: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The text between `ml.` and the size: `p6e-gb200` of `ml.p6e-gb200.36xlarge`."""
        return _family(self.name)

    @property
    def accelerator_resource(self) -> str | None:
        """The Kubernetes extended resource that counts the accelerators, or None without any."""
        return _ACCELERATOR_RESOURCES[self.hardware]


@cache
def _family(name: str) -> str:
    return name.removeprefix("ml.").rpartition(".")[0]


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """Every HyperPod instance type by its name, in the order of the names."""
    return MappingProxyType({name: _instance_type(name, row) for name, row in _document()["types"].items()})


def instance_type(name: str) -> InstanceType:
    """The instance type of that name (`ml.p5.48xlarge`). Raises UnknownInstanceType."""
    try:
        return instance_types()[name]
    except KeyError:
        raise UnknownInstanceType(name) from None


@cache
def families() -> tuple[str, ...]:
    """The names of the instance families, sorted."""
    return tuple(sorted({each.family for each in instance_types().values()}))


@cache
def compute_quota_mig_profiles() -> frozenset[str]:
    """The MIG profiles that a compute quota's `acceleratorPartition.type` accepts.

    A type's own `mig_profiles` can hold more: the API has none of ml.p6-b300.48xlarge's yet.
    """
    return frozenset(_document()["compute_quota_mig_profiles"])


def mig_slices(profile: str) -> int:
    """The compute slices, of `MIG_SLICES_PER_GPU`, that one partition takes: 3 for `mig-3g.40gb`.

    Raises ValueError when the text is not of that form; whether a GPU has the profile is not checked.
    """
    match = _MIG_PROFILE.fullmatch(profile)
    if match is None:
        raise ValueError(f"{profile!r} is not a MIG profile such as 'mig-3g.40gb'")
    return int(match[1])


def mig_resource(profile: str) -> str:
    """The Kubernetes extended resource of a profile: `nvidia.com/mig-3g.40gb` for `mig-3g.40gb`.

    Raises ValueError when the text is not of that form.
    """
    mig_slices(profile)
    return f"nvidia.com/{profile}"


@cache
def _document() -> dict[str, Any]:
    # A path rather than importlib.resources, whose import takes longer than reading the catalog.
    text = Path(__file__).with_name("data").joinpath("instance_catalog.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def _instance_type(name: str, row: dict[str, Any]) -> InstanceType:
    figures = {key: value for key, value in row.items() if key != "from"}
    figures["hardware"] = Hardware(figures["hardware"])
    figures.update((key, tuple(figures[key])) for key in _TUPLES if key in figures)
    return InstanceType(name, **figures)
