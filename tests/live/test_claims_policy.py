"""Our policy that asks for a queue name, on a real API server."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_governance import naming
from hyperpod_k8s.policy import QUEUE_NAME_LABEL, queue_name_policy, queue_name_policy_binding
from hyperpod_live.control_plane import ApiError, Client, ControlPlane, read_kubeconfig

Object = dict[str, Any]

TEAM, OTHER = "team-of-the-policy", "not-of-a-team"
REFUSAL = "add the label kueue.x-k8s.io/queue-name"
POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}


@pytest.fixture(scope="module", autouse=True)
def policy(control_plane: ControlPlane) -> Iterator[None]:
    """Put the policy in force, in one namespace of a team and one of nobody."""
    client = control_plane.client()
    objects = [
        queue_name_policy(),
        queue_name_policy_binding(),
        _object("v1", "Namespace", TEAM, labels={naming.TEAM_LABEL: "of-the-policy"}),
        _object("v1", "Namespace", OTHER),
    ]
    client.apply_all(objects)
    try:
        _await_force(client)
        yield
    finally:
        client.delete_all(objects)


def _await_force(client: Client) -> None:
    """The API server compiles a policy some time after it is stored."""
    for _ in range(300):
        try:
            client.create(job(TEAM), dry_run=True)
        except ApiError:
            return
        time.sleep(0.1)
    pytest.fail("the policy is not in force after 30 s")


def _object(api_version: str, kind: str, name: str, **metadata: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


def job(namespace: str, labels: dict[str, str] | None = None) -> Object:
    item = _object("batch/v1", "Job", "job", namespace=namespace, labels=labels or {})
    return item | {"spec": {"suspend": True, "template": {"spec": POD_SPEC}}}


def pod(namespace: str, **metadata: Any) -> Object:
    return _object("v1", "Pod", "pod", namespace=namespace, **metadata) | {"spec": POD_SPEC}


def owner(api_version: str, kind: str, uid: str = "1", *, controller: bool = True) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": "job", "uid": uid, "controller": controller}


@pytest.mark.parametrize("make", ["Job", "Pod"])
@pytest.mark.parametrize(
    "labels", [{}, {"other": "x"}, {QUEUE_NAME_LABEL: ""}], ids=["no label", "another", "an empty one"]
)
def test_a_workload_of_a_team_without_a_queue_name_is_refused_with_what_to_do(
    client: Client, make: str, labels: dict[str, str]
) -> None:
    item = job(TEAM, labels) if make == "Job" else pod(TEAM, labels=labels)
    with pytest.raises(ApiError, match=REFUSAL) as refused:
        client.create(item, dry_run=True)
    assert naming.QUEUE_NAME_POLICY in str(refused.value)
    assert refused.value.reason == "Invalid"


def test_with_a_queue_name_it_is_accepted(client: Client) -> None:
    client.create(job(TEAM, {QUEUE_NAME_LABEL: "default"}), dry_run=True)
    client.create(pod(TEAM, labels={QUEUE_NAME_LABEL: "default"}), dry_run=True)


def test_a_deployment_is_asked_too(client: Client) -> None:
    deployment = _object("apps/v1", "Deployment", "web", namespace=TEAM) | {
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": POD_SPEC["containers"]},
            },
        }
    }
    with pytest.raises(ApiError, match=REFUSAL):
        client.create(deployment, dry_run=True)


@pytest.fixture
def stored(client: Client) -> Iterator[Object]:
    """A Job of the team with a queue name."""
    yield client.create(job(TEAM, {QUEUE_NAME_LABEL: "default"}))
    client.delete("batch/v1", "Job", "job", TEAM)


def acting_as(user: str, control_plane: ControlPlane, folder: Path) -> Client:
    """A client whose requests are somebody else's, with all rights."""
    access = read_kubeconfig(control_plane.kubeconfig, folder)
    return Client(replace(access, headers={"Impersonate-User": user, "Impersonate-Group": "system:masters"}))


CONTROLLERS = ["system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager"]


@pytest.mark.parametrize("user", CONTROLLERS)
def test_what_a_controller_made_counts_with_its_owner(
    user: str, control_plane: ControlPlane, stored: Object, tmp_path: Path
) -> None:
    owners = [owner("batch/v1", "Job", stored["metadata"]["uid"])]
    acting_as(user, control_plane, tmp_path).create(pod(TEAM, ownerReferences=owners), dry_run=True)


@pytest.mark.parametrize(
    "user", ["arn:aws:iam::111122223333:role/ml", f"system:serviceaccount:{TEAM}:default"]
)
def test_an_owner_that_a_member_of_the_team_names_does_not_count(
    user: str, control_plane: ControlPlane, stored: Object, tmp_path: Path
) -> None:
    owners = [owner("batch/v1", "Job", stored["metadata"]["uid"])]
    with pytest.raises(ApiError, match=REFUSAL):
        acting_as(user, control_plane, tmp_path).create(pod(TEAM, ownerReferences=owners), dry_run=True)


def test_an_owner_that_is_no_controller_does_not_count(client: Client, stored: Object) -> None:
    owners = [owner("batch/v1", "Job", stored["metadata"]["uid"], controller=False)]
    with pytest.raises(ApiError, match=REFUSAL):
        client.create(pod(TEAM, ownerReferences=owners), dry_run=True)


def test_a_job_of_a_cron_job_is_asked_for_a_queue_name(client: Client) -> None:
    item = job(TEAM)
    item["metadata"]["ownerReferences"] = [owner("batch/v1", "CronJob")]
    with pytest.raises(ApiError, match=REFUSAL):
        client.create(item, dry_run=True)


def test_namespaces_of_nobody_are_left_alone(client: Client) -> None:
    client.create(job(OTHER), dry_run=True)
    client.create(pod(OTHER), dry_run=True)


def test_a_workload_that_is_there_can_be_changed(client: Client, stored: Object) -> None:
    change = {"metadata": {"annotations": {"a": "b"}}}
    client.patch("batch/v1", "Job", stored["metadata"]["name"], change, TEAM)
