"""Lifecycle scripts: where they lie and how they reach the instances."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from aws_cdk import Aws, RemovalPolicy, Stack
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as s3_deployment
from constructs import Construct

from ._acknowledge import acknowledge, acknowledge_iam
from .groups import InstanceGroup, Lifecycle

_PACKAGED = Path(__file__).parent / "lifecycle"


def packaged_scripts(orchestrator: Literal["eks", "slurm"]) -> Path:
    """Directory of this library's own minimal scripts; they download nothing."""
    return _PACKAGED / orchestrator


class LifecycleScripts(Construct):
    """Upload a directory of lifecycle scripts to a bucket of its own.

    HyperPod copies everything under SourceS3Uri to each instance, so a file asset will not do: its prefix
    would be the whole bootstrap bucket. A directory asset is a zip, which HyperPod does not unpack. Hence a
    BucketDeployment into a bucket of our own. The bucket's name begins with `sagemaker-` because the managed
    instance policy reads only such buckets. The prefix is the hash of the scripts, so that a changed script
    changes the cluster's property and new instances take it; earlier prefixes stay until the stack goes, so
    that an instance replaced during an update or after a rollback still finds its script.

    Args:
        directory: the scripts. Each `.sh` must have LF line ends and a shebang.

    Raises:
        ValueError: a script that would fail on the instance, or a `provisioning_parameters.json`.
    """

    def __init__(self, scope: Construct, construct_id: str, *, directory: Path) -> None:
        super().__init__(scope, construct_id)
        digest = check_scripts(directory)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=f"sagemaker-{Aws.ACCOUNT_ID}-{Aws.REGION}-{self.node.addr[-10:]}",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            # The scripts come from source control, so nothing is lost; a kept bucket of a fixed name would
            # stop the next deployment.
            removal_policy=RemovalPolicy.DESTROY,
            auto_delete_objects=True,
        )
        acknowledge(
            self.bucket, "S1", "The bucket holds only scripts from source control; no access log needed."
        )
        self.deployment = s3_deployment.BucketDeployment(
            self,
            "Deployment",
            destination_bucket=self.bucket,
            destination_key_prefix=digest,
            sources=[s3_deployment.Source.asset(str(directory))],
            retain_on_delete=True,
        )
        self._acknowledge_deployment()
        self.source_s3_uri = f"s3://{self.bucket.bucket_name}/{digest}"

    def _acknowledge_deployment(self) -> None:
        """Acknowledge what the CDK's own singleton handler does."""
        for child in Stack.of(self).node.children:
            if child.node.id.startswith("Custom::CDKBucketDeployment"):
                acknowledge_iam(
                    child,
                    managed="The CDK's BucketDeployment handler uses the basic Lambda policy.",
                    wildcards="The CDK's BucketDeployment handler reads assets and writes one bucket.",
                )
                acknowledge(child, "L1", "The CDK pins the runtime of its BucketDeployment handler.")


def check_scripts(directory: Path) -> str:
    """Check a directory of lifecycle scripts and give a hash of names and contents (16 hex digits).

    Raises:
        ValueError: the directory is empty, a script has CRLF line ends or no shebang, or it holds
            `provisioning_parameters.json`, which HyperPod refuses together with a Slurm orchestrator config.
    """
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    if not files:
        raise ValueError(f"lifecycle directory {directory}: it has no file; put the script into it")
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        _check_script(path, content)
        digest.update(f"{path.relative_to(directory).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _check_script(path: Path, content: bytes) -> None:
    if path.name == "provisioning_parameters.json":
        raise ValueError(
            f"{path}: HyperPod refuses this file together with a Slurm orchestrator config; remove it and "
            "use the groups' slurm field"
        )
    if path.suffix != ".sh":
        return
    if b"\r" in content:
        raise ValueError(f"{path}: CRLF line ends do not run on the instance; save it with LF")
    if not content.startswith(b"#!"):
        raise ValueError(f"{path}: the first line must be a shebang; begin it with #!/bin/bash")


def uploads_needed(groups: Sequence[InstanceGroup], default: Lifecycle) -> list[str]:
    """Names of the script files that groups take from the uploaded directory; empty if none does."""
    used = [group.lifecycle or default for group in groups]
    return sorted({one.file_name for one in used if one.mode != "Bootstrap" and not one.source_s3_uri})


def foreign_buckets(groups: Sequence[InstanceGroup], default: Lifecycle) -> list[str]:
    """Buckets of the groups' own sources that the managed instance policy does not read."""
    uris = [(group.lifecycle or default).source_s3_uri for group in groups]
    names = {uri.removeprefix("s3://").split("/")[0] for uri in uris if uri}
    return sorted(name for name in names if not name.startswith("sagemaker-"))
