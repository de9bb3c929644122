"""HPF101 to HPF129: a cluster and its instance groups."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_config.findings import Finding, Place, Severity, rule
from hyperpod_config.model import Cluster, Eks, Fleet, FleetDocument, InstanceGroup, RestrictedInstanceGroup
from hyperpod_config.suggest import did_you_mean
from hyperpod_governance import catalog, naming, service
from hyperpod_governance.rules import walk

_EKS = ("spec", "orchestrator", "eks")


@rule("HPF101", "Unknown instance type")
def unknown_instance_type(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** The name is none of the instance types that HyperPod has.

    **Why it matters.** The API refuses it, and no quota can be worked out without the figures of the type.

    **Example.** `instanceType: ml.p5.48xlrage`, `instanceType: ml.p3.2xlarge`.

    **Fix.** Take the name suggested. `docs/catalog.md` says where the list comes from.
    """
    types = catalog.instance_types()
    for cluster in fleet.clusters:
        for path, group in walk.groups(cluster):
            for below, name in walk.instance_types(group):
                if name not in types:
                    yield _unknown(name, cluster.place(*path, *below))
    for member in walk.members(fleet):
        for path, item in walk.items(member.allocation):
            if item.instance_type is not None and item.instance_type not in types:
                yield _unknown(item.instance_type, member.place(*path, "instanceType"))


def _unknown(name: str, place: Place) -> Finding:
    hint = did_you_mean(name, catalog.instance_types())
    return unknown_instance_type.finding(place, f"{name} is no HyperPod instance type", hint)


@rule("HPF102", "Two groups of one name")
def duplicate_group(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** Two instance groups of a cluster, restricted ones included, have the same name.

    **Why it matters.** HyperPod knows a group by its name; the API refuses the second.

    **Example.** A copied group in which only the instance type was changed.

    **Fix.** Rename one of them.
    """
    for cluster in fleet.clusters:
        first: dict[str, walk.Path] = {}
        for path, group in walk.groups(cluster):
            before = first.setdefault(group.name, path)
            if before is not path:
                message = f"group {group.name} is already defined at {cluster.place(*before, 'name')}"
                yield duplicate_group.finding(cluster.place(*path, "name"), message, "rename one of them")


@rule("HPF103", "A cluster without instance groups")
def no_group(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** The cluster has neither `instanceGroups` nor `restrictedInstanceGroups`.

    **Why it matters.** A cluster has at least one group; there would be nothing to run a job on.

    **Example.** `instanceGroups: []`.

    **Fix.** Add a group with `name`, `instanceType` and `instanceCount`.
    """
    for cluster in fleet.clusters:
        if not cluster.spec.instance_groups and not cluster.spec.restricted_instance_groups:
            yield no_group.finding(
                cluster.place("spec", "instanceGroups"),
                f"cluster {cluster.name} has 0 instance groups; at least 1 is needed",
                "add a group with name, instanceType and instanceCount",
            )


@rule("HPF104", "A setting of the other orchestrator")
def other_orchestrator(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A setting that only Slurm has stands in an EKS cluster, or the other way round.

    **Why it matters.** The API refuses it, or it has no effect. Task governance does not exist for Slurm.

    **Example.** `slurmConfig` in a group of an EKS cluster; `governance` or `kubernetesConfig` with Slurm.

    **Fix.** Remove the setting, or correct `orchestrator`.
    """
    for cluster in fleet.clusters:
        here = "EKS" if cluster.spec.orchestrator.eks else "Slurm"
        other = "Slurm" if cluster.spec.orchestrator.eks else "EKS"
        for path in _foreign(cluster):
            yield other_orchestrator.finding(
                cluster.place(*path),
                f"{path[-1]} is for {other} clusters; {cluster.name} is orchestrated by {here}",
                f"remove {path[-1]}",
            )


def _foreign(cluster: Cluster) -> Iterator[walk.Path]:
    """Paths of the settings that the cluster's orchestrator does not have."""
    spec = cluster.spec
    if spec.orchestrator.eks:
        for path, group in walk.instance_groups(cluster):
            if group.slurm_config is not None:
                yield *path, "slurmConfig"
        return
    for path, group in walk.instance_groups(cluster):
        if group.kubernetes_config.labels or group.kubernetes_config.taints:
            yield *path, "kubernetesConfig"
        if group.image_release_version is not None:
            yield *path, "imageReleaseVersion"
        if group.on_start_deep_health_checks:
            yield *path, "onStartDeepHealthChecks"
    if spec.restricted_instance_groups:
        yield "spec", "restrictedInstanceGroups"
    if spec.auto_scaling is not None:
        yield "spec", "autoScaling"
    if spec.governance is not None:
        yield "spec", "governance"


@rule("HPF105", "Kubernetes version that HyperPod does not take")
def kubernetes_version(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `orchestrator.eks.version` is outside the versions that HyperPod works with.

    **Why it matters.** Amazon EKS may make such a cluster, and HyperPod then refuses it.

    **Example.** `version: "1.29"`.

    **Fix.** Take one of the versions that the message names.
    """
    allowed = service.KUBERNETES_VERSIONS
    for cluster in fleet.clusters:
        eks = cluster.spec.orchestrator.eks
        if eks is not None and eks.version is not None and eks.version not in allowed:
            yield kubernetes_version.finding(
                cluster.place("spec", "orchestrator", "eks", "version"),
                f"Kubernetes {eks.version} is outside {allowed[0]} to {allowed[-1]}, which HyperPod takes",
                f'take a version between "{allowed[0]}" and "{allowed[-1]}"',
            )


@rule("HPF106", "Restricted groups exclude this setting")
def restricted_excludes(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A cluster with restricted instance groups has Continuous provisioning, node
    autoscaling or governance.

    **Why it matters.** The HyperPod setup of AWS excludes all three: add-ons such as task governance are not
    supported beside restricted groups, nor are Continuous provisioning and Karpenter.

    **Example.** `restrictedInstanceGroups` beside `nodeProvisioningMode: Continuous`.

    **Fix.** Remove the setting, or give the restricted groups a cluster of their own.
    """
    for cluster in fleet.clusters:
        spec = cluster.spec
        if not spec.restricted_instance_groups or spec.orchestrator.slurm is not None:
            continue
        excluded = {
            "nodeProvisioningMode": spec.node_provisioning_mode is not None,
            "autoScaling": spec.auto_scaling is not None and spec.auto_scaling.mode == "Enable",
            "governance": spec.governance is not None,
        }
        for key in (key for key, is_set in excluded.items() if is_set):
            yield restricted_excludes.finding(
                cluster.place("spec", key),
                f"{key} does not go with the {len(spec.restricted_instance_groups)} restricted instance"
                " groups"
                f" of {cluster.name}",
                f"remove {key}, or move the restricted groups to a cluster of their own",
            )


@rule("HPF107", "Autoscaling lacks what it needs")
def auto_scaling_needs(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `autoScaling` is on without Continuous provisioning or without automatic node
    recovery.

    **Why it matters.** HyperPod's Karpenter adds and removes nodes one by one, which needs both.

    **Example.** `autoScaling: {mode: Enable}` with `nodeRecovery: None`.

    **Fix.** Set `nodeProvisioningMode: Continuous` and `nodeRecovery: Automatic`.
    """
    for cluster in fleet.clusters:
        spec = cluster.spec
        if spec.auto_scaling is None or spec.auto_scaling.mode != "Enable" or spec.orchestrator.eks is None:
            continue
        if spec.restricted_instance_groups:
            continue  # HPF106 asks to remove autoScaling
        needed = {
            "nodeProvisioningMode": (spec.node_provisioning_mode, "Continuous"),
            "nodeRecovery": (spec.node_recovery, "Automatic"),
        }
        for key, (value, wanted) in needed.items():
            if value != wanted:
                yield auto_scaling_needs.finding(
                    cluster.place("spec", key) if value else cluster.place("spec", "autoScaling", "mode"),
                    f"autoScaling needs {key}: {wanted}; it is {value or 'not set'}",
                    f"set {key}: {wanted}",
                )


@rule("HPF108", "Taints together with deep health checks")
def taints_with_health_checks(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A group has both `kubernetesConfig.taints` and `onStartDeepHealthChecks`.

    **Why it matters.** The HyperPod guide does not allow custom taints together with deep health checks.

    **Example.** A taint for Neuron jobs on a group with `onStartDeepHealthChecks: [InstanceStress]`.

    **Fix.** Keep one of them. Labels go with deep health checks.
    """
    for cluster in fleet.clusters:
        for path, group in walk.instance_groups(cluster):
            taints = group.kubernetes_config.taints
            if taints and group.on_start_deep_health_checks and cluster.spec.orchestrator.eks:
                yield taints_with_health_checks.finding(
                    cluster.place(*path, "kubernetesConfig", "taints"),
                    f"group {group.name} has taint {taints[0].key} and onStartDeepHealthChecks"
                    f" {', '.join(group.on_start_deep_health_checks)}: HyperPod takes only one of them",
                    "remove taints or onStartDeepHealthChecks",
                )


@rule("HPF109", "Mount of an unknown file system")
def unknown_file_system(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `instanceStorageConfigs` names a file system that `fileSystems` of the cluster
    lacks.

    **Why it matters.** There is nothing to mount.

    **Example.** `fileSystem: {name: scartch}` where the cluster makes `scratch`.

    **Fix.** Correct the name, or add the file system. One that exists goes in `fsxLustreConfig` or
    `fsxOpenZfsConfig`.
    """
    for cluster in fleet.clusters:
        names = [file_system.name for file_system in cluster.spec.file_systems]
        for path, group in walk.groups(cluster):
            for index, storage in enumerate(group.instance_storage_configs):
                mount = storage.file_system
                if mount is not None and mount.name not in names:
                    yield unknown_file_system.finding(
                        cluster.place(*path, "instanceStorageConfigs", index, "fileSystem", "name"),
                        f"{mount.name} is none of the fileSystems of cluster {cluster.name}"
                        f" ({walk.listing(names) or 'it has none'})",
                        did_you_mean(mount.name, names) or "add it to spec.fileSystems",
                    )


@rule("HPF110", "Two file systems of one name")
def duplicate_file_system(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `fileSystems` of a cluster has a name twice.

    **Why it matters.** It would be unclear which of them a group mounts.

    **Example.** A Lustre and an OpenZFS file system, both named `data`.

    **Fix.** Rename one of them.
    """
    for cluster in fleet.clusters:
        first: dict[str, int] = {}
        for index, file_system in enumerate(cluster.spec.file_systems):
            before = first.setdefault(file_system.name, index)
            if before != index:
                yield duplicate_file_system.finding(
                    cluster.place("spec", "fileSystems", index, "name"),
                    f"file system {file_system.name} is already defined at"
                    f" {cluster.place('spec', 'fileSystems', before, 'name')}",
                    "rename one of them",
                )


@rule("HPF111", "Two file systems of one kind in a group")
def file_systems_per_group(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A group mounts more than one FSx for Lustre, or more than one FSx for OpenZFS.

    **Why it matters.** HyperPod takes at most one of each in a group. Mounts by `fileSystem`,
    `fsxLustreConfig` and `fsxOpenZfsConfig` count together.

    **Example.** Two entries `fileSystem`, both of Lustre.

    **Fix.** Keep one of the kind; mount others from the lifecycle script.
    """
    for cluster in fleet.clusters:
        for path, group in walk.groups(cluster):
            seen: set[str] = set()
            for below, kind, _ in _mounts(cluster, group):
                if kind in seen:
                    yield file_systems_per_group.finding(
                        cluster.place(*path, *below),
                        f"group {group.name} mounts a second FSx for {kind}; a group takes 1",
                        "keep one, and mount others from the lifecycle script",
                    )
                seen.add(kind)


def _mounts(
    cluster: Cluster, group: InstanceGroup | RestrictedInstanceGroup
) -> Iterator[tuple[walk.Path, str, str]]:
    """Every file system that a group mounts: its path below the group, its kind, and where nodes see it."""
    made = {entry.name: "Lustre" if entry.lustre else "OpenZFS" for entry in cluster.spec.file_systems}
    default = {"Lustre": service.DEFAULT_LUSTRE_PATH, "OpenZFS": service.DEFAULT_OPEN_ZFS_PATH}
    for index, storage in enumerate(group.instance_storage_configs):
        mount = storage.fsx_lustre_config or storage.fsx_open_zfs_config or storage.file_system
        kind = "Lustre" if storage.fsx_lustre_config else "OpenZFS" if storage.fsx_open_zfs_config else None
        if storage.file_system is not None:
            kind = made.get(storage.file_system.name)
        if mount is not None and kind is not None:
            yield ("instanceStorageConfigs", index), kind, mount.mount_path or default[kind]


@rule("HPF112", "EBS volume without size, or root volume with one")
def ebs_volume(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** An `ebsVolumeConfig` of an extra volume lacks `volumeSizeInGB`, or one of the root
    volume has it or lacks `volumeKmsKeyId`.

    **Why it matters.** The API needs the size of an extra volume; of a root volume it takes the key and
    nothing else.

    **Example.** `ebsVolumeConfig: {rootVolume: true, volumeSizeInGB: 500}`.

    **Fix.** Extra volume: set `volumeSizeInGB`. Root volume: set `volumeKmsKeyId`, and no size.
    """
    for cluster in fleet.clusters:
        for path, group in walk.groups(cluster):
            for index, storage in enumerate(group.instance_storage_configs):
                volume = storage.ebs_volume_config
                if volume is None:
                    continue
                at = (*path, "instanceStorageConfigs", index, "ebsVolumeConfig")
                size = volume.volume_size_in_gb
                if volume.root_volume and size is not None:
                    place = cluster.place(*at, "volumeSizeInGB")
                    message = f"volumeSizeInGB is {size}, but the size of a root volume cannot be set"
                    yield ebs_volume.finding(place, message, "remove volumeSizeInGB or rootVolume")
                elif volume.root_volume and volume.volume_kms_key_id is None:
                    message = (
                        "rootVolume: true without volumeKmsKeyId: only the key of a root volume can be set"
                    )
                    yield ebs_volume.finding(
                        cluster.place(*at), message, "set volumeKmsKeyId or remove rootVolume"
                    )
                elif not volume.root_volume and size is None:
                    message = "volumeSizeInGB is not set; an extra volume needs 1 to 16384 GB"
                    yield ebs_volume.finding(cluster.place(*at), message, "set volumeSizeInGB")


@rule("HPF113", "Lustre capacity that FSx does not offer")
def lustre_capacity(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `storageCapacityGiB` is neither 1200 nor a multiple of 2400.

    **Why it matters.** FSx for Lustre (PERSISTENT_2, SSD) grows in steps of 2400 GiB; the stack would fail.

    **Example.** `storageCapacityGiB: 3600`.

    **Fix.** Take one of the two sizes that the message names.
    """
    for cluster in fleet.clusters:
        for index, file_system in enumerate(cluster.spec.file_systems):
            lustre = file_system.lustre
            if (
                lustre is None
                or lustre.storage_capacity_gib == 1200
                or lustre.storage_capacity_gib % 2400 == 0
            ):
                continue
            lower = lustre.storage_capacity_gib // 2400 * 2400
            yield lustre_capacity.finding(
                cluster.place("spec", "fileSystems", index, "lustre", "storageCapacityGiB"),
                f"storageCapacityGiB is {lustre.storage_capacity_gib}; FSx for Lustre has 1200 and"
                " multiples of 2400",
                f"take {lower} or {lower + 2400}",
            )


@rule("HPF114", "Instance requirements without Continuous provisioning")
def requirements_need_continuous(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A group chooses among several instance types in a cluster that is not Continuous.

    **Why it matters.** Falling back to the next type is part of Continuous provisioning.

    **Example.** `instanceRequirements` without `nodeProvisioningMode`.

    **Fix.** Set `nodeProvisioningMode: Continuous`, or one `instanceType`.
    """
    for cluster in fleet.clusters:
        for path, group in walk.instance_groups(cluster):
            if group.instance_requirements is not None and cluster.spec.node_provisioning_mode is None:
                count = len(group.instance_requirements.instance_types)
                yield requirements_need_continuous.finding(
                    cluster.place(*path, "instanceRequirements"),
                    f"group {group.name} chooses among {count} instance types, which needs Continuous"
                    " provisioning",
                    "set nodeProvisioningMode: Continuous",
                )


@rule("HPF115", "An instance type twice in one group")
def requirement_twice(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `instanceRequirements.instanceTypes` has a type more than once.

    **Why it matters.** The order is the priority; a repeated type says nothing, so another was probably
    meant.

    **Example.** `instanceTypes: [ml.p5.48xlarge, ml.p5.48xlarge]`.

    **Fix.** Remove or correct one of them.
    """
    for cluster in fleet.clusters:
        for path, group in walk.instance_groups(cluster):
            seen: set[str] = set()
            for below, name in walk.instance_types(group):
                if name in seen:
                    message = f"{name} stands twice in the instanceTypes of group {group.name}"
                    yield requirement_twice.finding(
                        cluster.place(*path, *below), message, "remove one of them"
                    )
                seen.add(name)


@rule("HPF116", "Two clusters of one name in AWS")
def aws_name_clash(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** Two clusters get the same name in one Region, and may get it in one account.

    **Why it matters.** The name of a HyperPod cluster is unique in an account and Region: the second is
    refused.

    **Example.** `clusterName: prod` in two Cluster documents of us-east-1.

    **Fix.** Change `clusterName`, or set a different `account` in each.
    """
    named: dict[tuple[str, str], list[Cluster]] = {}
    for cluster in fleet.clusters:
        name = cluster.spec.cluster_name or naming.aws_name(fleet.name, cluster.name)
        same = named.setdefault((cluster.spec.region, name), [])
        other = next((other for other in same if _may_share_account(cluster, other)), None)
        if other is not None:
            first = other.place("spec", "clusterName")
            message = f"cluster {name} in {cluster.spec.region} is already defined at {first}"
            yield aws_name_clash.finding(
                cluster.place("spec", "clusterName"), message, "set another clusterName"
            )
        same.append(cluster)


@rule("HPF117", "Name in AWS too long")
def aws_name_length(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `<fleet>-<cluster>`, the name that the cluster gets in AWS, is longer than 63
    characters.

    **Why it matters.** The API refuses longer names.

    **Example.** A fleet and a cluster whose names have 35 characters each.

    **Fix.** Set a shorter `clusterName`, or shorten the name of the fleet or of the cluster.
    """
    for cluster in fleet.clusters:
        name = cluster.spec.cluster_name or naming.aws_name(fleet.name, cluster.name)
        if len(name) > service.MAX_CLUSTER_NAME:
            yield aws_name_length.finding(
                cluster.place("metadata", "name"),
                f"{name} has {len(name)} characters; AWS allows {service.MAX_CLUSTER_NAME}",
                "set spec.clusterName",
            )


@rule("HPF118", "Tag key that AWS reserves")
def reserved_tag(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A tag key begins with `aws:`.

    **Why it matters.** That prefix belongs to AWS; every call with such a tag is refused.

    **Example.** `tags: {aws:team: vision}`.

    **Fix.** Choose another key.
    """
    documents: list[FleetDocument | Cluster] = [fleet.document, *fleet.clusters]
    for document in documents:
        for key in document.spec.tags:
            if key.casefold().startswith("aws:"):
                place = document.place("spec", "tags", key)
                yield reserved_tag.finding(place, f"tag key {key} begins with aws:", "choose another key")


@rule("HPF119", "Too many tags")
def too_many_tags(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** The tags of the fleet and of a cluster are together more than 48.

    **Why it matters.** An AWS resource takes 50 tags, and subnets get two more: their name, and the mark by
    which load balancers find them.

    **Example.** 30 tags in the Fleet document and 30 others in a Cluster document.

    **Fix.** Remove some. A key that stands in both counts once.
    """
    for cluster in fleet.clusters:
        count = len({*fleet.document.spec.tags, *cluster.spec.tags})
        if count > service.MAX_TAGS:
            yield too_many_tags.finding(
                cluster.place("spec", "tags"),
                f"cluster {cluster.name} has {count} tags, those of the fleet included; allowed are"
                f" {service.MAX_TAGS}",
                f"remove {count - service.MAX_TAGS} tags",
            )


@rule("HPF120", "Shared environment without restricted groups")
def shared_environment_alone(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `restrictedInstanceGroupsConfig` is set, but the cluster has no restricted groups.

    **Why it matters.** It configures what those groups share; without them it has no effect.

    **Example.** The last restricted group was removed, its configuration was not.

    **Fix.** Remove `restrictedInstanceGroupsConfig`, or add `restrictedInstanceGroups`.
    """
    for cluster in fleet.clusters:
        if cluster.spec.restricted_instance_groups_config and not cluster.spec.restricted_instance_groups:
            yield shared_environment_alone.finding(
                cluster.place("spec", "restrictedInstanceGroupsConfig"),
                f"restrictedInstanceGroupsConfig is set, but cluster {cluster.name} has 0 restricted"
                " instance groups",
                "remove restrictedInstanceGroupsConfig",
            )


@rule("HPF121", "Region that the CloudFormation registry does not list", Severity.WARNING)
def region_not_listed(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** The CloudFormation registry, as of 2026-10-20, did not list a resource type that
    this cluster needs in its Region.

    **Why it matters.** If the list is right, the stack fails. It lags behind the service, so it may be wrong:
    the type's own description names Regions that the list lacks.

    **Example.** `governance: {owner: sagemaker, backend: native}` in us-west-2, for which
    ClusterSchedulerConfig was not listed.

    **Fix.** Ask with `aws cloudformation describe-type --type RESOURCE --type-name NAME --region REGION`. If
    it is missing, take another Region, or for governance `backend: auto`.
    """
    for cluster in fleet.clusters:
        needed = {"AWS::SageMaker::Cluster": service.CLUSTER_REGIONS}
        governance = cluster.spec.governance
        if governance and governance.owner == "sagemaker" and governance.backend == "native":
            needed["AWS::SageMaker::ClusterSchedulerConfig"] = service.SCHEDULER_CONFIG_REGIONS
            needed["AWS::SageMaker::ComputeQuota"] = service.COMPUTE_QUOTA_REGIONS
        region = cluster.spec.region
        missing = [name for name, regions in needed.items() if region not in regions]
        if missing:
            yield region_not_listed.finding(
                cluster.place("spec", "region"),
                f"the CloudFormation registry did not list {' and '.join(missing)} for {region} (2026-10-20)",
                f"ask: aws cloudformation describe-type --type RESOURCE --type-name {missing[0]} --region"
                f" {region}",
            )


@rule("HPF122", "Number of team stacks")
def team_stacks(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `governance.teamStacks` is not a power of two.

    **Why it matters.** Stacks are added by doubling, so that few teams change their stack when teams are
    added.

    **Example.** `teamStacks: 3`.

    **Fix.** Take 1, 2, 4, 8, 16, 32 or 64.
    """
    for cluster in fleet.clusters:
        governance = cluster.spec.governance
        if governance is not None and governance.team_stacks.bit_count() != 1:
            higher = 1 << governance.team_stacks.bit_length()
            yield team_stacks.finding(
                cluster.place("spec", "governance", "teamStacks"),
                f"teamStacks is {governance.team_stacks}, which is no power of two",
                f"take {higher // 2} or {higher}",
            )


@rule("HPF123", "The dependencies chart cannot reach the API server")
def chart_cannot_reach(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** The HyperPod dependencies chart is fetched and installed when deploying, by a build
    outside the VPC, and the EKS endpoint is private or open to some ranges only.

    **Why it matters.** The build cannot reach the API server, and without the chart HyperPod refuses the
    cluster.

    **Example.** `endpointPublicAccess: Disabled` without `dependencies`.

    **Fix.** Give the chart as a directory (`dependencies: {path: ...}`), installed from inside the VPC,
    or install it yourself and say `dependencies: {install: Disabled}`.
    """
    for cluster in fleet.clusters:
        eks = cluster.spec.orchestrator.eks
        if eks is None or eks.dependencies.install == "Disabled" or eks.dependencies.path is not None:
            continue
        private = eks.endpoint_public_access == "Disabled"
        if private or (eks.public_access_cidrs and eks.existing is None):  # else HPF126
            field = "endpointPublicAccess" if private else "publicAccessCidrs"
            closed = "private" if private else f"open to {', '.join(eks.public_access_cidrs or ())} only"
            yield chart_cannot_reach.finding(
                cluster.place("spec", "orchestrator", "eks", field),
                f"the EKS endpoint is {closed}, and the dependencies chart is installed from outside",
                "set dependencies.path to a directory with the chart, or dependencies.install to Disabled",
            )


@rule("HPF124", "One EKS cluster under two HyperPod clusters")
def eks_cluster_twice(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** Two Cluster documents of one Region name the same existing EKS cluster, and may be
    of one account.

    **Why it matters.** AWS maps a HyperPod cluster to an EKS cluster one to one. Nodes, charts and quotas of
    two would mix in it.

    **Example.** `existing: {clusterName: shared}` in two Cluster documents of us-east-1.

    **Fix.** Put the instance groups into one Cluster document, take another EKS cluster, or set a different
    `account` in each.
    """
    named: dict[tuple[str, str], list[Cluster]] = {}
    for cluster in fleet.clusters:
        eks = cluster.spec.orchestrator.eks
        if eks is None or eks.existing is None:
            continue
        name, path = eks.existing.cluster_name, (*_EKS, "existing", "clusterName")
        same = named.setdefault((cluster.spec.region, name), [])
        other = next((other for other in same if _may_share_account(cluster, other)), None)
        if other is not None:
            yield eks_cluster_twice.finding(
                cluster.place(*path),
                f"EKS cluster {name} in {cluster.spec.region} is already that of {other.place(*path)}",
                "put the instance groups into one Cluster document, or take another EKS cluster",
            )
        same.append(cluster)


@rule("HPF125", "Two access entries of one principal")
def principal_twice(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A role of `adminRoleArns` stands there twice, or is also in `access.principalArns`
    of a team with an allocation on the cluster.

    **Why it matters.** EKS takes one access entry for each principal; the second fails, and its stack with
    it.

    **Example.** `adminRoleArns: [arn:aws:iam::111111111111:role/ops]`, and the same role in a team.

    **Fix.** Keep one of them. An administrator needs no team to work in its namespace.
    """
    teams: dict[tuple[str, str], dict[str, None]] = {}
    for member in walk.members(fleet):
        for arn in member.team.spec.access.principal_arns:
            teams.setdefault((member.allocation.cluster, arn), {})[member.team.name] = None
    for cluster, eks in _new_eks(fleet):
        seen: set[str] = set()
        for index, arn in enumerate(eks.admin_role_arns):
            place = cluster.place(*_EKS, "adminRoleArns", index)
            members = [*teams.get((cluster.name, arn), ())] if cluster.spec.governance else []
            if arn in seen:
                message = f"{arn} stands twice in adminRoleArns; EKS takes one access entry for it"
                yield principal_twice.finding(place, message, "remove one of them")
            elif members:
                message = (
                    f"{arn} is also in principalArns of team {walk.listing(members)}; EKS takes one access"
                    " entry for it"
                )
                yield principal_twice.finding(place, message, "keep it in one of them")
            seen.add(arn)


@rule("HPF126", "A setting of a new EKS cluster on an existing one")
def new_eks_only(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `adminRoleArns` or `publicAccessCidrs` stands beside `existing`.

    **Why it matters.** Both are settings of an EKS cluster that is made here; on one that exists they have no
    effect.

    **Example.** `existing: {clusterName: shared}` with `publicAccessCidrs: [192.0.2.0/24]`.

    **Fix.** Remove it, and change the EKS cluster where it is made.
    """
    for cluster in fleet.clusters:
        eks = cluster.spec.orchestrator.eks
        if eks is None or eks.existing is None:
            continue
        given = {"adminRoleArns": eks.admin_role_arns, "publicAccessCidrs": eks.public_access_cidrs}
        for key in (key for key, values in given.items() if values):
            yield new_eks_only.finding(
                cluster.place(*_EKS, key),
                f"{key} is only of a new EKS cluster; {eks.existing.cluster_name} exists",
                f"remove {key}",
            )


@rule("HPF127", "Ranges of a public endpoint that there is not")
def cidrs_of_private_endpoint(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `publicAccessCidrs` is set beside `endpointPublicAccess: Disabled`.

    **Why it matters.** The ranges say who reaches the public endpoint. Without one it is unclear what was
    meant: a private endpoint, or a public one for these ranges.

    **Example.** `endpointPublicAccess: Disabled` with `publicAccessCidrs: [192.0.2.0/24]`.

    **Fix.** Remove one of the two.
    """
    for cluster, eks in _new_eks(fleet):
        if eks.endpoint_public_access == "Disabled" and eks.public_access_cidrs:
            yield cidrs_of_private_endpoint.finding(
                cluster.place(*_EKS, "publicAccessCidrs"),
                f"publicAccessCidrs has {len(eks.public_access_cidrs)} ranges, but endpointPublicAccess is"
                " Disabled",
                "remove publicAccessCidrs or endpointPublicAccess",
            )


@rule("HPF128", "A setting that the instance type does not have")
def not_of_the_type(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** `threadsPerCore` is none of the values that EC2 lists for an instance type of the
    group, or `networkInterface` asks for EFA on a type without it.

    **Why it matters.** The instances cannot be launched.

    **Example.** `threadsPerCore: 2` on ml.m7g.2xlarge, `networkInterface: {interfaceType: efa}` on
    ml.m5.2xlarge.

    **Fix.** Remove the setting, or take another instance type. `docs/catalog.md` says where the figures come
    from.
    """
    for cluster in fleet.clusters:
        for path, group in walk.groups(cluster):
            for key, value, names in _not_of_types(group):
                yield not_of_the_type.finding(
                    cluster.place(*path, *key),
                    f"{key[-1]} of group {group.name} is {value}, which {walk.listing(names)} does not have",
                    f"remove {key[0]}, or take another instance type",
                )


def _not_of_types(
    group: InstanceGroup | RestrictedInstanceGroup,
) -> Iterator[tuple[walk.Path, str | int, list[str]]]:
    """Settings of a group that some of its types lack: path, value and types. Unknown types are HPF101's."""
    found = {name: walk.known(name) for _, name in walk.instance_types(group)}
    kinds = [kind for kind in found.values() if kind is not None]
    threads = group.threads_per_core
    if threads is not None:
        listed = [kind for kind in kinds if kind.valid_threads_per_core]  # EC2 lists none for some
        if names := [kind.name for kind in listed if threads not in kind.valid_threads_per_core]:
            yield ("threadsPerCore",), threads, names
    interface = group.network_interface if isinstance(group, InstanceGroup) else None
    if interface is not None and (names := [kind.name for kind in kinds if not kind.efa_interfaces]):
        yield ("networkInterface", "interfaceType"), interface.interface_type, names


@rule("HPF129", "Two file systems at one path")
def mount_path_twice(fleet: Fleet) -> Iterator[Finding]:
    """**What it means.** A group mounts an FSx for Lustre and an FSx for OpenZFS at one path. Without
    `mountPath` that is `/fsx` for Lustre and `/home` for OpenZFS.

    **Why it matters.** The one that is mounted last hides the other.

    **Example.** A Lustre file system with `mountPath: /home` beside an OpenZFS file system without.

    **Fix.** Set another `mountPath` on one of them.
    """
    for cluster in fleet.clusters:
        for path, group in walk.groups(cluster):
            kinds: dict[str, str] = {}
            for below, kind, mount_path in _mounts(cluster, group):
                other = kinds.setdefault(mount_path.rstrip("/"), kind)
                if other != kind:  # two of one kind are HPF111's
                    yield mount_path_twice.finding(
                        cluster.place(*path, *below),
                        f"group {group.name} mounts FSx for {other} and FSx for {kind} at {mount_path}",
                        "set another mountPath on one of them",
                    )


def _new_eks(fleet: Fleet) -> Iterator[tuple[Cluster, Eks]]:
    for cluster in fleet.clusters:
        eks = cluster.spec.orchestrator.eks
        if eks is not None and eks.existing is None:
            yield cluster, eks


def _may_share_account(one: Cluster, other: Cluster) -> bool:
    accounts = {one.spec.account, other.spec.account}
    return len(accounts) == 1 or None in accounts


CONFIG = (
    unknown_instance_type,
    duplicate_group,
    no_group,
    other_orchestrator,
    kubernetes_version,
    restricted_excludes,
    auto_scaling_needs,
    taints_with_health_checks,
    unknown_file_system,
    duplicate_file_system,
    file_systems_per_group,
    ebs_volume,
    lustre_capacity,
    requirements_need_continuous,
    requirement_twice,
    aws_name_clash,
    aws_name_length,
    reserved_tag,
    too_many_tags,
    shared_environment_alone,
    region_not_listed,
    team_stacks,
    chart_cannot_reach,
    eks_cluster_twice,
    principal_twice,
    new_eks_only,
    cidrs_of_private_endpoint,
    not_of_the_type,
    mount_path_twice,
)
