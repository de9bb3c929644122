"""FSx file systems for HyperPod instances."""

from typing import Literal

from aws_cdk import CfnTag, RemovalPolicy
from aws_cdk import aws_fsx as fsx
from constructs import Construct

from ._checks import check_range
from .groups import FsxLustreMount, FsxOpenZfsMount
from .network import HyperPodNetworkBase


class LustreFileSystem(Construct):
    """An FSx for Lustre file system (PERSISTENT_2, SSD) in the first node subnet.

    It uses the nodes' security group, whose self rules let Lustre's ports through.

    Args:
        network: where it lies.
        storage_capacity_in_gib: 1200, or a multiple of 2400 GiB.
        per_unit_storage_throughput: 125, 250, 500 or 1000 MB/s per TiB.
        data_compression: how data is compressed at rest.
        removal_policy: RETAIN (default) keeps the data when the stack goes.
        kms_key_id: key for the data. None: the service's key.

    Raises:
        ValueError: a size or throughput FSx does not offer.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: HyperPodNetworkBase,
        storage_capacity_in_gib: int = 1200,
        per_unit_storage_throughput: Literal[125, 250, 500, 1000] = 250,
        data_compression: Literal["LZ4", "NONE"] = "LZ4",
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
        kms_key_id: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        size = storage_capacity_in_gib
        if size != 1200 and (size < 2400 or size % 2400):
            raise ValueError(
                f"storage_capacity_in_gib is {size}: FSx for Lustre offers 1200 or multiples of 2400; round"
            )
        if per_unit_storage_throughput not in (125, 250, 500, 1000):
            raise ValueError(
                f"per_unit_storage_throughput is {per_unit_storage_throughput}: FSx offers 125, 250, 500 and "
                "1000 MB/s per TiB; choose one"
            )
        self.file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            subnet_ids=network.node_subnet_ids[:1],
            security_group_ids=network.security_group_ids,
            storage_capacity=size,
            storage_type="SSD",
            kms_key_id=kms_key_id,
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=per_unit_storage_throughput,
                data_compression_type=data_compression,
            ),
            tags=[CfnTag(key="Name", value=self.node.path)],
        )
        # FSx refuses a security group that does not let Lustre's port 988 through to itself yet.
        self.file_system.node.add_dependency(network)
        self.file_system.apply_removal_policy(removal_policy)

    def mount(self, mount_path: str = "/fsx") -> FsxLustreMount:
        """Give the storage config that mounts it at mount_path."""
        return FsxLustreMount(
            dns_name=self.file_system.attr_dns_name,
            mount_name=self.file_system.attr_lustre_mount_name,
            mount_path=mount_path,
        )


class OpenZfsFileSystem(Construct):
    """An FSx for OpenZFS file system (SINGLE_AZ_HA_2, SSD) in the first node subnet.

    Args:
        network: where it lies; it uses the nodes' security group.
        storage_capacity_in_gib: 64 to 524288 GiB.
        throughput_in_mbps: 160, 320, 640, 1280, 2560, 3840, 5120, 7680 or 10240 MB/s.
        removal_policy: RETAIN (default) keeps the data when the stack goes.
        kms_key_id: key for the data. None: the service's key.

    Raises:
        ValueError: a size or throughput FSx does not offer.
    """

    THROUGHPUTS = (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240)

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: HyperPodNetworkBase,
        storage_capacity_in_gib: int = 512,
        throughput_in_mbps: int = 320,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
        kms_key_id: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        check_range("storage_capacity_in_gib", storage_capacity_in_gib, 64, 524288)
        if throughput_in_mbps not in self.THROUGHPUTS:
            raise ValueError(
                f"throughput_in_mbps is {throughput_in_mbps}: FSx offers {list(self.THROUGHPUTS)}; choose one"
            )
        self.file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="OPENZFS",
            subnet_ids=network.node_subnet_ids[:1],
            security_group_ids=network.security_group_ids,
            storage_capacity=storage_capacity_in_gib,
            storage_type="SSD",
            kms_key_id=kms_key_id,
            open_zfs_configuration=fsx.CfnFileSystem.OpenZFSConfigurationProperty(
                deployment_type="SINGLE_AZ_HA_2",
                throughput_capacity=throughput_in_mbps,
                root_volume_configuration=fsx.CfnFileSystem.RootVolumeConfigurationProperty(
                    data_compression_type="LZ4",
                    nfs_exports=[_nfs_export()],
                ),
            ),
            tags=[CfnTag(key="Name", value=self.node.path)],
        )
        self.file_system.apply_removal_policy(removal_policy)

    def mount(self, mount_path: str = "/home") -> FsxOpenZfsMount:
        """Give the storage config that mounts it at mount_path."""
        return FsxOpenZfsMount(dns_name=self.file_system.attr_dns_name, mount_path=mount_path)


def _nfs_export() -> fsx.CfnFileSystem.NfsExportsProperty:
    # Who reaches it is up to the security group, so the export names every client; no_root_squash lets the
    # instances' set-up create home directories.
    client = fsx.CfnFileSystem.ClientConfigurationsProperty(
        clients="*", options=["rw", "crossmnt", "no_root_squash"]
    )
    return fsx.CfnFileSystem.NfsExportsProperty(client_configurations=[client])
