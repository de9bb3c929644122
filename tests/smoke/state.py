"""What stories look at after a deployment."""

from typing import Any

import pytest
from tests.smoke import fleets
from tests.smoke.assembly import Assembly
from tests.smoke.world import Place, World

NATIVE_AND_CUSTOM = pytest.mark.parametrize("base", [(), fleets.CUSTOM], ids=["native", "custom-resource"])
"""Both backends of quotas, each in a region that has or has not the native types."""


def place_of(world: World, made: Assembly) -> Place:
    return world.place(made.region(made.stacks()[0]))


def quotas(place: Place) -> dict[str, dict[str, Any]]:
    """Config of each quota that the API has and that is stable, by team."""
    place.sagemaker.settle()
    items = [item for item in place.sagemaker.items.values() if item.noun == "ComputeQuota"]
    assert {item.status for item in items} <= {"Created", "Updated"}
    return {item.team: item.settings["ComputeQuotaConfig"] for item in items}


def accelerators(place: Place) -> dict[str, int]:
    return {team: it["ComputeQuotaResources"][0]["Accelerators"] for team, it in quotas(place).items()}


def schedulers(place: Place) -> list[str]:
    items = place.sagemaker.items.values()
    return [item.name for item in items if item.noun == "ClusterSchedulerConfig"]


def statuses(place: Place) -> dict[str, str]:
    return {name: stack.status for name, stack in place.cloudformation.stacks.items()}


def counts(place: Place) -> dict[str, tuple[int, int]]:
    """Instances of each group of the fleet's cluster, and its minimum, as the service has them."""
    groups = place.hyperpod.clusters["smoke-research"].fake.now.groups
    return {name: (group.current, group.minimum) for name, group in groups.items()}


def nothing_is_left(place: Place) -> None:
    """Assert that stacks, the API and names are as in an empty account, but for what is retained."""
    assert (place.cloudformation.stacks, place.cloudformation.left) == ({}, [])
    assert (place.sagemaker.items, place.hyperpod.clusters, place.eks_clusters) == ({}, {}, {})
    kept = {(it.request.type, it.made.ref) for it in place.cloudformation.kept}
    assert place.names == kept


def said(text: str) -> str:
    """What the CLI said, without its line breaks."""
    return " ".join(text.split())
