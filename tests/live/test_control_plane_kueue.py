"""What of Kueue's own manifests and settings is changed for a process on this machine."""

from pathlib import Path
from typing import Any

import pytest

from hyperpod_k8s.workloads import WORKLOAD_KINDS
from hyperpod_live.control_plane import ControlPlane, ensure_built
from hyperpod_live.control_plane.kueue import WebhookServer, configuration, crds_for, webhooks_for

FRAMEWORKS = tuple(kind.framework for kind in WORKLOAD_KINDS if kind.framework)

Object = dict[str, Any]


@pytest.fixture
def server(tmp_path: Path) -> WebhookServer:
    (tmp_path / "ca.crt").write_text("authority")
    return WebhookServer(9443, tmp_path / "ca.crt")


def names(objects: list[Object]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def hooks(objects: list[Object]) -> dict[str, Object]:
    return {hook["name"]: hook for each in objects for hook in each["webhooks"]}


def test_only_the_webhooks_of_kueue_and_of_the_chosen_job_kinds_are_installed(server: WebhookServer) -> None:
    published = ensure_built().read("webhooks")
    own = {"clusterqueue", "resourceflavor", "workload"}
    expected = {f"{kind}{name}.kb.io" for name in own for kind in "mv"} | {"vcohort.kb.io"}
    assert set(hooks(webhooks_for([], published, server))) == expected
    jobs = {"mjob.kb.io", "vjob.kb.io", "mpod.kb.io", "vpod.kb.io"}
    assert set(hooks(webhooks_for(["batch/job", "pod"], published, server))) == expected | jobs
    ray = {"mrayjob.kb.io", "vrayjob.kb.io"}
    assert set(hooks(webhooks_for(["ray.io/rayjob"], published, server))) == expected | ray


def test_every_job_kind_that_we_write_into_kueues_settings_has_its_webhooks(server: WebhookServer) -> None:
    published = ensure_built().read("webhooks")
    nothing = hooks(webhooks_for([], published, server))
    everything = hooks(webhooks_for(FRAMEWORKS, published, server))
    assert len(everything) - len(nothing) == 2 * len(FRAMEWORKS)


def test_webhooks_answer_on_this_machine_and_leave_system_namespaces_alone(server: WebhookServer) -> None:
    found = hooks(webhooks_for(["pod"], ensure_built().read("webhooks"), server))
    assert found["vpod.kb.io"]["clientConfig"] == {
        "url": "https://127.0.0.1:9443/validate--v1-pod",
        "caBundle": "YXV0aG9yaXR5",
    }
    (left_out,) = found["vpod.kb.io"]["namespaceSelector"]["matchExpressions"]
    assert (left_out["operator"], left_out["values"]) == ("NotIn", ["kube-system", "kueue-system"])
    assert "namespaceSelector" not in found["vclusterqueue.kb.io"]


def test_crds_convert_by_our_kueue_or_not_at_all(server: WebhookServer) -> None:
    crds = crds_for(FRAMEWORKS, ensure_built().read("crds"), server)
    converted = [crd for crd in crds if crd["spec"].get("conversion", {}).get("strategy") == "Webhook"]
    assert names(converted) == {
        f"{plural}.kueue.x-k8s.io"
        for plural in ("clusterqueues", "cohorts", "localqueues", "workloads", "multikueueclusters")
    }
    urls = {crd["spec"]["conversion"]["webhook"]["clientConfig"]["url"] for crd in converted}
    assert urls == {"https://127.0.0.1:9443/convert"}


def test_the_crds_of_the_chosen_job_kinds_come_along(server: WebhookServer) -> None:
    published = ensure_built().read("crds")
    core = names(crds_for(["batch/job", "pod"], published, server))
    assert len(core) == 11 and all(name.endswith(".kueue.x-k8s.io") for name in core)
    ray = names(crds_for(["ray.io/rayjob"], published, server)) - core
    assert ray >= {"rayjobs.ray.io", "rayclusters.ray.io"} and all(name.endswith(".ray.io") for name in ray)
    with pytest.raises(ValueError, match=r"no CRDs for the job kinds of nowhere\.example\.com"):
        crds_for(["nowhere.example.com/job"], published, server)


def test_the_settings_that_decide_about_jobs_are_kept() -> None:
    given = {
        "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
        "managedJobsNamespaceSelector": {"matchLabels": {"a": "b"}},
        "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
        "webhook": {"port": 1},
        "leaderElection": {"leaderElect": True},
        "featureGates": {"Some": True},
        "integrations": {"frameworks": ["ray.io/rayjob"]},
    }
    found = configuration(given, ["pod"], 9443, 8081)
    assert {name: found[name] for name in ("fairSharing", "managedJobsNamespaceSelector")} == {
        name: given[name] for name in ("fairSharing", "managedJobsNamespaceSelector")
    }
    assert found["metrics"] == {"bindAddress": "0", "enableClusterQueueResources": True}
    assert found["webhook"] == {"host": "127.0.0.1", "port": 9443, "certDir": "certs"}
    assert found["leaderElection"] == {"leaderElect": False}
    assert found["featureGates"] == {"Some": True, "VisibilityOnDemand": False}
    assert found["integrations"] == {"frameworks": ["pod"]}
    assert given["webhook"] == {"port": 1}


def test_kueue_runs_with_every_job_kind_that_we_write_into_its_settings() -> None:
    with ControlPlane(scheduler=False, kwok=False, frameworks=FRAMEWORKS) as running:
        made = running.client().create(
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {
                    "name": "queued",
                    "namespace": "default",
                    "labels": {"kueue.x-k8s.io/queue-name": "any"},
                },
                "spec": {"replicatedJobs": []},
            }
        )
        running.check()
    assert made["spec"]["suspend"] is True
