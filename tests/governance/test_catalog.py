"""The instance catalog: what it holds, and that it agrees with botocore and CloudFormation."""

from __future__ import annotations

import gzip
import importlib
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperpod_governance.catalog import (
    MIG_SLICES_PER_GPU,
    Hardware,
    UnknownInstanceType,
    compute_quota_mig_profiles,
    families,
    instance_type,
    instance_types,
    mig_resource,
    mig_slices,
)

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools/generate_catalog.py"
CATALOG = ROOT / "governance/hyperpod_governance/data/instance_catalog.json"

# Where cfn-lint's list of AWS::SageMaker::Cluster types (E3644, every Region together) and the catalog
# differ, with the reason. The list comes from the AWS price list, not from the API.
NOT_SOLD = "the price list has no HyperPod price for it, so cfn-lint refuses it in every Region"
NOT_IN_API = "priced for HyperPod, but not in the ClusterInstanceType of the API"
CLUSTER_ENUM_DIFFERENCES = {
    "ml.p5e.48xlarge": NOT_SOLD,
    "ml.p6e-gb200.36xlarge": NOT_SOLD,
    "ml.inf2.xlarge": NOT_IN_API,
    "ml.inf2.8xlarge": NOT_IN_API,
    "ml.inf2.24xlarge": NOT_IN_API,
    "ml.inf2.48xlarge": NOT_IN_API,
    "ml.trn1.2xlarge": NOT_IN_API,
}

# The same for the enum of AWS::SageMaker::ComputeQuota in the CloudFormation registry's schema.
COMPUTE_QUOTA_ENUM_DIFFERENCES: dict[str, str] = {}

# MIG profiles of a type that the compute quota API does not accept, with the reason.
PROFILES_NOT_IN_API = {
    "ml.p6-b300.48xlarge": "the API's MIGProfileType has no B300 profile yet",
}


def shapes() -> dict[str, Any]:
    data = files("botocore").joinpath("data/sagemaker/2017-07-24/service-2.json.gz").read_bytes()
    model: dict[str, Any] = json.loads(gzip.decompress(data))["shapes"]
    return model


def compute_quota_definition(name: str) -> dict[str, Any]:
    manager = importlib.import_module("cfnlint.schema.manager").PROVIDER_SCHEMA_MANAGER
    schema = manager.get_resource_schema("us-east-1", "AWS::SageMaker::ComputeQuota").schema
    properties: dict[str, Any] = schema["definitions"][name]["properties"]
    return properties


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False, encoding="utf-8"
    )


class TestNames:
    def test_the_names_are_those_of_botocore(self) -> None:
        assert set(instance_types()) == set(shapes()["ClusterInstanceType"]["enum"])

    def test_the_names_are_sorted_and_209(self) -> None:
        assert list(instance_types()) == sorted(instance_types())
        assert len(instance_types()) == 209

    def test_the_compute_quota_schema_differs_only_where_listed(self) -> None:
        enum = compute_quota_definition("ComputeQuotaResourceConfig")["InstanceType"]["enum"]
        assert set(enum) ^ set(instance_types()) == set(COMPUTE_QUOTA_ENUM_DIFFERENCES)

    def test_the_cluster_types_of_cfn_lint_differ_only_where_listed(self) -> None:
        path = "data/schemas/extensions/aws_sagemaker_cluster/instancetype_enum.json"
        regions = json.loads(files("cfnlint").joinpath(path).read_text(encoding="utf-8"))
        named = {name for rule in regions.values() if isinstance(rule, dict) for name in rule["enum"]}
        assert named ^ set(instance_types()) == set(CLUSTER_ENUM_DIFFERENCES)

    def test_every_listed_difference_is_on_the_side_its_reason_says(self) -> None:
        for name, reason in CLUSTER_ENUM_DIFFERENCES.items():
            assert (name in instance_types()) == (reason == NOT_SOLD), name

    def test_an_unknown_name_is_named_in_the_error(self) -> None:
        with pytest.raises(
            UnknownInstanceType, match=r"'ml\.p5\.49xlarge' is not a SageMaker HyperPod"
        ) as caught:
            instance_type("ml.p5.49xlarge")
        assert caught.value.name == "ml.p5.49xlarge"


class TestFigures:
    @pytest.mark.parametrize(
        ("name", "accelerators", "vcpus", "memory_gib"),
        [
            ("ml.p5.48xlarge", 8, 192, 2048),
            ("ml.g5.2xlarge", 1, 8, 32),
            ("ml.g6.12xlarge", 4, 48, 192),
            ("ml.trn2.48xlarge", 16, 192, 2048),
            ("ml.p6e-gb200.36xlarge", 4, 144, 960),
            ("ml.m5.xlarge", 0, 4, 16),
            ("ml.c5n.large", 0, 2, 5.25),
        ],
    )
    def test_accelerators_vcpus_and_memory(
        self, name: str, accelerators: int, vcpus: int, memory_gib: float
    ) -> None:
        found = instance_type(name)
        assert (found.accelerators, found.vcpus, found.memory_mib) == (accelerators, vcpus, memory_gib * 1024)

    @pytest.mark.parametrize(
        ("name", "hardware", "model", "memory_gib", "neuron_cores", "resource"),
        [
            ("ml.p5.48xlarge", Hardware.NVIDIA, "H100", 80, 0, "nvidia.com/gpu"),
            ("ml.p4d.24xlarge", Hardware.NVIDIA, "A100", 40, 0, "nvidia.com/gpu"),
            ("ml.trn1.32xlarge", Hardware.TRAINIUM, "Trainium", 32, 32, "aws.amazon.com/neurondevice"),
            ("ml.trn2.48xlarge", Hardware.TRAINIUM, "Trainium2", 96, 128, "aws.amazon.com/neurondevice"),
            ("ml.m5.xlarge", Hardware.CPU, "", 0, 0, None),
        ],
    )
    def test_accelerators_have_a_kind_a_model_a_memory_and_a_resource(
        self,
        name: str,
        hardware: Hardware,
        model: str,
        memory_gib: int,
        neuron_cores: int,
        resource: str | None,
    ) -> None:
        found = instance_type(name)
        assert (found.hardware, found.accelerator_name) == (hardware, model)
        assert found.accelerator_memory_mib == memory_gib * 1024
        assert (found.neuron_cores, found.accelerator_resource) == (neuron_cores, resource)

    @pytest.mark.parametrize(
        ("name", "interfaces"),
        [
            ("ml.p5.48xlarge", 32),
            ("ml.p5en.48xlarge", 16),
            ("ml.g6.12xlarge", 1),
            ("ml.g5.2xlarge", 0),
            ("ml.m5.xlarge", 0),
        ],
    )
    def test_efa_interfaces(self, name: str, interfaces: int) -> None:
        assert instance_type(name).efa_interfaces == interfaces

    @pytest.mark.parametrize("name", instance_types())
    def test_every_type_is_consistent_in_itself(self, name: str) -> None:
        found = instance_type(name)
        assert found.name == name
        assert found.vcpus == found.cores * found.threads_per_core > 0
        assert not found.valid_threads_per_core or found.threads_per_core in found.valid_threads_per_core
        assert found.memory_mib >= 1024
        assert found.architecture in {"x86_64", "arm64"}
        with_accelerators = found.hardware is not Hardware.CPU
        assert with_accelerators == (found.accelerators > 0) == (found.accelerator_memory_mib > 0)
        assert with_accelerators == bool(found.accelerator_name) == bool(found.accelerator_resource)
        with_neuron = found.hardware in {Hardware.TRAINIUM, Hardware.INFERENTIA}
        assert with_neuron == (found.neuron_cores > 0)
        assert found.neuron_cores % max(found.accelerators, 1) == 0

    def test_only_the_accelerated_families_have_accelerators(self) -> None:
        accelerated = {each.family for each in instance_types().values() if each.accelerators}
        assert accelerated == {name for name in families() if name.startswith(("g", "p", "trn"))}


class TestFamilies:
    @pytest.mark.parametrize(
        ("name", "family"),
        [
            ("ml.p5.48xlarge", "p5"),
            ("ml.p6e-gb200.36xlarge", "p6e-gb200"),
            ("ml.p6-b200.48xlarge", "p6-b200"),
            ("ml.c5n.large", "c5n"),
        ],
    )
    def test_the_family_is_the_text_before_the_size(self, name: str, family: str) -> None:
        assert instance_type(name).family == family

    def test_the_families_are_sorted_and_each_once(self) -> None:
        assert list(families()) == sorted({name.split(".")[1] for name in instance_types()})


class TestTopology:
    LAYERS = tuple(f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3, 4))

    @pytest.mark.parametrize(
        ("name", "labels"),
        [
            ("ml.p5.48xlarge", LAYERS[:3]),
            ("ml.trn2.48xlarge", LAYERS[:3]),
            ("ml.p6-b200.48xlarge", LAYERS),
            ("ml.p6e-gb200.36xlarge", (*LAYERS[:3], "topology.k8s.aws/ultraserver-id")),
            ("ml.g6.12xlarge", ()),
            ("ml.m5.xlarge", ()),
        ],
    )
    def test_the_labels_go_from_the_top_of_the_network_to_the_node(
        self, name: str, labels: tuple[str, ...]
    ) -> None:
        assert instance_type(name).topology_labels == labels


class TestMig:
    def test_the_profiles_a_compute_quota_accepts_are_those_of_botocore(self) -> None:
        assert compute_quota_mig_profiles() == set(shapes()["MIGProfileType"]["enum"])

    def test_the_profiles_a_compute_quota_accepts_are_those_of_cloudformation(self) -> None:
        enum = compute_quota_definition("AcceleratorPartitionConfig")["Type"]["enum"]
        assert compute_quota_mig_profiles() == set(enum)

    def test_only_listed_types_have_profiles_that_a_compute_quota_refuses(self) -> None:
        accepted = compute_quota_mig_profiles()
        refused = {each.name for each in instance_types().values() if set(each.mig_profiles) - accepted}
        assert refused == set(PROFILES_NOT_IN_API)

    def test_every_profile_a_compute_quota_accepts_belongs_to_a_type(self) -> None:
        of_types = {profile for each in instance_types().values() for profile in each.mig_profiles}
        assert compute_quota_mig_profiles() <= of_types

    @pytest.mark.parametrize("name", [name for name, each in instance_types().items() if each.mig_profiles])
    def test_every_profile_fits_the_gpu(self, name: str) -> None:
        found = instance_type(name)
        assert found.hardware is Hardware.NVIDIA
        for profile in found.mig_profiles:
            # NVIDIA names a profile by decimal or binary gigabytes and rounds up: allow one more.
            memory = int(profile.partition("g.")[2].removesuffix("gb"))
            assert 1 <= mig_slices(profile) <= MIG_SLICES_PER_GPU
            assert memory <= found.accelerator_memory_mib // 1024 + 1
        whole = [profile for profile in found.mig_profiles if mig_slices(profile) == MIG_SLICES_PER_GPU]
        assert len(whole) == 1

    @given(st.integers(1, 7), st.integers(1, 999))
    def test_a_profile_gives_its_slices_and_its_resource(self, slices: int, memory: int) -> None:
        profile = f"mig-{slices}g.{memory}gb"
        assert mig_slices(profile) == slices
        assert mig_resource(profile) == f"nvidia.com/mig-{slices}g.{memory}gb"

    @pytest.mark.parametrize(
        "text", ["", "3g.40gb", "mig-8g.40gb", "mig-3g.40gb ", "mig-0g.5gb", "mig-1g.gb"]
    )
    def test_other_text_is_refused_by_name(self, text: str) -> None:
        with pytest.raises(ValueError, match="is not a MIG profile") as caught:
            mig_resource(text)
        assert repr(text) in str(caught.value)


class TestFile:
    def test_the_committed_catalog_is_current(self) -> None:
        done = run_tool("--check")
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    def test_a_changed_figure_fails_the_check_and_shows_its_line(self, tmp_path: Path) -> None:
        copy = tmp_path / "catalog.json"
        copy.write_text(CATALOG.read_text(encoding="utf-8").replace('"H200"', '"H201"', 1), encoding="utf-8")
        done = run_tool("--check", "--output", str(copy))
        assert done.returncode == 1
        assert '- "ml.p5e.48xlarge"' in done.stdout
        assert "python tools/generate_catalog.py" in done.stdout

    def test_writing_gives_the_committed_bytes_and_leaves_nothing_else(self, tmp_path: Path) -> None:
        copy = tmp_path / "catalog.json"
        assert run_tool("--output", str(copy)).returncode == 0
        assert copy.read_bytes() == CATALOG.read_bytes()
        assert list(tmp_path.iterdir()) == [copy]

    def test_every_source_is_used_and_every_used_one_explained(self) -> None:
        document = json.loads(CATALOG.read_text(encoding="utf-8"))
        origins = [source for row in document["types"].values() for source in row.get("from", {}).values()]
        for origin in origins:
            assert set(origin.replace(", inferred", "").split(", ")) <= set(document["sources"]), origin
        others = [text for each in document["disagreements"] for text in (each["source"], each["reason"])]
        texts = [*origins, *document["figures"].values(), *others]
        words = {word.strip(",;") for text in texts for word in text.split()}
        assert set(document["sources"]) <= words

    def test_every_figure_of_a_row_has_a_source(self) -> None:
        document = json.loads(CATALOG.read_text(encoding="utf-8"))
        for name, row in document["types"].items():
            assert set(row) - {"from"} <= set(document["figures"]), name
            assert set(row.get("from", {})) <= set(row), name

    def test_the_catalog_loads_without_the_sources_it_came_from(self) -> None:
        code = (
            "import sys; from hyperpod_governance.catalog import instance_types; instance_types();"
            "print([name for name in ('moto', 'boto3', 'botocore', 'cfnlint') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
