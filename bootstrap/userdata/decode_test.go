package userdata

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestPlaceholders: the manager and this package mean the same texts.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	if tokenPlaceholder != machinev1.BootstrapTokenPlaceholder || machinePlaceholder != machinev1.MachineNamePlaceholder {
		t.Error("the manager would not fill in the placeholders")
	}
}

// TestRefusals: each mistake is named by its field, with what to do. A machine that was made from it
// would be found out only by its absence.
func TestRefusals(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "ubuntu.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, replacement, field, action string }{
		"unknown field":         {"  ntp:", "  ntpp:", `"spec.ntpp"`, "docs/userdata.md"},
		"another kind":          {"kind: MachineUserData", "kind: Secret", `"Secret"`, "write kind: MachineUserData"},
		"a field twice":         {"  ntp:", "  generatorVersion: v1\n  ntp:", "generatorVersion", "correct the YAML"},
		"generator":             {"generatorVersion: v1", "generatorVersion: v9", "spec.generatorVersion", "one of: v1"},
		"operating system":      {`version: "24.04"`, `version: "18.04"`, "spec.operatingSystem", "24.04 with 1.33 to 1.37"},
		"Kubernetes too new":    {"v1.36.3", "v1.99.0", "spec.operatingSystem", "choose one of"},
		"Kubernetes no version": {"v1.36.3", "1.36.3", "spec.kubernetesVersion", "v1.36.3"},
		"old containerd":        {"version: 2.3.7", "version: 1.7.1", "spec.containerRuntime.version", "2.3.7"},
		"new containerd":        {"version: 2.3.7", "version: 2.4.0", "spec.containerRuntime.version", "2.0 to 2.3"},
		"no checksum": {
			`runc: {version: v1.3.3, sha256: "`, `runc: {version: v1.3.3, url: "https://h/`, "spec.artifacts.runc.sha256",
			"publisher",
		},
		"bad checksum":         {`kubelet: {sha256: "1c`, `kubelet: {sha256: "XX`, "artifacts.kubelet.sha256", "64 digits"},
		"kubelet's field":      {"maxPods: 110", "maxPodz: 110", "spec.kubelet.configuration", "maxPodz"},
		"kubelet's type":       {"maxPods: 110", "maxPods: many", "spec.kubelet.configuration", "type"},
		"own field of kubelet": {"maxPods: 110", "clusterDomain: a.b", "clusterDomain", "spec.cluster.dnsDomain"},
		"restricted label": {
			"{example.com/pool: workers,", "{node-role.kubernetes.io/a: b,", "node-role", "node template",
		},
		"label of another domain": {
			"{example.com/pool: workers,", "{mynode.kubernetes.io/a: b,", "mynode", "node template",
		},
		"file that the format writes": {
			"path: /etc/example/name", "path: /etc/hostname", "spec.files[3].path", "another path",
		},
		"file that is a unit": {
			"path: /etc/example/name", "path: /etc/systemd/system/example.service", "spec.files[3].path", "another path",
		},
		"drop-in twice": {
			"    - name: 20-nice.conf\n", "    - {name: 20-nice.conf, content: a}\n    - name: 20-nice.conf\n",
			"spec.units[1].dropIns[1].name", "another name",
		},
		"placeholder beside a carriage return": {
			"    content: |\n      <<MACHINE_NAME>>", `    content: "<<MACHINE_NAME>>\r"`, "spec.files[3].content",
			"carriage return",
		},
		"taint's effect":     {"effect: NoSchedule", "effect: Never", "spec.node.taints[0].effect", "NoExecute"},
		"masked unit":        {"- name: example.service", "- name: apt-daily.timer", "spec.units[0].name", "remove it"},
		"path that is taken": {"path: /etc/example/name", "path: /opt/mcm/setup.sh", "spec.files[3].path", "another path"},
		"path that climbs":   {"path: /etc/example/name", "path: /etc/../name", "spec.files[3].path", `"/name"`},
		"command twice":      {"name: report", "name: hello", "spec.commands[1].name", "choose another"},
		"toml":               {"password: registry-pa55", `password: "a\nb"`, "credentials[0].password", "one line"},
		"no key":             {"- ssh-ed25519 ", "- secret ", "spec.ssh.authorizedKeys[0]", ".pub"},
		"endpoint":           {"endpoint: https://api", "endpoint: http://api", "spec.cluster.endpoint", "https"},
		"hidden placeholder": {
			"content: AAECAwQF/w==", "content: PDxNQUNISU5FX05BTUU+Pg==", "spec.files[2].content", "plain text",
		},
		"two documents": {"  ntp:", "---\nkind: Other\n  ntp:", "several documents", "a file of its own"},
	} {
		changed := bytes.Replace(data, []byte(c.old), []byte(c.replacement), 1)
		if bytes.Equal(changed, data) && c.old != c.replacement {
			t.Fatalf("%s: %q is not in the sample", name, c.old)
		}
		_, err := Decode(changed)
		if err == nil || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.action) {
			t.Errorf("%s: %v; want %s and %s", name, err, c.field, c.action)
		}
		if err != nil && strings.Contains(err.Error(), "pa55") {
			t.Errorf("%s: the message has a secret: %v", name, err)
		}
	}
}

// TestWhatSystemsCannotDo: a policy that an operating system ignores would look as if it were kept.
func TestWhatSystemsCannotDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sample string
		change func(*Spec)
		field  string
	}{
		"FIPS on Ubuntu":      {"ubuntu", func(s *Spec) { s.System.FIPS = fipsEnable }, "spec.system.fips"},
		"modules of RHEL 10":  {"rhel", func(s *Spec) { s.OperatingSystem.Version = "10" }, "spec.operatingSystem"},
		"security of Flatcar": {"flatcar", func(s *Spec) { s.System.Updates = updatesSecurity }, "spec.system.updates"},
		"packages of Flatcar": {"flatcar", func(s *Spec) {
			s.OperatingSystem.Packages.Extra = []string{"jq"}
		}, "packages.extra"},
		"downloads beside images": {"debian", func(s *Spec) {
			s.Artifacts.Preinstalled = &Preinstalled{"/usr/bin", "/usr/bin", "/opt/cni/bin"}
		}, "spec.artifacts"},
	} {
		m := sample(t, c.sample)
		c.change(&m.Spec)
		if err := m.Spec.validate(); err == nil || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPreinstalled: an image with the programs downloads nothing, and is asked for its kubelet's version. The
// drop-in of kubeadm's package would replace the kubelet's command line.
func TestPreinstalled(t *testing.T) {
	t.Parallel()
	m := sample(t, "debian")
	m.Spec.Artifacts = Artifacts{Preinstalled: &Preinstalled{"/usr/bin", "/usr/local/bin", "/usr/lib/cni"}}
	if err := m.Spec.validate(); err != nil {
		t.Fatal(err)
	}
	files := read(t, generate(t, m)).files
	if got := files["/etc/mcm/artifacts"]; len(got) > 0 {
		t.Errorf("it downloads %s", got)
	}
	for path, want := range map[string]string{
		"/etc/systemd/system/kubelet.service": "ExecStart=/usr/bin/kubelet", "/etc/mcm/node.env": "MCM_CNI=/usr/lib/cni",
		"/etc/containerd/config.toml":                           `bin_dirs = ["/usr/lib/cni"]`,
		"/etc/systemd/system/containerd.service":                "ExecStart=/usr/local/bin/containerd",
		"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": "#",
	} {
		if !bytes.Contains(files[path], []byte(want)) {
			t.Errorf("%s has no %s", path, want)
		}
	}
}

// TestMirrorOfDownloads: with a base URL, no machine asks a publisher.
func TestMirrorOfDownloads(t *testing.T) {
	t.Parallel()
	m := sample(t, "debian")
	m.Spec.Artifacts.BaseURL = "https://mirror.example.com/k8s/"
	got := string(read(t, generate(t, m)).files["/etc/mcm/artifacts"])
	if n := strings.Count(got, " https://mirror.example.com/k8s/"); n != 4 ||
		!strings.Contains(got, "/k8s/kubelet/v1.36.3/amd64/kubelet\n") {
		t.Errorf("%d of 4 downloads are from the mirror:\n%s", n, got)
	}
}

// TestMasked: what people print for reading has no secret, and says that no machine works with it.
func TestMasked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ubuntu", "rocky", "flatcar"} {
		m := sample(t, name)
		m.Spec.Files = append(m.Spec.Files, File{
			Path: "/k", Permissions: "0600", Content: "-----BEGIN PRIVATE KEY-----\npa55\n",
		})
		open, masked := read(t, generate(t, m)), read(t, generate(t, m.Masked()))
		count := func(machine machine) (n int) {
			for _, content := range machine.files {
				n += bytes.Count(content, []byte("pa55"))
			}
			return n
		}
		if count(open) == 0 || count(masked) > 0 || bytes.Contains(generate(t, m.Masked()), []byte("pa55")) {
			t.Errorf("%s: %d secrets, %d of them in what is masked", name, count(open), count(masked))
		}
		if count(read(t, generate(t, m))) != count(open) {
			t.Errorf("%s: masking has changed the spec", name)
		}
	}
}
