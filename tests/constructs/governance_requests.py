"""Quotas and scheduler configs as templates declare them to the custom resources."""

from typing import Any

from tests.constructs.fake_sagemaker import CLUSTER, FakeSageMaker, Item
from tests.constructs.provider_framework import Declared

QUOTA = "Custom::HyperPodComputeQuota"
SCHEDULER = "Custom::HyperPodClusterSchedulerConfig"
Json = dict[str, Any]


def quota(name: str = "vision", team: str | None = None, **changes: Any) -> Declared:
    """Declare the quota of a team."""
    properties: Json = {
        "ClusterArn": CLUSTER,
        "Name": name,
        "ComputeQuotaConfig": {
            "ComputeQuotaResources": [
                {"InstanceType": "ml.g6.12xlarge", "Accelerators": 2, "VCpu": 48},
                {"InstanceType": "ml.p5.48xlarge", "Count": 3},
            ],
            "ResourceSharingConfig": {"Strategy": "LendAndBorrow", "BorrowLimit": 100},
        },
        "ComputeQuotaTarget": {"TeamName": team or name, "FairShareWeight": 10},
        "ActivationState": "Enabled",
        "Tags": [{"Key": "owner", "Value": "ml-platform"}],
    }
    return Declared(QUOTA, {**properties, **changes})


def scheduler(name: str = "research", **changes: Any) -> Declared:
    """Declare a scheduler config."""
    properties: Json = {
        "ClusterArn": CLUSTER,
        "Name": name,
        "SchedulerConfig": {
            "PriorityClasses": [{"Name": "inference", "Weight": 90}, {"Name": "training", "Weight": 70}],
            "FairShare": "Enabled",
        },
    }
    return Declared(SCHEDULER, {**properties, **changes})


def make_in_console(fake: FakeSageMaker, declared: Declared, *, wait: bool = True) -> Item:
    """Let people make what a template would declare."""
    noun = "ComputeQuota" if declared.kind == QUOTA else "ClusterSchedulerConfig"
    with fake.by_people() as client:
        create = client.create_compute_quota if noun == "ComputeQuota" else None
        made = (create or client.create_cluster_scheduler_config)(
            **{key: value for key, value in declared.properties.items() if key != "Tags"}
        )
    if wait:
        fake.clock.sleep(60)
        fake.settle()
    return fake.items[made[f"{noun}Id"]]
