#!/bin/sh
# privsep.sh ARGUMENT...: Nova's helper for what needs privileges, in the network of the hypervisor.
exec nsenter --net --mount --target "$(cat "$(dirname "$0")/../state/hypervisor.pid")" privsep-helper "$@"
