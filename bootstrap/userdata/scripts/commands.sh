#!/bin/bash
# Runs the commands of the spec, in order: those for before or after the kubelet starts. One that runs
# once per machine leaves a file when it succeeds.
set -euo pipefail

while read -r name run; do
  stamp=/var/lib/mcm/done/$name
  [ "$run" = everyBoot ] || [ ! -e "$stamp" ] || continue
  echo "mcm-commands: $name"
  /bin/bash "/opt/mcm/commands/$name" </dev/null
  touch "$stamp"
done <"/etc/mcm/commands-$1"
