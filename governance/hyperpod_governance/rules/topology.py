"""HPF6xx: topology-aware scheduling."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_config.findings import Finding, Severity, rule
from hyperpod_config.model import Fleet
from hyperpod_governance import service
from hyperpod_governance.rules import walk


@rule("HPF601", "Add-on too old for topology", Severity.WARNING)
def addon_without_topology(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A cluster has instance types with network topology labels, and `addonVersion` is
    older than v1.2.2.

    **Why it matters.** Topology-aware scheduling came with version 1.2.2 of the task governance add-on; jobs
    that ask for it are not placed by it.

    **Example.** `addonVersion: v1.2.0-eksbuild.1` with ml.p5.48xlarge.

    **Fix.** Pin v1.2.2 or newer.
    """
    needed = service.TOPOLOGY_ADDON_VERSION
    for cluster, governance in walk.governed(fleet):
        version = governance.addon_version if governance.owner == "sagemaker" else None
        if version is None or walk.release(version) >= walk.release(needed):
            continue
        names = {name for _, group in walk.instance_groups(cluster) for name in group.instance_types}
        labelled = [name for name in sorted(names) if (kind := walk.known(name)) and kind.topology_labels]
        if labelled:
            yield addon_without_topology.finding(
                cluster.place("spec", "governance", "addonVersion"),
                f"addonVersion is {version}; topology-aware scheduling of {walk.listing(labelled)} needs"
                f" {needed}",
                f"set addonVersion: {service.DEFAULT_ADDON_VERSION}",
            )


CONFIG = (addon_without_topology,)
