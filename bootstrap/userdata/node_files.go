package userdata

import (
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/content"
)

const caPath = "/etc/kubernetes/pki/ca.crt"

// kubeletFiles are its configuration, the user's drop-in, and what it bootstraps with.
func (s *Spec) kubeletFiles() ([]content.File, error) {
	config, err := yaml.Marshal(s.kubeletConfiguration())
	if err != nil {
		return nil, err
	}
	bootstrap, err := yaml.Marshal(s.bootstrapKubeconfig())
	if err != nil {
		return nil, err
	}
	files := []content.File{
		text(caPath, 0o644, s.Cluster.CACertificate),
		text("/etc/kubernetes/bootstrap-kubelet.conf", 0o600, string(bootstrap)),
		text("/etc/kubernetes/kubelet.yaml", 0o644, string(config)),
	}
	dropIn := kubeletKind()
	maps.Copy(dropIn, s.Kubelet.Configuration)
	data, err := yaml.Marshal(dropIn)
	if err != nil {
		return nil, err
	}
	return append(files, text("/etc/kubernetes/kubelet.conf.d/50-spec.conf", 0o644, string(data))), nil
}

func kubeletKind() map[string]any {
	return map[string]any{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
}

func (s *Spec) kubeletConfiguration() map[string]any {
	config := kubeletKind()
	maps.Copy(config, map[string]any{
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": caPath},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"cgroupDriver":             "systemd",
		"clusterDNS":               s.Cluster.DNSServiceIPs,
		"clusterDomain":            s.Cluster.DNSDomain,
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"failSwapOn":               s.System.Swap == swapOff,
		"rotateCertificates":       true,
		"staticPodPath":            "/etc/kubernetes/manifests",
	})
	if len(s.Node.Taints) > 0 {
		config["registerWithTaints"] = s.Node.Taints
	}
	return config
}

// bootstrapKubeconfig has the placeholder of a token that the manager makes for this machine alone.
func (s *Spec) bootstrapKubeconfig() map[string]any {
	const name = "bootstrap"
	named := func(key string, value map[string]any) []any { return []any{map[string]any{"name": name, key: value}} }
	return map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": named("cluster", map[string]any{"server": s.Cluster.Endpoint, "certificate-authority": caPath}),
		"users":    named("user", map[string]any{"token": tokenPlaceholder}),
		"contexts": named("context", map[string]any{"cluster": name, "user": name}),
	}
}

// containerdConfig reads version 3, which every containerd 2 does.
const containerdConfig = `version = 3

[plugins.'io.containerd.cri.v1.images']
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = '/etc/containerd/certs.d'
%s
[plugins.'io.containerd.cri.v1.runtime']
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    %s
    conf_dir = '/etc/cni/net.d'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = true
`

const containerdAuth = `    [plugins.'io.containerd.cri.v1.images'.registry.configs.%q.auth]
      username = %q
      password = %q
`

func (s *Spec) containerdFiles() []content.File {
	c := s.ContainerRuntime
	var auth strings.Builder
	for _, credential := range c.Credentials {
		fmt.Fprintf(&auth, containerdAuth, credential.Registry, credential.Username, credential.Password)
	}
	plugins := fmt.Sprintf("bin_dirs = [%q]", s.pluginDirectory())
	if strings.HasPrefix(c.Version, "2.0.") {
		plugins = fmt.Sprintf("bin_dir = %q", s.pluginDirectory())
	}
	config := fmt.Sprintf(containerdConfig, c.SandboxImage, auth.String(), plugins)
	files := []content.File{text(containerdConfigPath, 0o600, config)}
	for _, mirror := range c.Mirrors {
		files = append(files, mirrorFiles(mirror)...)
	}
	return files
}

// mirrorFiles are the hosts.toml of a registry and the certificates that it names.
func mirrorFiles(mirror Mirror) []content.File {
	folder := "/etc/containerd/certs.d/" + mirror.Registry
	var hosts strings.Builder
	switch mirror.Registry {
	case "_default": // each registry keeps its own server
	case "docker.io":
		fmt.Fprintf(&hosts, "server = %q\n", "https://registry-1.docker.io")
	default:
		fmt.Fprintf(&hosts, "server = %q\n", "https://"+mirror.Registry)
	}
	var files []content.File
	for i, endpoint := range mirror.Endpoints {
		fmt.Fprintf(&hosts, "\n[host.%q]\n  capabilities = ['pull', 'resolve']\n", endpoint.URL)
		if endpoint.OverridePath {
			hosts.WriteString("  override_path = true\n")
		}
		if endpoint.SkipVerify {
			hosts.WriteString("  skip_verify = true\n")
		}
		if endpoint.CACertificate != "" {
			path := fmt.Sprintf("%s/ca-%d.crt", folder, i)
			fmt.Fprintf(&hosts, "  ca = %q\n", path)
			files = append(files, text(path, 0o644, endpoint.CACertificate))
		}
	}
	return append(files, text(folder+"/hosts.toml", 0o644, hosts.String()))
}

// updateFiles are the operating system's own policy; nothing restarts a machine but its controllers.
func (s *Spec) updateFiles() []content.File {
	updates := s.System.Updates
	switch os := s.OperatingSystem; {
	case os.Name == flatcar:
		return []content.File{text("/etc/flatcar/update.conf", 0o644, "REBOOT_STRATEGY=off")}
	case os.usesAPT():
		return []content.File{text("/etc/apt/apt.conf.d/99mcm-updates", 0o644, aptPolicy(updates)...)}
	case updates != updatesOff:
		kind := map[string]string{updatesSecurity: "security", updatesAll: "default"}[updates]
		return []content.File{text("/etc/dnf/automatic.conf", 0o644, "[commands]", "upgrade_type = "+kind,
			"download_updates = yes", "apply_updates = yes", "[emitters]", "emit_via = stdio", "[base]", "debuglevel = 1")}
	}
	return nil
}

func aptPolicy(updates string) []string {
	enabled := "1"
	if updates == updatesOff {
		enabled = "0"
	}
	lines := []string{
		`APT::Periodic::Update-Package-Lists "` + enabled + `";`,
		`APT::Periodic::Unattended-Upgrade "` + enabled + `";`,
		`Unattended-Upgrade::Automatic-Reboot "false";`,
	}
	if updates == updatesAll {
		lines = append(lines, `Unattended-Upgrade::Origins-Pattern { "origin=*"; };`)
	}
	return lines
}
