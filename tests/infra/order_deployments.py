"""The deployments that the table of orders is held against: fleets, a foreign app, imagined stacks."""

import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.infra import infra_fleets

from hyperpod_infra.assembly import Assembly, Node, Stack
from hyperpod_infra.order import ORDER, Row, pairs

Template = dict[str, Any]


@dataclass(frozen=True)
class Deployment:
    """Templates and what the CDK CLI knows of their order, to be changed and written."""

    templates: dict[str, Template]
    regions: dict[str, str]
    dependencies: dict[str, frozenset[str]]

    def write(self, directory: Path) -> Path:
        """Write a cloud assembly."""
        artifacts = {}
        for name, template in self.templates.items():
            (directory / f"{name}.json").write_text(json.dumps(template))
            artifacts[name] = {
                "type": "aws:cloudformation:stack",
                "environment": f"aws://unknown-account/{self.regions[name]}",
                "properties": {"templateFile": f"{name}.json"},
                "dependencies": sorted(self.dependencies[name]),
            }
        (directory / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
        return directory

    def assembly(self) -> Assembly:
        """Read the templates without files."""
        return Assembly(
            {
                name: Stack.of(
                    name, template, environment=self.regions[name], dependencies=self.dependencies[name]
                )
                for name, template in self.templates.items()
            }
        )


def deployment_of(stacks: Iterable[infra_fleets.Stack]) -> Deployment:
    stacks = list(stacks)
    return Deployment(
        templates={stack.name: stack.template for stack in stacks},
        regions={stack.name: stack.region for stack in stacks},
        dependencies={stack.name: stack.dependencies for stack in stacks},
    )


def synthesized(directory: Path) -> Deployment:
    return deployment_of(infra_fleets.stacks(directory).values())


def someone_elses() -> Path:
    """Assembly of the app that uses the constructs without our config."""
    from tests.constructs import someone_elses_app  # noqa: PLC0415 (starts Node)

    return Path(someone_elses_app.assembly().directory)


def resource(kind: str, /, **properties: Any) -> Template:
    return {"Type": kind, "Properties": properties}


def after(*names: str, **written: Any) -> Template:
    return {**written, "DependsOn": list(names)}


def addon(name: str, cluster: Any) -> Template:
    return resource("AWS::EKS::Addon", AddonName=name, ClusterName=cluster)


def imagined() -> Deployment:
    """What no fleet has yet, and nobody shall get wrong when it comes."""
    kept = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    cluster = {"Fn::ImportValue": "cluster:HyperPod"}
    exported = {"Value": {"Ref": "HyperPod"}, "Export": {"Name": "cluster:HyperPod"}}
    addons = {
        "Certificates": addon("cert-manager", cluster),
        "Identity": resource(
            "AWS::EKS::PodIdentityAssociation", ServiceAccount="hp-training-operator-controller-manager"
        ),
        "Operator": after(
            "Certificates", "Identity", **addon("amazon-sagemaker-hyperpod-training-operator", cluster)
        ),
        "Metrics": {**resource("AWS::APS::Workspace"), **kept},
        "Observability": after("Metrics", **addon("amazon-sagemaker-hyperpod-observability", cluster)),
    }
    slurm = {"AccountingDatabase": {"SecretArn": {"Ref": "Secret"}}}
    accounting = {
        "Secret": resource("AWS::SecretsManager::Secret"),
        "Attachment": resource("AWS::SecretsManager::SecretTargetAttachment", SecretId={"Ref": "Secret"}),
        "Cluster": after("Attachment", **resource("AWS::SageMaker::Cluster", Orchestrator={"Slurm": slurm})),
    }
    templates: dict[str, Template] = {
        "cluster": {
            "Resources": {"HyperPod": resource("AWS::SageMaker::Cluster")},
            "Outputs": {"HyperPod": exported},
        },
        "addons": {"Resources": addons},
        "slurm": {"Resources": accounting},
    }
    return Deployment(templates, dict.fromkeys(templates, "r"), dict.fromkeys(templates, frozenset()))


SOURCES: dict[str, Callable[[], Deployment]] = {
    **{fleet.name: functools.partial(synthesized, fleet) for fleet in infra_fleets.FLEETS},
    "someone_elses_app": lambda: deployment_of(infra_fleets.read(someone_elses())),
    "imagined": imagined,
}


@functools.cache
def deployment(name: str) -> Deployment:
    """What is deployed under a name of `SOURCES`; not to be changed."""
    return SOURCES[name]()


def where(row: Row, assembly: Assembly) -> list[tuple[Node, Node]]:
    return [pair for family in assembly.families() for pair in pairs(row, family)]


@functools.cache
def applications(name: str) -> dict[str, list[tuple[Node, Node]]]:
    """Where each row applies in a deployment."""
    assembly = deployment(name).assembly()
    return {row.id: where(row, assembly) for row in ORDER}


KNOWN = {
    # Quotas that an app puts into further stacks come after the add-on by a dependency of stacks only.
    ("someone_elses_app", "add-on-before-quotas", "deletion"),
    ("someone_elses_app", "scheduler-config-before-quotas", "deletion"),
}
"""What is wrong in one deployment only."""
