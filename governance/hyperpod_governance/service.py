"""What this tool assumes of the HyperPod service and of its task governance add-on.

Each fact that AWS documentation does not state carries a mark: [F] one observer's report, [I] inferred,
[U] unknown. They stand here, and only here, so that one live cluster can correct them in one place.
"""

from __future__ import annotations

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
RECLAIM_WITHIN_COHORT = "Any"
# [U] what the add-on does with FairShareWeight when FairShare is Disabled; we leave the weight out.
WEIGHT_WITHOUT_FAIR_SHARE = None
