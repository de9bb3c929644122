"""Acknowledgements of cdk-nag findings by the CDK's own Validations API: cdk-nag is not needed here.

cdk-nag 3 reports each IAM finding under an id that spells the policy or the wildcard out, and an
acknowledgement must name that id. `acknowledge_iam` derives the ids from the roles as they are, so that it
accepts what is there when it is called, and nothing that someone adds later.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept one AwsSolutions rule on this construct and what is under it."""
    Validations.of(construct).acknowledge(
        Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason)
    )


def acknowledge_iam(scope: IConstruct, *, managed: str = "", wildcards: str = "") -> None:
    """Accept the AWS managed policies and the wildcards that roles and policies under scope have now.

    Args:
        scope: a role, or a construct that made some.
        managed: why AWS managed policies are right here. Empty: they are not accepted.
        wildcards: why wildcards are right here. Empty: they are not accepted.
    """
    stack = Stack.of(scope)
    for child in scope.node.find_all():
        if isinstance(child, iam.CfnRole):
            for arn in stack.resolve(child.managed_policy_arns) or [] if managed else []:
                acknowledge(child, f"IAM4[Policy::{_flatten(arn)}]", managed)
            documents = [policy["policyDocument"] for policy in stack.resolve(child.policies) or []]
        elif isinstance(child, iam.CfnPolicy):
            documents = [stack.resolve(child.policy_document)]
        else:
            continue
        for finding in sorted(set(_wildcards(documents))) if wildcards else []:
            acknowledge(child, f"IAM5[{finding}]", wildcards)


def acknowledge_unknown_type(construct: IConstruct) -> None:
    """Accept that the CDK's own template check does not know a type that CloudFormation has."""
    Validations.of(construct).acknowledge(
        Acknowledgment(
            id="CloudFormation-Validate::F3006",
            reason="The CloudFormation registry has this type; the check's list of types is older.",
        )
    )


def _wildcards(documents: Iterable[dict[str, Any]]) -> Iterator[str]:
    for document in documents:
        for statement in document["Statement"]:
            for key in ("Action", "Resource"):
                values = statement[key] if isinstance(statement[key], list) else [statement[key]]
                yield from (f"{key}::{text}" for text in map(_flatten, values) if "*" in text)


def _flatten(value: Any) -> str:
    """Spell an intrinsic function as cdk-nag does in its finding ids."""
    match value:
        case str():
            return value.replace("${", "<").replace("}", ">")
        case {"Fn::Join": [delimiter, items]}:
            return str(delimiter).join(map(_flatten, items))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Fn::Sub": str(text)} | {"Fn::ImportValue": text}:
            return _flatten(text)
        case {"Ref": name}:
            return f"<{name}>"
        case _:
            return json.dumps(value, separators=(",", ":"))
