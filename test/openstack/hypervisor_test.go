package openstack

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// guardVariable makes TestHypervisorEndsWithItsProcess the process that is killed.
const guardVariable = "HYPERVISOR_DIR"

// domain is a guest that has nothing to boot from.
const domain = `<domain type="qemu"><name>idle</name><memory unit="MiB">64</memory>
<os><type arch="x86_64" machine="pc">hvm</type></os></domain>`

// TestHypervisorEndsWithItsProcess: a rig that is killed leaves neither libvirt nor a
// guest behind, which otherwise outlives libvirt, too.
func TestHypervisorEndsWithItsProcess(t *testing.T) {
	if dir := os.Getenv(guardVariable); dir != "" {
		runUntilKilled(t, dir)
	}
	t.Parallel()
	RequireHypervisor(t)
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHypervisorEndsWithItsProcess$", "-test.v")
	child.Env = append(os.Environ(), guardVariable+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := awaitLine(bufio.NewScanner(out), "the guest runs"); err != nil {
		t.Fatal(err)
	}
	if running(t, dir) < 2 {
		t.Fatal("libvirt and QEMU are not found while they run, so that they are gone would prove nothing")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	Until(t, "libvirt and its guest end", func() bool { return running(t, dir) == 0 })
}

// runUntilKilled runs a hypervisor with a guest.
func runUntilKilled(t *testing.T, dir string) {
	t.Helper()
	r := newRig(address{settings: settings{
		Dir: dir, Ports: map[string]int{"keystone": 1, "glance": 2, "neutron": 3, "nova": 4, "placement": 5}, Zone: Zone,
		Options: Options{Hypervisor: true},
	}})
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	if err := r.startHypervisor(t.Context()); err != nil {
		t.Fatal(err, r.Logs())
	}
	file := dir + "/idle.xml"
	if err := os.WriteFile(file, []byte(domain), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.virsh(t.Context(), "create", file); err != nil {
		t.Fatal(err)
	}
	fmt.Println("the guest runs")
	<-context.Background().Done()
}

// awaitLine reads until a line.
func awaitLine(in *bufio.Scanner, line string) error {
	var all []string
	for in.Scan() {
		if in.Text() == line {
			return nil
		}
		all = append(all, in.Text())
	}
	return fmt.Errorf("it ended without %q: %s", line, strings.Join(all, "\n"))
}

// running counts the processes that have the files of a rig's libvirt mounted over the
// machine's, which only those of the hypervisor have.
func running(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, entry := range entries {
		mounts, err := os.ReadFile("/proc/" + entry.Name() + "/mountinfo")
		name, nameErr := os.ReadFile("/proc/" + entry.Name() + "/comm")
		if err != nil || nameErr != nil || !strings.Contains(string(mounts), dir+"/state/libvirt/run/libvirt ") {
			continue
		}
		if n := strings.TrimSpace(string(name)); n == "libvirtd" || strings.HasPrefix(n, "qemu-system") {
			found++
		}
	}
	return found
}
