"""A gate that holds a deployment until a HyperPod cluster has the instances that were asked for."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from aws_cdk import (
    ArnFormat,
    CfnOutput,
    CfnWaitCondition,
    CfnWaitConditionHandle,
    CustomResource,
    Duration,
    RemovalPolicy,
    Stack,
)
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from aws_cdk import custom_resources as cr
from constructs import Construct, IDependable

from ._acknowledge import acknowledge_iam
from ._checks import check_length, check_name, check_range, check_unique
from ._functions import Lanes, handler_function, provider

WaitFor = Literal["minimum", "target"]

# What the watch may take beyond its timeout: the poll that is due, retries, and reading the events.
_SLACK = Duration.minutes(15)
# CloudFormation's own limit for a wait condition is 12 hours.
_LONGEST = Duration.hours(12)


@dataclass(frozen=True, kw_only=True)
class GatedGroup:
    """An instance group as the gate needs to know it.

    Args:
        name: its name in the cluster.
        instance_count: as declared.
        min_instance_count: as declared. None: not declared.
        digest: a hash of its whole definition; a change of it opens a new wait for this group.
    """

    name: str
    instance_count: int
    min_instance_count: int | None = None
    digest: str = ""

    def __post_init__(self) -> None:
        check_name("instance group", self.name)


def gated_groups(cluster: sagemaker.CfnCluster) -> list[GatedGroup]:
    """Give the groups of a cluster, restricted ones included, with their definitions' hashes.

    A hash is made of the group's properties as they stand in the template, so whatever makes CloudFormation
    update the group opens a new wait for it, and nothing else does. That includes the hash of uploaded
    lifecycle scripts: a changed script is an update of the group, and a wait for what is there already ends
    with the first poll. Property overrides (escape hatches) are not seen.
    """
    stack = Stack.of(cluster)
    properties = [
        *(stack.resolve(cluster.instance_groups) or []),
        *(stack.resolve(cluster.restricted_instance_groups) or []),
    ]
    return [
        GatedGroup(
            name=group["instanceGroupName"],
            instance_count=group["instanceCount"],
            min_instance_count=group.get("minInstanceCount"),
            digest=_digest(group),
        )
        for group in properties
    ]


class HyperPodCapacity(Construct):
    """Hold the deployment until instance groups have the instances they declare, and fail it if they do not.

    HyperPod calls a continuously provisioned cluster InService before its first instance, and when a minimum
    is missed it puts a group's old counts back three hours later without telling CloudFormation. So each
    group has a wait condition here, which a state machine fulfils or fails after asking once a minute; the
    reason of a failure is in the stack event. Conditions cannot change: a group whose definition changes gets
    a new one, all others stay.

    Put this into a stack of its own, after the cluster's: a condition that fails rolls its stack back.

    Args:
        cluster_name: the HyperPod cluster.
        cluster_arn: its ARN, which is all that the watch may read.
        cluster_stack_name: name of the cluster's stack; a failure's text names it.
        groups: such as HyperPodEksCluster.gated_groups. With wait_for `minimum`, those that declare no
            minimum, or 0, are left out.
        wait_for: `minimum`: MinInstanceCount as declared was reached. `target`: InstanceCount was.
        first_node: whether there is a condition for the cluster's first running node too.
        timeout: until a wait fails by itself, 10 to 700 minutes. HyperPod gives a minimum up after 180.

    Attributes:
        first_node: what needs a node depends on it; None if not asked for.
        reached: one condition for each group that is waited for.

    Raises:
        ValueError: nothing to wait for, a timeout out of range, or two groups of one name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        cluster_arn: str,
        cluster_stack_name: str,
        groups: Sequence[GatedGroup],
        wait_for: WaitFor = "minimum",
        first_node: bool = False,
        timeout: Duration = Duration.minutes(210),  # noqa: B008 (immutable)
    ) -> None:
        super().__init__(scope, construct_id)
        check_unique("instance group", (group.name for group in groups))
        check_range("timeout in minutes", timeout.to_minutes(), 10, 700)
        waited = self.waited_for(groups, wait_for)
        check_length("groups to wait for", [*waited, *([None] if first_node else [])], 1, 101)
        self._cluster_name = cluster_name
        self._cluster_arn = cluster_arn
        self._timeout = timeout
        self._watch = {
            "cluster": cluster_name,
            "stack": cluster_stack_name,
            "timeoutMinutes": timeout.to_minutes(),
        }
        self._log = self._progress()
        self._machine = self._state_machine(first_node)
        self._starter = self._start_provider()
        self._lanes = Lanes()
        self.first_node: IDependable | None = self._wait_for_node() if first_node else None
        self.reached: Sequence[IDependable] = [self._wait_for_group(group, wait_for) for group in waited]

    @staticmethod
    def waited_for(groups: Sequence[GatedGroup], wait_for: WaitFor) -> list[GatedGroup]:
        """Give those of the groups that would be waited for."""
        return [group for group in groups if wait_for == "target" or group.min_instance_count]

    def _wait_for_node(self) -> CfnWaitCondition:
        return self._condition("FirstNode", {**self._watch, "waitFor": "node"}, digest="")

    def _wait_for_group(self, group: GatedGroup, wait_for: WaitFor) -> CfnWaitCondition:
        watch = {
            **self._watch,
            "group": group.name,
            "waitFor": wait_for,
            "instanceCount": group.instance_count,
        }
        if group.min_instance_count is not None:
            watch["minInstanceCount"] = group.min_instance_count
        return self._condition(f"Group-{group.name}", watch, digest=_digest(asdict(group)))

    def _condition(self, name: str, watch: Mapping[str, Any], digest: str) -> CfnWaitCondition:
        """Make a condition with its handle and what starts its watch.

        All that the watch goes by is in the ids' hash, since CloudFormation can update neither a condition
        nor a watch that has begun. The name of the cluster's stack is only told to people.
        """
        seconds = self._timeout.plus(_SLACK).to_seconds()
        cluster = Stack.of(self).resolve(self._cluster_name)
        identity = [cluster, watch["waitFor"], watch["timeoutMinutes"], digest]
        part = Construct(self, f"{name}-{_digest(identity)[:12]}")
        handle = CfnWaitConditionHandle(part, "Handle")
        started = CustomResource(
            part,
            "Start",
            resource_type="Custom::HyperPodCapacityGate",
            service_token=self._starter.service_token,
            properties={
                "StateMachineArn": self._machine.state_machine_arn,
                # As text, because CloudFormation turns the numbers of a custom resource's properties to text.
                "Input": Stack.of(self).to_json_string({**watch, "url": handle.ref}),
            },
        )
        self._lanes.add(started)
        condition = CfnWaitCondition(part, "Reached", handle=handle.ref, timeout=str(seconds), count=1)
        condition.node.add_dependency(started)
        return condition

    def _progress(self) -> logs.LogGroup:
        """Make the log with a line for each poll, under a name that is known while the stack still waits."""
        name = f"/hyperpod/{self._cluster_name}/capacity"
        group = logs.LogGroup(
            self,
            "Progress",
            log_group_name=name,
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        CfnOutput(
            self,
            "Follow",
            description="Follows the progress, also while the deployment waits",
            value=f"aws logs tail {name} --follow --region {Stack.of(self).region}",
        )
        return group

    def _function(
        self, name: str, description: str, statements: Sequence[iam.PolicyStatement]
    ) -> lambda_.Function:
        """Make a handler that writes nothing but its own lines into the progress log."""
        function = handler_function(
            self,
            name,
            entry=f"capacity_gate.{name}",
            description=description,
            statements=[*statements, self._never_again()],
            wildcards="The denial covers the log group and what is in it.",
            timeout=Duration.minutes(3),
        )
        resource = function.node.default_child
        assert isinstance(resource, lambda_.CfnFunction)
        # JSON keeps the runtime's own START, END and REPORT lines out; printed lines stay as they are.
        resource.logging_config = lambda_.CfnFunction.LoggingConfigProperty(
            log_group=self._log.log_group_name,
            log_format="JSON",
            application_log_level="INFO",
            system_log_level="WARN",
        )
        return function

    def _never_again(self) -> iam.PolicyStatement:
        """Deny creating the log group.

        A poll that ends while the stack is deleted would bring the group back, and the next deployment could
        not create it any more.
        """
        arn = Stack.of(self).format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"/hyperpod/{self._cluster_name}/capacity",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        return iam.PolicyStatement(
            effect=iam.Effect.DENY, actions=["logs:CreateLogGroup"], resources=[arn, f"{arn}:*"]
        )

    def _state_machine(self, first_node: bool) -> sfn.StateMachine:
        actions = [
            "sagemaker:DescribeCluster",
            "sagemaker:DescribeClusterEvent",
            "sagemaker:ListClusterEvents",
        ]
        if first_node:
            actions.append("sagemaker:ListClusterNodes")
        # [U] Whether the service looks a name up before it asks IAM is not documented.
        by_name = Stack.of(self).format_arn(
            service="sagemaker", resource="cluster", resource_name=self._cluster_name
        )
        poll = self._function(
            "poll",
            f"Looks whether HyperPod cluster {self._cluster_name} has the instances asked for",
            [iam.PolicyStatement(actions=actions, resources=[self._cluster_arn, by_name])],
        )
        give_up = self._function("give_up", "Fails a wait condition whose watch has failed", [])
        log = logs.LogGroup(
            self,
            "History",
            # The prefix spares CloudWatch Logs' resource policy, of which a region holds 10.
            log_group_name=f"/aws/vendedlogs/states/hyperpod-{self._cluster_name}-capacity",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        machine = sfn.StateMachine(
            self,
            "Watch",
            comment=f"Waits for the instances of HyperPod cluster {self._cluster_name}",
            definition_body=sfn.DefinitionBody.from_chainable(self._definition(poll, give_up)),
            # Without the data, which has the address that takes the outcome.
            logs=sfn.LogOptions(destination=log, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=True,
            timeout=_LONGEST,
        )
        acknowledge_iam(
            machine,
            wildcards="The CDK lets a state machine invoke any version of its functions; X-Ray and the "
            "delivery of logs take no resource.",
        )
        return machine

    def _definition(self, poll: lambda_.IFunction, give_up: lambda_.IFunction) -> sfn.IChainable:
        """Poll, look at the answer, wait a minute, poll again.

        An execution's history holds 25,000 events. A poll writes 9 (task 5, choice 2, wait 2) and 12 hours
        are 720 polls: 6,480. A retry adds 3, so even 5 for each poll (17,280) would fit.
        """
        look = self._task("Look at the cluster", poll)
        given_up = self._task("Fail the condition, as the watch has failed", give_up)
        given_up.next(sfn.Fail(self, "The watch failed", error="WatchFailed"))
        look.add_catch(given_up, errors=["States.ALL"], result_path="$.error")
        outcome = (
            sfn.Choice(self, "Is the outcome known?")
            .when(
                sfn.Condition.boolean_equals("$.done", False),
                sfn.Wait(self, "Wait a minute", time=sfn.WaitTime.duration(Duration.minutes(1))).next(look),
            )
            .when(sfn.Condition.boolean_equals("$.reached", True), sfn.Succeed(self, "Reached"))
            .otherwise(sfn.Fail(self, "Missed", error="CapacityMissed"))
        )
        note = sfn.Pass(
            self, "Note when it began", input_path="$$.Execution.StartTime", result_path="$.startedAt"
        )
        return note.next(look).next(outcome)

    def _task(self, name: str, function: lambda_.IFunction) -> tasks.LambdaInvoke:
        """Make a task that is tried again whatever happens: both functions may be repeated at any point."""
        task = tasks.LambdaInvoke(
            self,
            name,
            lambda_function=function,
            payload_response_only=True,
            retry_on_service_exceptions=False,
        )
        task.add_retry(errors=["States.ALL"], interval=Duration.seconds(10), max_attempts=5, backoff_rate=2)
        return task

    def _start_provider(self) -> cr.Provider:
        machine = self._machine
        executions = Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{machine.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        start = handler_function(
            self,
            "start",
            entry="capacity_gate.start",
            description="Starts and stops the watches of wait conditions",
            statements=[
                iam.PolicyStatement(actions=["states:StartExecution"], resources=[machine.state_machine_arn]),
                iam.PolicyStatement(actions=["states:StopExecution"], resources=[executions]),
            ],
            wildcards="Any execution of this one state machine may have to be stopped.",
            timeout=Duration.minutes(5),
        )
        return provider(self, "Starter", on_event=start)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
