"""Any fleet: a seed gives always the same one, and every setting that reaches Kueue takes its extremes.

Not hypothesis: many fleets go to one API server together, and a person repeats a single one by its number.
"""

import random
from dataclasses import dataclass
from typing import Any

from hyperpod_config.findings import Severity
from hyperpod_config.model import Cluster, Department, Fleet, FleetDocument, Team
from hyperpod_governance import catalog
from hyperpod_governance.model import ResolvedFleet
from hyperpod_governance.review import review

Document = dict[str, Any]
Random = random.Random

# What some reader of YAML, Kubernetes or DNS may take for something else, or that is as long as can be.
NAMES = ("no", "null", "on", "y", "1e3", "0", "12", "0x1f", "2026-11-21", "a--b", "default", "idle", "a" * 40)
KEYS = (
    *("gpu", "example.com/team", "nvidia.com/gpu", "A.b_C-9", "k" * 63, "a.b-c.9/E_f"),
    f"{'p' * 63}.{'q' * 63}.{'r' * 63}.{'s' * 61}/{'n' * 63}",
)
VALUES = (None, "", "no", "true", "1e3", "0", "v" * 63, "A.b_C-9")
COUNTS = (0, 0, 1, 1, 2, 3, 7, 8, 64, 1000, 6758)
AMOUNTS = (0, 1, 2, 3, 4, 7, 8, 16, 999, 1000, 1024, 12_345, 1_000_000, 10_000_000)
FRACTIONS = (
    0.0,
    0.001,
    0.0015,
    0.1,
    0.5,
    1.0,
    1.5,
    7.25,
    48.0,
    192.0,
    1024.0,
    333.333,
    1e5,
    9_999_999.999,
    1e7,
)
PERCENTS = (0, 1, 33, 50, 99, 100, 101, 500, 9999, 10_000)
WEIGHTS = (0, 1, 2, 10, 99, 100)


@dataclass(frozen=True)
class Drawn:
    """A fleet that the rules have no error for, and the number that makes it again."""

    seed: int
    documents: tuple[Document, ...]
    resolved: ResolvedFleet


def fleet(seed: int) -> Drawn | None:
    """The fleet of a seed; None when the rules refuse it."""
    drawn = tuple(documents(seed))
    of = {
        kind: [each for each in drawn if each["kind"] == kind] for kind in ("Cluster", "Team", "Department")
    }
    reviewed = review(
        Fleet(
            FleetDocument.model_validate(drawn[0]),
            tuple(Cluster.model_validate(each) for each in of["Cluster"]),
            tuple(Team.model_validate(each) for each in of["Team"]),
            tuple(Department.model_validate(each) for each in of["Department"]),
        )
    )
    if reviewed.resolved is None or any(each.severity is Severity.ERROR for each in reviewed.findings):
        return None
    return Drawn(seed, drawn, reviewed.resolved)


def fleets(count: int, seed: int = 0) -> list[Drawn]:
    """So many fleets without errors, from seed numbers `seed` and up."""
    found: list[Drawn] = []
    while len(found) < count:
        drawn = fleet(seed)
        seed += 1
        if drawn is not None:
            found.append(drawn)
    return found


def documents(seed: int) -> list[Document]:
    """The documents of a seed, whether the rules refuse them or not."""
    rng = Random(seed)
    departments = _names(rng, rng.choice((0, 0, 1, 2, 5)))
    clusters = [_cluster(rng, f"c{number}") for number in range(rng.choice((1, 1, 1, 2)))]
    teams = _names(rng, rng.choice((0, 1, 1, 2, 3, 5, 9)))
    return [
        _document("Fleet", "fleet", {}),
        *clusters,
        *(_department(rng, name, departments[:number]) for number, name in enumerate(departments)),
        *(_team(rng, name, departments, clusters) for name in teams),
    ]


def _document(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": "hyperpod-fleet/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _names(rng: Random, count: int) -> list[str]:
    letters = "abcz019"
    drawn = [
        rng.choice((*NAMES, "".join(rng.choices(letters, k=rng.randint(1, 40))))) for _ in range(2 * count)
    ]
    return list(dict.fromkeys(drawn))[:count]


def _cluster(rng: Random, name: str) -> Document:
    owner = rng.choice(("kueue", "kueue", "sagemaker"))
    types = rng.sample(sorted(catalog.instance_types()), rng.choice((1, 1, 1, 1, 2, 2, 2, 3, 3, 5, 12, 40)))
    governance: Document = {
        "owner": owner,
        "schedulerConfig": {
            "fairShare": _toggle(rng),
            "idleResourceSharing": _toggle(rng),
            "priorityClasses": [
                {"name": each, "weight": rng.choice(WEIGHTS)}
                for each in _names(rng, rng.choice((0, 1, 3, 10)))
            ],
        },
    }
    if owner == "kueue" and rng.random() < 0.5:
        governance["kueue"] = {
            "topologyAwareScheduling": _toggle(rng),
            "queueingStrategy": rng.choice(("BestEffortFIFO", "StrictFIFO")),
        }
    spec = {
        "region": "us-east-1",
        "orchestrator": {"eks": {"version": "1.34"}},
        # An existing network has any number of addresses.
        "network": {
            "existing": {
                "vpcId": "vpc-1",
                "subnetIds": ["subnet-1"],
                "securityGroupIds": ["sg-1"],
                "controlPlaneSubnetIds": ["subnet-1", "subnet-2"],
            }
        },
        "nodeProvisioningMode": "Continuous",
        "instanceGroups": [
            _group(rng, f"g{number}", types, only)
            for number, only in enumerate((*types, None))
            if only or rng.random() < 0.3
        ],
        "governance": governance,
    }
    return _document("Cluster", name, spec)


def _group(rng: Random, name: str, types: list[str], only: str | None) -> Document:
    """A group of one type, or one that chooses among some."""
    several = rng.sample(types, rng.randint(1, min(len(types), 20)))
    types_of: Document = (
        {"instanceType": only} if only else {"instanceRequirements": {"instanceTypes": several}}
    )
    taints = [
        {"key": rng.choice(KEYS), "effect": rng.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))}
        | ({"value": value} if (value := rng.choice(VALUES)) is not None else {})
        for _ in range(rng.choice((0, 0, 0, 1, 2, 4)))
    ]
    return {
        "name": name,
        **types_of,
        "instanceCount": rng.choice(COUNTS),
        "kubernetesConfig": {
            "taints": list({(each["key"], each["effect"]): each for each in taints}.values())
        },
    }


def _department(rng: Random, name: str, above: list[str]) -> Document:
    parent = {"parent": rng.choice(above)} if above and rng.random() < 0.7 else {}
    return _document("Department", name, {**parent, "fairShareWeight": rng.choice(WEIGHTS)})


def _team(rng: Random, name: str, departments: list[str], clusters: list[Document]) -> Document:
    in_department = {"department": rng.choice(departments)} if departments and rng.random() < 0.7 else {}
    groups = rng.sample(
        ("sso:{{vision}}", "system:masters", " ", "ü", "no", "g" * 253, "a\nb"), rng.randint(0, 3)
    )
    allocations = [_allocation(rng, each) for each in clusters if rng.random() < 0.9]
    return _document(
        "Team", name, {**in_department, "allocations": allocations, "access": {"groups": groups}}
    )


def _allocation(rng: Random, cluster: Document) -> Document:
    sharing: Document = {"strategy": rng.choice(("LendAndBorrow", "LendAndBorrow", "Lend", "DontLend"))}
    if sharing["strategy"] == "LendAndBorrow":
        if rng.random() < 0.7:
            sharing["borrowLimit"] = rng.choice(PERCENTS)
        if rng.random() < 0.4:
            sharing["absoluteBorrowLimits"] = _items(rng, cluster)
    return {
        "cluster": cluster["metadata"]["name"],
        "quota": _items(rng, cluster),
        "resourceSharingConfig": sharing,
        "preemptTeamTasks": rng.choice(("LowerPriority", "Never")),
        "fairShareWeight": rng.choice(WEIGHTS),
        "activationState": rng.choice(("Enabled", "Enabled", "Enabled", "Disabled")),
    }


def _items(rng: Random, cluster: Document) -> list[Document]:
    return [_item(rng, cluster) for _ in range(rng.choice((0, 1, 1, 2, 4, 12)))]


def _item(rng: Random, cluster: Document) -> Document:
    """A line of a quota that fits what its types have, as most do that people write."""
    named = [each["instanceType"] for each in cluster["spec"]["instanceGroups"] if "instanceType" in each]
    # A team may be promised a type that comes later.
    kind = catalog.instance_type(rng.choice((*named, *named, rng.choice(sorted(catalog.instance_types())))))
    selectors: list[Document] = [{"instanceType": kind.name}]
    if kind.name in named:
        selectors += [{"instanceFamily": kind.family}, {"hardware": str(kind.hardware)}]
    selector = rng.choice(selectors)
    if rng.random() < 0.3:
        return {**selector, "count": rng.choice(AMOUNTS)}
    figures: Document = {}
    if rng.random() < 0.5:
        figures["vCpu"] = rng.choice(FRACTIONS)
    if rng.random() < 0.4:
        figures["memoryInGiB"] = rng.choice(FRACTIONS)
    profiles = sorted({*kind.mig_profiles} & catalog.compute_quota_mig_profiles())
    if profiles and rng.random() < 0.5:
        figures["acceleratorPartition"] = {"type": rng.choice(profiles), "count": rng.choice(AMOUNTS)}
    elif kind.accelerators and rng.random() < 0.7:
        figures["accelerators"] = rng.choice(AMOUNTS)
    return {**selector, **(figures or {"vCpu": 1.0})}


def _toggle(rng: Random) -> str:
    return rng.choice(("Enabled", "Disabled"))
