package openstack

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// packages are those of Debian that the rig needs. .ci/run installs them.
//
//go:embed packages
var packages string

// Require ends a test that needs the rig: with go test -short as a skip; where
// the packages are missing as a failure if CI is true and could install them,
// otherwise as a skip that says what to do.
func Require(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("a real OpenStack takes minutes to start: not with -short")
	}
	missing := missing()
	switch why := os.Getenv("OPENSTACK_NOT_INSTALLED"); {
	case missing == nil:
	case why != "":
		t.Skipf("%v: %s", missing, why)
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}

// hypervisorPrograms are what the option Hypervisor needs besides.
func hypervisorPrograms() []string {
	return []string{
		"libvirtd", "virsh", "qemu-system-x86_64", "qemu-img", "genisoimage", "privsep-helper",
		"unshare", "setpriv", "nsenter", "ip",
	}
}

// RequireHypervisor ends a test that needs guests as a skip that names what is missing.
func RequireHypervisor(t testing.TB) {
	t.Helper()
	Require(t)
	if os.Geteuid() != 0 {
		t.Skip("guests need root: they have namespaces, bridges and taps of their own")
	}
	for _, program := range hypervisorPrograms() {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no guests here: %s is missing; test/guests/packages lists what to install", program)
		}
	}
	if _, err := run(t.Context(), "", python, "-c", "import libvirt"); err != nil {
		t.Skip("no guests here: python3-libvirt is missing; test/guests/packages lists what to install")
	}
	if _, err := run(t.Context(), "", "unshare", "--net", "--mount", "--pid", "--fork", "true"); err != nil {
		t.Skipf("no guests here: they need namespaces of their own, which a container may not make: %v", err)
	}
}

// installed reports whether the packages are there.
func installed() bool { return missing() == nil }

// missing says what of the packages is not there.
func missing() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("OpenStack runs on Linux only, not on %s", runtime.GOOS)
	}
	var absent []string
	for _, program := range []string{
		python, mariadbd, "mariadb", "mariadb-install-db", "keystone-manage", "placement-manage", "glance-manage",
		"neutron-db-manage", "neutron-server", "nova-manage",
	} {
		if _, err := exec.LookPath(program); err != nil {
			absent = append(absent, program)
		}
	}
	if len(absent) > 0 {
		return fmt.Errorf("no OpenStack here: %s missing; as root: apt-get install --no-install-recommends %s",
			strings.Join(absent, ", "), strings.Join(strings.Fields(packages), " "))
	}
	return nil
}

// The programs that do not have to be on the path.
const (
	python   = "/usr/bin/python3"
	mariadbd = "/usr/sbin/mariadbd"
)
