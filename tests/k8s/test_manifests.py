"""Manifests and previews: that Kueue and Kubernetes take every object, and which objects there are."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.k8s.k8s_fleets import cluster, clusters, example, team
from tests.k8s.kueue_rules import CORE, KINDS, problems

from hyperpod_governance import naming
from hyperpod_governance.model import ResolvedCluster
from hyperpod_k8s.emit import to_yaml
from hyperpod_k8s.kueue import KueueLimitError
from hyperpod_k8s.objects import SYNC_WAVES, ManifestFile, manifests, preview, shared_files, team_files

GOLDEN = Path(__file__).parent / "golden"

Object = dict[str, Any]


def objects(files: tuple[ManifestFile, ...]) -> list[Object]:
    return [item for file in files for item in file.objects]


def one(files: tuple[ManifestFile, ...], kind: str) -> Object:
    (found,) = (item for item in objects(files) if item["kind"] == kind)
    return found


# --- what any fleet gives ---------------------------------------------------------------------------------


@given(clusters())
def test_kueue_and_kubernetes_take_every_object_and_fill_nothing_in(resolved: ResolvedCluster) -> None:
    for item in objects(manifests(resolved)) + objects(preview(resolved)):
        assert problems(item) == [], to_yaml([item])


@given(clusters())
def test_no_object_comes_twice(resolved: ResolvedCluster) -> None:
    for files in (manifests(resolved), preview(resolved)):
        keys = [
            (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
            for item in objects(files)
        ]
        assert len(set(keys)) == len(keys)
        assert len({file.path for file in files}) == len(files)


@given(clusters())
def test_what_an_object_names_is_there_and_comes_in_an_earlier_wave(resolved: ResolvedCluster) -> None:
    # The add-on's namespaces are no manifests of ours, but team access lies in them.
    foreign = {("Namespace", item["metadata"]["name"]) for item in objects(preview(resolved))}
    for files in (manifests(resolved), preview(resolved)):
        there = {(item["kind"], item["metadata"]["name"]) for item in objects(files)} | foreign
        for item in objects(files):
            for kind, name in references(item):
                assert (kind, name) in there
                assert SYNC_WAVES[kind] < SYNC_WAVES[item["kind"]] or kind == item["kind"] == "Cohort"


def references(item: Object) -> list[tuple[str, str]]:
    """Kinds and names of the objects that ``item`` names."""
    spec: Object = item.get("spec", {})
    found = [
        ("Topology", spec.get("topologyName")),
        ("Cohort", spec.get("cohortName")),
        ("Cohort", spec.get("parentName")),
        ("ClusterQueue", spec.get("clusterQueue")),
        ("ValidatingAdmissionPolicy", spec.get("policyName")),
        ("ClusterRole", item.get("roleRef", {}).get("name")),
        ("Namespace", item["metadata"].get("namespace")),
    ]
    for group in spec.get("resourceGroups", []):
        found += [("ResourceFlavor", flavor["name"]) for flavor in group["flavors"]]
    return [(kind, name) for kind, name in found if name is not None]


@given(clusters())
def test_the_parts_of_all_teams_and_the_shared_part_are_the_whole(resolved: ResolvedCluster) -> None:
    assert resolved.governance is not None
    teams = [namespace.team for namespace in resolved.governance.namespaces]
    parts = [file for name in teams for file in team_files(resolved, {name})]
    assert manifests(resolved) == (*shared_files(resolved), *parts)


# --- owners -----------------------------------------------------------------------------------------------


def test_owner_kueue_applies_every_kind_and_previews_nothing() -> None:
    resolved = example("kueue")
    assert {item["kind"] for item in objects(manifests(resolved))} == set(KINDS) | set(CORE)
    assert preview(resolved) == ()


def test_owner_sagemaker_applies_team_access_only() -> None:
    files = manifests(example("sagemaker"))
    assert [item["kind"] for item in objects(files)] == [
        "ClusterRole",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
    ]
    assert one(files, "RoleBinding")["metadata"]["namespace"] == "hyperpod-ns-onlygputeam"


def test_a_preview_is_not_marked_as_ours() -> None:
    found = objects(preview(example("sagemaker")))
    assert {item["kind"] for item in found} == {"Namespace", *KINDS}
    assert naming.MANAGED_BY not in to_yaml(found)
    assert all("annotations" not in item["metadata"] for item in found)


def test_a_cluster_without_governance_has_no_objects() -> None:
    resolved = replace(example("kueue"), governance=None)
    assert (manifests(resolved), preview(resolved)) == ((), ())


# --- what a person reads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("kueue-team.yaml", team_files(example("kueue"))),
        ("sagemaker-preview.yaml", preview(example("sagemaker"))),
    ],
)
def test_the_example_reads_as_the_golden_file(name: str, files: tuple[ManifestFile, ...]) -> None:
    assert to_yaml(objects(files)) == (GOLDEN / name).read_text("utf-8")


# --- GitOps -----------------------------------------------------------------------------------------------


def test_all_that_belongs_to_a_team_is_in_the_file_of_the_team() -> None:
    two = [team(name, {"quota": [{"instanceType": "ml.g6.12xlarge", "count": 1}]}) for name in ("a", "b")]
    before, after = manifests(cluster("kueue", two[:1])), manifests(cluster("kueue", two))
    assert [file.path for file in after if file not in before] == ["teams/b.yaml"]


def test_no_tool_deletes_a_namespace_because_its_file_is_gone() -> None:
    annotations = one(manifests(example("kueue")), "Namespace")["metadata"]["annotations"]
    assert annotations["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"
    assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"
    assert annotations["helm.sh/resource-policy"] == "keep"


@given(clusters())
def test_every_applied_object_says_who_made_it_for_which_cluster_and_team(resolved: ResolvedCluster) -> None:
    for file in manifests(resolved):
        for item in file.objects:
            labels = item["metadata"]["labels"]
            assert labels[naming.MANAGED_LABEL] == "hyperpod-fleet"
            assert labels[naming.CLUSTER_LABEL] == "research"
            team_of_path = Path(file.path).stem if file.path.startswith("teams/") else None
            assert labels.get(naming.TEAM_LABEL) == team_of_path


# --- access and policy ------------------------------------------------------------------------------------


def test_a_team_may_run_jobs_but_not_read_secrets_or_change_queues_or_rights() -> None:
    role = next(item for item in objects(manifests(example("kueue"))) if item["kind"] == "ClusterRole")
    rights = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {("batch", "jobs", "create"), ("", "pods/log", "get")} <= rights
    assert ("kueue.x-k8s.io", "workloads", "list") in rights
    assert not any("*" in right or right[1] in ("secrets", "serviceaccounts") for right in rights)
    assert not any(group.startswith("rbac") for group, _, _ in rights)
    assert {verb for group, _, verb in rights if group == "kueue.x-k8s.io"} == {"get", "list", "watch"}


@given(clusters())
def test_rights_are_bound_to_the_teams_groups_and_the_team_role_in_its_namespace_only(
    resolved: ResolvedCluster,
) -> None:
    assert resolved.governance is not None
    groups = {namespace.name: list(namespace.groups) for namespace in resolved.governance.namespaces}
    bound = {
        item["metadata"]["namespace"]: [subject["name"] for subject in item["subjects"]]
        for item in objects(manifests(resolved))
        if item["kind"] == "RoleBinding" and item["roleRef"]["name"] == naming.TEAM_ROLE
    }
    assert bound == groups
    everywhere = [item for item in objects(manifests(resolved)) if item["kind"] == "ClusterRoleBinding"]
    assert {item["roleRef"]["name"] for item in everywhere} <= {naming.VIEWER_ROLE}


def test_the_policy_is_in_force_in_team_namespaces_and_nowhere_else() -> None:
    files = manifests(example("kueue"))
    match = one(files, "ValidatingAdmissionPolicyBinding")["spec"]["matchResources"]
    assert match["namespaceSelector"] == {
        "matchExpressions": [{"key": naming.TEAM_LABEL, "operator": "Exists"}]
    }
    assert naming.TEAM_LABEL in one(files, "Namespace")["metadata"]["labels"]


# --- limits and imports -----------------------------------------------------------------------------------


def test_more_flavors_than_kueue_takes_are_refused_with_both_figures() -> None:
    governance = example("kueue").governance
    assert governance is not None
    (queue,) = governance.cluster_queues
    wide = replace(queue, flavors=queue.flavors * 65)
    resolved = replace(example("kueue"), governance=replace(governance, cluster_queues=(wide,)))
    with pytest.raises(KueueLimitError, match="team-onlygputeam has 65 flavors; Kueue takes at most 64"):
        manifests(resolved)


def test_manifests_need_neither_jsii_nor_boto3() -> None:
    loaded = "[name for name in ('jsii', 'boto3') if name in sys.modules]"
    code = f"import sys, hyperpod_k8s.objects, hyperpod_k8s.helm; print({loaded})"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert ast.literal_eval(found) == []
