"""Acknowledgements of cdk-nag findings through the CDK's own Validations API, so cdk-nag is not needed here."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept one AwsSolutions rule on exactly this construct and what is under it."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))


def acknowledge_unknown_type(construct: IConstruct) -> None:
    """Accept that the CDK's own template check does not know a type that CloudFormation has."""
    Validations.of(construct).acknowledge(
        Acknowledgment(
            id="CloudFormation-Validate::F3006",
            reason="The CloudFormation registry has this type; the check's list of types is older.",
        )
    )
