"""What this tool assumes of the HyperPod service and of its task governance add-on.

Each fact that AWS documentation does not state carries a mark: [F] one observer's report, [I] inferred,
[U] unknown. They stand here, and only here, so that one live cluster can correct them in one place.
"""

from __future__ import annotations

from typing import Final

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
CLUSTER_NAME_LABEL = "sagemaker.amazonaws.com/cluster-name"
INSTANCE_GROUP_NAME_LABEL = "sagemaker.amazonaws.com/instance-group-name"
HOSTNAME_LABEL = "kubernetes.io/hostname"

# Labels of a team's namespace that the add-on makes: the first documented, the second [F].
MANAGED_QUEUE_LABEL = "sagemaker.amazonaws.com/sagemaker-managed-queue"
ACTIVATE_QUOTA_LABEL = "sagemaker.amazonaws.com/activate-quota"

# [I] levels of the add-on's Topology, widest first; the CLI allows exactly these labels.
TOPOLOGY_LEVELS = (
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    HOSTNAME_LABEL,
)

# Percent of its own nominal quota that a team may borrow when nothing is said (ComputeQuota schema).
DEFAULT_BORROW_LIMIT = 50
DEFAULT_ADDON_VERSION = "v1.6.1-eksbuild.1"

# [I] an owner takes lent capacity back whatever the priority of the borrower's task.
RECLAIM_WITHIN_COHORT: Final = "Any"
# [U] what the add-on does with FairShareWeight when FairShare is Disabled; we leave the weight out.
WEIGHT_WITHOUT_FAIR_SHARE = None

# EKS prerequisites of the HyperPod developer guide: the Kubernetes versions that HyperPod takes.
KUBERNETES_VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
# The same guide: IPv4 addresses that one ml.p5.48xlarge node takes of its subnet.
ADDRESS_COUNTED_TYPE = "ml.p5.48xlarge"
EKS_NODE_ADDRESSES = 81
SLURM_NODE_ADDRESSES = 32
# HyperPod and Amazon EKS guides on networks without internet access; S3 has a gateway endpoint always.
CLOSED_NETWORK_ENDPOINTS = (
    *("ec2", "ec2messages", "ecr.api", "ecr.dkr"),
    *("logs", "monitoring", "ssm", "ssmmessages", "sts"),
)
# lambda: the CDK's kubectl provider, which is in the VPC if the endpoint is private, calls its handler by it.
CLOSED_NETWORK_ENDPOINTS_EKS = ("eks", "eks-auth", "lambda")
# Amazon VPC user guide: the IPv4 block of a VPC is /16 at most, and 5 addresses of a subnet are AWS's own.
# The layout of HyperPodNetwork needs a /24 at least and gives half of the block to the subnet of the nodes.
VPC_PREFIX_MIN, VPC_PREFIX_MAX = 16, 24
NODE_SUBNET_SHARE = 2
RESERVED_ADDRESSES = 5
# Service model of the SageMaker API: ClusterName, ComputeQuotaResourceConfigList.
MAX_CLUSTER_NAME = 63
MAX_COMPUTE_QUOTA_RESOURCES = 15
# TagList allows 50 tags; two are left for those that the construct library puts on subnets: Name and
# kubernetes.io/role/internal-elb.
MAX_TAGS = 50 - 2
# Service model: Labels of ClusterKubernetesConfig.
MAX_NODE_LABELS = 50
# Service model, MinInstanceCount: minutes until a group that has not reached its minimum is rolled back.
MINIMUM_GIVEN_UP_AFTER = 180
# Where the construct library mounts a file system when nothing is said.
DEFAULT_LUSTRE_PATH = "/fsx"
DEFAULT_OPEN_ZFS_PATH = "/home"
# API reference of ResourceSharingConfig: "1 - 500 percent"; the service model and the console allow 10,000.
DOCUMENTED_BORROW_LIMIT = 500
# Announcement of fine-grained quotas; developer guide on topology-aware scheduling.
FINE_GRAINED_ADDON_VERSION = "v1.3.0-eksbuild.1"
TOPOLOGY_ADDON_VERSION = "v1.2.2-eksbuild.1"
# Major and minor version of the add-on, of which LAST is the last and FIRST the first of their kind.
# [F] one report: an update from v1.3 to v1.5 fails, because the cohorts CRD has stored v1alpha1.
# [I] from the versions of Kueue in them (0.12, and 0.16 or newer): v1.5 drops v1alpha1 and stores v1beta2,
# which no older one has.
LAST_ADDON_WITH_V1ALPHA1 = (1, 3)
FIRST_ADDON_WITHOUT_V1ALPHA1 = (1, 5)

# Regions for which the CloudFormation registry listed each type on 2026-10-20 (cfn-lint 1.58.0). The list
# lags behind the service: the description of ComputeQuota names Regions that are not in it.
_LISTED_FOR_ALL = {"us-east-1", "ap-south-1", "eu-central-1"}
_LISTED_WITH_QUOTA = {
    *("us-east-2", "us-west-2", "eu-west-1", "eu-west-2"),
    *("ap-southeast-1", "ap-southeast-2", "ca-central-1", "sa-east-1"),
}
_LISTED_WITH_SCHEDULER = {"us-west-1", "ap-northeast-1", "eu-north-1", "eu-south-2"}
_LISTED_WITH_NEITHER = {"ap-northeast-2", "ap-south-2", "ap-southeast-3", "ap-southeast-4"}
COMPUTE_QUOTA_REGIONS = frozenset(_LISTED_FOR_ALL | _LISTED_WITH_QUOTA)
SCHEDULER_CONFIG_REGIONS = frozenset(_LISTED_FOR_ALL | _LISTED_WITH_SCHEDULER)
CLUSTER_REGIONS = COMPUTE_QUOTA_REGIONS | SCHEDULER_CONFIG_REGIONS | _LISTED_WITH_NEITHER

# Kueue 0.16 is the first that stores v1beta2. The settings that this tool installs Kueue with name the
# framework ray.io/rayservice, which 0.16 refuses as unknown: its manager does not start.
KUEUE_FIRST_STORED_VERSION = "0.16.0"
KUEUE_FIRST_VERSION = "0.17.0"
# What the CRDs and webhooks of Kueue v0.19.2 accept.
KUEUE_MAX_FLAVORS = 64
KUEUE_MAX_RESOURCES = 64
KUEUE_MAX_FLAVOR_RESOURCES = 512
KUEUE_MAX_TOLERATIONS = 8
# The API server cuts a quantity down to this (apimachinery, ParseQuantity); Kueue (pkg/resources) takes it
# for no limit at all.
MAX_AMOUNT = 2**63 - 1
