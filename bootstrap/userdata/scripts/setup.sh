#!/bin/bash
# Makes this machine a node. systemd runs it at each boot, and again after a failure: each step looks
# at what is there before it acts. /etc/mcm has what differs between machines.
set -euo pipefail

readonly conf=/etc/mcm state=/var/lib/mcm run=/run/mcm
# shellcheck source=/dev/null
. "$conf/node.env"

log() { echo "mcm-setup: $*"; }
fail() { log "$*" >&2; exit 1; }

# packages installs what the spec lists, until that has succeeded once.
packages() {
  local names wait=DPkg::Lock::Timeout=600
  mapfile -t names <"$conf/packages"
  [ "${#names[@]}" -gt 0 ] && [ "${names[*]}" != "$(cat "$state/packages" 2>/dev/null)" ] || return 0
  log "installing packages"
  if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    dpkg --configure -a # where a restart has interrupted it
    apt-get -q -o "$wait" update
    apt-get -q -y -o "$wait" install "${names[@]}"
  else
    dnf -q -y install "${names[@]}"
  fi
  echo "${names[*]}" >"$state/packages"
}

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

# services starts units, and restarts those whose files are not those of their last start: an image
# may have started them before it had these.
services() {
  local unit files sum
  while read -r unit files; do
    # shellcheck disable=SC2086 # a list of words
    sum=$(cat -- $files | sha256sum)
    systemctl enable "$unit"
    if [ "$(cat "$state/started/$unit" 2>/dev/null)" = "$sum" ]; then
      systemctl start "$unit"
    else
      systemctl restart "$unit"
      echo "$sum" >"$state/started/$unit"
    fi
  done <"$conf/services"
}

units() {
  local unit
  while read -r unit; do
    systemctl enable --now "$unit"
  done <"$conf/units-before"
}

mkdir -p "$state/installed" "$state/started" "$state/done" "$run" /etc/kubernetes/manifests /etc/cni/net.d
packages
fips
swap
kernel
programs
network
rm -f /etc/systemd/system/multi-user.target.wants/kubelet.service # of an image that starts it at once
systemctl daemon-reload
services
units
/bin/bash /opt/mcm/commands.sh before
systemctl restart --no-block kubelet.service
systemctl start --no-block mcm-after-kubelet.service
log "done"
