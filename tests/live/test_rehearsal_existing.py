"""`hpf rehearse --kubeconfig`: a cluster that is there, in a sandbox, left as it was."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hyperpod_cli import main
from hyperpod_live.control_plane import Client, ControlPlane
from hyperpod_live.rehearsal.existing import LABEL
from hyperpod_live.rehearsal.stage import KUEUE_API

CONFIG = Path(__file__).parents[2] / "config"
SCENARIO = """
apiVersion: hyperpod-fleet/v1alpha1
kind: Scenario
metadata: {name: wrong}
spec:
  cluster: studio
  jobs:
    - name: fits
      team: vision
      resources: {nvidia.com/gpu: 1}
      instanceType: ml.g5.2xlarge
      runTime: 10
      expect: {admitted: true, atEnd: finished}
    - name: too-large
      team: vision
      pods: 40
      resources: {nvidia.com/gpu: 1}
      instanceType: ml.g5.2xlarge
      expect: {admitted: true}
"""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One that no other test has left anything in: a rehearsal refuses a cluster that is in use."""
    with ControlPlane() as running:
        yield running


@pytest.fixture
def arguments(control_plane: ControlPlane, tmp_path: Path) -> list[str]:
    (tmp_path / "wrong.yaml").write_text(SCENARIO)
    words = ["rehearse", str(CONFIG), "--scenario", str(tmp_path / "wrong.yaml")]
    return [*words, "--kubeconfig", str(control_plane.kubeconfig)]


def ours(client: Client) -> list[str]:
    kinds = [
        ("v1", "Namespace"),
        ("v1", "Node"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        *((KUEUE_API, kind) for kind in ("ClusterQueue", "Cohort", "ResourceFlavor", "Topology")),
        (KUEUE_API, "WorkloadPriorityClass"),
    ]
    return [
        f"{kind} {item['metadata']['name']}"
        for version, kind in kinds
        for item in client.list(version, kind, labels=LABEL)
    ]


def test_a_difference_is_a_failed_test_and_nothing_stays_behind(
    arguments: list[str], client: Client, tmp_path: Path
) -> None:
    output = tmp_path / "junit.xml"
    code = main.main([*arguments, "--format", "junit", "--output", str(output)])
    assert code == main.FINDINGS
    root = ElementTree.parse(output).getroot()
    failures = {
        case.get("name"): failure.text for case in root.iter("testcase") for failure in case.iter("failure")
    }
    assert list(failures) == ["too-large"]
    assert str(failures["too-large"]).startswith("admitted: expected true, but it never was: couldn't assign")
    assert ours(client) == []


def test_an_object_of_somebody_else_is_never_touched(
    arguments: list[str], client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = {
        "apiVersion": KUEUE_API,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "training"},
        "value": 5,
    }
    client.create(theirs)
    try:
        assert main.main(arguments) == main.USAGE
        said = capsys.readouterr().err
        assert "has a WorkloadPriorityClass training already, which no rehearsal made" in said
        assert ours(client) == []
        assert client.get(KUEUE_API, "WorkloadPriorityClass", "training")["value"] == 5
    finally:
        client.delete(KUEUE_API, "WorkloadPriorityClass", "training")


def test_a_node_of_somebody_else_is_never_touched(
    arguments: list[str], client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "g5-1"}})
    try:
        assert main.main(arguments) == main.USAGE
        assert '"g5-1" already exists' in capsys.readouterr().err
        assert ours(client) == []
        assert client.get("v1", "Node", "g5-1")["metadata"]["name"] == "g5-1"
    finally:
        client.delete("v1", "Node", "g5-1")


def test_a_kubeconfig_that_leads_nowhere_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(["rehearse", str(CONFIG), "--kubeconfig", str(tmp_path / "none")])
    assert code == main.USAGE
    assert "names no cluster that can be reached" in capsys.readouterr().err
