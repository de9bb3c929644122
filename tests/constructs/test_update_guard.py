"""The guard's function against recorded answers that botocore checks with the service models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from botocore.exceptions import EndpointConnectionError  # type: ignore[import-untyped]
from botocore.stub import Stubber  # type: ignore[import-untyped]
from tests.constructs.fake_cluster import ARN as CLUSTER_ARN

from hyperpod_constructs.handlers import service_api, update_guard

Json = dict[str, Any]
Event = dict[str, Any]

STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/fleet-research-cluster/1a2b"
EKS = "arn:aws:eks:us-east-1:123456789012:cluster/"
VPC = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1", "subnet-2"]}
OTHER_VPC = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-3"]}


class Context:
    """A Lambda context whose time goes by with each question."""

    def __init__(self, seconds: float = 120.0, each: float = 0.0) -> None:
        self._left, self._each = seconds, each

    def get_remaining_time_in_millis(self) -> int:
        self._left -= self._each
        return int(self._left * 1000)


class Recorded:
    """One client a service, with answers in order; a call that was not foreseen fails the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stubs: dict[str, tuple[Any, Stubber]] = {}
        monkeypatch.setattr(service_api, "client", lambda service="sagemaker": self.stub(service)[0])
        monkeypatch.setattr(update_guard, "time", self)
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def stub(self, service: str) -> tuple[Any, Stubber]:
        if service not in self._stubs:
            client = boto3.client(
                service, "us-east-1", aws_access_key_id="x", aws_secret_access_key="x", aws_session_token="x"
            )
            stubber = Stubber(client)
            stubber.activate()
            self._stubs[service] = client, stubber
        return self._stubs[service]

    def answer(self, service: str, operation: str, answer: Json, **asked: Any) -> None:
        self.stub(service)[1].add_response(operation, answer, asked)

    def error(self, service: str, operation: str, code: str, message: str = "", status: int = 400) -> None:
        self.stub(service)[1].add_client_error(operation, code, message, status)

    def check(self) -> None:
        for _, stubber in self._stubs.values():
            stubber.assert_no_pending_responses()

    # --- what is live

    def cluster(self, live: Json | None, name: str = "research") -> None:
        if live is None:
            self.error("sagemaker", "describe_cluster", "ResourceNotFound", f"Cluster {name} not found")
        else:
            self.answer("sagemaker", "describe_cluster", live, ClusterName=name)

    def addon(self, version: str | None) -> None:
        if version is None:
            self.error("eks", "describe_addon", "ResourceNotFoundException", "No addon", 404)
        else:
            asked = {"clusterName": "research", "addonName": update_guard.ADDON_NAME}
            self.answer("eks", "describe_addon", {"addon": {"addonVersion": version}}, **asked)

    def quotas(self, *quotas: Json, token: str | None = None, after: str | None = None) -> None:
        answer: Json = {"ComputeQuotaSummaries": list(quotas)}
        if token:
            answer["NextToken"] = token
        asked: Json = {"ClusterArn": CLUSTER_ARN, "MaxResults": 100}
        self.answer(
            "sagemaker", "list_compute_quotas", answer, **asked, **({"NextToken": after} if after else {})
        )

    def stack(self, status: str | None = "UPDATE_IN_PROGRESS", name: str = STACK) -> None:
        if status is None:
            said = f"Stack with id {name} does not exist"
            self.error("cloudformation", "describe_stacks", "ValidationError", said)
            return
        stack = {"StackName": "s", "CreationTime": datetime(2026, 11, 21, tzinfo=UTC), "StackStatus": status}
        self.answer("cloudformation", "describe_stacks", {"Stacks": [stack]}, StackName=name)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    made = Recorded(monkeypatch)
    yield made
    made.check()


def wanted(**changes: Any) -> Json:
    """Properties of the guard of an EKS cluster."""
    properties = {
        "ServiceToken": "arn",
        "Guards": "Cluster",
        "ClusterName": "research",
        "EksClusterName": "research",
        "VpcConfig": VPC,
        "NodeProvisioningMode": "Continuous",
        "Groups": {
            "system": {"InstanceType": "ml.m5.2xlarge"},
            "any": {"InstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"]},
            "own": {"InstanceType": "ml.g6.12xlarge", "OverrideVpcConfig": OTHER_VPC},
        },
        "RestrictedGroups": {"nova": {"InstanceType": "ml.p5.48xlarge"}},
    }
    merged = {**properties, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def group(name: str, **more: Any) -> Json:
    return {"InstanceGroupName": name, "Status": "InService", **more}


def live(**changes: Any) -> Json:
    """What DescribeCluster says of a cluster that was made by `wanted()`."""
    types = {"CurrentInstanceTypes": ["ml.p5.48xlarge"], "DesiredInstanceTypes": ["ml.p5.48xlarge"]}
    answer = {
        "ClusterArn": CLUSTER_ARN,
        "ClusterName": "research",
        "ClusterStatus": "InService",
        "InstanceGroups": [
            group("system", InstanceType="ml.m5.2xlarge"),
            group("any", InstanceRequirements=types),
            group("own", InstanceType="ml.g6.12xlarge", OverrideVpcConfig=OTHER_VPC),
        ],
        "RestrictedInstanceGroups": [group("nova", InstanceType="ml.p5.48xlarge")],
        "VpcConfig": VPC,
        "Orchestrator": {"Eks": {"ClusterArn": EKS + "research"}},
        "NodeProvisioningMode": "Continuous",
    }
    merged = {**answer, **changes}
    return {key: value for key, value in merged.items() if value is not None}


SLURM_WANTED = {"EksClusterName": None, "Groups": {"head": {"InstanceType": "ml.m5.xlarge"}}}
SLURM_LIVE = {
    "Orchestrator": {"Slurm": {}},
    "InstanceGroups": [group("head", InstanceType="ml.m5.xlarge")],
    "RestrictedInstanceGroups": [],
}


def update(properties: Json, before: Json | None = None) -> Event:
    """An update event; Create if there was nothing before."""
    event = {"RequestType": "Update", "StackId": STACK, "ResourceProperties": properties}
    event["OldResourceProperties"] = properties if before is None else before
    return event


UNLIKE = {"ClusterName": "research", "VpcConfig": {"Subnets": ["subnet-0"]}, "EksClusterName": "before"}
"""What a cluster was to be before, unlike all that is wanted here."""


def before(properties: Json) -> Json:
    """Properties before an update that changes all."""
    continuous = "NodeProvisioningMode" in properties
    return UNLIKE if continuous else {**UNLIKE, "NodeProvisioningMode": "Continuous"}


def refusal(event: Mapping[str, Any], context: Context | None = None) -> str:
    """Give the text of the refusal; empty if the update goes on."""
    try:
        answer = update_guard.on_event(event, context or Context())
    except update_guard.RefusedError as error:
        return str(error)
    # Another id would be another resource to CloudFormation.
    assert answer == {"PhysicalResourceId": update_guard.PHYSICAL_ID}
    return ""


@dataclass(frozen=True)
class Case:
    """An update: what is wanted, what is live, and the words of the refusal (none: it goes on)."""

    about: str
    wanted: Json
    live: Json | None
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.about


def groups(**changed: Json) -> Json:
    return {**wanted()["Groups"], **changed}


SILENT = "Continuous on a Slurm cluster without"
REFUSED = [
    Case(
        "another subnet",
        wanted(VpcConfig={**VPC, "Subnets": ["subnet-9"]}),
        live(),
        ("Subnets of VpcConfig: wanted subnet-9, live subnet-1, subnet-2",),
    ),
    Case(
        "another security group",
        wanted(VpcConfig={**VPC, "SecurityGroupIds": ["sg-2"]}),
        live(),
        ("SecurityGroupIds of VpcConfig: wanted sg-2, live sg-1",),
    ),
    Case(
        "a VPC for a cluster made without one",
        wanted(**SLURM_WANTED),
        live(**SLURM_LIVE, VpcConfig=None),
        ("Subnets of VpcConfig: wanted subnet-1, subnet-2, live none",),
    ),
    Case(
        "EKS where Slurm is",
        wanted(),
        live(**SLURM_LIVE),
        ("orchestrator: wanted EKS cluster research, live Slurm",),
    ),
    Case(
        "Slurm where EKS is",
        wanted(**SLURM_WANTED),
        live(),
        ("orchestrator: wanted Slurm, live EKS cluster research",),
    ),
    Case(
        "another EKS cluster",
        wanted(EksClusterName="shared"),
        live(),
        ("orchestrator: wanted EKS cluster shared, live EKS cluster research",),
    ),
    Case(
        "another instance type of a group",
        wanted(Groups=groups(system={"InstanceType": "ml.m6i.large"})),
        live(),
        ("type of instance group system: wanted ml.m6i.large, live ml.m5.2xlarge",),
    ),
    Case(
        "another instance type of a restricted group",
        wanted(RestrictedGroups={"nova": {"InstanceType": "ml.p5e.48xlarge"}}),
        live(),
        ("type of restricted group nova: wanted ml.p5e.48xlarge, live ml.p5.48xlarge",),
    ),
    Case(
        "types to choose from instead of one",
        wanted(Groups=groups(system={"InstanceTypes": ["ml.m5.large"]})),
        live(),
        ("type of instance group system: wanted one of ml.m5.large, live ml.m5.2xlarge",),
    ),
    Case(
        "one type instead of types to choose from",
        wanted(Groups=groups(any={"InstanceType": "ml.p5.48xlarge"})),
        live(),
        ("type of instance group any: wanted ml.p5.48xlarge, live one of ml.p5.48xlarge",),
    ),
    Case(
        "other subnets of one group",
        wanted(Groups=groups(own={"InstanceType": "ml.g6.12xlarge", "OverrideVpcConfig": VPC})),
        live(),
        ("Subnets of OverrideVpcConfig of instance group own: wanted subnet-1, subnet-2, live subnet-3",),
    ),
    Case(
        "a group's own subnets taken back",
        wanted(Groups=groups(own={"InstanceType": "ml.g6.12xlarge"})),
        live(),
        ("Subnets of OverrideVpcConfig of instance group own",),
    ),
    Case(
        "own subnets for a group without",
        wanted(Groups=groups(system={"InstanceType": "ml.m5.2xlarge", "OverrideVpcConfig": OTHER_VPC})),
        live(),
        ("OverrideVpcConfig of instance group system: wanted subnet-3, live subnet-1, subnet-2",),
    ),
    Case(
        SILENT,
        wanted(**SLURM_WANTED),
        live(**SLURM_LIVE, NodeProvisioningMode=None),
        ("NodeProvisioningMode: wanted Continuous, live none",),
    ),
    Case(
        "a Slurm cluster without Continuous where it is",
        wanted(**SLURM_WANTED, NodeProvisioningMode=None),
        live(**SLURM_LIVE),
        ("NodeProvisioningMode: wanted none, live Continuous",),
    ),
    Case(
        "Continuous taken back on EKS",
        wanted(NodeProvisioningMode=None),
        live(),
        ("NodeProvisioningMode: wanted none, live Continuous",),
    ),
    Case(
        "all that differs, in one message",
        wanted(
            EksClusterName="shared",
            VpcConfig={**VPC, "Subnets": ["subnet-9"]},
            Groups=groups(system={"InstanceType": "ml.m6i.large"}),
        ),
        live(),
        ("subnet-9", "EKS cluster shared", "ml.m6i.large", "new instance group or a new cluster"),
    ),
    Case(
        "a failed cluster is compared as well",
        wanted(EksClusterName="shared"),
        live(ClusterStatus="Failed"),
        ("EKS cluster shared",),
    ),
]

ALLOWED = [
    Case("the same", wanted(), live()),
    Case("a cluster that is not there yet", wanted(), None),
    Case(
        "the same subnets in another order",
        wanted(VpcConfig={**VPC, "Subnets": ["subnet-2", "subnet-1"]}),
        live(),
    ),
    Case("a new group", wanted(Groups=groups(new={"InstanceType": "ml.p5.48xlarge"})), live()),
    Case("a group that goes", wanted(Groups={"system": {"InstanceType": "ml.m5.2xlarge"}}), live()),
    Case("the last groups of a kind go", wanted(RestrictedGroups=None), live()),
    Case(
        "a group that someone deletes already",
        wanted(Groups=groups(system={"InstanceType": "ml.m6i.large"})),
        live(InstanceGroups=[group("system", InstanceType="ml.m5.2xlarge") | {"Status": "Deleting"}]),
    ),
    Case(
        "other types to choose from",
        wanted(Groups=groups(any={"InstanceTypes": ["ml.p5en.48xlarge"]})),
        live(),
    ),
    Case("Continuous on an EKS cluster without", wanted(), live(NodeProvisioningMode=None)),
    Case(
        "an override that says what the cluster says",
        wanted(Groups=groups(system={"InstanceType": "ml.m5.2xlarge", "OverrideVpcConfig": VPC})),
        live(),
    ),
    Case("Slurm as it was made", wanted(**SLURM_WANTED), live(**SLURM_LIVE)),
    Case(
        "a Slurm cluster from before orchestrators were named",
        wanted(**SLURM_WANTED),
        live(**{**SLURM_LIVE, "Orchestrator": None}),
    ),
    Case("a cluster that is being deleted", wanted(EksClusterName="shared"), live(ClusterStatus="Deleting")),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_change_that_the_service_does_not_make_is_refused(case: Case, recorded: Recorded) -> None:
    recorded.cluster(case.live)
    recorded.stack()
    text = refusal(update(case.wanted, before(case.wanted)))
    assert [word for word in case.words if word not in text] == [], text
    assert len(text) <= service_api.MESSAGE_LIMIT


@pytest.mark.parametrize("case", [case for case in REFUSED if case.about != SILENT], ids=str)
def test_it_is_refused_on_create_too_for_the_guard_may_be_younger_than_the_cluster(
    case: Case, recorded: Recorded
) -> None:
    recorded.cluster(case.live)
    recorded.stack()
    assert refusal({"RequestType": "Create", "StackId": STACK, "ResourceProperties": case.wanted})


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_nothing_is_refused_when_cloudformation_takes_an_update_back(case: Case, recorded: Recorded) -> None:
    recorded.cluster(case.live)
    recorded.stack("UPDATE_ROLLBACK_IN_PROGRESS")
    assert refusal(update(case.wanted, before(case.wanted))) == ""


@pytest.mark.parametrize("case", ALLOWED, ids=str)
def test_other_changes_go_on(case: Case, recorded: Recorded) -> None:
    recorded.cluster(case.live)
    assert refusal(update(case.wanted, before(case.wanted))) == ""


@pytest.mark.parametrize(
    "properties",
    [wanted(EksClusterName="shared"), wanted(VpcConfig=OTHER_VPC), wanted(NodeProvisioningMode=None)],
)
def test_what_an_update_does_not_change_is_not_its_business(properties: Json, recorded: Recorded) -> None:
    """The description may also say less, or say it otherwise, than the template."""
    same: Json = {"Groups": {}, "RestrictedGroups": {}}
    recorded.cluster(live())
    assert refusal(update({**properties, **same}, before={**properties, "RestrictedGroups": {}})) == ""


def test_a_group_that_was_made_again_by_hand_is_said_though_the_template_did_not_change(
    recorded: Recorded,
) -> None:
    recorded.cluster(live(InstanceGroups=[group("system", InstanceType="ml.m6i.large")]))
    recorded.stack()
    text = refusal(update(wanted(), before=wanted()))
    assert "type of instance group system: wanted ml.m5.2xlarge, live ml.m6i.large" in text


def test_a_new_guard_takes_silence_about_the_mode_for_no_difference(recorded: Recorded) -> None:
    recorded.cluster(live(**SLURM_LIVE, NodeProvisioningMode=None))
    event = {"RequestType": "Create", "StackId": STACK, "ResourceProperties": wanted(**SLURM_WANTED)}
    assert refusal(event) == ""


@pytest.mark.parametrize("said", ["Could not find cluster 'research'.", "Cluster research not found"])
def test_a_cluster_that_is_not_there_may_be_said_in_other_words(said: str, recorded: Recorded) -> None:
    recorded.error("sagemaker", "describe_cluster", "ValidationException", said)
    assert refusal(update(wanted())) == ""


def test_another_invalid_request_is_no_absence(recorded: Recorded) -> None:
    recorded.error("sagemaker", "describe_cluster", "ValidationException", "1 validation error detected")
    recorded.stack()
    assert "1 validation error detected" in refusal(update(wanted()))


def test_a_refused_update_goes_back_to_what_is_live(recorded: Recorded) -> None:
    """CloudFormation sends the old properties as new ones; they are what is live, so nobody need be asked."""
    old, new = wanted(), wanted(EksClusterName="shared")
    recorded.cluster(live())
    recorded.stack()
    assert refusal(update(new, before=old))
    recorded.cluster(live())
    assert refusal(update(old, before=new)) == ""


def test_a_step_that_has_no_way_back_does_not_keep_the_stack_from_going_back(recorded: Recorded) -> None:
    """Continuous was switched on, a later resource failed, and the old template does not have it."""
    old, new = wanted(NodeProvisioningMode=None), wanted()
    recorded.cluster(live(NodeProvisioningMode=None))
    assert refusal(update(new, before=old)) == ""
    recorded.cluster(live())
    recorded.stack("UPDATE_ROLLBACK_IN_PROGRESS")
    assert refusal(update(old, before=new)) == ""


class TestRename:
    def test_a_new_name_is_refused_while_the_cluster_of_the_old_one_lives(self, recorded: Recorded) -> None:
        recorded.cluster(None, "lab")
        recorded.cluster(live())
        recorded.stack()
        text = refusal(update(wanted(ClusterName="lab"), before=wanted()))
        assert "HyperPod cluster research would be deleted and made again as lab" in text

    def test_it_goes_on_when_the_old_one_was_removed_by_hand(self, recorded: Recorded) -> None:
        recorded.cluster(None, "lab")
        recorded.cluster(None)
        assert refusal(update(wanted(ClusterName="lab"), before=wanted())) == ""


# --- governance


def governance(teams: list[str], **changes: Any) -> Json:
    return {
        "ServiceToken": "arn",
        "Guards": "Governance",
        "ClusterArn": CLUSTER_ARN,
        "EksClusterName": "research",
        "Teams": teams,
        "RenamedFrom": [],
        **changes,
    }


def quota(team: str, state: str | None = "Enabled", status: str = "Created") -> Json:
    summary = {
        "ComputeQuotaArn": "arn:aws:sagemaker:us-east-1:123456789012:compute-quota/abcdefghijkl",
        "ComputeQuotaId": "abcdefghijkl",
        "Name": team,
        "Status": status,
        "ClusterArn": CLUSTER_ARN,
        "ComputeQuotaTarget": {"TeamName": team, "FairShareWeight": 10},
        "ActivationState": state,
        "CreationTime": datetime(2026, 11, 21, tzinfo=UTC),
    }
    return {key: value for key, value in summary.items() if value is not None}


class TestTeams:
    BEFORE = governance(["llm", "vision"])

    def test_a_team_in_use_is_not_removed(self, recorded: Recorded) -> None:
        recorded.quotas(quota("llm"), quota("vision"))
        recorded.stack()
        text = refusal(update(governance(["llm"]), before=self.BEFORE))
        for word in ("team vision", "hpf remove-team", "renamedFrom", "moves to another stack"):
            assert word in text
        assert "llm" not in text

    def test_every_page_of_quotas_is_read(self, recorded: Recorded) -> None:
        recorded.quotas(quota("llm"), token="next")
        recorded.quotas(quota("vision"), after="next")
        recorded.stack()
        assert "team vision" in refusal(update(governance(["llm"]), before=self.BEFORE))

    @pytest.mark.parametrize(("state", "word"), [("Enabled", "team vision"), ("Disabled", "")])
    def test_a_state_that_a_list_leaves_out_is_asked_for(
        self, state: str, word: str, recorded: Recorded
    ) -> None:
        recorded.quotas(quota("vision", state=None))
        described = {**quota("vision", state), "ComputeQuotaVersion": 1}
        recorded.answer("sagemaker", "describe_compute_quota", described, ComputeQuotaId="abcdefghijkl")
        if word:
            recorded.stack()
        text = refusal(update(governance(["llm"]), before=self.BEFORE))
        assert (word in text) if word else text == ""

    def test_a_quota_that_went_while_it_was_asked_for_loses_nothing(self, recorded: Recorded) -> None:
        recorded.quotas(quota("vision", state=None))
        recorded.error("sagemaker", "describe_compute_quota", "ResourceNotFound")
        assert refusal(update(governance(["llm"]), before=self.BEFORE)) == ""

    @pytest.mark.parametrize(
        "there",
        [
            pytest.param(quota("vision", "Disabled"), id="held"),
            pytest.param(quota("vision", status="CreateFailed"), id="never made"),
            pytest.param(quota("vision", status="Deleting"), id="being deleted"),
            pytest.param(quota("llm"), id="deleted by hand"),
        ],
    )
    def test_a_team_may_go_when_it_loses_nothing(self, there: Json, recorded: Recorded) -> None:
        recorded.quotas(there)
        assert refusal(update(governance(["llm"]), before=self.BEFORE)) == ""

    def test_a_team_may_go_when_the_whole_cluster_went(self, recorded: Recorded) -> None:
        recorded.error("sagemaker", "list_compute_quotas", "ResourceNotFound")
        assert refusal(update(governance(["llm"]), before=self.BEFORE)) == ""

    def test_a_word_of_consent_lets_a_renamed_team_go(self, recorded: Recorded) -> None:
        after = governance(["llm", "sight"], RenamedFrom=["vision"])
        assert refusal(update(after, before=self.BEFORE)) == ""

    def test_a_team_that_was_added_goes_again_when_the_update_is_taken_back(self, recorded: Recorded) -> None:
        recorded.quotas(quota("llm"), quota("vision"))
        recorded.stack("UPDATE_ROLLBACK_IN_PROGRESS")
        assert refusal(update(governance(["llm"]), before=self.BEFORE)) == ""

    def test_nobody_is_asked_when_no_team_goes(self, recorded: Recorded) -> None:
        assert refusal(update(governance(["llm", "new", "vision"]), before=self.BEFORE)) == ""

    def test_a_new_guard_knows_of_no_team_that_went(self, recorded: Recorded) -> None:
        event = {"RequestType": "Create", "StackId": STACK, "ResourceProperties": governance(["llm"])}
        assert refusal(event) == ""

    def test_hundreds_of_teams_are_said_in_a_message_that_cloudformation_takes(
        self, recorded: Recorded
    ) -> None:
        names = [f"team-{number:03}-of-a-long-name" for number in range(400)]
        for start in range(0, 400, 100):
            page = [quota(name) for name in names[start : start + 100]]
            token = {"token": f"page{start}"} if start < 300 else {}
            recorded.quotas(*page, **token, after=f"page{start - 100}" if start else None)
        recorded.stack()
        text = refusal(update(governance([]), before=governance(names)))
        assert "and 390 more" in text
        assert len(text) <= service_api.MESSAGE_LIMIT


class TestAddon:
    @pytest.mark.parametrize(
        ("there", "asked"),
        [("v1.3.0-eksbuild.2", "v1.6.1-eksbuild.1"), ("v1.1.3-eksbuild.1", "v1.5.0-eksbuild.1")],
    )
    @pytest.mark.parametrize("kind", ["Create", "Update"])
    def test_a_jump_that_the_crds_do_not_survive_is_refused(
        self, kind: str, there: str, asked: str, recorded: Recorded
    ) -> None:
        recorded.addon(there)
        recorded.stack()
        text = refusal({**update(governance([], AddonVersion=asked)), "RequestType": kind})
        for word in (there, asked, "v1alpha1", "delete the add-on"):
            assert word in text

    @pytest.mark.parametrize(
        ("there", "asked"),
        [
            (None, "v1.6.1-eksbuild.1"),
            ("v1.3.0-eksbuild.1", "v1.3.1-eksbuild.1"),
            ("v1.3.0-eksbuild.1", "v1.4.0-eksbuild.1"),
            ("v1.5.0-eksbuild.1", "v1.6.1-eksbuild.1"),
            # A stack must be able to go back; what the add-on says to that is its own.
            ("v1.6.1-eksbuild.1", "v1.4.0-eksbuild.1"),
            ("some other scheme", "v1.6.1-eksbuild.1"),
        ],
    )
    def test_other_versions_go_on(self, there: str | None, asked: str, recorded: Recorded) -> None:
        recorded.addon(there)
        assert refusal(update(governance([], AddonVersion=asked))) == ""

    def test_a_stack_without_the_add_on_does_not_ask_for_it(self, recorded: Recorded) -> None:
        assert refusal(update(governance([]))) == ""


# --- who owns Kueue


QUEUES = "fleet-research-queues"
ALONE = {"ServiceToken": "arn", "Guards": "KueueOwner", "StacksGone": [QUEUES]}
OWNERS = [
    pytest.param(governance(["llm"], StacksGone=[QUEUES]), id="with teams"),
    pytest.param(ALONE, id="alone"),
]


@pytest.mark.parametrize("properties", OWNERS)
class TestOwner:
    @pytest.mark.parametrize("kind", ["Create", "Update"])
    @pytest.mark.parametrize("status", ["UPDATE_COMPLETE", "CREATE_FAILED", "DELETE_IN_PROGRESS"])
    def test_while_the_other_owners_stack_is_there_nothing_is_installed(
        self, kind: str, status: str, properties: Json, recorded: Recorded
    ) -> None:
        recorded.stack(status, QUEUES)
        recorded.stack("CREATE_IN_PROGRESS")
        text = refusal({**update(properties), "RequestType": kind})
        for word in (
            f"Stack {QUEUES} is still there ({status})",
            "hpf remove-team",
            "cdk destroy",
            f"aws cloudformation delete-stack --stack-name {QUEUES}",
        ):
            assert word in text, text
        assert len(text) <= service_api.MESSAGE_LIMIT

    @pytest.mark.parametrize("status", [None, "DELETE_COMPLETE"])
    def test_when_it_is_gone_the_update_goes_on(
        self, status: str | None, properties: Json, recorded: Recorded
    ) -> None:
        recorded.stack(status, QUEUES)
        assert refusal({**update(properties), "RequestType": "Create"}) == ""

    def test_every_stack_is_asked_for(self, properties: Json, recorded: Recorded) -> None:
        others = ["a", "b", "c"]
        for name in others:
            recorded.stack("CREATE_COMPLETE" if name == "c" else None, name)
        recorded.stack()
        assert "Stack c is still there" in refusal(update({**properties, "StacksGone": others}))

    def test_an_update_that_is_taken_back_passes(self, properties: Json, recorded: Recorded) -> None:
        recorded.stack("UPDATE_COMPLETE", QUEUES)
        recorded.stack("UPDATE_ROLLBACK_IN_PROGRESS")
        assert refusal(update(properties)) == ""

    def test_delete_asks_nobody(self, properties: Json, recorded: Recorded) -> None:
        assert refusal({"RequestType": "Delete", "StackId": STACK, "ResourceProperties": properties}) == ""

    @pytest.mark.parametrize("said", ["cloudformation:DescribeStacks", ""], ids=["AWS names it", "does not"])
    def test_a_missing_permission_is_named(self, said: str, properties: Json, recorded: Recorded) -> None:
        message = f"User: arn:aws:sts::1:assumed-role/guard/x is not authorized to perform: {said}"
        for _ in range(3):
            recorded.error("cloudformation", "describe_stacks", "AccessDenied", message, 403)
        recorded.stack()
        text = refusal(update(properties), Context(120, each=20))
        assert "no permission for cloudformation:DescribeStacks" in text
        assert "so it is refused" in text

    def test_another_invalid_request_is_no_absence(self, properties: Json, recorded: Recorded) -> None:
        recorded.error("cloudformation", "describe_stacks", "ValidationError", "1 validation error detected")
        recorded.stack()
        assert "1 validation error detected" in refusal(update(properties))


# --- bad days


class TestBadDays:
    DENIED = "User: arn:aws:sts::1:assumed-role/guard/x is not authorized to perform: {}"

    @pytest.mark.parametrize(
        ("event", "service", "operation", "action"),
        [
            (update(wanted()), "sagemaker", "describe_cluster", "sagemaker:DescribeCluster"),
            (
                update(governance([]), before=governance(["llm"])),
                "sagemaker",
                "list_compute_quotas",
                "sagemaker:ListComputeQuotas",
            ),
            (
                update(governance([], AddonVersion="v1.6.1-eksbuild.1")),
                "eks",
                "describe_addon",
                "eks:DescribeAddon",
            ),
        ],
        ids=["cluster", "quotas", "add-on"],
    )
    @pytest.mark.parametrize("said", [True, False], ids=["AWS names it", "AWS does not"])
    def test_a_missing_permission_is_named(
        self, event: Event, service: str, operation: str, action: str, said: bool, recorded: Recorded
    ) -> None:
        message = self.DENIED.format(action) if said else "Access denied"
        for _ in range(3):
            recorded.error(service, operation, "AccessDeniedException", message)
        recorded.stack()
        text = refusal(event, Context(120, each=20))
        assert f"no permission for {action}" in text
        assert "so it is refused" in text

    def test_a_denial_may_pass_because_the_role_may_be_seconds_old(self, recorded: Recorded) -> None:
        for _ in range(3):
            recorded.error("sagemaker", "describe_cluster", "AccessDeniedException", "Access denied")
        recorded.cluster(live())
        assert refusal(update(wanted())) == ""
        assert recorded.slept

    def test_a_throttled_call_is_made_again(self, recorded: Recorded) -> None:
        for _ in range(3):
            recorded.error("sagemaker", "describe_cluster", "ThrottlingException")
        recorded.cluster(live())
        assert refusal(update(wanted())) == ""
        assert recorded.slept

    def test_a_guard_that_cannot_see_refuses_before_its_function_is_stopped(self, recorded: Recorded) -> None:
        for _ in range(3):
            recorded.error("sagemaker", "describe_cluster", "ThrottlingException", "Rate exceeded")
        recorded.stack()
        text = refusal(update(wanted()), Context(120, each=20))
        assert "It cannot be seen whether this update is safe" in text
        assert "Rate exceeded" in text

    def test_a_guard_that_cannot_see_lets_an_update_be_taken_back(self, recorded: Recorded) -> None:
        for _ in range(3):
            recorded.error("sagemaker", "describe_cluster", "ThrottlingException")
        recorded.error("cloudformation", "describe_stacks", "Throttling")
        recorded.stack("UPDATE_ROLLBACK_IN_PROGRESS")
        assert refusal(update(wanted()), Context(120, each=20)) == ""

    def test_a_stack_that_cannot_be_seen_does_not_excuse_a_change(
        self, recorded: Recorded, capsys: pytest.CaptureFixture[str]
    ) -> None:
        recorded.cluster(live())
        for _ in range(2):
            recorded.error("cloudformation", "describe_stacks", "AccessDenied", "no", 403)
        text = refusal(update(wanted(EksClusterName="shared"), before=wanted()), Context(120, each=50))
        assert "orchestrator" in text
        assert "cloudformation:DescribeStacks" in capsys.readouterr().out

    def test_a_broken_connection_is_no_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(**_: Any) -> None:
            raise EndpointConnectionError(endpoint_url="https://api.sagemaker.example")

        client = SimpleNamespace(describe_cluster=fail, describe_stacks=fail)
        monkeypatch.setattr(service_api, "client", lambda service="sagemaker": client)
        monkeypatch.setattr("time.sleep", lambda _: None)
        text = refusal(update(wanted()), Context(120, each=30))
        assert "EndpointConnectionError" in text

    @pytest.mark.parametrize("properties", [wanted(), governance(["llm"], AddonVersion="v1.6.1-eksbuild.1")])
    def test_delete_asks_nobody_and_succeeds(self, properties: Json, recorded: Recorded) -> None:
        assert refusal({"RequestType": "Delete", "StackId": STACK, "ResourceProperties": properties}) == ""


def test_a_message_about_a_hundred_groups_stays_within_cloudformations_limit(recorded: Recorded) -> None:
    names = [f"a-group-with-quite-a-long-name-{number}" for number in range(100)]
    there = [group(name, InstanceType="ml.m5.2xlarge") for name in names]
    recorded.cluster(live(InstanceGroups=there))
    recorded.stack()
    text = refusal(update(wanted(Groups={name: {"InstanceType": "ml.p5.48xlarge"} for name in names})))
    assert len(text) <= service_api.MESSAGE_LIMIT
    assert text.startswith("HyperPod cluster research does not take this change")


def test_events_are_plain_json() -> None:
    """What the tables give the function is what CloudFormation can send."""
    for case in REFUSED + ALLOWED:
        assert json.loads(json.dumps(case.wanted)) == case.wanted
