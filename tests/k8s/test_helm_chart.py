"""Helm charts: that they render to the manifests and stay below Helm's limits."""

import re

import pytest
import yaml
from hypothesis import given
from tests.k8s.k8s_fleets import clusters, example

from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s import helm
from hyperpod_k8s.helm import ChartTooLargeError, helm_chart, release_bytes
from hyperpod_k8s.objects import manifests, shared_files, team_files


def rendered(chart: dict[str, str]) -> list[dict[str, object]]:
    """What `helm template` makes of it: the one action we write is a quoted string."""
    texts = [text for path, text in chart.items() if path.startswith("templates/")]
    plain = [re.sub(r'\{\{ "(\{\{)" \}\}', r"\1", text) for text in texts]
    return [item for text in plain for item in yaml.load_all(text, yaml.CSafeLoader)]


@given(clusters())
def test_a_chart_of_everything_renders_to_the_manifests(resolved: ResolvedCluster) -> None:
    chart = helm_chart(resolved, "research", teams=None, shared=True)
    assert rendered(chart) == [item for file in manifests(resolved) for item in file.objects]


def test_braces_in_somebodys_text_are_no_action() -> None:
    chart = helm_chart(example("kueue"), "research", teams=None, shared=False)
    (text,) = (text for path, text in chart.items() if path == "templates/teams/onlygputeam.yaml")
    assert 'sso:{{ "{{" }}vision}}' in text


def test_the_chart_says_what_it_is() -> None:
    chart = helm_chart(example("kueue"), "research-teams-2", teams=None, shared=False)
    assert yaml.safe_load(chart["Chart.yaml"])["name"] == "research-teams-2"


def test_shared_and_team_parts_are_chosen_apart() -> None:
    resolved = example("kueue")
    shared = helm_chart(resolved, "shared", teams=[], shared=True)
    teams = helm_chart(resolved, "teams", teams=["onlygputeam"], shared=False)
    assert rendered(shared) == [item for file in shared_files(resolved) for item in file.objects]
    assert rendered(teams) == [item for file in team_files(resolved) for item in file.objects]


def test_a_file_larger_than_helm_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(
        helm_chart(example("kueue"), "x", teams=None, shared=False)["templates/teams/onlygputeam.yaml"]
    )
    monkeypatch.setattr(helm, "MAX_FILE_BYTES", size)
    with pytest.raises(ChartTooLargeError, match=rf"templates/teams/onlygputeam.yaml is larger than {size}"):
        helm_chart(example("kueue"), "research", teams=None, shared=False)


def test_a_release_larger_than_its_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    size = release_bytes(helm_chart(example("kueue"), "research", teams=None, shared=True))
    monkeypatch.setattr(helm, "MAX_RELEASE_BYTES", size)
    with pytest.raises(ChartTooLargeError, match=f"a release of about {size} bytes"):
        helm_chart(example("kueue"), "research", teams=None, shared=True)
