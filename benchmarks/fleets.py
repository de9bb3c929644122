"""Fleets of any size for the benchmarks: the same number of teams gives the same bytes.

A team is one file, as in a real fleet, with two quota items (an instance type and a family that is split over
two types) and an access group. In kueue mode that becomes a Namespace, a ClusterQueue, a LocalQueue and two
bindings. All teams are on one cluster, so that whatever grows faster than the number of teams shows itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_HEAD = "apiVersion: hyperpod-fleet/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\n"

_CLUSTER = """\
spec:
  region: us-east-1
  orchestrator: {{eks: {{version: "1.34"}}}}
  network:
    existing:
      vpcId: vpc-0123456789abcdef0
      subnetIds: [subnet-0123456789abcdef0]
      securityGroupIds: [sg-0123456789abcdef0]
      controlPlaneSubnetIds: [subnet-0123456789abcdef1, subnet-0123456789abcdef2]
  nodeProvisioningMode: Continuous
  nodeRecovery: Automatic
  instanceGroups:
    - {{name: system, instanceType: ml.m5.2xlarge, instanceCount: 2, minInstanceCount: 1}}
    - {{name: h100, instanceType: ml.p5.48xlarge, instanceCount: {nodes}, minInstanceCount: {minimum}}}
    - {{name: g6, instanceType: ml.g6.12xlarge, instanceCount: {nodes}, minInstanceCount: {minimum}}}
    - {{name: g6-large, instanceType: ml.g6.48xlarge, instanceCount: {nodes}, minInstanceCount: {minimum}}}
  governance:
    owner: {owner}
    schedulerConfig:
      fairShare: Enabled
      priorityClasses: [{{name: inference, weight: 90}}, {{name: training, weight: 70}}]
"""

_TEAM = """\
spec:
  allocations:
    - cluster: research
      quota:
        - {{instanceType: ml.p5.48xlarge, accelerators: {accelerators}}}
        - {{instanceFamily: g6, accelerators: 4}}
      resourceSharingConfig: {{strategy: LendAndBorrow, borrowLimit: {borrow_limit}}}
      preemptTeamTasks: LowerPriority
      fairShareWeight: {weight}
  access:
    groups: [team-{number}-engineers]
"""


def write(
    directory: Path, teams: int, owner: Literal["sagemaker", "kueue"], *, findings: bool = False
) -> None:
    """Write the config of a fleet into a new directory.

    Args:
        directory: Where to write; it must not exist.
        teams: How many teams, all on one cluster.
        owner: Who owns the Kueue objects.
        findings: Whether each team has two findings (whole instances without EFA, a borrow limit of nothing).
    """
    (directory / "clusters").mkdir(parents=True)
    (directory / "teams").mkdir()
    # A team is promised half a p5.48xlarge at most and less of the others: all that is promised is there.
    nodes = teams // 2 + 2 if not findings else teams + 2
    _write(directory / "fleet.yaml", _head("Fleet", "bench") + "spec: {}\n")
    cluster = _CLUSTER.format(nodes=nodes, minimum=nodes - 1, owner=owner)
    _write(directory / "clusters" / "research.yaml", _head("Cluster", "research") + cluster)
    for number in range(teams):
        spec = _TEAM.format(
            number=number,
            accelerators=8 if findings else 2 + 2 * (number % 2),
            borrow_limit=10 if findings else 100 + 50 * (number % 2),
            weight=1 + number % 100,
        )
        name = f"team-{number:05}"
        _write(directory / "teams" / f"{name}.yaml", _head("Team", name) + spec)


def _head(kind: str, name: str) -> str:
    return _HEAD.format(kind=kind, name=name)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
