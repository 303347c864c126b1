package userdata

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptsParse: a mistake of the shell would show only on a machine. ShellCheck judges more, where
// it is installed.
func TestScriptsParse(t *testing.T) {
	t.Parallel()
	for _, name := range samples {
		for path, content := range read(t, generate(t, sample(t, name))).files {
			if !strings.HasPrefix(path, "/opt/mcm/") {
				continue
			}
			judge(t, "bash", string(content), "-n")
			if _, err := exec.LookPath("shellcheck"); err == nil {
				// SC2015: what follows "A && B ||" in these scripts ends them.
				judge(t, "shellcheck", string(content), "--shell=bash", "--exclude=SC2015", "-")
			}
		}
	}
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Log("shellcheck is not installed, so bash alone has judged")
	}
}

// TestCloudInitSchema: cloud-init warns of keys that it ignores, and the machine does not join.
func TestCloudInitSchema(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cloud-init"); err != nil {
		t.Skip("cloud-init is not installed; its schema judges where it is")
	}
	for _, name := range samples {
		if name == flatcar {
			continue
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, generate(t, sample(t, name)), 0o600); err != nil {
			t.Fatal(err)
		}
		judge(t, "cloud-init", "", "schema", "--config-file", file)
	}
}

// TestUnits: systemd reads the units without a complaint, but for programs that only a machine has.
func TestUnits(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed; it judges where it is")
	}
	files := read(t, generate(t, sample(t, "ubuntu"))).files
	dir := t.TempDir()
	for _, name := range ownUnits {
		if err := os.WriteFile(filepath.Join(dir, name), files["/etc/systemd/system/"+name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range ownUnits {
		cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", filepath.Join(dir, name))
		out, _ := cmd.CombinedOutput() // it fails for the programs
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, dir) && !strings.Contains(line, "is not executable") || strings.Contains(line, "Unknown") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func judge(t *testing.T, program, input string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s\n%s", program, strings.Join(args, " "), err, out, input)
	}
}

// disk is a machine's, below a folder of the test. Programs of the system are played and noted.
type disk struct {
	root string
	log  string
}

// newDisk writes the files of a spec whose downloads come from the disk itself.
func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{root: t.TempDir()}
	d.log = filepath.Join(d.root, "log")
	m := sample(t, "ubuntu")
	m.Spec.Artifacts.Containerd = d.archive(t, "containerd", "bin/containerd")
	m.Spec.Artifacts.CNIPlugins = d.archive(t, "cni", "./loopback")
	m.Spec.Artifacts.Runc = d.program(t, "runc", "#!/bin/sh\n")
	m.Spec.Artifacts.Kubelet = d.program(t, "kubelet", "#!/bin/sh\necho Kubernetes v1.36.3\n")
	for path, content := range read(t, generate(t, m)).files {
		text := string(content)
		if strings.HasPrefix(path, "/opt/mcm/") || path == "/etc/mcm/node.env" || path == "/etc/mcm/services" {
			text = d.below(text)
		}
		d.write(t, path, text, 0o700)
	}
	for _, name := range []string{"systemctl", "modprobe", "sysctl", "swapoff", "dpkg", "apt-get"} {
		d.write(t, "/bin/"+name, "#!/bin/sh\necho "+name+" \"$@\" >>"+d.log+"\n", 0o700)
	}
	return d
}

// below moves the paths of a script onto the disk.
func (d *disk) below(script string) string {
	for _, folder := range []string{"/etc/", "/var/lib/mcm", "/run/", "/opt/"} {
		for _, before := range []string{" ", "=", "<", ">", "\""} {
			script = strings.ReplaceAll(script, before+folder, before+d.root+folder)
		}
	}
	return script
}

func (d *disk) write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(d.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func (d *disk) program(t *testing.T, name, script string) Artifact {
	t.Helper()
	d.write(t, "/publisher/"+name, script, 0o700)
	sum := sha256.Sum256([]byte(script))
	return Artifact{SHA256: hex.EncodeToString(sum[:]), URL: "file://" + d.root + "/publisher/" + name, Version: "v1.0.0"}
}

func (d *disk) archive(t *testing.T, name, member string) Artifact {
	t.Helper()
	d.write(t, "/source/"+member, "#!/bin/sh\n", 0o700)
	d.write(t, "/publisher/"+name, "", 0o600)
	file := filepath.Join(d.root, "publisher", name)
	judge(t, "tar", "", "-czf", file, "-C", filepath.Join(d.root, "source"), member)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return Artifact{SHA256: hex.EncodeToString(sum[:]), URL: "file://" + file, Version: "v1.0.0"}
}

// run runs a script as systemd does, and returns what it printed.
func (d *disk) run(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{d.root + script}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+d.root+"/bin:"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestSetupIsIdempotent: a machine that restarts, with its publishers out of reach, becomes a node
// again and runs nothing twice.
func TestSetupIsIdempotent(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	first, err := d.run(t, "/opt/mcm/setup.sh")
	if err != nil {
		t.Fatalf("first boot: %v\n%s", err, first)
	}
	for _, want := range []string{"installing kubelet", "mcm-commands: hello"} {
		if !strings.Contains(first, want) {
			t.Errorf("first boot: no %q in:\n%s", want, first)
		}
	}
	for _, path := range []string{"/opt/bin/containerd", "/opt/bin/runc", "/opt/bin/kubelet", "/opt/cni/bin/loopback"} {
		if info, err := os.Stat(d.root + path); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.RemoveAll(d.root + "/publisher"); err != nil {
		t.Fatal(err)
	}
	second, err := d.run(t, "/opt/mcm/setup.sh")
	if err != nil || strings.Contains(second, "installing") || strings.Contains(second, "mcm-commands:") {
		t.Errorf("second boot: %v\n%s", err, second)
	}
	log, err := os.ReadFile(d.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"enable --now example.service", "restart --no-block kubelet.service", "enable containerd.service",
		"modprobe ip_vs_sh",
	} {
		if n := strings.Count(string(log), want+"\n"); n != 2 {
			t.Errorf("%q ran %d times in two boots:\n%s", want, n, log)
		}
	}
}

// TestServicesRestart: the image may have started containerd without its configuration. Once it has that,
// a restart of the script leaves it alone, until its files differ.
func TestServicesRestart(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	restarts := func() int {
		if out, err := d.run(t, "/opt/mcm/setup.sh"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		log, _ := os.ReadFile(d.log)
		return strings.Count(string(log), "systemctl restart containerd.service\n")
	}
	if first, again := restarts(), restarts(); first != 1 || again != 1 {
		t.Errorf("%d restarts after the first boot, %d after the second; want 1 and 1", first, again)
	}
	d.write(t, "/etc/containerd/config.toml", "version = 3\n", 0o600)
	if n := restarts(); n != 2 {
		t.Errorf("%d restarts after a change of the configuration; want 2", n)
	}
}

// TestPackagesAreTriedAgain: a mirror that is out of reach at the first boot must not leave a node without
// what pods need, and a package that is there is not asked for at each boot.
func TestPackagesAreTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	d.write(t, "/bin/apt-get", "#!/bin/sh\necho apt-get \"$@\" >>"+d.log+"\nexit 100\n", 0o700)
	if out, err := d.run(t, "/opt/mcm/setup.sh"); err == nil {
		t.Errorf("without its packages the machine goes on:\n%s", out)
	}
	if log, _ := os.ReadFile(d.log); strings.Contains(string(log), "kubelet") {
		t.Errorf("the kubelet starts:\n%s", log)
	}
	d.write(t, "/bin/apt-get", "#!/bin/sh\necho apt-get \"$@\" >>"+d.log+"\n", 0o700)
	for boot := range 2 {
		if out, err := d.run(t, "/opt/mcm/setup.sh"); err != nil {
			t.Errorf("try %d: %v\n%s", boot, err, out)
		}
	}
	log, _ := os.ReadFile(d.log)
	if n := strings.Count(string(log), " install "); n != 1 || !strings.Contains(string(log), " conntrack ") {
		t.Errorf("%d installations; want 1:\n%s", n, log)
	}
}

// TestWrongSum: a download that is not what the spec names is not installed, and no kubelet starts.
func TestWrongSum(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	d.write(t, "/publisher/runc", "something else", 0o700)
	out, err := d.run(t, "/opt/mcm/setup.sh")
	if err == nil || !strings.Contains(out, "does not have sha256") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(d.root + "/opt/bin/runc"); err == nil {
		t.Error("it is installed all the same")
	}
	if log, _ := os.ReadFile(d.log); strings.Contains(string(log), "kubelet") {
		t.Errorf("the kubelet starts:\n%s", log)
	}
}

// TestCommands: those that run once do not run again, the others do, and one that fails is tried again.
func TestCommands(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	d.write(t, "/var/lib/mcm/done/other", "", 0o600)
	d.write(t, "/etc/mcm/commands-before", "other once\nalways everyBoot\nfails once\n", 0o600)
	d.write(t, "/opt/mcm/commands/always", fmt.Sprintf("echo always >>%s\n", d.log), 0o700)
	d.write(t, "/opt/mcm/commands/fails", "exit 3\n", 0o700)
	for boot := range 2 {
		out, err := d.run(t, "/opt/mcm/commands.sh", "before")
		if err == nil || strings.Contains(out, "other") || !strings.Contains(out, "fails") {
			t.Errorf("boot %d: %v\n%s", boot, err, out)
		}
	}
	if log, _ := os.ReadFile(d.log); strings.Count(string(log), "always\n") != 2 {
		t.Errorf("ran:\n%s", log)
	}
}
