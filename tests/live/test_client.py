"""The client, on a real API server."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_live.control_plane import (
    RUN_SECONDS,
    ApiError,
    Client,
    ControlPlane,
    ControlPlaneError,
    condition,
    failures,
    fake_node,
    holds,
    read_kubeconfig,
)

KUEUE = "kueue.x-k8s.io/v1beta2"
Object = dict[str, Any]


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(name: str, space: str = "default", **data: str) -> Object:
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def flavor(name: str, **labels: str) -> Object:
    meta = {"name": name}
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": meta, "spec": {"nodeLabels": labels}}


def cluster_queue(name: str, flavor_name: str, **limits: str) -> Object:
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "2", **limits}
    group = {
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": flavor_name, "resources": [quota]}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def test_applying_the_same_object_again_changes_nothing(client: Client) -> None:
    first = client.apply(config_map("twice", a="1"))
    assert client.apply(config_map("twice", a="1")) == first


def test_fields_of_another_owner_are_a_conflict_unless_forced(client: Client) -> None:
    client.apply(config_map("owned", a="1"), field_manager="somebody")
    with pytest.raises(ApiError, match='conflict with "somebody"') as refused:
        client.apply(config_map("owned", a="2"), force=False)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert client.apply(config_map("owned", a="2"))["data"] == {"a": "2"}


def test_a_dry_run_stores_nothing(client: Client) -> None:
    assert client.apply(config_map("dry"), dry_run=True)["metadata"]["name"] == "dry"
    with pytest.raises(ApiError, match='configmaps "dry" not found') as missing:
        client.get("v1", "ConfigMap", "dry", "default")
    assert missing.value.reason == "NotFound"


def test_many_objects_go_in_one_call_and_need_no_order(client: Client) -> None:
    things = [config_map("one", "crowd", a="1"), config_map("two", "crowd"), namespace("crowd")]
    outcomes = client.apply_all(things)
    assert [each.sent for each in outcomes] == things
    assert failures(outcomes) == []
    found = {each["metadata"]["name"] for each in client.list("v1", "ConfigMap", "crowd")}
    assert {"one", "two"} <= found


def test_one_refused_object_among_many_is_told_in_the_servers_words(client: Client) -> None:
    good, bad = config_map("good"), config_map("Not_A_Name")
    refused = client.apply_all([bad, good])
    (line,) = failures(refused)
    assert line.startswith('ConfigMap Not_A_Name: ConfigMap "Not_A_Name" is invalid: metadata.name:')
    assert refused[0].error and refused[0].error.causes[0][0] == "metadata.name"
    assert refused[1].answer and refused[1].answer["metadata"]["name"] == "good"


def test_creating_what_is_there_is_refused(client: Client) -> None:
    client.create(config_map("once"))
    with pytest.raises(ApiError) as refused:
        client.create(config_map("once"))
    assert refused.value.reason == "AlreadyExists"


def test_a_kind_that_the_server_does_not_have_is_named(client: Client) -> None:
    with pytest.raises(ApiError, match='no kind "Pony" in "v1"'):
        client.list("v1", "Pony")
    with pytest.raises(ApiError) as unknown:
        client.list("ponies.example.com/v1", "Pony")
    assert unknown.value.status == 404


def test_delete_says_whether_there_was_something(client: Client) -> None:
    client.create(config_map("gone"))
    assert client.delete("v1", "ConfigMap", "gone", "default")
    assert not client.delete("v1", "ConfigMap", "gone", "default")


def test_lists_are_filtered_by_labels_and_fields(client: Client) -> None:
    for name in ("red", "blue"):
        client.apply(
            {**config_map(name), "metadata": {**config_map(name)["metadata"], "labels": {"c": name}}}
        )
    (red,) = client.list("v1", "ConfigMap", "default", labels="c=red")
    (blue,) = client.list("v1", "ConfigMap", fields="metadata.name=blue")
    assert (red["kind"], red["metadata"]["name"], blue["metadata"]["name"]) == ("ConfigMap", "red", "blue")


def test_a_watch_yields_what_is_there_and_what_changes(client: Client) -> None:
    client.apply(namespace("seen"))
    client.apply(config_map("a", "seen"))
    changes = client.watch("v1", "ConfigMap", "seen", seconds=20)
    assert (first := next(changes)).type == "ADDED" and first.object["metadata"]["name"] == "a"
    client.patch("v1", "ConfigMap", "a", {"data": {"x": "1"}}, "seen")
    assert (second := next(changes)).type == "MODIFIED" and second.object["data"] == {"x": "1"}
    client.delete("v1", "ConfigMap", "a", "seen")
    assert next(changes).type == "DELETED"


def test_a_wait_that_is_in_vain_ends_with_the_last_state(client: Client) -> None:
    with pytest.raises(TimeoutError, match=r"Namespace default .* \{\"phase\": \"Active\"\}"):
        client.wait("v1", "Namespace", "default", until=holds("Paid"), seconds=0.2)
    with pytest.raises(TimeoutError, match="it does not exist"):
        client.wait("v1", "Namespace", "nowhere", until=holds("Paid"), seconds=0.2)


def test_a_fake_node_is_ready_at_once_and_carries_its_facts(client: Client) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    figures = {"cpu": "191", "memory": "2000Gi", "nvidia.com/gpu": "8"}
    made = client.create(fake_node("facts", allocatable=figures, labels={"x": "y"}, taints=[taint]))
    assert condition(made, "Ready")["status"] == "True"
    assert made["status"]["allocatable"] == {"pods": "110", **figures}
    assert made["metadata"]["labels"]["x"] == "y"
    assert made["spec"]["taints"] == [taint]


def test_a_status_is_changed_through_its_subresource(client: Client) -> None:
    client.create(fake_node("sick", allocatable={"cpu": "1"}))
    change = {"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}
    client.patch("v1", "Node", "sick", change, type="strategic", subresource="status")
    assert condition(client.get("v1", "Node", "sick"), "DiskPressure")["status"] == "True"


def test_kueue_refuses_through_its_webhook(client: Client) -> None:
    with pytest.raises(ApiError, match=r'"vclusterqueue.kb.io" denied.*must be nil when cohort is empty'):
        client.apply(cluster_queue("greedy", "none", lendingLimit="5"))


def test_kueue_converts_between_the_versions_of_its_api(client: Client) -> None:
    client.apply({**cluster_queue("convert", "none"), "spec": {"cohortName": "pool"}})
    old = client.get("kueue.x-k8s.io/v1beta1", "ClusterQueue", "convert")
    assert old["spec"]["cohort"] == "pool"


@pytest.mark.parametrize(("run_seconds", "end"), [("0.5", "Complete"), (None, None)])
def test_an_admitted_job_runs_on_fake_nodes_as_long_as_it_says(
    client: Client, run_seconds: str | None, end: str | None
) -> None:
    name = f"runs-{'on' if run_seconds is None else 'short'}"
    client.create(fake_node(name, allocatable={"cpu": "8", "nvidia.com/gpu": "4"}, labels={"for": name}))
    queue = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "q", "namespace": name}}
    things = [namespace(name), flavor(name, **{"for": name}), cluster_queue(name, name)]
    assert failures(client.apply_all([*things, {**queue, "spec": {"clusterQueue": name}}])) == []

    client.create(job(name, run_seconds))

    client.wait("batch/v1", "Job", "job", name, until=started)
    if end:
        # It may have ended already when it was first looked at.
        client.wait("batch/v1", "Job", "job", name, until=holds(end))
    pods = client.list("v1", "Pod", name)
    assert {pod["spec"]["nodeName"] for pod in pods} == {name}
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded" if end else "Running"}


def started(job: Object) -> bool:
    status = job.get("status", {})
    return bool(status.get("ready") == 2 or status.get("succeeded"))


def job(space: str, run_seconds: str | None) -> Object:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none", "resources": limits}]}
    notes = {} if run_seconds is None else {RUN_SECONDS: run_seconds}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": space, "labels": labels},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {"metadata": {"annotations": notes}, "spec": pod},
        },
    }


# Kubeconfigs


def test_the_kubeconfig_reaches_the_same_server_and_only_its_owner_can_read_it(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    client = Client(read_kubeconfig(control_plane.kubeconfig, tmp_path))
    assert client.get("v1", "Namespace", "kueue-system")["status"]["phase"] == "Active"
    assert control_plane.kubeconfig.stat().st_mode & 0o077 == 0
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_stranger_is_refused(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "guessed"}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ApiError) as refused:
        Client(read_kubeconfig(path, tmp_path)).list("v1", "Node")
    assert refused.value.status == 401


def kubeconfig(folder: Path, user: Object) -> Path:
    path = folder / "config"
    config = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://c.example.com/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_kubeconfig_may_get_its_token_from_a_command(tmp_path: Path) -> None:
    credential = json.dumps({"status": {"token": "issued"}})
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [credential]}
    access = read_kubeconfig(kubeconfig(tmp_path, {"exec": plugin}), tmp_path)
    assert access.url == "https://c.example.com"
    assert access.headers == {"Authorization": "Bearer issued"}


def test_keys_beside_a_kubeconfig_are_found_from_there(tmp_path: Path) -> None:
    user = {"client-certificate": "me.crt", "client-key-data": base64.b64encode(b"key").decode()}
    access = read_kubeconfig(kubeconfig(tmp_path, user), tmp_path)
    assert access.certificate == tmp_path / "me.crt"
    assert access.key and access.key.read_bytes() == b"key"


@pytest.mark.parametrize(
    ("user", "context", "words"),
    [
        ({}, "prod", 'it has no "prod"'),
        ({"exec": {"apiVersion": "v1", "command": "no-such-command"}}, None, "gave no credential"),
        ({"exec": {"apiVersion": "v1", "command": "false"}}, None, "gave no credential"),
    ],
    ids=["no such context", "no such command", "a command that fails"],
)
def test_a_kubeconfig_that_leads_nowhere_is_a_sentence(
    user: Object, context: str | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ControlPlaneError, match=words):
        read_kubeconfig(kubeconfig(tmp_path, user), tmp_path, context)


def test_a_server_that_is_not_there_is_an_error_with_its_address(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {})
    path.write_text(path.read_text().replace("https://c.example.com/", "https://127.0.0.1:1"))
    with pytest.raises(ApiError, match=r"no answer from https://127\.0\.0\.1:1"):
        Client(read_kubeconfig(path, tmp_path)).list("v1", "Node")
