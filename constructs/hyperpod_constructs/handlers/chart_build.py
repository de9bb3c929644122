"""Custom resource that installs a Helm chart by a CodeBuild build and waits for the build's end.

The resource's properties: Project, ClusterName, Release, Namespace, and the build's other variables under
Variables. A build that ends in anything but success fails the resource, with the reason and the log's
address.
"""

from typing import Any

import boto3  # type: ignore[import-untyped]

# CloudFormation refuses a response beyond 4 KB; the provider framework adds its own text to ours.
_MESSAGE_LIMIT = 1500


def on_event(event: dict[str, Any], _context: object) -> dict[str, str]:
    """Start the build; CloudFormation is answered by `is_complete`."""
    properties = event["ResourceProperties"]
    variables = {
        **properties["Variables"],
        "ACTION": "uninstall" if event["RequestType"] == "Delete" else "install",
        "CLUSTER_NAME": properties["ClusterName"],
        "RELEASE": properties["Release"],
        "NAMESPACE": properties["Namespace"],
    }
    build = boto3.client("codebuild").start_build(
        projectName=properties["Project"],
        # A retried event must not start a second helm on the same release.
        idempotencyToken=event["RequestId"],
        environmentVariablesOverride=[
            {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in sorted(variables.items())
        ],
    )
    # The id names the release, so a change of cluster, namespace or release uninstalls the old one.
    physical_id = "/".join(properties[key] for key in ("ClusterName", "Namespace", "Release"))
    return {"PhysicalResourceId": physical_id, "BuildId": build["build"]["id"]}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, bool]:
    """Say whether the build has succeeded.

    Raises:
        RuntimeError: the build has ended otherwise, or is gone.
    """
    builds = boto3.client("codebuild").batch_get_builds(ids=[event["BuildId"]])["builds"]
    if not builds:
        raise RuntimeError(f"build {event['BuildId']} does not exist any more")
    build = builds[0]
    status = build["buildStatus"]
    if status == "IN_PROGRESS":
        return {"IsComplete": False}
    if status == "SUCCEEDED":
        return {"IsComplete": True}
    raise RuntimeError(_failure(build))


def _failure(build: dict[str, Any]) -> str:
    reasons = [
        f"{phase['phaseType']}: {context['message']}"
        for phase in build.get("phases", [])
        for context in phase.get("contexts", [])
        if phase.get("phaseStatus", "SUCCEEDED") != "SUCCEEDED" and context.get("message")
    ]
    link = build.get("logs", {}).get("deepLink", "none")
    reason = (reasons or ["no phase gave a reason"])[-1][:_MESSAGE_LIMIT]
    return f"build {build['id']} ended as {build['buildStatus']}: {reason}; log: {link}"
