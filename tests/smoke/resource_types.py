"""The resource types that CloudFormation knows here, one by one.

PASSIVE are those whose being there is all that is simulated: an id, attributes, a name that must be unique.
What makes a change a replacement is what the registry's schema says. HANDLED are custom resources whose
functions do not run here, because they call what is not simulated; all other custom resources run.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from botocore import xform_name  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
from tests.constructs.provider_framework import as_strings
from tests.smoke.cloudformation import ACCOUNT, Made, Request, ResourceError, ResourceType
from tests.smoke.functions import FunctionError, Role

if TYPE_CHECKING:
    from tests.smoke.world import Place

Json = Any
Properties = Mapping[str, Json]

PASSIVE = (
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::CodeBuild::Project",
    "AWS::EC2::EIP",
    "AWS::EC2::FlowLog",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::NatGateway",
    "AWS::EC2::Route",
    "AWS::EC2::RouteTable",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::Subnet",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCEndpoint",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::EKS::AccessEntry",
    "AWS::Events::Rule",
    "AWS::FSx::FileSystem",
    "AWS::KMS::Key",
    "AWS::Lambda::LayerVersion",
    "AWS::Logs::LogGroup",
    "AWS::Logs::ResourcePolicy",
    "AWS::S3::Bucket",
    "AWS::S3::BucketPolicy",
    "AWS::SSM::Parameter",
)

HANDLED = {
    "Custom::AWSCDK-EKS-HelmChart": "kubectl and helm against the Kubernetes API",
    "Custom::AWSCDK-EKS-KubernetesObjectValue": "kubectl against the Kubernetes API",
    "Custom::CDKBucketDeployment": "the AWS CLI of a Lambda layer",
    "Custom::HyperPodDependencies": "CodeBuild, and helm against the Kubernetes API",
    "Custom::S3AutoDeleteObjects": "the Node SDK's S3 client",
}
"""Custom resources that are passive here, with what their functions would need."""

RUN = (
    "Custom::HyperPodCapacityGate",
    "Custom::HyperPodClusterSchedulerConfig",
    "Custom::HyperPodComputeQuota",
    "Custom::HyperPodUpdateGuard",
)
"""Custom resources whose functions run."""

NEED_A_NODE = ("coredns", "amazon-sagemaker-hyperpod-taskgovernance", "amazon-cloudwatch-observability")
"""Add-ons whose pods need a node that is there, or the add-on is DEGRADED and its resource fails."""

_ID_PREFIXES = {
    "AWS::EC2::SecurityGroup": "sg",
    "AWS::EC2::Subnet": "subnet",
    "AWS::EC2::VPC": "vpc",
    "AWS::FSx::FileSystem": "fs",
}
"""Ids that other services' models hold to a pattern."""

_HOUR = 3600.0
_STABLE_WITHIN = 12 * _HOUR


def registry(place: Place) -> dict[str, ResourceType]:
    """Give the code of all types for one region."""
    known: dict[str, ResourceType] = {name: Passive(place, name) for name in PASSIVE}
    known |= {name: Passive(place, name) for name in HANDLED}
    known |= {name: CustomResource(place) for name in RUN}
    return known | {
        "AWS::CloudFormation::WaitCondition": WaitCondition(place),
        "AWS::CloudFormation::WaitConditionHandle": WaitConditionHandle(place),
        "AWS::EKS::Addon": EksAddon(place),
        "AWS::EKS::Cluster": EksCluster(place),
        "AWS::IAM::Policy": IamPolicy(place),
        "AWS::IAM::Role": IamRole(place),
        "AWS::Lambda::Function": LambdaFunction(place),
        "AWS::SageMaker::Cluster": HyperPodCluster(place),
        "AWS::SageMaker::ClusterSchedulerConfig": Governed(place, "ClusterSchedulerConfig"),
        "AWS::SageMaker::ComputeQuota": Governed(place, "ComputeQuota"),
        "AWS::StepFunctions::StateMachine": StateMachine(place),
    }


@functools.cache
def schema(name: str) -> Mapping[str, Json]:
    """Give the registry's schema of a type, as cfn-lint has it; empty for custom resources."""
    if name.startswith("Custom::"):
        return {}
    from cfnlint.schema.manager import (  # type: ignore[import-untyped] # noqa: PLC0415 (takes seconds)
        PROVIDER_SCHEMA_MANAGER,
    )

    found: Mapping[str, Json] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", name).schema
    return found


def _at(properties: Properties, path: str) -> Json:
    value: Json = properties
    for part in path.removeprefix("/properties/").split("/"):
        if not isinstance(value, Mapping):
            # A list, of whose items one member cannot change: any change of it counts.
            return value
        value = value.get(part)
    return value


class Passive:
    """A type of which nothing is simulated but that it is there."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.type = name
        self._numbers = itertools.count(1)

    @property
    def delete_before_create(self) -> bool:
        return schema(self.type).get("replacementStrategy") == "delete_then_create"

    def replaces(self, old: Properties, new: Properties) -> bool:
        paths = schema(self.type).get("createOnlyProperties", [])
        return any(_at(old, path) != _at(new, path) for path in paths)

    def create(self, request: Request) -> Made:
        ref, named = self._ref(request)
        if named and (self.type, ref) in self.place.names:
            raise ResourceError(f"Resource of type '{self.type}' with identifier '{ref}' already exists.")
        self.place.names.add((self.type, ref))
        return Made(ref, ref, self._attributes(ref, request.properties))

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        return Made(made.physical_id, made.ref, self._attributes(made.ref, request.properties))

    def delete(self, request: Request, made: Made) -> None:
        self.place.names.discard((self.type, made.ref))

    def _ref(self, request: Request) -> tuple[str, bool]:
        """Give the primary identifier, and whether the template says all of it."""
        generated = f"{request.stack_name}-{request.logical_id}-{next(self._numbers)}"
        if self.type in _ID_PREFIXES:
            return f"{_ID_PREFIXES[self.type]}-{next(self._numbers):017x}", False
        if self.type == "AWS::S3::Bucket":
            generated = generated.lower()
        read_only = schema(self.type).get("readOnlyProperties", [])
        paths = schema(self.type).get("primaryIdentifier", [])
        given = [None if path in read_only else _at(request.properties, path) for path in paths]
        if given and all(value is not None for value in given):
            return "|".join(map(str, given)), True
        if paths and paths[0].endswith("Arn"):
            return self._arn(generated), False
        return "|".join(str(value or generated) for value in given) or generated, False

    def _arn(self, name: str) -> str:
        service, kind = self.type.split("::")[1:]
        return f"arn:aws:{service.lower()}:{self.place.name}:{ACCOUNT}:{kind.lower()}/{name}"

    def _attributes(self, ref: str, properties: Properties) -> dict[str, Json]:
        names = [
            path.removeprefix("/properties/") for path in schema(self.type).get("readOnlyProperties", [])
        ]
        made = {name.replace("/", "."): f"{ref}.{name}" for name in names}
        for name in made:
            if name in {"Arn", "ResourceARN"} or name.endswith("Arn"):
                made[name] = ref if ref.startswith("arn:") else self._arn(ref)
            elif name.endswith("Id"):
                made[name] = ref.partition("|")[0]
            elif name == "LustreMountName":
                made[name] = "abcdefgh"
            elif name == "DNSName":
                made[name] = f"{ref}.fsx.{self.place.name}.amazonaws.com"
        return made


class IamRole(Passive):
    """A role: its inline policies say what functions may call."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "AWS::IAM::Role")

    def create(self, request: Request) -> Made:
        made = super().create(request)
        self.place.roles[made.ref] = Role(made.ref)
        return self.update(request, {}, made)

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        statements = self.place.roles[made.ref].statements
        for policy in old.get("Policies", []):
            del statements[policy["PolicyName"]]
        for policy in request.properties.get("Policies", []):
            statements[policy["PolicyName"]] = policy["PolicyDocument"]["Statement"]
        arn = f"arn:aws:iam::{ACCOUNT}:role/{made.ref}"
        return Made(made.physical_id, made.ref, {"Arn": arn, "RoleId": f"AROA{made.ref}"})

    def delete(self, request: Request, made: Made) -> None:
        role = self.place.roles.get(made.ref)
        inline = {policy["PolicyName"] for policy in request.properties.get("Policies", [])}
        if role is not None and (others := sorted(set(role.statements) - inline)):
            raise ResourceError(f"Cannot delete entity, must delete policies first: {', '.join(others)}")
        super().delete(request, made)
        self.place.roles.pop(made.ref, None)


class IamPolicy(Passive):
    """A policy in roles."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "AWS::IAM::Policy")

    def create(self, request: Request) -> Made:
        return self.update(request, {}, super().create(request))

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        for name in old.get("Roles", []):
            self.place.roles[name].statements.pop(made.ref, None)
        for name in request.properties.get("Roles", []):
            if name not in self.place.roles:
                raise ResourceError(f"The role with name {name} cannot be found.", made.physical_id)
            document = request.properties["PolicyDocument"]["Statement"]
            self.place.roles[name].statements[made.ref] = document
        return made

    def delete(self, request: Request, made: Made) -> None:
        super().delete(request, made)
        for name in request.properties.get("Roles", []):
            if name in self.place.roles:
                self.place.roles[name].statements.pop(made.ref, None)


class LambdaFunction(Passive):
    """A function, of the code that was published."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "AWS::Lambda::Function")

    def create(self, request: Request) -> Made:
        made = super().create(request)
        arn = f"arn:aws:lambda:{self.place.name}:{ACCOUNT}:function:{made.ref}"
        return self.update(request, {}, Made(made.physical_id, made.ref, {"Arn": arn}))

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        role = self.place.roles.get(request.properties["Role"].rpartition("/")[2])
        if role is None:
            raise ResourceError("The role defined for the function cannot be assumed by Lambda.", made.ref)
        try:
            self.place.world.functions.make(self.place.name, made.attributes["Arn"], role, request.properties)
        except (FunctionError, ClientError) as error:
            raise ResourceError(str(error), made.physical_id) from error
        return made

    def delete(self, request: Request, made: Made) -> None:
        super().delete(request, made)
        if "Arn" in made.attributes:
            self.place.world.functions.drop(made.attributes["Arn"])


class StateMachine(Passive):
    """A state machine."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "AWS::StepFunctions::StateMachine")

    def create(self, request: Request) -> Made:
        name = f"{request.stack_name}-{request.logical_id}-{next(self._numbers)}"
        arn = f"arn:aws:states:{self.place.name}:{ACCOUNT}:stateMachine:{name}"
        return self.update(request, {}, Made(arn, arn, {"Arn": arn, "Name": name}))

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        self.place.world.machines.define(made.ref, request.properties["DefinitionString"])
        return made

    def delete(self, request: Request, made: Made) -> None:
        self.place.world.machines.drop(made.ref)


class EksCluster(Passive):
    """An EKS cluster: it has add-ons."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "AWS::EKS::Cluster")

    def create(self, request: Request) -> Made:
        made = super().create(request)
        self.place.eks_clusters[made.ref] = {}
        return made

    def delete(self, request: Request, made: Made) -> None:
        super().delete(request, made)
        self.place.eks_clusters.pop(made.ref, None)


class EksAddon(Passive):
    """An add-on: it needs its cluster, and some need a node."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "AWS::EKS::Addon")

    def create(self, request: Request) -> Made:
        cluster, name = request.properties["ClusterName"], request.properties["AddonName"]
        if cluster not in self.place.eks_clusters:
            raise ResourceError(f"No cluster found for name: {cluster}.")
        if name in NEED_A_NODE and not self._has_node(cluster):
            raise ResourceError(f"Addon {name} is DEGRADED: InsufficientNumberOfReplicas: no node is there")
        made = super().create(request)
        self.place.eks_clusters[cluster][name] = request.properties.get("AddonVersion", "default")
        return made

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        addons = self.place.eks_clusters[request.properties["ClusterName"]]
        addons[request.properties["AddonName"]] = request.properties.get("AddonVersion", "default")
        return made

    def delete(self, request: Request, made: Made) -> None:
        super().delete(request, made)
        cluster = self.place.eks_clusters.get(request.properties["ClusterName"], {})
        cluster.pop(request.properties["AddonName"], None)

    def _has_node(self, name: str) -> bool:
        hyperpod = self.place.hyperpod
        return any(
            hyperpod.running(cluster.name)
            for cluster in hyperpod.clusters.values()
            if _eks_cluster(cluster.request) == name
        )


def _eks_cluster(hyperpod_cluster: Properties) -> str:
    orchestrator = hyperpod_cluster.get("Orchestrator", {})
    return str(orchestrator.get("Eks", {}).get("ClusterArn", "")).rpartition("/")[2]


class SageMakerType(Passive):
    """A type that is made by calls of the API."""

    def __init__(self, place: Place, noun: str) -> None:
        super().__init__(place, f"AWS::SageMaker::{noun}")
        self.noun = noun

    def call(self, operation: str, request: Properties) -> dict[str, Json]:
        """Call the API; what it refuses fails the resource."""
        method = getattr(self.place.sagemaker.client(), xform_name(operation))
        try:
            answer: dict[str, Json] = method(**request)
        except (ClientError, BotoCoreError) as error:
            raise ResourceError(f"Resource handler returned message: {error}") from error
        return answer

    def gone(self, operation: str, request: Properties) -> bool:
        """Whether a Describe finds nothing."""
        try:
            getattr(self.place.sagemaker.client(), xform_name(operation))(**request)
        except ClientError as error:
            return bool(error.response["Error"]["Code"] == "ResourceNotFound")
        return False


class Governed(SageMakerType):
    """A compute quota or a scheduler config."""

    def create(self, request: Request) -> Made:
        if self.noun == "ClusterSchedulerConfig" and not self._governs(request.properties["ClusterArn"]):
            # As the service documents it: a config from before the add-on fails and must be made again.
            self.place.sagemaker.outcomes.append("Failed")
        # Without CloudFormation's own tags: the registry says cloudFormationSystemTags false of both types.
        answer = self.call(f"Create{self.noun}", dict(request.properties))
        identity, arn = answer[f"{self.noun}Id"], answer[f"{self.noun}Arn"]
        self._settle(identity, arn)
        return Made(arn, arn, {f"{self.noun}Arn": arn, f"{self.noun}Id": identity})

    def _governs(self, cluster_arn: str) -> bool:
        described = self.call("DescribeCluster", {"ClusterName": cluster_arn})
        addons = self.place.eks_clusters.get(_eks_cluster(described), {})
        return "amazon-sagemaker-hyperpod-taskgovernance" in addons

    def _settle(self, identity: str, arn: str) -> None:
        def stable() -> bool:
            described.update(self.call(f"Describe{self.noun}", {f"{self.noun}Id": identity}))
            return not described["Status"].endswith("ing")

        described: dict[str, Json] = {}
        while not stable():
            self.place.world.wait(lambda: False, 5)
        if described["Status"] not in {"Created", "Updated"}:
            raise ResourceError(f"{described['Status']}: {described.get('FailureReason', '')}", arn)

    def _id(self, made: Made) -> str:
        return made.physical_id.rpartition("/")[2]

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        identity = {f"{self.noun}Id": self._id(made)}
        version = self.call(f"Describe{self.noun}", identity)[f"{self.noun}Version"]
        settings = {
            key: value
            for key, value in request.properties.items()
            if key not in {"Name", "ClusterArn", "Tags"}
        }
        self.call(f"Update{self.noun}", {**identity, "TargetVersion": version, **settings})
        self._settle(self._id(made), made.physical_id)
        return made

    def delete(self, request: Request, made: Made) -> None:
        identity = {f"{self.noun}Id": self._id(made)}
        if self.gone(f"Describe{self.noun}", identity):
            return
        self.call(f"Delete{self.noun}", identity)
        while not self.gone(f"Describe{self.noun}", identity):
            self.place.world.wait(lambda: False, 5)


class HyperPodCluster(SageMakerType):
    """A HyperPod cluster."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "Cluster")

    def create(self, request: Request) -> Made:
        arn = self.call("CreateCluster", request.properties)["ClusterArn"]
        return Made(arn, arn, {"ClusterArn": arn, "ClusterStatus": "InService"})

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        settings = {
            key: value for key, value in request.properties.items() if key not in {"VpcConfig", "Tags"}
        }
        names, before = self._groups(request.properties), self._groups(old)
        if gone := sorted(before - names):
            settings["InstanceGroupsToDelete"] = gone
        self.call("UpdateCluster", settings)
        return made

    def delete(self, request: Request, made: Made) -> None:
        if not self.gone("DescribeCluster", {"ClusterName": made.physical_id}):
            self.call("DeleteCluster", {"ClusterName": made.physical_id})

    def _groups(self, properties: Properties) -> set[str]:
        listed = [*properties.get("InstanceGroups", []), *properties.get("RestrictedInstanceGroups", [])]
        return {group["InstanceGroupName"] for group in listed}


class CustomResource:
    """A custom resource: its function is asked, and answers at a URL."""

    delete_before_create = False

    def __init__(self, place: Place) -> None:
        self.place = place

    def replaces(self, old: Properties, new: Properties) -> bool:
        """Never known before: the function's answer to an update may be another physical id."""
        if old["ServiceToken"] != new["ServiceToken"]:
            raise ResourceError("Modifying service token is not allowed.")
        return False

    def create(self, request: Request) -> Made:
        return self._ask(request, "Create")

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        more = {"PhysicalResourceId": made.physical_id, "OldResourceProperties": as_strings(old)}
        return self._ask(request, "Update", **more)

    def delete(self, request: Request, made: Made) -> None:
        self._ask(request, "Delete", PhysicalResourceId=made.physical_id)

    def _ask(self, request: Request, verb: str, **more: Json) -> Made:
        world, url = self.place.world, self.place.world.new_signal()
        token = request.properties["ServiceToken"]
        event = {
            "RequestType": verb,
            "RequestId": url.rpartition("/")[2],
            "ResponseURL": url,
            "StackId": request.stack_id,
            "ServiceToken": token,
            "LogicalResourceId": request.logical_id,
            "ResourceType": request.type,
            "ResourceProperties": as_strings(request.properties),
            **more,
        }
        if world.functions.find(token) is None:
            raise ResourceError(f"no function {token}", more.get("PhysicalResourceId"))
        world.invoke(token, event)
        if not world.wait(lambda: bool(world.signals[url]), _HOUR):
            raise ResourceError(
                "CloudFormation did not receive a response from your Custom Resource.",
                more.get("PhysicalResourceId", event["RequestId"]),
            )
        answer = world.signals[url][0]
        physical_id = answer["PhysicalResourceId"]
        if answer["Status"] != "SUCCESS":
            said = f"Message returned: {answer['Reason']}"
            raise ResourceError(
                f"Received response status [FAILED] from custom resource. {said}", physical_id
            )
        return Made(physical_id, physical_id, answer.get("Data") or {})


class WaitConditionHandle(Passive):
    """A URL that takes signals."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "AWS::CloudFormation::WaitConditionHandle")

    def create(self, request: Request) -> Made:
        url = self.place.world.new_signal()
        return Made(url, url)

    def delete(self, request: Request, made: Made) -> None:
        self.place.world.signals.pop(made.ref, None)


class WaitCondition:
    """A wait for one signal."""

    delete_before_create = False

    def __init__(self, place: Place) -> None:
        self.place = place

    def replaces(self, old: Properties, new: Properties) -> bool:
        return False

    def create(self, request: Request) -> Made:
        properties, world = request.properties, self.place.world
        assert int(properties["Count"]) == 1
        seconds = float(properties["Timeout"])
        assert seconds <= _STABLE_WITHIN, "a wait condition lasts 12 hours at most"
        received = world.signals[properties["Handle"]]
        name = f"{request.stack_id}/{request.logical_id}"
        if not world.wait(lambda: bool(received), seconds):
            raise ResourceError("WaitCondition timed out. Received 0 conditions when expecting 1", name)
        signal = received[0]
        if signal["Status"] != "SUCCESS":
            said = f"'{signal['Reason']}' for uniqueId: {signal['UniqueId']}"
            raise ResourceError(f"WaitCondition received failed message: {said}", name)
        return Made(name, name, {"Data": json.dumps({signal["UniqueId"]: signal["Data"]})})

    def update(self, request: Request, old: Properties, made: Made) -> Made:
        raise ResourceError("Update to resource type AWS::CloudFormation::WaitCondition is not supported.")

    def delete(self, request: Request, made: Made) -> None:
        """Nothing is left of it."""
