#!/bin/bash
# Finds the full name of this machine, by which the cloud controller manager of AWS finds it: that which
# the metadata service told cloud-init, otherwise that which the name servers know.
set -euo pipefail

name=$(cloud-init query ds.meta_data.local_hostname 2>/dev/null || true)
[[ $name == *.* ]] || name=$(hostname --fqdn)
[[ $name == *.* ]] || { echo "mcm-name: the full name of this machine is not known yet, only $name" >&2; exit 1; }
mkdir -p /run/mcm
echo "MCM_NODE_NAME=${name,,}" >/run/mcm/name.env
