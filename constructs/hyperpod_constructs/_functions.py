"""Lambda functions of this library, and the CDK's provider framework around them."""

from collections.abc import Sequence
from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as cr
from constructs import Construct

from ._acknowledge import acknowledge, acknowledge_iam

_HANDLERS = Path(__file__).parent / "handlers"
# Where botocore looks for service models before its own: the runtime's may be older than what handlers use.
_MODELS = "/var/task/models"


def handler_function(
    scope: Construct,
    construct_id: str,
    *,
    entry: str,
    description: str,
    statements: Sequence[iam.PolicyStatement],
    wildcards: str = "",
    timeout: Duration = Duration.minutes(1),  # noqa: B008 (immutable)
) -> lambda_.Function:
    """Make a function of a file under handlers/, with a role of its own.

    The role's policy is inline: it exists before the function and until the function is gone.

    Args:
        scope: where.
        construct_id: id of the function; its role is `<construct_id>-role`.
        entry: `module.function`.
        description: what it is for.
        statements: all that it may do, beside writing its own log. Empty: nothing.
        wildcards: why the statements have wildcards. Empty: they have none.
        timeout: of one call.
    """
    role = iam.Role(
        scope,
        f"{construct_id}-role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        managed_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name("service-role/AWSLambdaBasicExecutionRole")
        ],
        # CloudFormation refuses a policy without statements.
        inline_policies={"handler": iam.PolicyDocument(statements=list(statements))} if statements else None,
    )
    acknowledge_iam(
        role, managed="The basic Lambda policy only writes the function's own log.", wildcards=wildcards
    )
    return lambda_.Function(
        scope,
        construct_id,
        description=description,
        runtime=lambda_.Runtime.PYTHON_3_14,
        handler=entry,
        code=lambda_.Code.from_asset(str(_HANDLERS), exclude=["__pycache__", "*.pyc"]),
        environment={"AWS_DATA_PATH": _MODELS},
        role=role,
        timeout=timeout,
    )


class Lanes:
    """Lets few custom resources of a stack change at the same time, each after another in its lane.

    A new AWS account runs ten functions at a time, and the provider framework takes two for each change;
    what it cannot run, it reports as failed.
    """

    def __init__(self, width: int = 4) -> None:
        self._width = width
        self._members: list[Construct] = []

    def add(self, resource: Construct) -> None:
        """Let a resource wait for the one before it in its lane."""
        if len(self._members) >= self._width:
            resource.node.add_dependency(self._members[-self._width])
        self._members.append(resource)


def provider(
    scope: Construct,
    construct_id: str,
    *,
    on_event: lambda_.IFunction,
    is_complete: lambda_.IFunction | None = None,
    query_interval: Duration | None = None,
    total_timeout: Duration | None = None,
) -> cr.Provider:
    """Make a provider of custom resources of handler functions.

    Args:
        scope: where.
        construct_id: id of the provider.
        on_event: begins a change, or makes it if there is no is_complete.
        is_complete: says whether the change is done; asked again and again.
        query_interval: between two such questions.
        total_timeout: until the resource fails; at most one hour.
    """
    made = cr.Provider(
        scope,
        construct_id,
        on_event_handler=on_event,
        is_complete_handler=is_complete,
        query_interval=query_interval,
        total_timeout=total_timeout,
    )
    acknowledge_iam(
        made,
        managed="The CDK's provider framework uses the basic Lambda policy.",
        wildcards="The CDK's provider framework invokes any version of these handlers.",
    )
    acknowledge(made, "L1", "The CDK pins the runtime of its provider framework.")
    for rule in ("SF1", "SF2") if is_complete else ():
        acknowledge(made, rule, "The CDK's waiter only polls; its functions have logs.")
    return made
