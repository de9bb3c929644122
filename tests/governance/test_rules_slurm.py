"""HPF2xx: one change of a good fleet, one finding at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.governance.fleets import REMOVE, Case, changed, check, reviewed

GROUPS = "pretrain/spec/instanceGroups"
NOT_CONTINUOUS = {
    "pretrain/spec/nodeProvisioningMode": REMOVE,
    f"{GROUPS}/0/minInstanceCount": REMOVE,
    f"{GROUPS}/1/minInstanceCount": REMOVE,
}
DATABASE = {
    "endpoint": "db.example.com",
    "secretArn": "arn:aws:secretsmanager:us-east-1:111111111111:secret:slurm",
}
SCRIPT = {"sourceS3Uri": "s3://sagemaker-scripts/slurm", "onCreate": "on_create.sh"}
EXTENDED = {"sourceS3Uri": "s3://sagemaker-scripts/slurm", "onInitComplete": "extend.sh"}
SECOND = {
    "name": "head2",
    "instanceType": "ml.m5.xlarge",
    "instanceCount": 1,
    "slurmConfig": {"nodeType": "Controller"},
}

CASES = [
    Case(
        "no controller",
        "HPF201",
        "pretrain: instanceGroups:",
        ("0 Controller groups", "exactly 1"),
        {f"{GROUPS}/0/slurmConfig/nodeType": "Login"},
    ),
    Case(
        "two controller groups",
        "HPF201",
        "pretrain: nodeType: Controller",
        ("head2", "one of 2 Controller groups", "exactly 1"),
        {f"{GROUPS}/2": SECOND},
    ),
    Case(
        "two controllers in one group",
        "HPF201",
        "pretrain: instanceCount: 2",
        ("head", "is 2", "must be 1"),
        {f"{GROUPS}/0/instanceCount": 2},
    ),
    Case(
        "a group without slurmConfig, which may be the controller",
        "HPF202",
        "pretrain: name: head",
        ("head", "slurmConfig"),
        {f"{GROUPS}/0/slurmConfig": REMOVE},
    ),
    Case(
        "a partition of the controller",
        "HPF203",
        "pretrain: partitionNames:",
        ("dev", "Controller", "Compute"),
        {f"{GROUPS}/0/slurmConfig/partitionNames": ["dev"]},
    ),
    Case(
        "a strategy with Continuous provisioning",
        "HPF204",
        "pretrain: slurmConfigStrategy: Managed",
        ("Managed", "Continuous"),
        {"pretrain/spec/orchestrator/slurm/slurmConfigStrategy": "Managed"},
    ),
    Case(
        "an accounting database without Continuous provisioning",
        "HPF205",
        "pretrain: accountingDatabase:",
        ("nodeProvisioningMode: Continuous",),
        {**NOT_CONTINUOUS, "pretrain/spec/orchestrator/slurm/accountingDatabase": DATABASE},
    ),
    Case(
        "a script that sets the node up, with Continuous provisioning",
        "HPF206",
        "pretrain: onCreate: on_create.sh",
        ("on_create.sh", "provisioning_parameters.json", "onInitComplete"),
        {f"{GROUPS}/1/lifeCycleConfig": SCRIPT},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gives_its_finding_and_no_other(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {**NOT_CONTINUOUS, "pretrain/spec/orchestrator/slurm/slurmConfigStrategy": "Managed"},
        {**NOT_CONTINUOUS, f"{GROUPS}/1/lifeCycleConfig": SCRIPT},
        {"pretrain/spec/orchestrator/slurm/accountingDatabase": DATABASE},
        {f"{GROUPS}/1/lifeCycleConfig": EXTENDED},
        {"research/spec/instanceGroups/1/lifeCycleConfig": SCRIPT},
    ],
)
def test_what_is_allowed_gives_no_finding(changes: dict[str, object], tmp_path: Path) -> None:
    assert reviewed(tmp_path, changed(changes)).findings == ()
