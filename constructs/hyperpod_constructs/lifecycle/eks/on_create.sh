#!/bin/bash
# Set-up of an instance in an EKS-orchestrated cluster. The AMI brings everything that is needed; this script
# keeps a log and moves containerd's images to the large local disk. It downloads nothing.
set -euo pipefail
mkdir -p /var/log/provision
exec > >(tee -a /var/log/provision/provisioning.log) 2>&1
echo "on_create: start"

# Images of training jobs are larger than the root volume. The move is safe only before the first image.
if mountpoint -q /opt/sagemaker && [ -f /etc/eks/containerd/containerd-config.toml ]; then
  mkdir -p /opt/sagemaker/containerd/data-root
  sed -i -e "/^[# ]*root\s*=/c\root = \"/opt/sagemaker/containerd/data-root\"" \
    /etc/eks/containerd/containerd-config.toml
fi
echo "on_create: done"
