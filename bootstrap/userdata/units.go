package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/content"
)

// The units that the generator writes.
const (
	setupUnit      = "mcm-setup.service"
	afterUnit      = "mcm-after-kubelet.service"
	kubeletUnit    = "kubelet.service"
	containerdUnit = "containerd.service"
)

// setup is enabled; it starts the rest when it has succeeded, so that no kubelet runs on half a machine.
const setup = `[Unit]
Description=Make this machine a node
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
EnvironmentFile=-/etc/mcm/proxy.env
ExecStart=/bin/bash /opt/mcm/setup.sh
Restart=on-failure
RestartSec=15

[Install]
WantedBy=multi-user.target
`

const after = `[Unit]
Description=What comes after the kubelet
After=kubelet.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
EnvironmentFile=-/etc/mcm/proxy.env
ExecStart=/bin/bash /opt/mcm/after.sh
Restart=on-failure
RestartSec=15
`

const containerd = `[Unit]
Description=containerd
After=network.target local-fs.target

[Service]
EnvironmentFile=-/etc/mcm/proxy.env
Environment=PATH=%[1]s:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStartPre=-/sbin/modprobe overlay
ExecStart=%[1]s/containerd --config /etc/containerd/config.toml
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`

const kubelet = `[Unit]
Description=Kubernetes kubelet
Wants=containerd.service
After=containerd.service mcm-setup.service
StartLimitIntervalSec=0

[Service]
EnvironmentFile=-/etc/mcm/proxy.env
EnvironmentFile=-/run/mcm/kubelet.env
Environment=PATH=%[1]s:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=%[1]s/kubelet %[2]s
Restart=always
RestartSec=10
CPUAccounting=yes
MemoryAccounting=yes
`

// named finds the name before each start of the kubelet, which reads it from the file.
const named = `[Service]
EnvironmentFile=-/run/mcm/name.env
ExecStartPre=/bin/bash ` + namePath + `
`

// noKubeadm takes the place of the drop-in that kubeadm's packages have in /usr, which would replace the
// kubelet's command line.
const noKubeadm = "# Without kubeadm.\n"

// units are the generator's own, with the drop-ins of the spec, then those of the spec.
func (s *Spec) units() []content.Unit {
	list := []content.Unit{
		{Name: setupUnit, Content: setup, Enable: true},
		{Name: containerdUnit, Content: fmt.Sprintf(containerd, s.containerdDirectory())},
		s.kubeletUnit(),
		{Name: afterUnit, Content: after},
	}
	for _, name := range s.masked() {
		list = append(list, content.Unit{Name: name, Mask: true})
	}
	for i := range s.Units {
		unit := &s.Units[i]
		at := slices.IndexFunc(list, func(u content.Unit) bool { return u.Name == unit.Name })
		if at < 0 {
			at = len(list)
			list = append(list, content.Unit{Name: unit.Name, Content: unit.Content, Mask: unit.Mask})
		}
		for _, dropIn := range unit.DropIns {
			list[at].DropIns = append(list[at].DropIns,
				content.File{Path: dropIn.Name, Content: []byte(dropIn.Content), Mode: 0o644})
		}
	}
	return list
}

func (s *Spec) kubeletUnit() content.Unit {
	flags := strings.Join(s.kubeletFlags(), " \\\n  ")
	u := content.Unit{Name: kubeletUnit, Content: fmt.Sprintf(kubelet, s.kubeletDirectory(), flags)}
	if s.Artifacts.Preinstalled != nil {
		u.DropIns = append(u.DropIns, content.File{Path: "10-kubeadm.conf", Content: []byte(noKubeadm), Mode: 0o644})
	}
	if s.Node.NameFrom == nameFromFullHostname {
		u.DropIns = append(u.DropIns, content.File{Path: "10-mcm-name.conf", Content: []byte(named), Mode: 0o644})
	}
	return u
}

// services are /etc/mcm/services: units that setup.sh starts, each with the files that it reads.
func (s *Spec) services() []string {
	var lines []string
	for _, file := range s.timeFiles() {
		lines = append(lines, "chronyd.service "+file.Path)
	}
	words := []string{containerdUnit, containerdConfigPath}
	for _, unit := range s.units() {
		if unit.Name != containerdUnit {
			continue
		}
		for _, file := range unit.Files() {
			words = append(words, file.Path)
		}
	}
	if s.Proxy != nil {
		words = append(words, proxyPath)
	}
	return append(lines, strings.Join(words, " "))
}

// masked are units of the image that would get in the way.
func (s *Spec) masked() []string {
	var names []string
	updates := s.System.Updates
	switch os := s.OperatingSystem; {
	case os.Name == flatcar:
		// The docker of the image starts containerd with a configuration of its own.
		names = append(names, "docker.service", "docker.socket", "locksmithd.service")
		if updates == updatesOff {
			names = append(names, "update-engine.service")
		}
	case os.usesAPT() && updates == updatesOff:
		names = append(names, "apt-daily.timer", "apt-daily-upgrade.timer")
	case os.usesDNF() && updates == updatesOff:
		names = append(names, "dnf-automatic.timer")
	}
	return names
}

// kubeletDirectory has all programs, unless they are the image's.
func (s *Spec) kubeletDirectory() string {
	if p := s.Artifacts.Preinstalled; p != nil {
		return p.Directory
	}
	return binDirectory
}

func (s *Spec) containerdDirectory() string {
	if p := s.Artifacts.Preinstalled; p != nil {
		return p.ContainerdDirectory
	}
	return binDirectory
}

func (s *Spec) pluginDirectory() string {
	if p := s.Artifacts.Preinstalled; p != nil {
		return p.CNIDirectory
	}
	return cniDirectory
}

// kubeletFlags are what a KubeletConfiguration has no field for.
func (s *Spec) kubeletFlags() []string {
	flags := []string{
		"--config=/etc/kubernetes/kubelet.yaml",
		"--config-dir=/etc/kubernetes/kubelet.conf.d",
		"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
		"--kubeconfig=/var/lib/kubelet/kubeconfig",
		"--cert-dir=/var/lib/kubelet/pki",
	}
	if s.Node.CloudProvider == external {
		flags = append(flags, "--cloud-provider=external")
	}
	switch s.Node.NameFrom {
	case nameFromMachine:
		flags = append(flags, "--hostname-override="+machinePlaceholder)
	case nameFromFullHostname:
		flags = append(flags, "--hostname-override=${MCM_NODE_NAME}")
	}
	if s.Node.IPFamily == ipv6 {
		flags = append(flags, "--node-ip=::")
	}
	if s.nodeIP() == "both" {
		flags = append(flags, "$MCM_NODE_IP_FLAG")
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(s.Node.Labels)) {
		labels = append(labels, key+"="+s.Node.Labels[key])
	}
	if len(labels) > 0 {
		flags = append(flags, "--node-labels="+strings.Join(labels, ","))
	}
	return flags
}

// nodeIP is both where the machine itself has to find an address of each family; with a cloud provider
// the cloud controller manager writes them.
func (s *Spec) nodeIP() string {
	if s.Node.IPFamily == dual && s.Node.CloudProvider == none {
		return "both"
	}
	return "default"
}
