"""Write the instance catalog from its sources: `python tools/generate_catalog.py [--check]`.

Names are botocore's, figures are what moto recorded of EC2's DescribeInstanceTypes. What neither of the
two knows stands in the tables below, each entry with its source. Needs the development dependencies.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import sys
from collections.abc import Iterable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from hyperpod_cli.output import emit

Row = dict[str, Any]

OUTPUT = Path(__file__).parents[1] / "governance/hyperpod_governance/data/instance_catalog.json"

SOURCES = {
    "botocore": "botocore's sagemaker service model: ClusterInstanceType, MIGProfileType",
    "ec2": f"moto {version('moto')}, ec2/resources/instance_types.json.gz: DescribeInstanceTypes, recorded",
    "ec2-p6e": "Amazon EC2 instance types, P6e-GB200: 144 vCPUs, 960 GiB, 4 GPUs with 740 GiB together",
    "neuron": "AWS Neuron documentation, Training best practices: trn2.48xlarge has 96 GiB of HBM a chip",
    "nvidia-grace": "NVIDIA Grace CPU: 72 Arm cores each, one thread a core; an instance has two",
    "ec2-efa": "EC2 User Guide, Maximize network bandwidth on instances with multiple network cards",
    "ec2-topology": "EC2 User Guide, Prerequisites for Amazon EC2 topology, Instance types",
    "hyperpod-topology": "SageMaker Developer Guide, Using topology-aware scheduling in task governance",
    "hyperpod-slurm-topology": "SageMaker Developer Guide, Using topology-aware scheduling in HyperPod",
    "hyperpod-samples": "awslabs/awsome-distributed-ai 95b939c, cluster-topology/README.md",
    "hyperpod-mig": "SageMaker Developer Guide, Using GPU partitions in HyperPod, GPU partitions",
    "hyperpod-cli": "aws/sagemaker-hyperpod-cli 011ca92, src/sagemaker/hyperpod/training/constants.py",
    "nvidia-mig": "NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles",
}

# Where a figure is from when the type's own "from" does not say otherwise.
FIGURES = {
    "name": "botocore ClusterInstanceType",
    "vcpus": "ec2 VCpuInfo.DefaultVCpus",
    "cores": "ec2 VCpuInfo.DefaultCores",
    "threads_per_core": "ec2 VCpuInfo.DefaultThreadsPerCore",
    "valid_threads_per_core": "ec2 VCpuInfo.ValidThreadsPerCore, [] where EC2 lists none",
    "memory_mib": "ec2 MemoryInfo.SizeInMiB",
    "architecture": "ec2 ProcessorInfo.SupportedArchitectures",
    "hardware": "ec2 GpuInfo or NeuronInfo present",
    "accelerators": "ec2 Gpus[].Count or NeuronDevices[].Count",
    "accelerator_name": "ec2 Gpus[].Name or NeuronDevices[].Name",
    "accelerator_memory_mib": "ec2 Gpus[] or NeuronDevices[].MemoryInfo.SizeInMiB, per device",
    "neuron_cores": "ec2 NeuronDevices[].Count x CoreInfo.Count",
    "efa_interfaces": "ec2 NetworkInfo.EfaInfo.MaximumEfaInterfaces",
    "topology_labels": "ec2-topology number of network nodes, hyperpod-topology names of the labels",
    "mig_profiles": "hyperpod-mig",
}

# What EC2's recording does not have, or has wrong.
# P6e-GB200 is not recorded: it exists only inside UltraServers, which are sold as a whole. Inferred: its GPU
# memory is 740 GiB / 4 (the 1,432 "GB" that the same page gives for p6-b200 are GiB in the API), and its EFA
# count is that of the network cards which the User Guide says take EFA (1 to 16 of 0 to 16).
TRN2_MEMORY: Row = {"accelerator_memory_mib": 96 * 1024, "from": {"accelerator_memory_mib": "neuron"}}
BY_HAND: dict[str, Row] = {
    "ml.trn2.3xlarge": TRN2_MEMORY,
    "ml.trn2.48xlarge": TRN2_MEMORY,
    "ml.p6e-gb200.36xlarge": {
        "vcpus": 144,
        "cores": 144,
        "threads_per_core": 1,
        "valid_threads_per_core": [1],
        "memory_mib": 960 * 1024,
        "architecture": "arm64",
        "hardware": "nvidia",
        "accelerators": 4,
        "accelerator_name": "GB200",
        "accelerator_memory_mib": 185 * 1024,
        "efa_interfaces": 16,
        "from": {
            "vcpus": "ec2-p6e",
            "cores": "nvidia-grace",
            "threads_per_core": "nvidia-grace",
            "valid_threads_per_core": "nvidia-grace",
            "memory_mib": "ec2-p6e",
            "architecture": "nvidia-grace",
            "hardware": "ec2-p6e",
            "accelerators": "ec2-p6e",
            "accelerator_name": "ec2-p6e",
            "accelerator_memory_mib": "ec2-p6e, inferred",
            "efa_interfaces": "ec2-efa, inferred",
        },
    },
}

LAYERS = tuple(f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3, 4))
# That an UltraServer lies below the third network layer is inferred: it is one rack, one NVLink domain.
ULTRASERVER = "topology.k8s.aws/ultraserver-id"

# Only types that a source on HyperPod with EKS names: a Kueue Topology leaves out every node that lacks one
# of its labels, so a label too many blocks jobs, and a label too few costs only locality.
TOPOLOGY_LABELS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "ml.p4d.24xlarge",
            "ml.p4de.24xlarge",
            "ml.p5.48xlarge",
            "ml.p5e.48xlarge",
            "ml.p5en.48xlarge",
            "ml.trn1.32xlarge",
            "ml.trn1n.32xlarge",
            "ml.trn2.48xlarge",
        ),
        LAYERS[:3],
    ),
    "ml.p6-b200.48xlarge": LAYERS,
    "ml.p6-b300.48xlarge": LAYERS,
    "ml.p6e-gb200.36xlarge": (*LAYERS[:3], ULTRASERVER),
}

# Profiles of one GPU model, smallest first, without the "mig-" of the API.
A100_40, A100_80, H200, B200, B300, GB200 = (
    ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
    ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"),
    ("1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"),
)
H100 = A100_80
MIG_PROFILES: dict[str, tuple[tuple[str, ...], str]] = {
    "ml.p4d.24xlarge": (A100_40, "hyperpod-mig, nvidia-mig"),
    "ml.p4de.24xlarge": (A100_80, "hyperpod-cli, nvidia-mig"),
    "ml.p5.48xlarge": (H100, "hyperpod-mig"),
    "ml.p5e.48xlarge": (H200, "hyperpod-mig"),
    "ml.p5en.48xlarge": (H200, "hyperpod-mig"),
    "ml.p6-b200.48xlarge": (B200, "hyperpod-cli, nvidia-mig"),
    "ml.p6-b300.48xlarge": (B300, "hyperpod-cli"),
    "ml.p6e-gb200.36xlarge": (GB200, "hyperpod-cli"),
}

# Where two sources differ: what the other one says, and why it is not what the catalog says.
DISAGREEMENTS = [
    {
        "types": ["ml.trn2.3xlarge", "ml.trn2.48xlarge"],
        "figure": "accelerator_memory_mib",
        "source": "ec2",
        "says": "524288",
        "reason": "neuron gives 96 GiB a chip; 512 GiB would make 8 TiB of an instance sold with 1.5 TB",
    },
    {
        "types": ["ml.c5n.large"],
        "figure": "memory_mib",
        "source": "hyperpod-cli",
        "says": "5 GiB",
        "reason": "EC2 gives 5.25 GiB; the CLI's table holds whole GiB",
    },
    {
        "types": ["ml.p6e-gb200.36xlarge"],
        "figure": "efa_interfaces",
        "source": "hyperpod-cli",
        "says": "0",
        "reason": "EC2 documents EFA on network cards 1 to 16; card 0 is described with ENA only, although "
        "aws/aws-parallelcluster pull request 6930 asks for EFA on it too, which would make 17",
    },
    {
        "types": ["ml.p6e-gb200.36xlarge"],
        "figure": "topology_labels",
        "source": "AWS Containers Blog, Dynamic Resource Allocation on EKS and P6e-GB200",
        "says": "network-node-layer-1 to -4",
        "reason": "the EC2 User Guide lists the type with three network nodes",
    },
    {
        "types": ["ml.p6-b200.48xlarge"],
        "figure": "topology_labels",
        "source": "hyperpod-topology",
        "says": "not listed",
        "reason": "ec2-topology lists it with four network nodes, and hyperpod-samples with HyperPod on EKS",
    },
    {
        "types": ["ml.g6e.*", "ml.g7e.*"],
        "figure": "topology_labels",
        "source": "ec2-topology, hyperpod-slurm-topology",
        "says": "three network nodes",
        "reason": "no source on HyperPod with EKS lists them, so the labels are not relied on",
    },
    {
        "types": ["ml.p4d.24xlarge"],
        "figure": "mig_profiles",
        "source": "hyperpod-mig",
        "says": "no mig-1g.10gb",
        "reason": "nvidia-mig gives it for the A100 40 GB, and hyperpod-cli for the type",
    },
    {
        "types": ["ml.p6e-gb200.36xlarge"],
        "figure": "mig_profiles",
        "source": "awslabs/awsome-distributed-ai 5ebf897, 9.p6e-gb200-ultraserver/eks",
        "says": "no MIG: off in the driver's CDMM mode",
        "reason": "the compute quota API has the GB200's own profiles, and hyperpod-cli lists them",
    },
]


def main() -> int:
    """Write the catalog, or with --check print how the committed one differs. Exit 1 when it does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when not current")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the catalog file")
    arguments = parser.parse_args()
    wanted = render(catalog())
    if arguments.check:
        return check(arguments.output, wanted)
    emit(wanted, arguments.output)
    return 0


def check(path: Path, wanted: str) -> int:
    """Print the differences between the file and the wanted text; 0 when there is none, else 1."""
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = difflib.unified_diff(
        present.splitlines(), wanted.splitlines(), "committed", "generated", n=0, lineterm=""
    )
    differences = list(lines)
    if differences:
        print("\n".join([*differences, "The catalog is not current: run python tools/generate_catalog.py"]))
    return 1 if differences else 0


def catalog() -> dict[str, Any]:
    """The whole catalog: its sources, and a row for each of botocore's names."""
    shapes = read_packed("botocore", "data/sagemaker/2017-07-24/service-2.json.gz")["shapes"]
    names = sorted(shapes["ClusterInstanceType"]["enum"])
    recorded = read_packed("moto", "ec2/resources/instance_types.json.gz")
    known = {*BY_HAND, *(f"ml.{name}" for name in recorded)}
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"no source has figures for {', '.join(unknown)}: add them to BY_HAND")
    tabled = {*BY_HAND, *TOPOLOGY_LABELS, *MIG_PROFILES}
    if stray := sorted(tabled - set(names)):
        raise SystemExit(f"botocore no longer has {', '.join(stray)}: remove them from the tables")
    return {
        "sources": SOURCES,
        "figures": FIGURES,
        "disagreements": DISAGREEMENTS,
        "compute_quota_mig_profiles": sorted(shapes["MIGProfileType"]["enum"], key=profile_order),
        "types": {name: row_of(name, recorded.get(name.removeprefix("ml."))) for name in names},
    }


def read_packed(package: str, path: str) -> dict[str, Any]:
    """The JSON object of a gzip file inside an installed package."""
    document: dict[str, Any] = json.loads(gzip.decompress(files(package).joinpath(path).read_bytes()))
    return document


def profile_order(profile: str) -> tuple[int, int]:
    """Sort key of `mig-3g.40gb`: its slices, then its memory."""
    slices, memory = profile.removeprefix("mig-").removesuffix("gb").split("g.")
    return int(slices), int(memory)


def row_of(name: str, recorded: Row | None) -> Row:
    """The catalog row of one type: EC2's figures, then what the tables of this file add or correct."""
    row = ec2_figures(name, recorded) if recorded else {}
    by_hand = BY_HAND.get(name, {})
    if stale := [figure for figure, value in by_hand.items() if row.get(figure) == value]:
        raise SystemExit(f"EC2 gives the same {', '.join(stale)} for {name} now: remove them from BY_HAND")
    row.update(by_hand)
    origin = dict(row.pop("from", {}))
    if labels := TOPOLOGY_LABELS.get(name):
        row["topology_labels"] = labels
    if name in MIG_PROFILES:
        profiles, source = MIG_PROFILES[name]
        row["mig_profiles"] = [f"mig-{profile}" for profile in profiles]
        if source != FIGURES["mig_profiles"]:
            origin["mig_profiles"] = source
    return {**row, "from": origin} if origin else row


def ec2_figures(name: str, recorded: Row) -> Row:
    """The figures that EC2's DescribeInstanceTypes gives; what a type has none of is left out."""
    cpu = recorded["VCpuInfo"]
    row = {
        "vcpus": cpu["DefaultVCpus"],
        "cores": cpu["DefaultCores"],
        "threads_per_core": cpu["DefaultThreadsPerCore"],
        "valid_threads_per_core": sorted(cpu.get("ValidThreadsPerCore", [])),
        "memory_mib": recorded["MemoryInfo"]["SizeInMiB"],
        "architecture": only(name, recorded["ProcessorInfo"]["SupportedArchitectures"]),
        **accelerator_figures(name, recorded),
    }
    if efa := recorded["NetworkInfo"].get("EfaInfo"):
        row["efa_interfaces"] = efa["MaximumEfaInterfaces"]
    return row


def accelerator_figures(name: str, recorded: Row) -> Row:
    """Kind, count, name and memory of the accelerators. Stops at a kind the config language lacks."""
    gpus = recorded.get("GpuInfo", {}).get("Gpus", [])
    neurons = recorded.get("NeuronInfo", {}).get("NeuronDevices", [])
    if not gpus and not neurons:
        return {"hardware": "cpu"}
    device = only(name, [*gpus, *neurons])
    hardware = "nvidia" if gpus else device["Name"].rstrip("0123456789").lower()
    if (
        hardware not in {"nvidia", "trainium", "inferentia"}
        or device.get("Manufacturer", "NVIDIA") != "NVIDIA"
    ):
        raise SystemExit(f"{name} has an accelerator of a new kind: {device}")
    row = {
        "hardware": hardware,
        "accelerators": device["Count"],
        "accelerator_name": device["Name"],
        "accelerator_memory_mib": device["MemoryInfo"]["SizeInMiB"],
    }
    if neurons:
        row["neuron_cores"] = device["Count"] * device["CoreInfo"]["Count"]
    return row


def only(name: str, values: list[Any]) -> Any:
    """The single value of a list; the catalog has no place for a type with two architectures or GPUs."""
    if len(values) != 1:
        raise SystemExit(f"{name}: expected one value, got {values}")
    return values[0]


def render(document: dict[str, Any]) -> str:
    """The catalog as JSON, each entry on a line of its own so that a diff shows which one changed."""
    blocks = (f'"{key}": {block(value)}' for key, value in document.items())
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def block(value: dict[str, Any] | list[Any]) -> str:
    """One section: an object or a list, with a line for each member."""
    if isinstance(value, dict):
        return "{\n" + lines(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()) + "\n}"
    return "[\n" + lines(json.dumps(each) for each in value) + "\n]"


def lines(entries: Iterable[str]) -> str:
    """JSON members, one a line."""
    return ",\n".join(f" {entry}" for entry in entries)


if __name__ == "__main__":
    sys.exit(main())
