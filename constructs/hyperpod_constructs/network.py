"""The network of a HyperPod cluster: created from L1 resources, or yours.

L1 resources rather than `ec2.Vpc`, because `ec2.Vpc` looks up Availability Zones when a stack has a concrete
environment, which needs credentials at synth and makes the template depend on who runs it.
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence

from aws_cdk import CfnTag, Fn, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from ._acknowledge import acknowledge_iam
from ._checks import check_length, check_range, check_unique

CLOSED_NETWORK_ENDPOINTS = (
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    # Charts: the framework function of the CDK's kubectl provider calls its handler from within the VPC.
    "lambda",
    "logs",
    "monitoring",
    "ssm",
    "ssmmessages",
    "sts",
)
"""Interface endpoints of a network without NAT: without them nodes cannot join or pull images, nor charts be
installed. S3, from which charts and nodes' scripts come, has its gateway endpoint."""

_ZONE_ID = re.compile(r"[a-z]+\d-az\d")
# AWS's smallest subnet. Control-plane and public subnets need no more: EKS places at most a few ENIs in each.
_SMALL_PREFIX = 28


class HyperPodNetworkBase(Construct):
    """What a cluster construct needs to know of a network; use HyperPodNetwork or ExistingNetwork.

    Attributes:
        vpc_id: the VPC.
        node_subnet_ids: private subnets of the instances.
        control_plane_subnet_ids: subnets of the EKS control plane's network interfaces.
        security_group_ids: security groups of the instances.
    """

    vpc_id: str
    node_subnet_ids: list[str]
    control_plane_subnet_ids: list[str]
    security_group_ids: list[str]

    def vpc_for(self, scope: Construct) -> ec2.IVpc:
        """Give the VPC as an L2 under scope, made without a lookup."""
        zones = [Fn.select(i, Fn.get_azs()) for i in range(len(self.node_subnet_ids))]
        return ec2.Vpc.from_vpc_attributes(
            scope,
            "Vpc",
            vpc_id=self.vpc_id,
            availability_zones=zones,
            private_subnet_ids=self.node_subnet_ids,
        )

    def _node_security_group(self) -> str:
        """Create a security group that EFA works in: all traffic to and from itself, and out.

        EFA's health check fails when only 0.0.0.0/0 egress is there, so the self rule exists in both
        directions. The rules are resources of their own because they name the group.
        """
        group = ec2.CfnSecurityGroup(
            self,
            "NodeSecurityGroup",
            group_description="HyperPod instances: all traffic among themselves, as EFA needs",
            vpc_id=self.vpc_id,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="-1", cidr_ip="0.0.0.0/0", description="All outbound traffic"
                )
            ],
        )
        group_id = group.attr_group_id
        ec2.CfnSecurityGroupIngress(
            self,
            "SelfIngress",
            group_id=group_id,
            source_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA: all traffic from itself",
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "SelfEgress",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA: all traffic to itself",
        )
        return group_id


class ExistingNetwork(HyperPodNetworkBase):
    """A network that exists already; nothing is looked up.

    Args:
        vpc_id: the VPC.
        subnet_ids: 1 to 16 private subnets of the instances, in one Availability Zone if EFA is used.
        security_group_ids: 1 to 5 security groups that allow all traffic to and from themselves. Empty: one
            such group is created in the VPC.
        control_plane_subnet_ids: subnets in at least 2 Availability Zones for an EKS control plane that is
            to be created. Empty: subnet_ids.

    Raises:
        ValueError: a list is too short or too long.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str] = (),
        control_plane_subnet_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        check_length("subnet_ids", subnet_ids, 1, 16)
        check_length("security_group_ids", security_group_ids, 0, 5)
        self.vpc_id = vpc_id
        self.node_subnet_ids = list(subnet_ids)
        self.control_plane_subnet_ids = list(control_plane_subnet_ids or subnet_ids)
        self.security_group_ids = list(security_group_ids) or [self._node_security_group()]


class HyperPodNetwork(HyperPodNetworkBase):
    """A new VPC for one HyperPod cluster.

    The lower part of the CIDR goes to large private node subnets (half of it when node_subnet_count is 1),
    the upper part to /28 subnets of the EKS control plane and of the NAT gateway. A p5.48xlarge instance
    takes 81 addresses on EKS and 32 on Slurm, so a /16 with one node subnet holds 404 of them on EKS.

    Args:
        cidr: IPv4 block, /16 to /24.
        availability_zones: names (`us-east-1a`) or ids (`use1-az1`, as training plans state them). None: the
            first control_plane_zones zones of wherever the stack is deployed, without a lookup.
        control_plane_zones: number of zones when availability_zones is None, 2 to 4.
        node_availability_zone: zone of the node subnet and of the NAT gateway, by name or id, such as the
            zone of a training plan; it need not be one of the others. None: the first zone.
        node_subnet_count: number of zones, from the first, that get a node subnet. Keep 1 for EFA: its
            traffic stays in one zone.
        nat_gateway: whether nodes reach the internet. False: interface endpoints take its place.
        interface_endpoints: short names of AWS services (`ecr.api`). None: none with a NAT gateway, and
            CLOSED_NETWORK_ENDPOINTS without. The S3 gateway endpoint always exists.
        flow_log_retention: how long VPC flow logs are kept.

    Raises:
        ValueError: the CIDR or a count does not fit.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cidr: str = "10.192.0.0/16",
        availability_zones: Sequence[str] | None = None,
        control_plane_zones: int = 2,
        node_availability_zone: str | None = None,
        node_subnet_count: int = 1,
        nat_gateway: bool = True,
        interface_endpoints: Sequence[str] | None = None,
        flow_log_retention: logs.RetentionDays = logs.RetentionDays.ONE_YEAR,
    ) -> None:
        super().__init__(scope, construct_id)
        if availability_zones is not None:
            control_plane_zones = len(availability_zones)
        check_range("number of availability zones", control_plane_zones, 2, 4)
        check_range("node_subnet_count", node_subnet_count, 1, control_plane_zones)
        if node_availability_zone is not None and node_subnet_count != 1:
            raise ValueError(
                f"node_availability_zone {node_availability_zone!r} with node_subnet_count "
                f"{node_subnet_count}: one zone takes one node subnet; remove one of the two"
            )
        zones = list(availability_zones or (Fn.select(i, Fn.get_azs()) for i in range(control_plane_zones)))
        node_zones = [node_availability_zone] if node_availability_zone is not None else zones
        self._cidr = cidr
        nodes, small = _split(cidr, node_subnet_count, control_plane_zones + nat_gateway)
        self._vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=self._name("vpc"),
        )
        self.vpc_id = self._vpc.attr_vpc_id
        self._flow_log(flow_log_retention)
        private = ec2.CfnRouteTable(self, "PrivateRoutes", vpc_id=self.vpc_id, tags=self._name("private"))
        self.node_subnet_ids = [
            self._subnet(f"Node{i}", str(block), zone, private, internal_elb=True)
            for i, (block, zone) in enumerate(zip(nodes, node_zones, strict=False))
        ]
        self.control_plane_subnet_ids = [
            self._subnet(f"ControlPlane{i}", str(next(small)), zone, private) for i, zone in enumerate(zones)
        ]
        if nat_gateway:
            self._nat(str(next(small)), node_zones[0], private)
        self.security_group_ids = [self._node_security_group()]
        self._endpoints(private, nat_gateway, interface_endpoints)

    def _name(self, what: str) -> list[CfnTag]:
        return [CfnTag(key="Name", value=f"{self.node.path}/{what}")]

    def _subnet(
        self,
        construct_id: str,
        block: str,
        zone: str,
        routes: ec2.CfnRouteTable,
        *,
        internal_elb: bool = False,
    ) -> str:
        is_id = bool(_ZONE_ID.fullmatch(zone))
        tags = self._name(construct_id)
        if internal_elb:
            tags.append(CfnTag(key="kubernetes.io/role/internal-elb", value="1"))
        subnet = ec2.CfnSubnet(
            self,
            construct_id,
            vpc_id=self.vpc_id,
            cidr_block=block,
            availability_zone=None if is_id else zone,
            availability_zone_id=zone if is_id else None,
            map_public_ip_on_launch=False,
            tags=tags,
        )
        ec2.CfnSubnetRouteTableAssociation(
            self,
            f"{construct_id}Association",
            subnet_id=subnet.attr_subnet_id,
            route_table_id=routes.attr_route_table_id,
        )
        return subnet.attr_subnet_id

    def _nat(self, block: str, zone: str, private: ec2.CfnRouteTable) -> None:
        gateway = ec2.CfnInternetGateway(self, "InternetGateway", tags=self._name("igw"))
        attachment = ec2.CfnVPCGatewayAttachment(
            self,
            "GatewayAttachment",
            vpc_id=self.vpc_id,
            internet_gateway_id=gateway.attr_internet_gateway_id,
        )
        public = ec2.CfnRouteTable(self, "PublicRoutes", vpc_id=self.vpc_id, tags=self._name("public"))
        public_route = ec2.CfnRoute(
            self,
            "PublicDefaultRoute",
            route_table_id=public.attr_route_table_id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.attr_internet_gateway_id,
        )
        public_route.add_resource_dependency(attachment)
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc", tags=self._name("nat"))
        address.add_resource_dependency(attachment)
        nat = ec2.CfnNatGateway(
            self,
            "Nat",
            subnet_id=self._subnet("Public", block, zone, public),
            allocation_id=address.attr_allocation_id,
            tags=self._name("nat"),
        )
        # Deleting the route to the internet before the NAT gateway would leave it without its way out.
        nat.add_resource_dependency(public_route)
        ec2.CfnRoute(
            self,
            "PrivateDefaultRoute",
            route_table_id=private.attr_route_table_id,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.attr_nat_gateway_id,
        )

    def _endpoints(
        self, private: ec2.CfnRouteTable, nat_gateway: bool, interface_endpoints: Sequence[str] | None
    ) -> None:
        region = Stack.of(self).region
        ec2.CfnVPCEndpoint(
            self,
            "S3Endpoint",
            vpc_id=self.vpc_id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[private.attr_route_table_id],
        )
        if interface_endpoints is None:
            interface_endpoints = () if nat_gateway else CLOSED_NETWORK_ENDPOINTS
        if not interface_endpoints:
            return
        check_unique("interface endpoint", interface_endpoints)
        group = ec2.CfnSecurityGroup(
            self,
            "EndpointSecurityGroup",
            group_description="Interface endpoints: HTTPS from the VPC",
            vpc_id=self.vpc_id,
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp",
                    from_port=443,
                    to_port=443,
                    cidr_ip=self._cidr,
                    description="HTTPS from the VPC",
                )
            ],
        )
        for service in interface_endpoints:
            ec2.CfnVPCEndpoint(
                self,
                "Endpoint-" + service.replace(".", "-"),
                vpc_id=self.vpc_id,
                service_name=f"com.amazonaws.{region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                # One zone is enough for reachability and is the nodes' own.
                subnet_ids=self.node_subnet_ids[:1],
                security_group_ids=[group.attr_group_id],
            )

    def _flow_log(self, retention: logs.RetentionDays) -> None:
        group = logs.LogGroup(self, "FlowLogs", retention=retention, removal_policy=RemovalPolicy.DESTROY)
        role = iam.Role(
            self,
            "FlowLogRole",
            assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"),
            inline_policies={
                "write": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"],
                            resources=[group.log_group_arn],
                        )
                    ]
                )
            },
        )
        acknowledge_iam(
            role,
            wildcards="The wildcard is CloudWatch Logs' own suffix for the streams of exactly one log group.",
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=self.vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_group_name=group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
        )


def _split(
    cidr: str, node_subnet_count: int, small_count: int
) -> tuple[list[ipaddress.IPv4Network], Iterator[ipaddress.IPv4Network]]:
    """Split a VPC block into equal node blocks, and what is left of it into /28 blocks.

    The VPC is cut into the smallest power of two of blocks that leaves at least one over.
    """
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise ValueError(f"cidr {cidr!r}: {error}; give an IPv4 block such as 10.192.0.0/16") from error
    if not 16 <= network.prefixlen <= 24:
        raise ValueError(
            f"cidr {cidr!r} is a /{network.prefixlen}: the limit is /16 to /24; choose such a block"
        )
    blocks = list(network.subnets(prefixlen_diff=node_subnet_count.bit_length()))
    small = [one for block in blocks[node_subnet_count:] for one in block.subnets(new_prefix=_SMALL_PREFIX)]
    if len(small) < small_count:
        raise ValueError(
            f"cidr {cidr!r} leaves {len(small)} /28 blocks beside {node_subnet_count} node subnets: "
            f"{small_count} are needed; choose a larger block or fewer node subnets"
        )
    return blocks[:node_subnet_count], iter(small)
