"""The HyperPod dependencies Helm chart, which EKS must have before a HyperPod cluster is created.

The chart (`helm_chart/HyperPodHelmChart` of aws/sagemaker-hyperpod-cli) is published only in git, and its
dependencies are resolved by helm. The CDK's own helm handler never resolves them, so there are two ways: a
CodeBuild build fetches the pinned commit at deploy time, or you supply the resolved chart as a directory.
"""

import json
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import custom_resources as cr
from constructs import Construct, IDependable

from ._acknowledge import acknowledge, acknowledge_iam
from ._functions import handler_function, provider
from .control_plane import EksControlPlane, acknowledge_kubectl, admin_access

PINNED_COMMIT = "011ca927123e02b35a399935bbb3ab1905fe33c7"
"""Commit of aws/sagemaker-hyperpod-cli (2026-06-22) with version 0.1.0 of the chart."""

CHART_REPOSITORY = "https://github.com/aws/sagemaker-hyperpod-cli.git"
"""Where the pinned commit is fetched from."""

RELEASE = "dependencies"
"""Helm release name, as HyperPod documents it."""

NAMESPACE = "kube-system"
"""Namespace of the release, as HyperPod documents it."""

_CHART_PATH = "helm_chart/HyperPodHelmChart"
_HELM_VERSION = "v3.18.4"
_HELM_SHA256 = "f8180838c23d7c7d797b208861fecb591d9ce1690d8704ed1e4cb8e2add966c1"
# The values travel in one environment variable of the build. [U] CodeBuild's limit for one is not documented;
# 4 KB is what its console's own limits suggest.
_VALUES_LIMIT = 4096


@dataclass(frozen=True, kw_only=True)
class DependenciesChart:
    """Where the chart comes from; made by `pinned`, `from_path` or `none`."""

    source: Literal["pinned", "path", "none"]
    commit: str = ""
    repository: str = ""
    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def pinned(
        cls,
        *,
        commit: str = PINNED_COMMIT,
        repository: str = CHART_REPOSITORY,
        values: Mapping[str, Any] | None = None,
    ) -> "DependenciesChart":
        """Fetch one commit at deploy time.

        Git verifies the content against the commit's hash, so no other checksum is needed.

        Args:
            commit: full commit hash, 40 hex digits.
            repository: https address of the git repository, or of your mirror of it.
            values: helm values over the chart's own; at most 4096 characters as JSON.

        Raises:
            ValueError: not a full hash, not https, or too large values.
        """
        if not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise ValueError(f"commit {commit!r}: a full hash has 40 hex digits; give the whole hash")
        if not repository.startswith("https://"):
            raise ValueError(f"repository {repository!r}: it must begin with https://; give such an address")
        size = len(json.dumps(values or {}))
        if size > _VALUES_LIMIT:
            raise ValueError(
                f"values have {size} characters as JSON: the limit is {_VALUES_LIMIT}; use from_path with "
                "values in the chart's values.yaml"
            )
        return cls(source="pinned", commit=commit, repository=repository, values=values or {})

    @classmethod
    def from_path(cls, path: Path | str, *, values: Mapping[str, Any] | None = None) -> "DependenciesChart":
        """Use a chart directory whose dependencies are resolved (`helm dependency update DIRECTORY`).

        Args:
            path: directory with Chart.yaml and charts/.
            values: helm values over the chart's own.

        Raises:
            ValueError: no Chart.yaml, or a dependency is missing under charts/.
        """
        check_chart(Path(path))
        return cls(source="path", path=Path(path), values=values or {})

    @classmethod
    def none(cls) -> "DependenciesChart":
        """Install nothing: the chart is there already, or you install it before the HyperPod cluster."""
        return cls(source="none")


def check_chart(path: Path) -> None:
    """Refuse a chart that helm would refuse because a dependency is not under charts/.

    Helm asks for every dependency, also one that a condition disables; only those with tags are let through.
    """
    manifest = path / "Chart.yaml"
    if not manifest.is_file():
        raise ValueError(f"chart {path}: it has no Chart.yaml; give the directory that holds it")
    wanted = _chart_yaml(manifest, manifest.read_bytes()).get("dependencies") or []
    present = {name for entry in sorted((path / "charts").glob("*")) if (name := _chart_name(entry))}
    missing = [one["name"] for one in wanted if not one.get("tags") and one["name"] not in present]
    if missing:
        raise ValueError(
            f"chart {path}: {', '.join(missing)} not found under charts/; run `helm dependency update {path}`"
        )


def _chart_name(entry: Path) -> str | None:
    """Name of the chart in a directory or archive under charts/; None if it is no chart."""
    content: bytes | None = None
    if (entry / "Chart.yaml").is_file():
        content = (entry / "Chart.yaml").read_bytes()
    elif entry.suffix == ".tgz":
        content = _archived_chart_yaml(entry)
    return None if content is None else _chart_yaml(entry, content).get("name")


def _archived_chart_yaml(path: Path) -> bytes | None:
    try:
        with tarfile.open(path) as archive:
            top = [m for m in archive.getmembers() if re.fullmatch(r"[^/]+/Chart\.yaml", m.name)]
            content = archive.extractfile(top[0]) if top else None
            return content.read() if content else None
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no archive of a chart; download it again") from error


def _chart_yaml(path: Path, content: bytes) -> dict[str, Any]:
    """Parse a Chart.yaml, so far as its name and the names of its dependencies go."""
    try:
        chart = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}; correct it") from error
    dependencies = chart.get("dependencies") if isinstance(chart, dict) else chart
    if not isinstance(chart, dict) or not isinstance(dependencies, list | None):
        raise ValueError(f"{path} is no chart: helm takes a map, with a list of dependencies; correct it")
    if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in dependencies or ()):
        raise ValueError(f"{path} is no chart: each of its dependencies has a name; correct it")
    return chart


class HyperPodDependencies(Construct):
    """Install the HyperPod dependencies chart into an EKS cluster.

    Args:
        control_plane: the cluster.
        chart: where the chart comes from.

    Attributes:
        installed: what the HyperPod cluster depends on; empty for DependenciesChart.none().

    Raises:
        ValueError: a pinned chart for a cluster whose endpoint the installer cannot reach, or a chart from a
            directory for a cluster without a kubectl layer.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, control_plane: EksControlPlane, chart: DependenciesChart
    ) -> None:
        super().__init__(scope, construct_id)
        self.installed: list[IDependable] = []
        if chart.source == "pinned":
            if not control_plane.public:
                raise ValueError(
                    "the pinned dependencies chart is installed from outside the VPC, but the EKS endpoint "
                    "is private or limited to public_access_cidrs; use DependenciesChart.from_path"
                )
            self.installed.append(
                _PinnedChart(self, "Pinned", control_plane=control_plane, chart=chart).release
            )
        elif chart.path is not None:
            self.installed.append(self._helm(control_plane, chart, chart.path))

    def _helm(self, control_plane: EksControlPlane, chart: DependenciesChart, path: Path) -> IDependable:
        if control_plane.cluster.kubectl_provider is None:
            raise ValueError(
                f"chart {path} needs kubectl and helm in a Lambda layer; set kubectl_layer on NewEks or "
                "ExistingEks"
            )
        release = eks.HelmChart(
            self,
            "Chart",
            cluster=control_plane.cluster,
            chart_asset=s3_assets.Asset(self, "Asset", path=str(path)),
            release=RELEASE,
            namespace=NAMESPACE,
            values=_with_region(chart.values, Stack.of(self).region),
            # Its pods wait for instances, which come after it.
            wait=False,
            timeout=Duration.minutes(10),
        )
        release.node.add_dependency(*control_plane.foundation)
        acknowledge_kubectl(control_plane)
        return release


class _PinnedChart(Construct):
    """CodeBuild project that runs helm, and the custom resource that starts it and waits."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        control_plane: EksControlPlane,
        chart: DependenciesChart,
    ) -> None:
        super().__init__(scope, construct_id)
        cluster_name = control_plane.cluster_name
        stack = Stack.of(self)
        project = self._project(control_plane.cluster_arn)
        role = project.role
        assert role is not None
        access = admin_access(self, "Access", cluster_name, role.role_arn)
        self.release = CustomResource(
            self,
            "Release",
            service_token=self._provider(project).service_token,
            resource_type="Custom::HyperPodDependencies",
            properties={
                "Project": project.project_name,
                "ClusterName": cluster_name,
                "Release": RELEASE,
                "Namespace": NAMESPACE,
                "Variables": {
                    "COMMIT": chart.commit,
                    "REPOSITORY": chart.repository,
                    "VALUES": stack.to_json_string(_with_region(chart.values, stack.region)),
                },
            },
        )
        self.release.node.add_dependency(access, *control_plane.foundation)

    def _project(self, cluster_arn: str) -> codebuild.Project:
        group = logs.LogGroup(
            self, "Log", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        role = iam.Role(
            self,
            "BuildRole",
            assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"),
            inline_policies={
                "install": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster_arn]),
                        iam.PolicyStatement(
                            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                            resources=[group.log_group_arn],
                        ),
                    ]
                )
            },
        )
        acknowledge_iam(role, wildcards="The suffix names the streams of exactly one log group.")
        project = codebuild.Project(
            self,
            "Project",
            description="Installs the HyperPod dependencies chart",
            # The role is complete; the project must not add a policy that could go before the release does.
            role=role.without_policy_updates(),
            environment=codebuild.BuildEnvironment(
                build_image=codebuild.LinuxBuildImage.AMAZON_LINUX_2023_5,
                compute_type=codebuild.ComputeType.SMALL,
            ),
            build_spec=codebuild.BuildSpec.from_object(_build_spec()),
            logging=codebuild.LoggingOptions(cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=group)),
            timeout=Duration.minutes(20),
        )
        acknowledge(project, "CB4", "The build has no artifacts and no cache that a key could encrypt.")
        return project

    def _provider(self, project: codebuild.Project) -> cr.Provider:
        return provider(
            self,
            "Provider",
            on_event=self._handler("on_event", "codebuild:StartBuild", project),
            is_complete=self._handler("is_complete", "codebuild:BatchGetBuilds", project),
            query_interval=Duration.seconds(15),
            total_timeout=Duration.minutes(30),
        )

    def _handler(self, name: str, action: str, project: codebuild.Project) -> lambda_.Function:
        return handler_function(
            self,
            name,
            entry=f"chart_build.{name}",
            description=f"HyperPod dependencies chart: {name}",
            statements=[iam.PolicyStatement(actions=[action], resources=[project.project_arn])],
        )


def _build_spec() -> dict[str, Any]:
    install = [
        "git init -q source",
        'git -C source fetch -q --depth 1 "$REPOSITORY" "$COMMIT"',
        "git -C source checkout -q FETCH_HEAD",
        f"./helm dependency update source/{_CHART_PATH}",
        # Addresses of images that differ by region.
        f"regional=source/{_CHART_PATH}/regional-values/values-$AWS_REGION.yaml",
        "touch regional.yaml",
        'if [ -f "$regional" ]; then cp "$regional" regional.yaml; fi',
        "printf '%s' \"$VALUES\" > values.json",
        f'./helm upgrade --install "$RELEASE" source/{_CHART_PATH} --namespace "$NAMESPACE" '
        "--values regional.yaml --values values.json",
    ]
    uninstall = './helm uninstall "$RELEASE" --namespace "$NAMESPACE" --ignore-not-found'
    return {
        "version": "0.2",
        "env": {"shell": "bash"},
        "phases": {
            "install": {
                "commands": [
                    f"curl -fsSLo helm.tgz https://get.helm.sh/helm-{_HELM_VERSION}-linux-amd64.tar.gz",
                    f'echo "{_HELM_SHA256}  helm.tgz" | sha256sum --check',
                    "tar -xzf helm.tgz --strip-components=1 linux-amd64/helm",
                ]
            },
            "pre_build": {"commands": ['aws eks update-kubeconfig --name "$CLUSTER_NAME"']},
            "build": {
                "commands": [
                    "\n".join(
                        [
                            "set -euo pipefail",
                            'if [ "$ACTION" = uninstall ]; then',
                            f"  {uninstall}",
                            "else",
                            *(f"  {line}" for line in install),
                            "fi",
                        ]
                    )
                ]
            },
        },
    }


def _with_region(values: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Add the region of the health monitoring agent's image, unless the values say one.

    The chart would ask the nodes' labels, but there are none yet, and then take us-east-1.
    """
    agent = {"region": region, **values.get("health-monitoring-agent", {})}
    return {**values, "health-monitoring-agent": agent}
