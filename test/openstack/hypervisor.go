package openstack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// hypervisorName is the host whose servers are guests of this machine.
const hypervisorName = "hypervisor"

// LibvirtURI is where libvirt listens.
func (s settings) LibvirtURI() string {
	return "qemu+unix:///system?socket=" + filepath.Join(s.Dir, "state/libvirt/run/libvirt/libvirt-sock")
}

// Helper is the command of Nova's that runs what needs privileges.
func (s settings) Helper() string {
	return fmt.Sprintf("/bin/sh %s --config-file %s", s.file("privsep.sh"), s.file("nova.conf"))
}

// startHypervisor starts libvirt in namespaces of its own, if the rig is to have it.
func (r *Rig) startHypervisor(ctx context.Context) (err error) {
	if !r.Hypervisor {
		return nil
	}
	r.guests, err = process.StartReady(ctx, process.Command{
		Name: hypervisorName, Program: "unshare", Args: []string{"--net", "--mount", "bash", r.file("hypervisor.sh"), r.Dir},
		Log: r.log(hypervisorName),
	}, func(ctx context.Context) error {
		_, err := r.virsh(ctx, "version")
		return err
	})
	if err != nil {
		return err
	}
	r.processes = append(r.processes, r.guests)
	return os.WriteFile(filepath.Join(r.Dir, "state", "hypervisor.pid"), fmt.Append(nil, r.guests.PID()), 0o600)
}

// virsh asks libvirt.
func (r *Rig) virsh(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", "virsh", append([]string{"--quiet", "--connect", r.LibvirtURI()}, args...)...)
}

// Domains are the names of all guests that libvirt knows, running or not.
func (r *Rig) Domains(ctx context.Context) ([]string, error) {
	out, err := r.virsh(ctx, "list", "--all", "--name")
	return strings.Fields(out), err
}

// PowerOff pulls the plug of the guest of a server; Nova is not asked.
func (r *Rig) PowerOff(ctx context.Context, server string) error {
	_, err := r.virsh(ctx, "destroy", server) // libvirt takes Nova's id for its own
	return err
}

// Console returns all that a server has written to its console, as an administrator sees it.
func (p *Project) Console(t testing.TB, id string) string {
	t.Helper()
	var out struct {
		Output string `json:"output"`
	}
	body := object{"os-getConsoleOutput": object{}}
	if err := p.Rig.admin.do(t.Context(), http.MethodPost, "nova/servers/"+id+"/action", body, &out); err != nil {
		t.Fatalf("console of server %s: %v", id, err)
	}
	return out.Output
}

// Console is what the guest of a server has written to its serial console.
func (r *Rig) Console(server string) string {
	text, err := os.ReadFile(filepath.Join(r.Dir, "state/nova/instances", server, "console.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Listen listens on an address in the network of the guests.
func (r *Rig) Listen(ctx context.Context, address string) (net.Listener, error) {
	return process.ListenIn(ctx, r.guests.PID(), address)
}

// Dial connects from within the network of the guests. The host of the address is an IP.
func (r *Rig) Dial(ctx context.Context, address string) (net.Conn, error) {
	return process.DialIn(ctx, r.guests.PID(), address)
}

// inNetwork is the beginning of commands that run in the network of the guests.
func (r *Rig) inNetwork() []string { return []string{"--net", "--target", fmt.Sprint(r.guests.PID())} }

// Taps are the guests' ends of the network of the project, as the bridge has them.
func (p *Project) Taps(ctx context.Context) ([]string, error) {
	out, err := run(ctx, "", "nsenter", append(p.Rig.inNetwork(), "ip", "-brief", "link", "show", "master", p.bridge())...)
	var names []string
	for line := range strings.Lines(out) {
		names = append(names, strings.Fields(line)[0])
	}
	return names, err
}

// bridge is the name that Nova gives to the bridge of the project's network.
func (p *Project) bridge() string { return "brq" + p.Network[:11] }

// Gateway puts this machine's end into the network of the guests: the gateway of the
// project's subnet, and more addresses that guests reach through it.
func (p *Project) Gateway(ctx context.Context, more ...string) error {
	commands := [][]string{
		{"link", "add", p.bridge(), "type", "bridge", "forward_delay", "0"},
		{"link", "set", p.bridge(), "up"},
	}
	for _, address := range slices.Concat([]string{"10.20.0.1/16"}, more) {
		commands = append(commands, []string{"address", "add", address, "dev", p.bridge()})
	}
	for _, command := range commands {
		if _, err := run(ctx, "", "nsenter", slices.Concat(p.Rig.inNetwork(), []string{"ip"}, command)...); err != nil {
			return err
		}
	}
	return nil
}

// Guest is an image of guests in Glance.
const Guest = "guest"

// commandLine is of the guests' kernel. The console is a file, and what is slow to
// emulate is off.
const commandLine = "root=/dev/vda rw console=ttyS0 mitigations=off apparmor=0 audit=0 quiet " +
	"systemd.show_status=false net.ifnames=0 nokaslr"

// AddGuest puts vmlinuz, initrd and disk.qcow2 of a folder into Glance, as Guest.
func (r *Rig) AddGuest(ctx context.Context, folder string) error {
	kernel, err := r.addImage(ctx, filepath.Join(folder, "vmlinuz"), object{
		"name": Guest + "-kernel", "disk_format": "aki", "container_format": "aki",
	})
	if err != nil {
		return err
	}
	initrd, err := r.addImage(ctx, filepath.Join(folder, "initrd"), object{
		"name": Guest + "-initrd", "disk_format": "ari", "container_format": "ari",
	})
	if err != nil {
		return err
	}
	r.Images[Guest], err = r.addImage(ctx, filepath.Join(folder, "disk.qcow2"), object{
		"name": Guest, "disk_format": "qcow2", "container_format": "bare", "architecture": "x86_64",
		"kernel_id": kernel, "ramdisk_id": initrd, "os_command_line": commandLine,
		"hw_machine_type": "pc", "hw_video_model": "none", "hw_rng_model": "virtio",
	})
	return err
}

// addImage makes a public image from a file.
func (r *Rig) addImage(ctx context.Context, file string, properties object) (string, error) {
	content, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer content.Close()
	properties["visibility"] = "public"
	var image struct {
		ID string `json:"id"`
	}
	if err := r.admin.do(ctx, http.MethodPost, "glance/images", properties, &image); err != nil {
		return "", err
	}
	return image.ID, r.admin.do(ctx, http.MethodPut, "glance/images/"+image.ID+"/file", content, nil)
}

// AddFlavor makes a flavor of guests.
func (r *Rig) AddFlavor(ctx context.Context, name string, processors, mebibytes int) (err error) {
	const disk = 4 // GiB, as the image has
	r.Flavors[name], err = r.admin.create(ctx, "nova", "/flavors", "flavor",
		object{"name": name, "vcpus": processors, "ram": mebibytes, "disk": disk})
	return err
}
