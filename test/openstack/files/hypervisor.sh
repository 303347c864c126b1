#!/bin/bash
# hypervisor.sh DIR: libvirtd for the rig in DIR, with a network, a process tree, and files of its own, so
# that the machine's libvirt and networks stay as they are. Guests, bridges, and taps end with it, however
# it ends: the kernel kills a process namespace with its first process, and removes a network namespace
# with its last one.
set -euo pipefail
root=$1/state/libvirt

# What os-vif and libvirt read of the network is in /sys. This also hides the machine's cgroups.
umount -l /sys
mount -t sysfs sysfs /sys
ip link set lo up
for folder in /etc/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt /run/libvirt; do
  mkdir -p "$root$folder" "$folder"
  mount --bind "$root$folder" "$folder"
done

# No AppArmor, no virtlogd, no cgroups, and no owners but root: there is no systemd that would provide them.
cat >/etc/libvirt/qemu.conf <<'EOF'
user = "root"
group = "root"
security_driver = "none"
stdio_handler = "file"
cgroup_controllers = []
namespaces = []
remember_owner = 0
EOF
cat >/etc/libvirt/libvirtd.conf <<'EOF'
unix_sock_group = "root"
auth_unix_rw = "none"
auth_unix_ro = "none"
EOF

# The inner shell adopts what loses its parent, as an init does: QEMU detaches itself. The nice value goes
# down to the guests, which take all the processor time that they get.
setpriv --pdeathsig KILL unshare --pid --mount --fork --kill-child --mount-proc \
  bash -c 'nice -n 5 libvirtd --pid-file /run/libvirt/libvirtd.pid & wait'
