#!/bin/bash
# Runs after the AMI has configured Slurm (extended mode). A non-zero exit fails the instance, so it only logs
# and checks. It downloads nothing.
set -euo pipefail
mkdir -p /var/log/provision
exec > >(tee -a /var/log/provision/provisioning.log) 2>&1
echo "on_init_complete: start"
if command -v scontrol > /dev/null; then
  scontrol --version
fi
echo "on_init_complete: done"
