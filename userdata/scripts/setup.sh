#!/bin/bash
# Makes this machine a node. systemd runs it at each boot, and again after a failure: each step looks
# at what is there before it acts. /etc/mcm has what differs between machines.
set -euo pipefail

readonly conf=/etc/mcm state=/var/lib/mcm run=/run/mcm
# shellcheck source=/dev/null
. "$conf/node.env"

log() { echo "mcm-setup: $*"; }
fail() { log "$*" >&2; exit 1; }

fips() {
  [ "$MCM_FIPS" != off ] || return 0
  [ "$(cat /proc/sys/crypto/fips_enabled 2>/dev/null)" != 1 ] || return 0
  [ "$MCM_FIPS" = enable ] || fail "FIPS mode is off; use an image in which it is on"
  [ ! -e "$state/fips-enabled" ] || fail "FIPS mode is off after a restart; look at fips-mode-setup --check"
  fips-mode-setup --enable
  touch "$state/fips-enabled"
  systemctl reboot
  exit 0
}

swap() {
  [ "$MCM_SWAP" = off ] || return 0
  swapoff --all
  [ ! -w /etc/fstab ] || sed -i -E '/^[^#].*[[:space:]]swap[[:space:]]/s/^/# mcm: /' /etc/fstab
}

kernel() {
  local module
  while read -r module; do
    modprobe "$module"
  done </etc/modules-load.d/90-mcm.conf
  sysctl --quiet --load=/etc/sysctl.d/90-mcm.conf
}

# fetch URL SHA256 TARGET leaves a file only if it has that sum.
fetch() {
  curl --fail --silent --show-error --location --retry 5 --connect-timeout 20 --output "$3.part" "$1"
  echo "$2  $3.part" | sha256sum --check --status || { rm -f "$3.part"; fail "$1 does not have sha256 $2"; }
  mv -f "$3.part" "$3"
}

# place NAME KIND FILE installs a download. A program that runs keeps its old file until it restarts.
place() {
  case $2 in
    archive) tar -xzf "$3" -C "$MCM_BIN" --no-same-owner --strip-components=1 ;;
    plugins) tar -xzf "$3" -C "$MCM_CNI" --no-same-owner ;;
    binary) install -m 0755 "$3" "$MCM_BIN/.$1" && mv -f "$MCM_BIN/.$1" "$MCM_BIN/$1" ;;
  esac
}

# present NAME SHA256 reports whether that download has been installed and is still there.
present() {
  local probe=$MCM_BIN/$1
  [ "$1" != cniPlugins ] || probe=$MCM_CNI/loopback
  [ -x "$probe" ] && [ "$(cat "$state/installed/$1" 2>/dev/null)" = "$2" ]
}

programs() {
  local name kind sum url
  while read -r name kind sum url; do
    present "$name" "$sum" && continue
    log "installing $name"
    mkdir -p "$MCM_BIN" "$MCM_CNI"
    fetch "$url" "$sum" "$state/$name"
    place "$name" "$kind" "$state/$name"
    echo "$sum" >"$state/installed/$name"
    rm -f "$state/$name"
    [ ! -x /usr/sbin/restorecon ] || /usr/sbin/restorecon -R "$MCM_BIN" "$MCM_CNI"
  done <"$conf/artifacts"
  local have
  have=$("$MCM_BIN/kubelet" --version)
  [ "$have" = "Kubernetes $MCM_KUBERNETES" ] || fail "the kubelet is $have, not $MCM_KUBERNETES; use another image"
}

source_of() { ip -o "$1" route get "$2" | sed -n 's/.* src \([^ ]*\).*/\1/p'; }

network() {
  if [ -e /run/systemd/resolve/resolv.conf ]; then
    printf '%s\n' 'apiVersion: kubelet.config.k8s.io/v1beta1' 'kind: KubeletConfiguration' \
      'resolvConf: /run/systemd/resolve/resolv.conf' >/etc/kubernetes/kubelet.conf.d/05-resolv.conf
  fi
  [ "$MCM_NODE_IP" = both ] || return 0
  local v4 v6
  v4=$(source_of -4 192.0.2.1)
  v6=$(source_of -6 2001:db8::1)
  [ -n "$v4" ] && [ -n "$v6" ] || fail "this machine has no address of both families yet"
  echo "MCM_NODE_IP_FLAG=--node-ip=$v4,$v6" >"$run/kubelet.env"
}

units() {
  local unit
  while read -r unit; do
    systemctl enable --now "$unit"
  done <"$conf/units-before"
}

mkdir -p "$state/installed" "$state/done" "$run" /etc/kubernetes/manifests /etc/cni/net.d
fips
swap
kernel
programs
network
systemctl daemon-reload
systemctl enable --now containerd.service
units
/bin/bash /opt/mcm/commands.sh before
systemctl start --no-block kubelet.service mcm-after-kubelet.service
log "done"
