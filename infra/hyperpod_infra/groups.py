"""Spell the instance groups of a resolved cluster as props of the construct library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hyperpod_config import model as config
from hyperpod_constructs import groups as props
from hyperpod_governance.model import Pool, ResolvedCluster

Mounts = Mapping[str, props.FsxLustreMount | props.FsxOpenZfsMount]
"""Mount of each file system that is created with the cluster, by its name in the config."""


def instance_groups(
    cluster: ResolvedCluster, mounts: Mounts, scripts: Mapping[str, str]
) -> list[props.InstanceGroup]:
    """Instance groups by name.

    Args:
        cluster: The cluster.
        mounts: File systems made with it.
        scripts: S3 prefix of each ``lifeCycleConfig.sourcePath`` that was uploaded.
    """
    by_name = {group.name: group for group in cluster.config.spec.instance_groups}
    return [_group(by_name[pool.name], pool, mounts, scripts) for pool in cluster.pools]


def _group(
    group: config.InstanceGroup, pool: Pool, mounts: Mounts, scripts: Mapping[str, str]
) -> props.InstanceGroup:
    capacity = group.capacity_requirements
    return props.InstanceGroup(
        name=group.name,
        instance_count=group.instance_count,
        instance_type=group.instance_type,
        instance_types=tuple(group.instance_requirements.instance_types)
        if group.instance_requirements
        else (),
        min_instance_count=group.min_instance_count,
        execution_role_arn=group.execution_role,
        threads_per_core=group.threads_per_core,
        storage=_storage(group, mounts),
        lifecycle=_lifecycle(group.life_cycle_config, scripts),
        on_start_deep_health_checks=tuple(group.on_start_deep_health_checks or ()),
        labels=pool.kubernetes_labels,
        taints=tuple(props.Taint(key=it.key, value=it.value, effect=it.effect) for it in pool.taints),
        training_plan_arn=group.training_plan_arn,
        network_interface=group.network_interface.interface_type if group.network_interface else None,
        capacity=("Spot" if capacity.spot is not None else "OnDemand") if capacity else None,
        override_vpc=_vpc(group.override_vpc_config),
        scheduled_update=_scheduled(group.scheduled_update_config),
        auto_patch=_patch(group.auto_patch_config),
        image_id=group.image_id,
        image_release_version=group.image_release_version,
        slurm=_slurm(group.slurm_config),
    )


def restricted_groups(cluster: ResolvedCluster, mounts: Mounts) -> list[props.RestrictedInstanceGroup]:
    """Restricted instance groups by name."""
    groups = sorted(cluster.config.spec.restricted_instance_groups, key=lambda group: group.name)
    return [
        props.RestrictedInstanceGroup(
            name=group.name,
            instance_count=group.instance_count,
            instance_type=group.instance_type,
            execution_role_arn=group.execution_role,
            threads_per_core=group.threads_per_core,
            storage=_storage(group, mounts),
            on_start_deep_health_checks=tuple(group.on_start_deep_health_checks or ()),
            training_plan_arn=group.training_plan_arn,
            override_vpc=_vpc(group.override_vpc_config),
            environment_lustre=_lustre(
                group.environment_config.fsx_lustre_config if group.environment_config else None
            ),
        )
        for group in groups
    ]


def restricted_config(cluster: ResolvedCluster) -> props.RestrictedGroupsConfig | None:
    """What the restricted groups share."""
    shared = cluster.config.spec.restricted_instance_groups_config
    if shared is None:
        return None
    environment = shared.shared_environment_config
    return props.RestrictedGroupsConfig(
        deletion_policy=environment.fsx_lustre_deletion_policy,
        shared_lustre=_lustre(environment.fsx_lustre_config),
    )


def local_scripts(cluster: ResolvedCluster, directory: Path) -> dict[str, Path]:
    """Directory of each ``lifeCycleConfig.sourcePath`` of a cluster, given the config directory."""
    found = (group.life_cycle_config for group in cluster.config.spec.instance_groups)
    paths = sorted({it.source_path for it in found if it is not None and it.source_path is not None})
    return {path: directory / path for path in paths}


def _storage(group: config.NodeGroup, mounts: Mounts) -> list[props.Storage]:
    return [_one_storage(item, mounts) for item in group.instance_storage_configs]


def _one_storage(item: config.InstanceStorageConfig, mounts: Mounts) -> props.Storage:
    if item.ebs_volume_config is not None:
        ebs = item.ebs_volume_config
        return props.EbsVolume(
            volume_size_in_gb=ebs.volume_size_in_gb,
            volume_kms_key_id=ebs.volume_kms_key_id,
            root_volume=bool(ebs.root_volume),
        )
    if item.fsx_lustre_config is not None:
        lustre = item.fsx_lustre_config
        return props.FsxLustreMount(
            dns_name=lustre.dns_name, mount_name=lustre.mount_name, **_mount_path(lustre.mount_path)
        )
    if item.fsx_open_zfs_config is not None:
        zfs = item.fsx_open_zfs_config
        return props.FsxOpenZfsMount(dns_name=zfs.dns_name, **_mount_path(zfs.mount_path))
    assert item.file_system is not None
    mount = mounts[item.file_system.name]
    changed = _mount_path(item.file_system.mount_path)
    if isinstance(mount, props.FsxLustreMount):
        return props.FsxLustreMount(
            dns_name=mount.dns_name,
            mount_name=mount.mount_name,
            **({"mount_path": mount.mount_path} | changed),
        )
    return props.FsxOpenZfsMount(dns_name=mount.dns_name, **({"mount_path": mount.mount_path} | changed))


def _mount_path(path: str | None) -> dict[str, str]:
    return {"mount_path": path} if path is not None else {}


def _lifecycle(
    life_cycle: config.LifeCycleConfig | None, scripts: Mapping[str, str]
) -> props.Lifecycle | None:
    if life_cycle is None:
        return None
    if life_cycle.bootstrap:
        return props.Lifecycle(mode="Bootstrap")
    source = scripts[life_cycle.source_path] if life_cycle.source_path else life_cycle.source_s3_uri
    if life_cycle.on_create is not None:
        return props.Lifecycle(mode="OnCreate", script=life_cycle.on_create, source_s3_uri=source)
    return props.Lifecycle(mode="OnInitComplete", script=life_cycle.on_init_complete, source_s3_uri=source)


def _vpc(override: config.VpcOverride | None) -> props.VpcOverride | None:
    if override is None:
        return None
    return props.VpcOverride(subnet_ids=override.subnets, security_group_ids=override.security_group_ids)


def _scheduled(update: config.ScheduledUpdateConfig | None) -> props.ScheduledUpdate | None:
    if update is None:
        return None
    return props.ScheduledUpdate(
        schedule_expression=update.schedule_expression, deployment=_deployment(update.deployment_config)
    )


def _patch(patch: config.AutoPatchConfig | None) -> props.AutoPatch | None:
    if patch is None:
        return None
    return props.AutoPatch(
        patching_strategy=patch.patching_strategy, deployment=_deployment(patch.deployment_config)
    )


def _deployment(deployment: config.DeploymentConfig | None) -> props.Deployment | None:
    if deployment is None:
        return None
    policy = deployment.rolling_update_policy
    return props.Deployment(
        maximum_batch_size=_batch(policy.maximum_batch_size) if policy else None,
        rollback_maximum_batch_size=_batch(policy.rollback_maximum_batch_size) if policy else None,
        wait_interval_in_seconds=deployment.wait_interval_in_seconds,
        auto_rollback_alarms=[alarm.alarm_name for alarm in deployment.auto_rollback_configuration or ()],
    )


def _batch(size: config.CapacitySize | None) -> props.BatchSize | None:
    return None if size is None else props.BatchSize(type=size.type, value=size.value)


def _lustre(size: config.FsxLustreSize | None) -> props.RestrictedLustre | None:
    if size is None:
        return None
    return props.RestrictedLustre(
        size_in_gib=size.size_in_gib, per_unit_storage_throughput=size.per_unit_storage_throughput
    )


def _slurm(slurm: config.SlurmConfig | None) -> props.SlurmGroup | None:
    if slurm is None:
        return None
    return props.SlurmGroup(node_type=slurm.node_type, partition_names=tuple(slurm.partition_names))
