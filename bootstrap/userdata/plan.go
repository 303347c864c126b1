package userdata

import (
	_ "embed" // the scripts of a machine
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/content"
)

//go:embed scripts/setup.sh
var setupScript string

//go:embed scripts/commands.sh
var commandsScript string

//go:embed scripts/name.sh
var nameScript string

//go:embed scripts/after.sh
var afterScript string

// plan is what a valid spec brings onto a machine.
func (s *Spec) plan() (*content.Plan, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	p := &content.Plan{
		Comments: []string{
			"Boot data of a node, by the user data generator " + s.GeneratorVersion + " of cluster-api-provider-mcm.",
			fmt.Sprintf("%s %s, %s, Kubernetes %s, containerd %s", s.OperatingSystem.Name, s.OperatingSystem.Version,
				s.Architecture, s.KubernetesVersion, s.ContainerRuntime.Version),
		},
		Files: files, Units: s.units(), SSHKeys: s.SSH.AuthorizedKeys, Start: setupUnit,
	}
	if !s.OperatingSystem.usesDNF() {
		p.NTP = s.NTP.Servers
	}
	if s.Node.NameFrom == nameFromMachine {
		p.Hostname = machinePlaceholder
	}
	if s.Proxy != nil && s.OperatingSystem.usesAPT() {
		p.APTProxy = &content.APTProxy{HTTP: s.Proxy.HTTP, HTTPS: s.Proxy.HTTPS}
	}
	return p, nil
}

// packages are what the programs of a node, and of pods that use the host's network, call. setup.sh
// installs them: cloud-init would try once.
func (s *Spec) packages() []string {
	var names []string
	os, updates := s.OperatingSystem, s.System.Updates != updatesOff
	add := func(wanted bool, more ...string) {
		if wanted {
			names = append(names, more...)
		}
	}
	withBase := os.Packages.Base == baseDefault
	add(os.usesAPT() && withBase, "ca-certificates", "conntrack", "curl", "ethtool", "iptables", "kmod")
	// No curl: Amazon Linux has curl-minimal, which another curl conflicts with.
	add(os.usesDNF() && withBase, "ca-certificates", "conntrack-tools", "container-selinux", "ethtool",
		"iptables-nft", "kmod", "tar")
	add(os.usesAPT() && updates, "unattended-upgrades")
	add(os.usesDNF() && updates, "dnf-automatic")
	add(os.usesDNF() && len(s.NTP.Servers) > 0, "chrony")
	add(s.System.FIPS == fipsEnable, "crypto-policies-scripts")
	return append(names, os.Packages.Extra...)
}

// files are those of the generator in order of their purpose, then those of the spec.
func (s *Spec) files() ([]content.File, error) {
	files, err := s.ownFiles()
	if err != nil {
		return nil, err
	}
	for i := range s.Files {
		data, err := s.Files[i].content()
		if err != nil {
			return nil, err
		}
		mode, err := strconv.ParseInt(s.Files[i].Permissions, 8, 32)
		if err != nil {
			return nil, err
		}
		files = append(files, content.File{Path: s.Files[i].Path, Content: data, Mode: int(mode)})
	}
	return files, nil
}

func (s *Spec) ownFiles() ([]content.File, error) {
	kubelet, err := s.kubeletFiles()
	if err != nil {
		return nil, err
	}
	policies := slices.Concat(s.updateFiles(), s.proxyFiles(), s.timeFiles())
	return slices.Concat(s.scriptFiles(), s.confFiles(), kubelet, s.containerdFiles(), policies), nil
}

// ownPaths are the paths that files of a spec may not have: Ignition refuses a document that writes
// one twice, and cloud-init takes the last.
func ownPaths(s *Spec) []string {
	paths := []string{content.GeneratorPath}
	if s.Node.NameFrom == nameFromMachine {
		paths = append(paths, content.HostnamePath)
	}
	if len(s.NTP.Servers) > 0 {
		paths = append(paths, content.NTPPath)
	}
	files, err := s.ownFiles()
	if err != nil {
		return paths // what the kubelet does not read is found elsewhere
	}
	p := content.Plan{Units: s.units()}
	for _, file := range append(files, p.UnitFiles()...) {
		paths = append(paths, file.Path)
	}
	return paths
}

func text(path string, mode int, lines ...string) content.File {
	data := strings.Join(lines, "\n")
	if data != "" && !strings.HasSuffix(data, "\n") {
		data += "\n"
	}
	return content.File{Path: path, Mode: mode, Content: []byte(data)}
}

func (s *Spec) scriptFiles() []content.File {
	files := []content.File{
		text("/opt/mcm/setup.sh", 0o755, setupScript),
		text("/opt/mcm/commands.sh", 0o755, commandsScript),
		text("/opt/mcm/after.sh", 0o755, afterScript),
	}
	if s.Node.NameFrom == nameFromFullHostname {
		files = append(files, text(namePath, 0o755, nameScript))
	}
	for _, command := range s.Commands {
		files = append(files, text("/opt/mcm/commands/"+command.Name, 0o700, command.Script))
	}
	return files
}

// namePath is the script that finds the machine's full name; services have the files below as
// their configuration.
const (
	namePath             = "/opt/mcm/name.sh"
	proxyPath            = "/etc/mcm/proxy.env"
	chronyPath           = "/etc/chrony.conf"
	containerdConfigPath = "/etc/containerd/config.toml"
)

// confFiles are what the scripts read.
func (s *Spec) confFiles() []content.File {
	return []content.File{
		text("/etc/mcm/node.env", 0o644,
			"MCM_BIN="+s.kubeletDirectory(), "MCM_CNI="+s.pluginDirectory(), "MCM_KUBERNETES="+s.KubernetesVersion,
			"MCM_SWAP="+s.System.Swap, "MCM_FIPS="+s.System.FIPS, "MCM_NODE_IP="+s.nodeIP()),
		text("/etc/mcm/packages", 0o644, s.packages()...),
		text("/etc/mcm/artifacts", 0o644, s.artifactLines()),
		text("/etc/mcm/services", 0o644, s.services()...),
		text("/etc/mcm/units-before", 0o644, s.starts(beforeKubelet)...),
		text("/etc/mcm/units-after", 0o644, s.starts(afterKubelet)...),
		text("/etc/mcm/commands-before", 0o644, s.runs(beforeKubelet)...),
		text("/etc/mcm/commands-after", 0o644, s.runs(afterKubelet)...),
		text("/etc/modules-load.d/90-mcm.conf", 0o644, s.modules()...),
		text("/etc/sysctl.d/90-mcm.conf", 0o644, s.sysctls()...),
	}
}

// starts are the units that start before or after the kubelet.
func (s *Spec) starts(when string) []string {
	var names []string
	if when == beforeKubelet && s.System.Updates != updatesOff && s.OperatingSystem.usesDNF() {
		names = append(names, "dnf-automatic.timer")
	}
	for i := range s.Units {
		if s.Units[i].Start == when {
			names = append(names, s.Units[i].Name)
		}
	}
	return names
}

func (s *Spec) runs(when string) []string {
	var lines []string
	for _, command := range s.Commands {
		if command.When == when {
			lines = append(lines, command.Name+" "+command.Run)
		}
	}
	return lines
}

func (s *Spec) modules() []string {
	names := []string{"overlay", "br_netfilter"}
	for _, name := range s.System.KernelModules {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// sysctls are what kubelet and network plugins want, changed and completed by those of the spec.
func (s *Spec) sysctls() []string {
	values := map[string]string{
		"net.bridge.bridge-nf-call-iptables": "1", "net.bridge.bridge-nf-call-ip6tables": "1",
		"net.ipv4.ip_forward": "1", "vm.overcommit_memory": "1", "kernel.panic": "10", "kernel.panic_on_oops": "1",
		"fs.inotify.max_user_watches": "1048576", "fs.inotify.max_user_instances": "8192",
	}
	if s.Node.IPFamily != ipv4 {
		// A machine that forwards takes its routes from router advertisements only with 2.
		for _, which := range []string{"all", "default"} {
			values["net.ipv6.conf."+which+".forwarding"] = "1"
			values["net.ipv6.conf."+which+".accept_ra"] = "2"
		}
	}
	maps.Copy(values, s.System.Sysctls)
	lines := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, key+" = "+values[key])
	}
	return lines
}

// timeFiles are the configuration of chrony. cloud-init has none for Amazon Linux, nor for Rocky Linux
// before 24.4; on other systems it, or Ignition, configures the image's own service.
func (s *Spec) timeFiles() []content.File {
	if len(s.NTP.Servers) == 0 || !s.OperatingSystem.usesDNF() {
		return nil
	}
	var lines []string
	for _, server := range s.NTP.Servers {
		lines = append(lines, "server "+server+" iburst")
	}
	return []content.File{text(chronyPath, 0o644,
		append(lines, "driftfile /var/lib/chrony/drift", "makestep 1.0 3", "rtcsync")...)}
}

func (s *Spec) proxyFiles() []content.File {
	if s.Proxy == nil {
		return nil
	}
	hosts := []string{"localhost", "127.0.0.1", "::1", ".svc", "." + s.Cluster.DNSDomain}
	if u, err := url.Parse(s.Cluster.Endpoint); err == nil {
		hosts = append(hosts, u.Hostname())
	}
	hosts = append(hosts, s.Proxy.NoProxy...)
	var lines []string
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+"="+value, strings.ToLower(name)+"="+value)
		}
	}
	add("HTTP_PROXY", s.Proxy.HTTP)
	add("HTTPS_PROXY", s.Proxy.HTTPS)
	add("NO_PROXY", strings.Join(hosts, ","))
	files := []content.File{text(proxyPath, 0o600, lines...)}
	if s.OperatingSystem.usesDNF() {
		proxy := s.Proxy.HTTPS
		set(&proxy, s.Proxy.HTTP)
		file := text("/etc/dnf/dnf.conf", 0o644, "proxy="+proxy)
		file.Append = true
		files = append(files, file)
	}
	return files
}
