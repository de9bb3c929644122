"""HPF4xx: one change of a good fleet, one finding at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.governance.fleets import REMOVE, Case, changed, check, reviewed

from hyperpod_governance import catalog

RESEARCH = "llm/spec/allocations/0"
STUDIO = "llm/spec/allocations/1"
G6 = "ml.g6.12xlarge"
P5 = "ml.p5.48xlarge"


def cpu_groups(count: int) -> list[dict[str, Any]]:
    """Groups of as many CPU instance types."""
    names = [name for name, kind in catalog.instance_types().items() if not kind.accelerators]
    return [
        {"name": f"cpu{index}", "instanceType": name, "instanceCount": 9, "minInstanceCount": 5}
        for index, name in enumerate(names[:count])
    ]


CASES = [
    Case(
        "a team renamed from itself",
        "HPF416",
        "vision: renamedFrom: vision",
        ("vision", "its own name"),
        {"vision/spec/renamedFrom": "vision"},
    ),
    Case(
        "a team renamed from one that exists",
        "HPF416",
        "vision: renamedFrom: llm",
        ("llm", "a team that exists", "the document of team llm"),
        {"vision/spec/renamedFrom": "llm"},
    ),
    Case(
        "two teams renamed from one",
        "HPF416",
        "vision: renamedFrom: sight",
        ("sight", "also said by team llm"),
        {"vision/spec/renamedFrom": "sight", "llm/spec/renamedFrom": "sight"},
    ),
    Case(
        "an allocation on an unknown cluster",
        "HPF401",
        "llm: cluster: reserach",
        ("reserach", "pretrain, research, studio", "did you mean research?"),
        {f"{RESEARCH}/cluster": "reserach"},
    ),
    Case(
        "an allocation on a Slurm cluster",
        "HPF402",
        "llm: cluster: pretrain",
        ("pretrain", "Slurm"),
        {f"{RESEARCH}/cluster": "pretrain"},
    ),
    Case(
        "an allocation on a cluster without governance, and no word about its quota",
        "HPF402",
        "llm: cluster: studio",
        ("studio", "no governance", "spec.governance"),
        {"studio/spec/governance": REMOVE, "vision/spec/allocations/1": REMOVE}
        | {f"{STUDIO}/quota/0/instanceType": "ml.g5.2xlarge"},
    ),
    Case(
        "a quota of a type that no group has",
        "HPF403",
        "llm: instanceType: ml.g5.2xlarge",
        ("research", "ml.g5.2xlarge", G6),
        {f"{RESEARCH}/quota/0/instanceType": "ml.g5.2xlarge"},
    ),
    Case(
        "a family that the cluster lacks",
        "HPF404",
        "llm: instanceFamily: g5",
        ("instanceFamily g5", "research", G6),
        {f"{RESEARCH}/quota/0": {"instanceFamily": "g5", "accelerators": 2}},
    ),
    Case(
        "a misspelt family",
        "HPF404",
        "llm: instanceFamily: p5s",
        ("did you mean p5?",),
        {f"{STUDIO}/quota/0": {"instanceFamily": "p5s", "count": 1}},
    ),
    Case(
        "hardware that the cluster lacks",
        "HPF404",
        "llm: hardware: trainium",
        ("hardware trainium", "name an instanceType"),
        {f"{RESEARCH}/quota/0": {"hardware": "trainium", "count": 1}},
    ),
    Case(
        "accelerators of a CPU type",
        "HPF405",
        "llm: accelerators: 2",
        ("accelerators asks for 2", "ml.m5.2xlarge", "0 accelerators"),
        {f"{RESEARCH}/quota/0/instanceType": "ml.m5.2xlarge"},
    ),
    Case(
        "accelerators of CPU hardware",
        "HPF405",
        "llm: accelerators: 2",
        ("hardware cpu",),
        {f"{RESEARCH}/quota/0": {"hardware": "cpu", "accelerators": 2}},
    ),
    Case(
        "MIG slices of a CPU type, and no word about the profile",
        "HPF405",
        "llm: acceleratorPartition:",
        ("acceleratorPartition asks for 4", "m5"),
        {
            f"{RESEARCH}/quota/0": {
                "instanceFamily": "m5",
                "acceleratorPartition": {"type": "mig-1g.10gb", "count": 4},
            }
        },
    ),
    Case(
        "more promised than the target, with the teams and the largest first",
        "HPF406",
        "vision: instanceType: ml.p5.48xlarge",
        (
            "40 of 32 GPUs",
            "960 of 768 vCPU",
            "10240 of 8192 GiB of memory",
            "160 of 128 EFA",
            P5,
            "studio",
            "(4 instances)",
            "vision 32, llm 8",
        ),
        {"vision/spec/allocations/1/quota/0/count": 4},
    ),
    Case(
        "MIG slices count as parts of GPUs",
        "HPF406",
        "vision: instanceType: ml.p5.48xlarge",
        ("32.29 of 32 GPUs", "vision 16.29, llm 16"),
        {
            f"{STUDIO}/quota/0/count": 2,
            "vision/spec/allocations/1/quota/0": {
                "instanceType": P5,
                "acceleratorPartition": {"type": "mig-1g.10gb", "count": 114},
                "vCpu": 10,
                "memoryInGiB": 10,
            },
        },
    ),
    Case(
        "more vCPU promised than there is, though the accelerators fit",
        "HPF406",
        "llm: instanceType: ml.g6.12xlarge",
        ("204 of 192 vCPU", "816 of 768 GiB", "llm 180, vision 24"),
        {f"{RESEARCH}/quota/0/vCpu": 180},
    ),
    Case(
        "more promised than the minimum",
        "HPF407",
        "studio: minInstanceCount: 2",
        ("24 of 16 GPUs", "studio", "(2 of 4 instances)"),
        {f"{STUDIO}/quota/0/count": 2},
    ),
    Case(
        "a MIG profile of another GPU",
        "HPF408",
        "llm: type: mig-1g.5gb",
        (P5, "mig-1g.5gb", "mig-1g.10gb"),
        {
            f"{STUDIO}/quota/0": {
                "instanceType": P5,
                "acceleratorPartition": {"type": "mig-1g.5gb", "count": 4},
            }
        },
    ),
    Case(
        "MIG slices of a GPU without MIG",
        "HPF408",
        "llm: type: mig-1g.10gb",
        (G6, "allowed: none", "ask for accelerators"),
        {
            f"{RESEARCH}/quota/0": {
                "instanceType": G6,
                "acceleratorPartition": {"type": "mig-1g.10gb", "count": 4},
            }
        },
    ),
    Case(
        "a MIG profile that the API does not take",
        "HPF408",
        "llm: type: mig-1g.34gb",
        ("instanceFamily p6-b300", "mig-1g.34gb", "the compute quota API"),
        {
            "research/spec/instanceGroups/1/instanceType": "ml.p6-b300.48xlarge",
            "vision/spec/allocations/0/quota/0": {"instanceType": "ml.p6-b300.48xlarge", "count": 1},
            f"{RESEARCH}/quota/0": {
                "instanceFamily": "p6-b300",
                "acceleratorPartition": {"type": "mig-1g.34gb", "count": 4},
            },
        },
    ),
    Case(
        "accelerators of whole instances with EFA",
        "HPF409",
        "llm: accelerators: 16",
        ("accelerators: 16", "2 whole instances", "32 interfaces", "count: 2"),
        {f"{STUDIO}/quota/0": {"instanceType": P5, "accelerators": 16}}
        | {"studio/spec/instanceGroups/1/minInstanceCount": 3},
    ),
    Case(
        "two allocations of a team on a cluster",
        "HPF410",
        "llm: cluster: research",
        ("llm", "research", "llm.yaml:"),
        {f"{STUDIO}/cluster": "research", f"{STUDIO}/quota/0/instanceType": G6}
        | {"llm/spec/department": REMOVE, "vision/spec/allocations/1": REMOVE},
    ),
    Case(
        "more than 15 entries after the split of a kind of hardware",
        "HPF411",
        "llm: quota:",
        ("llm", "17 entries", "15"),
        {
            "research/spec/instanceGroups": [
                *cpu_groups(16),
                {**cpu_groups(1)[0], "name": "gpu", "instanceType": G6},
            ]
        }
        | {f"{RESEARCH}/quota/1": {"hardware": "cpu", "count": 16}},
    ),
    Case(
        "an allocation that promises nothing",
        "HPF412",
        "llm: quota: []",
        ("llm", "0 of everything", "absoluteBorrowLimits"),
        {f"{RESEARCH}/quota": []},
    ),
    Case(
        "an add-on that is too old for fine-grained quotas",
        "HPF413",
        "research: addonVersion: v1.2.2-eksbuild.1",
        ("v1.2.2-eksbuild.1", "llm", "llm.yaml:", "v1.3.0"),
        {"research/spec/governance/addonVersion": "v1.2.2-eksbuild.1"},
    ),
    Case(
        "accelerators without vCPU and memory",
        "HPF414",
        "llm: instanceType: ml.g6.12xlarge",
        ("llm", "2 GPUs", "0 vCPU and 0 memory"),
        {f"{RESEARCH}/quota/0/vCpu": 0},
    ),
    Case(
        "a borrow limit beyond what Kubernetes can count",
        "HPF415",
        "llm: instanceType: ml.p5.48xlarge",
        ("llm", "ml.p5.48xlarge", "memory", "20480000000 GiB", "8589934591 GiB"),
        {
            f"{STUDIO}/resourceSharingConfig": {
                "strategy": "LendAndBorrow",
                "absoluteBorrowLimits": [{"instanceType": P5, "count": 10_000_000}],
            }
        },
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gives_its_finding_and_no_other(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {f"{RESEARCH}/quota/0": {"instanceFamily": "g6", "accelerators": 2}},
        {f"{RESEARCH}/quota/0/accelerators": 0, f"{RESEARCH}/quota/0/instanceType": "ml.m5.2xlarge"},
        {f"{STUDIO}/quota/0": {"instanceType": P5, "accelerators": 8, "vCpu": 100}},
        {
            f"{RESEARCH}/quota": [],
            f"{RESEARCH}/resourceSharingConfig": {
                "strategy": "LendAndBorrow",
                "absoluteBorrowLimits": [{"instanceType": G6, "accelerators": 2}],
            },
        },
        {
            f"{STUDIO}/quota/0": {
                "instanceType": P5,
                "acceleratorPartition": {"type": "mig-1g.10gb", "count": 4},
            }
        },
        {"research/spec/governance/addonVersion": "v1.2.2-eksbuild.1"}
        | {f"{RESEARCH}/quota/0": {"instanceType": G6, "count": 1}}
        | {"vision/spec/allocations/0/quota/0": {"instanceType": G6, "count": 1}},
    ],
)
def test_what_is_allowed_gives_no_finding(changes: dict[str, object], tmp_path: Path) -> None:
    assert reviewed(tmp_path, changed(changes)).findings == ()


def test_a_misspelt_instance_type_of_a_group_does_not_blame_the_quotas_of_that_type(tmp_path: Path) -> None:
    files = changed({"research/spec/instanceGroups/1/instanceType": "ml.g6.12xlrage"})
    files["llm"]["spec"]["allocations"][0]["quota"] = [{"instanceFamily": "g6", "accelerators": 2}]
    found = reviewed(tmp_path, files).findings
    assert [finding.rule for finding in found] == ["HPF101"]


@pytest.mark.parametrize("counts", [(5_000_000, 0), (2_500_000, 2_500_000)])
def test_promises_that_kubernetes_cannot_count_are_an_error_alone_or_together(
    tmp_path: Path, counts: tuple[int, int]
) -> None:
    names = ("llm", "vision")
    changes = {
        f"{name}/spec/allocations/1/quota/0/count": count for name, count in zip(names, counts, strict=True)
    }
    found = {finding.rule for finding in reviewed(tmp_path, changed(changes)).findings}
    assert "HPF415" in found


def test_the_most_that_kubernetes_counts_is_no_error(tmp_path: Path) -> None:
    changes = {f"{name}/spec/allocations/1/quota/0/count": 2_000_000 for name in ("llm", "vision")}
    found = {finding.rule for finding in reviewed(tmp_path, changed(changes)).findings}
    assert "HPF415" not in found
