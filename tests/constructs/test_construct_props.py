"""Bad props raise ValueError with the value, the limit and the next step."""

import tarfile
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.constructs.clusters import HEAD, eks, group, network, restricted, slurm, stack

import hyperpod_constructs as hyperpod
from hyperpod_constructs import (
    ComputeQuota,
    DependenciesChart,
    EbsVolume,
    FsxLustreMount,
    Lifecycle,
    NewEks,
    QuotaResource,
    SlurmGroup,
    Taint,
)

LUSTRE = FsxLustreMount(dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", mount_name="fsx")


def quota(**props: Any) -> ComputeQuota:
    resource = QuotaResource(instance_type="ml.g5.2xlarge", count=1)
    return ComputeQuota(**{"name": "q", "team_name": "t", "resources": [resource], **props})


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "a name with a trailing hyphen": (lambda: group(name="g-"), r"instance group 'g-'.*1 to 63.*rename"),
    "a name of 64 characters": (lambda: group(name="g" * 64), "1 to 63"),
    "a negative count": (lambda: group(instance_count=-1), "instance_count is -1: the limit is 0 to 6758"),
    "more instances than a group holds": (lambda: group(instance_count=6759), "is 6759.*0 to 6758"),
    "a minimum above the count": (
        lambda: group(min_instance_count=5),
        r"min_instance_count \(at most instance_count\) is 5: the limit is 0 to 4",
    ),
    "a type and a list of types": (lambda: group(instance_types=["ml.g5.xlarge"]), "exactly one is allowed"),
    "no type at all": (lambda: group(instance_type=None), "exactly one is allowed"),
    "21 types": (
        lambda: group(instance_type=None, instance_types=["ml.g5.xlarge"] * 21),
        "21 items: the limit is 0 to 20",
    ),
    "three threads per core": (lambda: group(threads_per_core=3), "is 3: the limit is 1 to 2"),
    "two Lustre file systems": (
        lambda: group(storage=[LUSTRE, LUSTRE]),
        "FsxLustreMount has 2 items.*0 to 1",
    ),
    "five storage configs": (
        lambda: group(storage=[EbsVolume(volume_size_in_gb=1)] * 5),
        "5 items: the limit is 0 to 4",
    ),
    "a volume that is too large": (
        lambda: EbsVolume(volume_size_in_gb=16385),
        "is 16385: the limit is 1 to 16384",
    ),
    "taints with deep health checks": (
        lambda: group(
            taints=[Taint(key="gpu", effect="NoSchedule")], on_start_deep_health_checks=["InstanceStress"]
        ),
        "taint 'gpu' and deep health checks",
    ),
    "a partition on a login node": (
        lambda: SlurmGroup(node_type="Login", partition_names=["p"]),
        "partition 'p' on node type Login.*move it",
    ),
    "two partitions": (
        lambda: SlurmGroup(node_type="Compute", partition_names=["a", "b"]),
        "2 items: the limit is 0 to 1",
    ),
    "a script in bootstrap mode": (
        lambda: Lifecycle(mode="Bootstrap", script="x.sh"),
        "Bootstrap with script 'x.sh'",
    ),
    "a source that is not in S3": (
        lambda: Lifecycle(mode="OnCreate", source_s3_uri="https://x"),
        "must begin with s3://",
    ),
    "no group": (lambda: eks(instance_groups=[]), "0 items: the limit is 1 to 100"),
    "two groups of one name": (lambda: eks(instance_groups=[group(), group()]), "'g' occurs twice"),
    "a minimum without continuous provisioning": (
        lambda: eks(instance_groups=[group(min_instance_count=1)], node_provisioning_mode=None),
        "min_instance_count 1 without continuous provisioning",
    ),
    "types without continuous provisioning": (
        lambda: eks(
            instance_groups=[group(instance_type=None, instance_types=["ml.g5.xlarge"])],
            node_provisioning_mode=None,
        ),
        "instance_types .* without continuous provisioning",
    ),
    "a Slurm group on EKS": (lambda: eks(instance_groups=[HEAD]), "'head' has slurm node_type 'Controller'"),
    "restricted groups with continuous provisioning": (
        lambda: eks(restricted_instance_groups=[restricted()]),
        "restricted group 'r' with node_provisioning_mode 'Continuous'",
    ),
    "Karpenter without recovery": (lambda: eks(karpenter=True, node_recovery="None"), "node_recovery 'None'"),
    "a script that is not there": (
        lambda: eks(lifecycle=Lifecycle(mode="OnCreate", script="mine.sh")),
        "'mine.sh' is not in .*add the file",
    ),
    "an unsupported Kubernetes version": (
        lambda: NewEks(version="1.29"),
        "'1.29': HyperPod supports 1.30 to",
    ),
    "a version for an unknown add-on": (lambda: NewEks(addon_versions={"x": "v1"}), "addon_versions has 'x'"),
    "address ranges without a public endpoint": (
        lambda: NewEks(public_endpoint=False, public_access_cidrs=["10.0.0.0/8"]),
        "without a public endpoint",
    ),
    "a control plane in one subnet": (lambda: eks(eks=NewEks()), "at least 2 Availability Zones"),
    "the pinned chart behind a private endpoint": (
        lambda: eks(
            eks=hyperpod.ExistingEks(cluster_name="e", public_endpoint=False),
            dependencies=DependenciesChart.pinned(),
        ),
        "use DependenciesChart.from_path",
    ),
    "a short commit": (lambda: DependenciesChart.pinned(commit="011ca92"), "40 hex digits"),
    "a repository by ssh": (
        lambda: DependenciesChart.pinned(repository="git@host:x"),
        "must begin with https://",
    ),
    "too many chart values": (
        lambda: DependenciesChart.pinned(values={"x": "y" * 5000}),
        "the limit is 4096; use from_path",
    ),
    "no controller": (lambda: slurm(group(slurm=SlurmGroup(node_type="Compute"))), "exactly one"),
    "two controllers": (
        lambda: slurm(HEAD, group(slurm=SlurmGroup(node_type="Controller"))),
        "'head': 1, 'g': 4.*exactly one",
    ),
    "a group without Slurm config": (lambda: slurm(HEAD, group()), "'g' has no slurm"),
    "labels on Slurm": (
        lambda: slurm(HEAD, group(slurm=SlurmGroup(node_type="Compute"), labels={"a": "b"})),
        "only EKS clusters take it",
    ),
    "accounting without continuous provisioning": (
        lambda: slurm(
            HEAD,
            node_provisioning_mode=None,
            accounting_database=hyperpod.AccountingDatabase(endpoint="db", secret_arn="arn"),
        ),
        "'db' without continuous provisioning",
    ),
    "a Slurm config strategy with continuous provisioning": (
        lambda: slurm(HEAD, slurm_config_strategy="Merge"),
        "'Merge' with continuous provisioning",
    ),
    "a team in capitals": (lambda: quota(team_name="Vision"), "team 'Vision'.*1 to 40 lower-case"),
    "a team of 41 characters": (lambda: quota(team_name="t" * 41), "1 to 40"),
    "a borrow limit above the model's": (
        lambda: quota(borrow_limit=10001),
        r"borrow_limit \(percent\) is 10001: the limit is 0 to 10000",
    ),
    "a borrow limit for who does not borrow": (
        lambda: quota(strategy="Lend", borrow_limit=50),
        "only LendAndBorrow takes one",
    ),
    "a weight above 100": (lambda: quota(fair_share_weight=101), "is 101: the limit is 0 to 100"),
    "a quota of nothing": (lambda: QuotaResource(instance_type="ml.g5.xlarge"), "ml.g5.xlarge has no amount"),
    "eleven priority classes": (
        lambda: hyperpod.SchedulerConfig(
            name="s", priority_classes=[hyperpod.PriorityClass(name=f"c{i}", weight=i) for i in range(11)]
        ),
        "11 items: the limit is 0 to 10",
    ),
    "a block that is too small": (
        lambda: hyperpod.HyperPodNetwork(stack(), "N", cidr="10.0.0.0/25"),
        "is a /25: the limit is /16 to /24",
    ),
    "a block with host bits": (
        lambda: hyperpod.HyperPodNetwork(stack(), "N", cidr="10.0.0.1/16"),
        "'10.0.0.1/16': .*host bits.*give an IPv4 block",
    ),
    "one availability zone": (
        lambda: hyperpod.HyperPodNetwork(stack(), "N", availability_zones=["us-east-1a"]),
        "is 1: the limit is 2 to 4",
    ),
    "one node zone for two node subnets": (
        lambda: hyperpod.HyperPodNetwork(
            stack(), "N", node_availability_zone="us-east-1c", node_subnet_count=2
        ),
        "node_availability_zone 'us-east-1c' with node_subnet_count 2",
    ),
    "an interface endpoint twice": (
        lambda: hyperpod.HyperPodNetwork(stack(), "N", interface_endpoints=["sts", "ec2", "sts"]),
        "interface endpoint 'sts' occurs twice.*remove one",
    ),
    "an administrator twice": (
        lambda: NewEks(admin_role_arns=["arn:aws:iam::123456789012:role/a"] * 2),
        "admin_role_arns 'arn:aws:iam::123456789012:role/a' occurs twice",
    ),
    "an odd Lustre size": (
        lambda: hyperpod.LustreFileSystem(
            stack(), "F", network=network(stack()), storage_capacity_in_gib=3600
        ),
        "is 3600: .*multiples of 2400",
    ),
    "an alarm without threshold": (
        lambda: hyperpod.HyperPodMonitoring(
            stack(), "M", cluster_name="c", cluster_arn="a", pending_threshold=0
        ),
        "pending_threshold is 0",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_is_refused(what: str) -> None:
    build, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        build()


def test_a_second_quota_of_a_team_is_refused() -> None:
    governance = hyperpod.TaskGovernance(
        stack(), "G", cluster_arn="arn", eks_cluster_name="e", quotas=[quota()]
    )
    with pytest.raises(ValueError, match="team 't' occurs twice"):
        governance.add_quota(quota(name="other"))


def test_props_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        HEAD.instance_count = 2  # type: ignore[misc]


@given(count=st.integers(0, 6758), minimum=st.integers(0, 6758))
def test_a_minimum_is_taken_exactly_when_the_count_reaches_it(count: int, minimum: int) -> None:
    try:
        group(instance_count=count, min_instance_count=minimum)
    except ValueError:
        assert minimum > count
    else:
        assert minimum <= count


def chart(directory: Path, dependencies: str) -> Path:
    (directory / "charts").mkdir()
    (directory / "Chart.yaml").write_text(f"name: deps\nversion: 1.0.0\ndependencies: {dependencies}\n")
    return directory


def test_a_chart_without_its_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no Chart\.yaml"):
        DependenciesChart.from_path(tmp_path)


def test_every_missing_dependency_is_named_but_those_with_tags(tmp_path: Path) -> None:
    chart(tmp_path, "[{name: agent}, {name: plugin}, {name: optional, tags: [x]}]")
    with pytest.raises(ValueError, match=r"agent, plugin not found under charts/; run `helm dependency upd"):
        DependenciesChart.from_path(tmp_path)


def test_dependencies_are_found_in_directories_and_archives_by_their_own_name(tmp_path: Path) -> None:
    # inference-operator is the directory of a chart that names itself hyperpod-inference-operator.
    chart(tmp_path, "[{name: hyperpod-inference-operator}, {name: plugin}]")
    operator = tmp_path / "charts" / "inference-operator"
    operator.mkdir()
    (operator / "Chart.yaml").write_text("name: hyperpod-inference-operator\n")
    manifest = tmp_path / "manifest"
    manifest.write_text("name: plugin\n")
    with tarfile.open(tmp_path / "charts" / "plugin-0.16.1.tgz", "w:gz") as archive:
        archive.add(manifest, "plugin/Chart.yaml")
    assert DependenciesChart.from_path(tmp_path).path == tmp_path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("on_create.sh", b"#!/bin/bash\r\necho\r\n", "save it with LF"),
        ("on_create.sh", b"echo\n", "begin it with #!/bin/bash"),
        ("provisioning_parameters.json", b"{}", "HyperPod refuses this file"),
    ],
)
def test_a_script_that_would_fail_on_the_instance_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        hyperpod.LifecycleScripts(stack(), "L", directory=tmp_path)


def test_an_empty_script_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no file"):
        hyperpod.LifecycleScripts(stack(), "L", directory=tmp_path)
