"""Custom::HyperPodUpdateGuard: refuse an update that the service refuses, or that would destroy something.

CloudFormation updates a guard before the resources that depend on it, and deletes what a template no longer
has only after all updates have succeeded. So a guard that fails stops the update before anything is touched.

A guard compares with what is live. An update that CloudFormation takes back is never refused, because the
stack could not get back to what it was; the stack's own status says so. Delete is never refused either.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

if TYPE_CHECKING or __package__:
    from . import service_api
else:
    import service_api

Properties = Mapping[str, Any]

ADDON_NAME = "amazon-sagemaker-hyperpod-taskgovernance"
# [F] one report: the cohorts CRD of add-ons up to v1.3 stores v1alpha1, which that of v1.5 does not have, and
# the API server takes no CRD without a version that it has stored.
LAST_ADDON_WITH_V1ALPHA1 = (1, 3)
FIRST_ADDON_WITHOUT_V1ALPHA1 = (1, 5)

PHYSICAL_ID = "update-guard"
_PAUSE = 3.0
_ONE_MORE = service_api.LONGEST_CALL + _PAUSE

_NOT_THERE = frozenset({"ResourceNotFound", "ResourceNotFoundException"})
# [U] DescribeCluster documents ResourceNotFound; other descriptions of SageMaker say it in these words.
# CloudFormation has no other answer for a stack that is not there than ValidationError and such words.
_INVALID = frozenset({"ValidationError", "ValidationException"})
_NOT_FOUND_WORDS = re.compile("not found|could not find|does not exist", re.IGNORECASE)
_SERVICES = {"DescribeAddon": "eks", "DescribeStacks": "cloudformation"}
_NOTHING_TO_LOSE = frozenset({"CreateFailed", "CreateRollbackFailed", "Deleting", "Deleted"})


class RefusedError(Exception):
    """The update is refused; the text is what CloudFormation shows."""


def on_event(event: Mapping[str, Any], context: Any) -> dict[str, str]:
    """Answer one event of the provider framework.

    Raises:
        RefusedError: the update is refused, or nothing could be seen that would tell whether it is safe.
    """
    if event["RequestType"] != "Delete":
        asking = _Asking(context)
        problem = _problem(asking, event)
        if problem and not asking.rolls_back(event["StackId"]):
            raise RefusedError(service_api.shorten(problem))
    return {"PhysicalResourceId": PHYSICAL_ID}


class _Asking:
    """Calls that are made again while they fail in passing and the function has time."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def _answer(self, call: Callable[..., Any], arguments: Mapping[str, Any], reserve: float) -> Any:
        """Ask again as long as another call fits before the last seconds."""
        while True:
            try:
                return call(**arguments)
            except (BotoCoreError, ClientError) as error:
                left = self._context.get_remaining_time_in_millis() / 1000
                # A denial too: the role, or what it may do now, may be seconds old.
                passing = service_api.transient(error) or service_api.denied(error)
                if not passing or left < _ONE_MORE + reserve:
                    raise
            time.sleep(_PAUSE)

    def found(self, call: Callable[..., Any], **arguments: Any) -> Any | None:
        """Ask for one thing, leaving time to ask for the stack's status; None if there is none."""
        try:
            return self._answer(call, arguments, reserve=_ONE_MORE)
        except ClientError as error:
            if _absent(error):
                return None
            raise

    def rolls_back(self, stack_id: str) -> bool:
        """Whether CloudFormation takes an update of the stack back. A stack that cannot be seen does not."""
        describe = service_api.client("cloudformation").describe_stacks
        try:
            (stack,) = self._answer(describe, {"StackName": stack_id}, reserve=0)["Stacks"]
        except (BotoCoreError, ClientError) as error:
            print(service_api.explain(error, "cloudformation"))
            return False
        return str(stack["StackStatus"]).endswith("ROLLBACK_IN_PROGRESS")


def _absent(error: ClientError) -> bool:
    code, said = service_api.code(error), error.response["Error"].get("Message", "")
    return code in _NOT_THERE or (code in _INVALID and bool(_NOT_FOUND_WORDS.search(said)))


def _problem(asking: _Asking, event: Mapping[str, Any]) -> str:
    """Why the update is refused; empty if it is not."""
    wanted = event["ResourceProperties"]
    before = event.get("OldResourceProperties", {}) if event["RequestType"] == "Update" else {}
    guards = {"Cluster": _cluster, "Governance": _governance, "KueueOwner": _owner}
    try:
        return guards[wanted["Guards"]](asking, wanted, before)
    except (BotoCoreError, ClientError) as error:
        operation = error.operation_name if isinstance(error, ClientError) else ""
        service = _SERVICES.get(operation, "sagemaker")
        return (
            "It cannot be seen whether this update is safe, so it is refused: "
            f"{service_api.explain(error, service)}. Deploy again when that is mended."
        )


# --- the cluster


def _cluster(asking: _Asking, wanted: Properties, before: Properties) -> str:
    describe = service_api.client().describe_cluster
    name, old_name = wanted["ClusterName"], before.get("ClusterName")
    live = asking.found(describe, ClusterName=name)
    if live is None:
        if old_name in (None, name) or asking.found(describe, ClusterName=old_name) is None:
            return ""
        return (
            f"HyperPod cluster {old_name} would be deleted and made again as {name}, with all its nodes. "
            f"Keep the name; for a cluster named {name} add another stack, move the "
            "work, and then delete this one."
        )
    if live["ClusterStatus"] == "Deleting":  # the service says itself what it still takes
        return ""
    differences = list(_differences(wanted, before, live))
    if not differences:
        return ""
    return (
        f"HyperPod cluster {name} does not take this change, and was not touched. "
        + "; ".join(differences)
        + ". Take the change back; what has to differ needs a new instance group or a new cluster."
    )


def _differences(wanted: Properties, before: Properties, live: Properties) -> Iterator[str]:
    """Say what differs among all that the service does not change, with the wanted and the live value.

    What is of the cluster as a whole is compared only if this update changes it: CloudFormation asks for no
    other change of it. Groups are compared always, because each update of a cluster sends all of them.
    """
    vpc = live.get("VpcConfig", {})
    if before.get("VpcConfig") != wanted["VpcConfig"]:
        yield from _vpc("VpcConfig", wanted["VpcConfig"], vpc)
    if not before or before.get("EksClusterName") != wanted.get("EksClusterName"):
        yield from _orchestrator(wanted, live)
    if not before or before.get("NodeProvisioningMode") != wanted.get("NodeProvisioningMode"):
        yield from _mode(wanted, live, is_new=not before)
    for what, key in (("instance group", "Groups"), ("restricted group", "RestrictedGroups")):
        listed = live.get("InstanceGroups" if key == "Groups" else "RestrictedInstanceGroups", ())
        for group in sorted(listed, key=lambda group: str(group["InstanceGroupName"])):
            asked = wanted.get(key, {}).get(group["InstanceGroupName"])
            # A group that is not wanted any more is deleted, which the service does.
            if asked is not None and group.get("Status") != "Deleting":
                title = f"{what} {group['InstanceGroupName']}"
                yield from _types(title, asked, group)
                own = asked.get("OverrideVpcConfig") or wanted["VpcConfig"]
                # [U] whether a group without an override is described with the cluster's: both are the same.
                yield from _vpc(f"OverrideVpcConfig of {title}", own, group.get("OverrideVpcConfig") or vpc)


def _vpc(title: str, wanted: Properties, live: Properties) -> Iterator[str]:
    if title != "VpcConfig" and wanted == live:
        return
    for key in ("SecurityGroupIds", "Subnets"):
        asked, there = sorted(set(wanted.get(key, ()))), sorted(set(live.get(key, ())))
        if asked != there:
            yield f"{key} of {title}: wanted {', '.join(asked) or 'none'}, live {', '.join(there) or 'none'}"


def _orchestrator(wanted: Properties, live: Properties) -> Iterator[str]:
    asked, there = wanted.get("EksClusterName"), _eks_name(live)
    if asked != there:
        yield f"orchestrator: wanted {_of_eks(asked)}, live {_of_eks(there)}"


def _eks_name(live: Properties) -> str | None:
    arn = live.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn")
    return None if arn is None else str(arn).rpartition("/")[2]


def _of_eks(name: str | None) -> str:
    return "Slurm" if name is None else f"EKS cluster {name}"


def _mode(wanted: Properties, live: Properties, is_new: bool) -> Iterator[str]:
    """Provisioning: a Slurm cluster keeps the mode it was made with; one on EKS takes Continuous, for good.

    [I] The second from the API, which has no word but Continuous: to leave it out changes nothing.
    [U] whether the mode of every cluster is described: a new guard takes silence for no difference.
    """
    asked, there = wanted.get("NodeProvisioningMode"), live.get("NodeProvisioningMode")
    if is_new and there is None:
        return
    if asked != there and (wanted.get("EksClusterName") is None or asked is None):
        yield f"NodeProvisioningMode: wanted {asked or 'none'}, live {there or 'none'}"


def _types(title: str, wanted: Properties, live: Properties) -> Iterator[str]:
    """Instance type. The list of types of a flexible group can change.

    That is what the API says of DesiredInstanceTypes: "as specified in the most recent update request".
    """
    flexible = live.get("InstanceRequirements")
    asked = wanted.get("InstanceType")
    if asked is None and flexible is None:
        types = ", ".join(wanted["InstanceTypes"])
        yield f"type of {title}: wanted one of {types}, live {live.get('InstanceType')}"
    elif asked is not None and flexible is not None:
        there = flexible.get("DesiredInstanceTypes") or flexible.get("CurrentInstanceTypes") or ()
        yield f"type of {title}: wanted {asked}, live one of {', '.join(there)}"
    elif asked is not None and asked != live.get("InstanceType"):
        yield f"type of {title}: wanted {asked}, live {live.get('InstanceType')}"


# --- governance


def _governance(asking: _Asking, wanted: Properties, before: Properties) -> str:
    found = [_stacks(asking, wanted), _addon(asking, wanted), _teams(asking, wanted, before)]
    return " ".join(filter(None, found))


def _owner(asking: _Asking, wanted: Properties, before: Properties) -> str:
    return _stacks(asking, wanted)


def _stacks(asking: _Asking, wanted: Properties) -> str:
    describe = service_api.client("cloudformation").describe_stacks
    for name in wanted.get("StacksGone", ()):
        answer = asking.found(describe, StackName=name)
        status = answer["Stacks"][0]["StackStatus"] if answer else "DELETE_COMPLETE"
        if status != "DELETE_COMPLETE":
            return (
                f"Stack {name} is still there ({status}). With its Kueue there would be two in one cluster, "
                "and deleting that stack later would take Kueue away under the queues of this one. Nothing "
                "was touched. Let its queues run dry first (ActivationState Disabled, deploy, wait: the "
                "first steps of `hpf remove-team`), then delete it, after those of its name with a number: "
                f"`cdk destroy --exclusively {name}` with the config that has it, or `aws cloudformation "
                f"delete-stack --stack-name {name}`. Then deploy again."
            )
    return ""


def _addon(asking: _Asking, wanted: Properties) -> str:
    version = wanted.get("AddonVersion")
    if version is None:
        return ""
    name = wanted["EksClusterName"]
    describe = service_api.client("eks").describe_addon
    live = asking.found(describe, clusterName=name, addonName=ADDON_NAME)
    there = "" if live is None else str(live["addon"].get("addonVersion", ""))
    if not addon_jump(there, version):
        return ""
    return (
        f"Add-on {ADDON_NAME} of EKS cluster {name} is {there} and cannot be updated to {version}: the "
        "cohorts CRD has stored v1alpha1, which the new one does not have. Keep the "
        "version, or while no job runs delete the add-on and the CRDs of kueue.x-k8s.io, and deploy again."
    )


def addon_jump(live: str, wanted: str) -> bool:
    """Whether the CRDs of one add-on version cannot take the place of another's."""
    there, asked = _release(live), _release(wanted)
    if there is None or asked is None:
        return False
    return there <= LAST_ADDON_WITH_V1ALPHA1 and asked >= FIRST_ADDON_WITHOUT_V1ALPHA1


def _release(version: str) -> tuple[int, int] | None:
    found = re.match(r"v(\d+)\.(\d+)\.", version)
    return (int(found[1]), int(found[2])) if found else None


def _teams(asking: _Asking, wanted: Properties, before: Properties) -> str:
    consents = {*wanted.get("Teams", ()), *wanted.get("RenamedFrom", ())}
    gone = set(before.get("Teams", ())) - consents
    if not gone:
        return ""
    in_use = _in_use(asking, wanted["ClusterArn"], gone)
    if not in_use:
        return ""
    return (
        f"The queue of {_listing(sorted(in_use))} would be deleted from this stack with the jobs that wait "
        "in it: its compute quota is live and not held. Nothing was deleted. Hold it first (ActivationState "
        "Disabled; `hpf remove-team` says how), or name the team in renamedFrom of the one that takes its "
        "place. A team that only moves to another stack, because teamStacks changed or the fleet grew, "
        "loses its queue in the same way, and gets it again there."
    )


def _in_use(asking: _Asking, cluster_arn: str, teams: set[str]) -> set[str]:
    """Those teams whose quota is live and not held."""
    found = set[str]()
    token: dict[str, str] = {}
    while True:
        page = asking.found(
            service_api.client().list_compute_quotas, ClusterArn=cluster_arn, MaxResults=100, **token
        )
        for quota in page["ComputeQuotaSummaries"] if page else ():
            team = quota["ComputeQuotaTarget"]["TeamName"]
            if team in teams and _counts(asking, quota):
                found.add(team)
        if not page or not page.get("NextToken"):
            return found
        token = {"NextToken": page["NextToken"]}


def _counts(asking: _Asking, quota: Properties) -> bool:
    if quota["Status"] in _NOTHING_TO_LOSE:
        return False
    live: Properties | None = quota
    if "ActivationState" not in quota:
        # [U] The model lets a summary leave it out; whether the service does is not documented.
        describe = service_api.client().describe_compute_quota
        live = asking.found(describe, ComputeQuotaId=quota["ComputeQuotaId"])
    return live is not None and live.get("ActivationState") != "Disabled"


def _listing(teams: Sequence[str], most: int = 10) -> str:
    names = ", ".join(teams[:most])
    more = f" and {len(teams) - most} more" if len(teams) > most else ""
    return f"team {names}" if len(teams) == 1 else f"teams {names}{more}"
