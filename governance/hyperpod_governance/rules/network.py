"""HPF130 to HPF139: the network of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hyperpod_config.findings import Finding, Severity, rule
from hyperpod_config.model import Cluster, CreateNetwork, Fleet
from hyperpod_config.suggest import one_of
from hyperpod_governance import service
from hyperpod_governance.rules import walk

_CREATE = ("spec", "network", "create")


@rule("HPF130", "Not an IPv4 network")
def not_a_network(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A CIDR has a number above 255, a prefix above 32, or bits set behind the prefix. The
    range of a new VPC must also lie between /16 and /24.

    **Why it matters.** Amazon VPC and Amazon EKS refuse it. A VPC is /16 at most; below /24 the subnets of
    this tool's network do not fit.

    **Example.** `cidr: 10.192.0.1/16` (the network is 10.192.0.0/16), `cidr: 10.0.0.0/8`.

    **Fix.** Write the network that the hint names, or a prefix within the limits.
    """
    for cluster in fleet.clusters:
        create, eks = cluster.spec.network.create, cluster.spec.orchestrator.eks
        if create is not None and (problem := _problem(create.cidr, vpc=True)):
            yield not_a_network.finding(cluster.place(*_CREATE, "cidr"), *problem)
        for index, cidr in enumerate((eks.public_access_cidrs if eks else None) or ()):
            if problem := _problem(cidr, vpc=False):
                yield not_a_network.finding(
                    cluster.place("spec", "orchestrator", "eks", "publicAccessCidrs", index), *problem
                )


def _problem(cidr: str, *, vpc: bool) -> tuple[str, str] | None:
    """What is wrong with a CIDR, and the hint."""
    address, prefix = _parts(cidr)
    if max(address) > 255:
        return f"{cidr} has {max(address)} in its address; the limit is 255", "correct the address"
    least, most = (service.VPC_PREFIX_MIN, service.VPC_PREFIX_MAX) if vpc else (0, 32)
    if not least <= prefix <= most:
        return f"{cidr} has prefix /{prefix}; allowed is /{least} to /{most}", "choose another prefix"
    number = int.from_bytes(bytes(address), "big")
    network = number >> (32 - prefix) << (32 - prefix)
    if network != number:
        shown = ".".join(str(part) for part in network.to_bytes(4, "big"))
        return f"{cidr} has bits set behind its prefix /{prefix}", f"write {shown}/{prefix}"
    return None


def _parts(cidr: str) -> tuple[list[int], int]:
    address, _, prefix = cidr.partition("/")
    return [int(part) for part in address.split(".")], int(prefix)


@rule("HPF131", "More nodes than the subnet has addresses")
def too_few_addresses(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** The p5 nodes of the cluster take more IPv4 addresses than their subnet of the new
    VPC has, which is half of the range.

    **Why it matters.** The target count can never be reached, and the network of a HyperPod cluster cannot be
    changed. Only ml.p5.48xlarge is counted, because only its number is documented: 81 addresses for each node
    with EKS, 32 with Slurm.

    **Example.** 32 nodes of ml.p5.48xlarge with EKS (2592 addresses) in a /20 (2043 for the nodes).

    **Fix.** Take a larger range, up to /16.
    """
    for cluster in fleet.clusters:
        create = cluster.spec.network.create
        if create is None or _problem(create.cidr, vpc=True):
            continue
        each = service.EKS_NODE_ADDRESSES if cluster.spec.orchestrator.eks else service.SLURM_NODE_ADDRESSES
        nodes = _counted_nodes(cluster)
        subnet = (
            1 << (32 - _parts(create.cidr)[1])
        ) // service.NODE_SUBNET_SHARE - service.RESERVED_ADDRESSES
        if nodes * each > subnet:
            yield too_few_addresses.finding(
                cluster.place(*_CREATE, "cidr"),
                f"{nodes} nodes of {service.ADDRESS_COUNTED_TYPE} take {nodes * each} addresses"
                f" ({each} each); {create.cidr} has {subnet} for nodes",
                f"take a larger range, up to /{service.VPC_PREFIX_MIN}",
            )


def _counted_nodes(cluster: Cluster) -> int:
    return sum(
        group.instance_count
        for _, group in walk.instance_groups(cluster)
        if group.instance_type == service.ADDRESS_COUNTED_TYPE and group.override_vpc_config is None
    )


@rule("HPF132", "Availability Zones")
def availability_zones(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A zone is not of the cluster's Region, stands twice, or is the nodes' zone without
    being among `availabilityZones`.

    **Why it matters.** The subnet for it cannot be made, or an EKS control plane ends up in fewer than two
    zones.

    **Example.** `region: us-east-1` with `availabilityZones: [us-east-1a, us-west-2b]`.

    **Fix.** Name zones of the Region, each once, `nodeAvailabilityZone` among them.
    """
    for cluster in fleet.clusters:
        create = cluster.spec.network.create
        if create is not None:
            yield from _zones(cluster, create)


def _zones(cluster: Cluster, create: CreateNetwork) -> Iterator[Finding]:
    region, zones, seen = cluster.spec.region, create.availability_zones or [], set()
    of_region = re.compile(rf"{re.escape(region)}(-[a-z]+-\d+)?[a-z]")
    for index, zone in enumerate(zones):
        place = cluster.place(*_CREATE, "availabilityZones", index)
        if not of_region.fullmatch(zone):
            message = f"{zone} is no Availability Zone of {region}"
            yield availability_zones.finding(place, message, f"zones of {region} are named like {region}a")
        elif zone in seen:
            yield availability_zones.finding(
                place, f"{zone} stands twice in availabilityZones", "remove one of them"
            )
        seen.add(zone)
    node = create.node_availability_zone
    if node is None:
        return
    place = cluster.place(*_CREATE, "nodeAvailabilityZone")
    if not of_region.fullmatch(node):
        message = f"{node} is no Availability Zone of {region}"
        yield availability_zones.finding(place, message, f"zones of {region} are named like {region}a")
    elif zones and node not in seen:
        message = f"nodeAvailabilityZone {node} is not among availabilityZones"
        yield availability_zones.finding(place, message, f"take one of {one_of(zones)}")


@rule("HPF133", "An existing EKS cluster in a new network")
def existing_eks_new_network(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `orchestrator.eks.existing` names an EKS cluster, but `network` makes a new VPC, as
    it does when nothing is said.

    **Why it matters.** Nodes must be in the VPC of the EKS cluster; in another they cannot join it.

    **Example.** `orchestrator: {eks: {existing: {clusterName: shared}}}` without `network`.

    **Fix.** Set `network.existing` to the VPC of that EKS cluster.
    """
    for cluster in fleet.clusters:
        eks = cluster.spec.orchestrator.eks
        if eks is not None and eks.existing is not None and cluster.spec.network.existing is None:
            yield existing_eks_new_network.finding(
                cluster.place("spec", "network"),
                f"EKS cluster {eks.existing.cluster_name} exists, but the network of {cluster.name} would"
                " be new",
                "set network.existing to the VPC of that EKS cluster",
            )


@rule("HPF134", "Too few subnets for a new control plane")
def control_plane_subnets(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A new EKS cluster in an existing VPC has one subnet only.

    **Why it matters.** An EKS control plane needs subnets in two Availability Zones.

    **Example.** `network.existing` with one of `subnetIds` and without `controlPlaneSubnetIds`.

    **Fix.** Keep the one subnet for the nodes and name two or more in `controlPlaneSubnetIds`.
    """
    for cluster in fleet.clusters:
        eks, existing = cluster.spec.orchestrator.eks, cluster.spec.network.existing
        if eks is None or eks.version is None or existing is None or existing.control_plane_subnet_ids:
            continue
        if len(set(existing.subnet_ids)) < 2:
            yield control_plane_subnets.finding(
                cluster.place("spec", "network", "existing", "subnetIds"),
                "a new EKS control plane needs subnets in 2 Availability Zones; subnetIds has 1 subnet",
                "add controlPlaneSubnetIds with subnets in two zones",
            )


@rule("HPF135", "A closed network without endpoints that nodes need", Severity.WARNING)
def closed_network(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A new VPC has no NAT gateway, and `interfaceEndpoints` lacks services that nodes
    call.

    **Why it matters.** Without a way out, nodes reach AWS services by endpoints only. Without these they
    cannot pull images, register or be reached, and the cluster fails.

    **Example.** `natGateway: Disabled` with `interfaceEndpoints: [sts]`.

    **Fix.** Remove `interfaceEndpoints`, so that all that nodes need are made, or add those that the message
    names.
    """
    for cluster in fleet.clusters:
        create = cluster.spec.network.create
        if create is None or create.nat_gateway == "Enabled" or create.interface_endpoints is None:
            continue
        on_eks = service.CLOSED_NETWORK_ENDPOINTS_EKS if cluster.spec.orchestrator.eks else ()
        needed = sorted((*service.CLOSED_NETWORK_ENDPOINTS, *on_eks))
        missing = [name for name in needed if name not in create.interface_endpoints]
        if missing:
            yield closed_network.finding(
                cluster.place(*_CREATE, "interfaceEndpoints"),
                f"interfaceEndpoints has {len(needed) - len(missing)} of the {len(needed)} services"
                f" that nodes need without a NAT gateway; missing: {', '.join(missing)}",
                "remove interfaceEndpoints, or add the missing ones",
            )


@rule("HPF136", "An interface endpoint twice")
def endpoint_twice(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `interfaceEndpoints` names a service more than once.

    **Why it matters.** A VPC takes one endpoint with private DNS for a service; another was probably meant.

    **Example.** `interfaceEndpoints: [ecr.api, ecr.api]`.

    **Fix.** Remove or correct one of them.
    """
    for cluster in fleet.clusters:
        create, seen = cluster.spec.network.create, set[str]()
        for index, name in enumerate((create.interface_endpoints if create else None) or ()):
            if name in seen:
                yield endpoint_twice.finding(
                    cluster.place(*_CREATE, "interfaceEndpoints", index),
                    f"{name} stands twice in interfaceEndpoints",
                    "remove one of them",
                )
            seen.add(name)


@rule("HPF137", "Kueue cannot be pulled into a closed network", Severity.WARNING)
def kueue_in_closed_network(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A new VPC has no NAT gateway, and Kueue is to be installed in the cluster.

    **Why it matters.** Kueue's chart and image come from a registry of the Kubernetes project, which no
    interface endpoint reaches. Without a way out that you add yourself, the installation fails.

    **Example.** `natGateway: Disabled` with `governance: {owner: kueue}`.

    **Fix.** Install Kueue from a registry of your own and say `kueue: {install: Disabled}`, or keep the NAT
    gateway.
    """
    for cluster, governance in walk.governed(fleet):
        create, kueue = cluster.spec.network.create, governance.kueue
        installs = governance.owner == "kueue" and (kueue is None or kueue.install == "Enabled")
        if installs and create is not None and create.nat_gateway == "Disabled":
            yield kueue_in_closed_network.finding(
                cluster.place("spec", "governance", "kueue", "install"),
                f"Kueue of cluster {cluster.name} comes from a public registry, but natGateway is Disabled",
                "install it from a registry of yours and set kueue.install: Disabled, or enable natGateway",
            )


CONFIG = (
    not_a_network,
    too_few_addresses,
    availability_zones,
    existing_eks_new_network,
    control_plane_subnets,
    closed_network,
    endpoint_twice,
    kueue_in_closed_network,
)
