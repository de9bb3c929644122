"""HPF6xx and HPF7xx: one change of a good fleet, one finding at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.governance.fleets import Case, changed, check, reviewed

from hyperpod_governance import catalog

GPU = "studio/spec/instanceGroups/1"
COUNT = {
    f"{team}/spec/allocations/0/quota/0": {"instanceType": "ml.p5.48xlarge", "count": 1}
    for team in ("llm", "vision")
}


def taints(count: int, prefix: str = "key") -> list[dict[str, str]]:
    """Taints with different keys."""
    return [{"key": f"{prefix}{number}", "effect": "NoSchedule"} for number in range(count)]


def labels(count: int) -> dict[str, str]:
    """Labels with different keys."""
    return {f"key{number}": "x" for number in range(count)}


def groups(count: int) -> list[dict[str, Any]]:
    """Groups of as many instance types; the first is a system group."""
    names = ["ml.m5.2xlarge", "ml.g6.12xlarge"]
    names += [name for name in catalog.instance_types() if name not in names]
    return [
        {"name": f"group{index}", "instanceType": name, "instanceCount": 4, "minInstanceCount": 2}
        for index, name in enumerate(names[:count])
    ]


CASES = [
    Case(
        "an add-on that is too old for topology",
        "HPF601",
        "research: addonVersion: v1.2.1-eksbuild.1",
        ("v1.2.1-eksbuild.1", "ml.p5.48xlarge", "v1.2.2"),
        {
            "research/spec/governance/addonVersion": "v1.2.1-eksbuild.1",
            "research/spec/instanceGroups/1/instanceType": "ml.p5.48xlarge",
            **COUNT,
        },
    ),
    Case(
        "more instance types than a queue takes",
        "HPF701",
        "research: instanceGroups:",
        ("ClusterQueue hyperpod-ns-llm-clusterqueue", "65 flavors", "64"),
        {"research/spec/instanceGroups": groups(65)},
    ),
    Case(
        "more taints than a flavor tolerates, over two groups",
        "HPF702",
        "studio: taints:",
        ("ml.p5.48xlarge", "9 different taints", "8"),
        {
            f"{GPU}/kubernetesConfig": {"taints": taints(5)},
            "studio/spec/instanceGroups/2": {
                "name": "more",
                "instanceType": "ml.p5.48xlarge",
                "instanceCount": 1,
                "kubernetesConfig": {"taints": taints(4, "other")},
            },
        },
    ),
    Case(
        "a Kueue that is too old",
        "HPF703",
        "studio: version: 0.16.9",
        ("0.16.9", "0.17.0", "ray.io/rayservice"),
        {"studio/spec/governance/kueue": {"version": "0.16.9"}},
    ),
    Case(
        "a Kueue of yours that is too old",
        "HPF703",
        "studio: version: 0.15.9",
        ("0.15.9", "0.16.0", "v1beta2"),
        {"studio/spec/governance/kueue": {"install": "Disabled", "version": "0.15.9"}},
    ),
    Case(
        "a taint twice on one group",
        "HPF704",
        "studio: key: key0",
        ("gpu", "key0", "NoSchedule"),
        {f"{GPU}/kubernetesConfig": {"taints": [*taints(1), {**taints(1)[0], "value": "other"}]}},
    ),
    Case(
        "more labels than leave room for the name of the group and its topology",
        "HPF705",
        "studio: labels:",
        ("gpu has 49 labels, and 2 are added", "50", "remove 1"),
        {f"{GPU}/kubernetesConfig": {"labels": labels(49)}},
    ),
    Case(
        "more labels than leave room for the name of the group",
        "HPF705",
        "studio: labels:",
        ("system has 50 labels, and 1 are added",),
        {"studio/spec/instanceGroups/0/kubernetesConfig": {"labels": labels(50)}},
    ),
    Case(
        "a group of everybody",
        "HPF706",
        "llm: system:authenticated",
        ("system:authenticated", "llm"),
        {"llm/spec/access": {"groups": ["llm-people", "system:authenticated"]}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gives_its_finding_and_no_other(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"research/spec/governance/addonVersion": "v1.10.0-eksbuild.1"},
        {"research/spec/instanceGroups": groups(64)},
        {f"{GPU}/kubernetesConfig": {"taints": taints(8)}},
        {f"{GPU}/kubernetesConfig": {"taints": [*taints(1), {"key": "key0", "effect": "NoExecute"}]}},
        {"studio/spec/governance/kueue": {"version": "0.17.0"}},
        {"studio/spec/governance/kueue": {"install": "Disabled", "version": "0.16.0"}},
        {f"{GPU}/kubernetesConfig": {"labels": labels(48)}},
        {"llm/spec/access": {"groups": ["subsystem:llm", "oidc:system:llm"]}},
    ],
)
def test_what_is_allowed_gives_no_finding(changes: dict[str, object], tmp_path: Path) -> None:
    assert reviewed(tmp_path, changed(changes)).findings == ()
