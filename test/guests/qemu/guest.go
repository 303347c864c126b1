package qemu

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/guestcloud"
)

// Options are what a guest boots from.
type Options struct {
	// Name is the guest's, and its host name where the source of its boot data says so.
	Name string
	// Disk is one of the disks in the folder that Require returns; kernel and initrd lie beside it.
	Disk string
	// Mebibytes of memory; 0 is guestcloud.SmallMebibytes.
	Mebibytes int
	// Source is where the guest finds its boot data.
	Source Source
	// Addresses are those in the guest's network at which Listen is going to listen, besides
	// that of the metadata service.
	Addresses []string
	// Clock is what the guest's clock shows when it starts, as in 2006-01-02; "" is the present.
	Clock string
	// Kernel is added to the command line of the kernel.
	Kernel string
}

// Guest is a guest that runs until its test ends.
type Guest struct {
	testing.TB

	name, folder string
	process      *process.Process
}

// Require ends a test that needs guests as a skip that names what is missing, and returns the
// folder with their image.
func Require(t testing.TB) (image string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("guests need root: they have network namespaces of their own")
	}
	for _, program := range []string{
		"qemu-system-x86_64", "qemu-img", "genisoimage", "unshare", "setpriv", "ip",
	} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no guests here: %s is missing; test/guests/packages lists what to install", program)
		}
	}
	return guestcloud.Image(t)
}

// commandLine is of every guest's kernel. What is slow to emulate is off, and the console shows
// what the journal gets: that of a real machine has as much as its image lets through.
const commandLine = "root=/dev/vda rw console=ttyS0 mitigations=off apparmor=0 audit=0 quiet " +
	"systemd.show_status=false net.ifnames=0 nokaslr systemd.journald.forward_to_console=1 "

// Start starts a guest, which ends with the test.
func Start(t testing.TB, o Options) *Guest {
	t.Helper()
	g := &Guest{TB: t, name: o.Name, folder: t.TempDir()}
	if o.Mebibytes == 0 {
		o.Mebibytes = guestcloud.SmallMebibytes
	}
	g.must(g.command("qemu-img", "create", "-q", "-f", "qcow2", "-b", o.Disk, "-F", "qcow2", g.path("disk.qcow2")))
	var err error
	g.process, err = process.Start(process.Command{
		Name: g.name, Log: g.path("qemu.log"), Program: "unshare",
		Args: append([]string{"--net", "sh", "-c", inNetwork(o.addresses()), "sh"}, g.arguments(o)...),
	})
	g.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the console of %s ends:\n%s", g.name, g.Console()[max(len(g.Console())-32<<10, 0):])
		}
		_ = g.process.Kill()
	})
	g.must(g.process.AwaitReady(t.Context(), func(ctx context.Context) error { return g.serve(ctx, o.Source.metadata) }))
	for address, service := range o.Source.services {
		g.Serve(g.Listen(address+":80"), service)
	}
	return g
}

// addresses are all in the guest's network.
func (o Options) addresses() []string {
	return slices.Concat(o.Addresses, []string{metadataIP}, slices.Collect(maps.Keys(o.Source.services)))
}

// inNetwork is a shell script that runs QEMU, with its own arguments, where the host's end of the
// guest's network has these addresses.
func inNetwork(addresses []string) string {
	commands := []string{"ip link set lo up"}
	for _, address := range addresses {
		commands = append(commands, "ip address add "+address+"/32 dev lo")
	}
	return strings.Join(commands, " && ") + ` && exec nice -n 5 setpriv --pdeathsig KILL qemu-system-x86_64 "$@"`
}

// arguments are those of QEMU.
func (g *Guest) arguments(o Options) []string {
	args := append(g.hardware(o), o.Source.args(g)...)
	if o.Clock != "" {
		args = append(args, "-rtc", "base="+o.Clock)
	}
	return append(args, "-append", commandLine+o.Kernel)
}

// serve answers at the address of metadata services, or leaves it unanswered.
func (g *Guest) serve(ctx context.Context, metadata http.Handler) error {
	l, err := process.ListenIn(ctx, g.process.PID(), metadataIP+":80")
	if err != nil || metadata == nil {
		if err == nil {
			err = l.Close() // the network is there
		}
		return err
	}
	g.Serve(l, metadata)
	return nil
}

// Serve answers requests with a handler until the test ends.
func (g *Guest) Serve(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	g.Cleanup(func() { _ = server.Close() })
}

// Listen listens at one of the Addresses in the guest's network.
func (g *Guest) Listen(address string) net.Listener {
	g.Helper()
	l, err := process.ListenIn(g.Context(), g.process.PID(), address)
	g.must(err)
	g.Cleanup(func() { _ = l.Close() })
	return l
}

// hardware are the arguments of QEMU that do not depend on the boot data.
func (g *Guest) hardware(o Options) []string {
	accelerator := []string{"-accel", "tcg,thread=multi,tb-size=256", "-cpu", o.Source.processor("Nehalem")}
	if guestcloud.Accelerated(g) {
		accelerator = []string{"-accel", "kvm", "-cpu", o.Source.processor("host")}
	}
	return append(accelerator,
		"-name", o.Name, "-m", fmt.Sprint(o.Mebibytes), "-smp", "1", "-nodefaults", "-display", "none", "-no-user-config",
		"-device", "virtio-rng-pci", // the boot waits for randomness otherwise
		"-serial", "file:"+g.path("console"),
		"-chardev", "socket,path="+g.path("agent")+",server=on,wait=off,id=agent", "-device", "virtio-serial",
		"-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
		"-drive", "if=none,id=root,cache=unsafe,file="+g.path("disk.qcow2"),
		"-device", "virtio-blk-pci,drive=root,serial=root",
		"-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net",
		"-kernel", filepath.Join(filepath.Dir(o.Disk), "vmlinuz"),
		"-initrd", filepath.Join(filepath.Dir(o.Disk), "initrd"),
	)
}

func (g *Guest) path(file string) string { return filepath.Join(g.folder, file) }

func (g *Guest) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// command runs a program to its end.
func (g *Guest) command(program string, args ...string) error {
	out, err := exec.CommandContext(g.Context(), program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// Console is what the guest has written to its serial console so far.
func (g *Guest) Console() string {
	text, err := os.ReadFile(g.path("console"))
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
