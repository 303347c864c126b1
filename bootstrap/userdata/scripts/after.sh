#!/bin/bash
# Runs what comes after the kubelet: once it is healthy. systemd tries again after a failure.
set -euo pipefail

curl --fail --silent --show-error --noproxy '*' --retry 60 --retry-delay 5 --retry-connrefused \
  --output /dev/null http://127.0.0.1:10248/healthz
while read -r unit; do
  systemctl enable --now "$unit"
done </etc/mcm/units-after
/bin/bash /opt/mcm/commands.sh after
