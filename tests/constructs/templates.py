"""Templates as tests ask about them."""

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from hyperpod_infra.assembly import Assembly, Node, Stack

Template = dict[str, Any]


def synthesize(construct: Construct) -> Template:
    """Give the template of the stack that a construct is in, or is."""
    app = construct.node.root
    assert isinstance(app, cdk.App)
    template: Template = app.synth().get_stack_by_name(cdk.Stack.of(construct).stack_name).template
    return template


def of_type(template: Template, kind: str) -> dict[str, Any]:
    """Give the resources of a type by logical id."""
    return {name: one for name, one in template["Resources"].items() if one["Type"] == kind}


def properties(template: Template, kind: str) -> list[dict[str, Any]]:
    """Give the properties of each resource of a type."""
    return [one["Properties"] for one in of_type(template, kind).values()]


def only(template: Template, kind: str) -> tuple[str, Any]:
    """Give the only resource of a type, with its logical id."""
    (found,) = of_type(template, kind).items()
    return found


def the(template: Template, kind: str) -> dict[str, Any]:
    """Give the properties of the only resource of a type."""
    (found,) = properties(template, kind)
    return found


def needs(template: Template, logical_id: str) -> frozenset[str]:
    """Give all that is created before a resource and deleted after it, by logical id."""
    stack = Stack.of("stack", template, environment="aws://unknown-account/unknown-region")
    return Assembly({stack.name: stack}).needs(Node(stack.name, logical_id))
