"""Facts that the library and the rules each state, because neither may import the other, are the same."""

import hyperpod_constructs as hyperpod
from hyperpod_constructs import _governance_backend
from hyperpod_constructs.handlers import governance_resource, update_guard
from hyperpod_governance import service


def test_a_closed_network_needs_the_same_endpoints() -> None:
    by_rules = {*service.CLOSED_NETWORK_ENDPOINTS, *service.CLOSED_NETWORK_ENDPOINTS_EKS}
    assert set(hyperpod.CLOSED_NETWORK_ENDPOINTS) == by_rules


def test_the_same_kubernetes_versions_are_supported() -> None:
    assert hyperpod.KUBERNETES_VERSIONS == service.KUBERNETES_VERSIONS


def test_the_same_version_of_the_add_on_is_the_default() -> None:
    assert hyperpod.DEFAULT_ADDON_VERSION == service.DEFAULT_ADDON_VERSION


def test_the_same_add_on_updates_are_refused_in_a_pull_request_and_in_a_deployment() -> None:
    assert update_guard.LAST_ADDON_WITH_V1ALPHA1 == service.LAST_ADDON_WITH_V1ALPHA1
    assert update_guard.FIRST_ADDON_WITHOUT_V1ALPHA1 == service.FIRST_ADDON_WITHOUT_V1ALPHA1


def test_quotas_of_both_backends_say_by_the_same_tag_whose_they_are() -> None:
    assert _governance_backend.OWNER_TAG == governance_resource.OWNER_TAG
