"""What teams run is said once: Kueue's config, the queue-name policy and team access agree."""

from dataclasses import replace

import pytest
import yaml
from tests.k8s.k8s_fleets import example

from hyperpod_governance.model import ResolvedGovernance
from hyperpod_k8s.manager import configuration, helm_values
from hyperpod_k8s.policy import queue_name_policy
from hyperpod_k8s.rbac import team_role
from hyperpod_k8s.workloads import WORKLOAD_KINDS


def governed() -> ResolvedGovernance:
    found = example("kueue").governance
    assert found is not None
    return found


def test_a_team_may_create_every_kind_that_the_policy_asks_for_a_queue() -> None:
    may = {
        (group, resource)
        for rule in team_role()["rules"]
        if "create" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    asked = {
        (group, resource)
        for rule in queue_name_policy()["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert asked <= may


@pytest.mark.parametrize(
    "resource", ["secrets", "roles", "rolebindings", "clusterqueues", "localqueues", "nodes"]
)
def test_a_team_may_not_change(resource: str) -> None:
    for rule in team_role()["rules"]:
        assert resource not in rule["resources"] or rule["verbs"] == ["get", "list", "watch"]


def test_kueue_manages_every_kind_that_it_has_an_integration_for() -> None:
    frameworks = configuration(governed())["integrations"]["frameworks"]
    assert frameworks == [kind.framework for kind in WORKLOAD_KINDS if kind.framework]
    assert len(set(frameworks)) == len(frameworks)


def test_kueue_shares_fairly_exactly_when_the_policy_says_so() -> None:
    governance = governed()
    assert governance.fair_sharing
    assert "fairSharing" in configuration(governance)
    assert "fairSharing" not in configuration(replace(governance, fair_sharing=False))


def test_the_chart_gets_the_configuration_as_text() -> None:
    text = helm_values(governed())["managerConfig"]["controllerManagerConfigYaml"]
    assert yaml.safe_load(text) == configuration(governed())


def test_kueue_has_as_many_workers_as_in_its_own_installation() -> None:
    workers = configuration(governed())["controller"]["groupKindConcurrency"]
    assert (workers["Workload.kueue.x-k8s.io"], workers["ClusterQueue.kueue.x-k8s.io"]) == (10, 5)
