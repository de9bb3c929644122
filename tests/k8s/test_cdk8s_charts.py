"""cdk8s charts: that cdk8s writes the same objects as the pure path."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from cdk8s import ApiObject, App, Chart
from cdk8s import Testing as Cdk8sTesting  # Under its own name pytest would collect it.
from tests.k8s.k8s_fleets import example

from hyperpod_governance.model import Owner
from hyperpod_k8s.charts import ClusterChart, PreviewChart
from hyperpod_k8s.objects import manifests, preview


def synthesized(app: App, name: str) -> list[dict[str, Any]]:
    app.synth()
    text = (Path(app.outdir) / f"{name}.k8s.yaml").read_text("utf-8")
    return list(yaml.load_all(text, yaml.CSafeLoader))


@pytest.mark.parametrize("owner", ["kueue", "sagemaker"])
def test_app_synth_writes_the_manifests(owner: Owner, tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    ClusterChart(app, "research", cluster=example(owner))
    assert synthesized(app, "research") == [
        item for file in manifests(example(owner)) for item in file.objects
    ]


def test_app_synth_writes_the_preview(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    PreviewChart(app, "preview", cluster=example("sagemaker"))
    expected = [item for file in preview(example("sagemaker")) for item in file.objects]
    assert synthesized(app, "preview") == expected


def test_constructs_and_edits_of_a_users_own_app_are_kept(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    chart = ClusterChart(app, "research", cluster=example("kueue"))
    ApiObject(chart, "mine", api_version="v1", kind="ConfigMap", metadata={"name": "mine"})
    chart.objects[-1]["metadata"]["labels"]["mine"] = "too"
    found = synthesized(app, "research")
    assert found[0]["metadata"]["name"] == "mine"
    assert found[-1]["metadata"]["labels"]["mine"] == "too"


def test_the_testing_helper_of_cdk8s_sees_the_objects() -> None:
    chart = ClusterChart(Cdk8sTesting.app(), "research", cluster=example("kueue"))
    assert isinstance(chart, Chart)
    assert Cdk8sTesting.synth(chart) == chart.objects
