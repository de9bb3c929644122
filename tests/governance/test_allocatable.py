"""What a job can have of a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperpod_governance import catalog
from hyperpod_governance.allocatable import allocatable, mig_partitions, reserved_cpu, reserved_memory
from hyperpod_governance.model import CPU, EFA, GPU, MEMORY
from hyperpod_governance.quantity import GIB
from hyperpod_governance.quota import instance_amounts


@pytest.mark.parametrize(("cores", "millicores"), [(1, 400), (2, 550), (4, 750), (8, 990), (48, 3390)])
def test_each_core_keeps_less_than_the_one_before(cores: int, millicores: int) -> None:
    assert reserved_cpu(cores) == millicores


def test_a_g6_12xlarge_leaves_what_the_hyperpod_cli_leaves() -> None:
    # The CLI trims a request of 48 vCPU on this type to 44.61.
    assert allocatable(catalog.instance_type("ml.g6.12xlarge"))[CPU] == 44_610


def test_memory_is_kept_in_tiers() -> None:
    # 0.5 + 4 x 30 % + 4 x 25 % + 8 x 20 % + 112 x 17 % + 64 x 7 % GiB
    assert reserved_memory(192 * GIB) == pytest.approx((0.5 + 1.2 + 1 + 1.6 + 19.04 + 4.48) * GIB, abs=10)


def test_one_thread_for_each_core_halves_what_can_be_scheduled() -> None:
    kind = catalog.instance_type("ml.m5.2xlarge")
    assert allocatable(kind, threads_per_core=1)[CPU] == 4000 - reserved_cpu(4)


@pytest.mark.parametrize(
    ("instance_type", "profile", "partitions"),
    [
        ("ml.p5.48xlarge", "mig-1g.10gb", 56),
        ("ml.p5.48xlarge", "mig-1g.20gb", 32),
        ("ml.p5.48xlarge", "mig-3g.40gb", 16),
        ("ml.p5.48xlarge", "mig-7g.80gb", 8),
        ("ml.p5en.48xlarge", "mig-3g.71gb", 16),
        ("ml.p4d.24xlarge", "mig-1g.5gb", 56),
    ],
)
def test_gpus_hold_as_many_partitions_as_compute_and_memory_slices_allow(
    instance_type: str, profile: str, partitions: int
) -> None:
    assert mig_partitions(catalog.instance_type(instance_type), profile) == partitions


def test_a_node_of_partitions_has_no_whole_gpu() -> None:
    amounts = allocatable(catalog.instance_type("ml.p5.48xlarge"), mig_profile="mig-1g.10gb")
    assert GPU not in amounts
    assert amounts["nvidia.com/mig-1g.10gb"] == 56
    assert amounts[EFA] == 32


@given(st.sampled_from(sorted(catalog.instance_types())))
def test_a_node_never_gives_more_than_it_has_and_keeps_no_device(name: str) -> None:
    kind = catalog.instance_type(name)
    whole, free = instance_amounts(kind), allocatable(kind)
    assert set(free) == set(whole)
    for resource, amount in whole.items():
        assert 0 < free[resource] <= amount
        assert resource in {CPU, MEMORY} or free[resource] == amount
