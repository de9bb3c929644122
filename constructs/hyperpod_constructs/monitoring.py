"""Monitoring of a HyperPod cluster in CloudWatch, which needs no IAM Identity Center."""

import json
from collections.abc import Sequence

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_eks as eks
from aws_cdk import aws_events as events
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from ._checks import check_range

ADDON_NAME = "amazon-cloudwatch-observability"
"""Name of the EKS add-on; versions from v2.4.0 collect Kueue's metrics."""

EVENT_TYPES = (
    "SageMaker HyperPod Cluster State Change",
    "SageMaker HyperPod Cluster Node Health Event",
    "SageMaker HyperPod Cluster Event",
)
"""EventBridge detail types of HyperPod."""

_KUEUE_METRICS = (
    ("Pending workloads", "kueue_pending_workloads"),
    ("Admitted active workloads", "kueue_admitted_active_workloads"),
    ("Evicted workloads", "kueue_evicted_workloads_total"),
    ("Resource usage of queues", "kueue_cluster_queue_resource_usage"),
    ("Nominal quota of queues", "kueue_cluster_queue_nominal_quota"),
)


class HyperPodMonitoring(Construct):
    """Dashboard, alarm and event log of one HyperPod cluster.

    For an EKS cluster it installs the CloudWatch add-on with Kueue's metrics switched on; give the cluster
    container_insights=True so that its instances may write them. For Slurm it shows HyperPod's own metrics.
    The event log needs one CloudWatch Logs resource policy, of which a region of an account holds 10.

    Args:
        cluster_name: the HyperPod cluster.
        cluster_arn: its ARN, by which its events are told from others'.
        eks_cluster_name: EKS cluster under it. None: a Slurm cluster.
        addon_version: version of the CloudWatch add-on. None: EKS's default.
        install_addon: False if the add-on is there already.
        pending_threshold: workloads waiting for 30 minutes that raise the alarm, 1 or more.
        alarm_actions: ARNs to call on alarm, such as an SNS topic's.
        after: what the add-on needs, such as HyperPodCapacity.first_node: its agents run on nodes.

    Attributes:
        dashboard: the dashboard.
        pending_alarm: the alarm, on EKS only.
        event_log: log group of the cluster's events.

    Raises:
        ValueError: a threshold out of range.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        cluster_arn: str,
        eks_cluster_name: str | None = None,
        addon_version: str | None = None,
        install_addon: bool = True,
        pending_threshold: int = 10,
        alarm_actions: Sequence[str] = (),
        after: Sequence[IDependable] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        check_range("pending_threshold", pending_threshold, 1, 1_000_000)
        if eks_cluster_name and install_addon:
            self._addon(eks_cluster_name, addon_version, after)
        self.event_log = self._events(cluster_name, cluster_arn)
        self.pending_alarm = (
            self._pending(eks_cluster_name, pending_threshold, alarm_actions) if eks_cluster_name else None
        )
        self.dashboard = self._dashboard(cluster_name, eks_cluster_name)

    def _addon(self, eks_cluster_name: str, version: str | None, after: Sequence[IDependable]) -> None:
        kubernetes = {"kueue_container_insights": True, "enhanced_container_insights": True}
        config = {"agent": {"config": {"logs": {"metrics_collected": {"kubernetes": kubernetes}}}}}
        addon = eks.CfnAddon(
            self,
            "Addon",
            cluster_name=eks_cluster_name,
            addon_name=ADDON_NAME,
            addon_version=version,
            configuration_values=json.dumps(config, sort_keys=True),
            resolve_conflicts="OVERWRITE",
        )
        if after:
            addon.node.add_dependency(*after)

    def _events(self, cluster_name: str, cluster_arn: str) -> logs.LogGroup:
        group = logs.LogGroup(
            self,
            "EventLog",
            log_group_name=f"/aws/events/hyperpod/{cluster_name}",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=RemovalPolicy.DESTROY,
        )
        # EventBridge writes by a resource policy, whose principals can only be named in its document.
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": ["events.amazonaws.com", "delivery.logs.amazonaws.com"]},
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
            "Resource": group.log_group_arn,
        }
        policy = logs.CfnResourcePolicy(
            self,
            "EventLogPolicy",
            policy_name=f"hyperpod-events-{cluster_name}",
            policy_document=Stack.of(self).to_json_string(
                {"Version": "2012-10-17", "Statement": [statement]}
            ),
        )
        rule = events.CfnRule(
            self,
            "EventRule",
            description=f"Events of the HyperPod cluster {cluster_name}",
            event_pattern={
                "source": ["aws.sagemaker"],
                "detail-type": list(EVENT_TYPES),
                "resources": [cluster_arn],
            },
            targets=[events.CfnRule.TargetProperty(arn=_without_star(group), id="Log")],
        )
        rule.add_resource_dependency(policy)
        return group

    def _pending(self, cluster: str, threshold: int, actions: Sequence[str]) -> cloudwatch.CfnAlarm:
        # A query, because an alarm cannot SEARCH and the metric's other dimensions are the agent's own.
        query = (
            f"SELECT SUM(kueue_pending_workloads) FROM \"ContainerInsights\" WHERE ClusterName = '{cluster}'"  # noqa: S608 (Metrics Insights, not a database)
        )
        return cloudwatch.CfnAlarm(
            self,
            "PendingWorkloads",
            alarm_description="Workloads wait for quota or capacity",
            metrics=[
                cloudwatch.CfnAlarm.MetricDataQueryProperty(
                    id="pending", expression=query, period=300, return_data=True
                )
            ],
            comparison_operator="GreaterThanOrEqualToThreshold",
            threshold=threshold,
            evaluation_periods=6,
            treat_missing_data="notBreaching",
            alarm_actions=list(actions) or None,
        )

    def _dashboard(self, cluster_name: str, eks_cluster_name: str | None) -> cloudwatch.Dashboard:
        # Dashboards of all regions share their names in an account; clusters are named within a region.
        name = f"hyperpod-{cluster_name}-{Stack.of(self).region}"
        dashboard = cloudwatch.Dashboard(
            self, "Dashboard", dashboard_name=name, default_interval=Duration.days(1)
        )
        graphs: list[cloudwatch.IWidget] = []
        if eks_cluster_name:
            for title, metric in _KUEUE_METRICS:
                search = (
                    f'Namespace="ContainerInsights" MetricName="{metric}" ClusterName="{eks_cluster_name}"'
                )
                graphs.append(_graph(title, search))
        else:
            graphs.append(_graph("Slurm nodes", f'Namespace="ClusterAgent" "{cluster_name}"'))
        graphs.append(_graph("Node health", f'Namespace="SagemakerHealthMonitoringAgent" "{cluster_name}"'))
        dashboard.add_widgets(*graphs)
        dashboard.add_widgets(
            cloudwatch.LogQueryWidget(
                title="HyperPod events",
                log_group_names=[self.event_log.log_group_name],
                query_lines=[
                    "fields @timestamp, `detail-type`, @message",
                    "sort @timestamp desc",
                    "limit 100",
                ],
                width=24,
                height=8,
            )
        )
        return dashboard


def _graph(title: str, search: str) -> cloudwatch.GraphWidget:
    expression = cloudwatch.MathExpression(
        expression=f"SEARCH('{search}', 'Average', 300)",
        using_metrics={},
        label="",
        period=Duration.minutes(5),
    )
    return cloudwatch.GraphWidget(title=title, left=[expression], width=12, height=6)


def _without_star(group: logs.LogGroup) -> str:
    """ARN of a log group as an EventBridge target takes it, which is without the `:*` of its own ARN."""
    return Stack.of(group).format_arn(
        service="logs",
        resource="log-group",
        resource_name=group.log_group_name,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
