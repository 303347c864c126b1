package clouds

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/qemu"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// bootFile is what all boot data of these tests writes: the name of the machine.
const bootFile = "/etc/boot-data"

// boot is how a guest of a cloud finds its boot data, and boot data in one of the formats that
// cloud-init reads.
type boot struct {
	provider, format string
	userData         string
	source           func(*testing.T, backend, vm) qemu.Source
}

func boots() []boot {
	return []boot{
		{"AWS", "cloud-config that is compressed, since EC2 takes 16 KiB", cloudConfig + padding(), onEC2},
		{"Azure", "cloud-config", cloudConfig, onAzure},
		{"GCP", "a script that its author has compressed, which metadata takes in base64 only", compressed(hostname), onGCE},
		{"Hetzner", "a script", script, onHetzner},
		{"OpenStack", "a multipart archive of both", multipart, onOpenStack},
		{"vsphere", "a template of cloud-config", template, onVSphere},
	}
}

const (
	script      = "#!/bin/sh\necho '" + machinev1.MachineNamePlaceholder + "' >" + bootFile + "\n"
	hostname    = "#!/bin/sh\nhostname >" + bootFile + "\n"
	cloudConfig = "#cloud-config\nwrite_files:\n- {path: " + bootFile + ", content: \"" +
		machinev1.MachineNamePlaceholder + "\\n\"}\n"
	template = "## template: jinja\n#cloud-config\nwrite_files:\n- path: " + bootFile +
		"\n  content: |\n    {% if v1.cloud_name %}" + machinev1.MachineNamePlaceholder + "{% endif %}\n"
	multipart = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"part\"\n\n" +
		"--part\nContent-Type: text/cloud-config\n\n#cloud-config\nwrite_files: [{path: /etc/by-cloud-config}]\n\n" +
		"--part\nContent-Type: text/x-shellscript\n\n#!/bin/sh\nset -e\ntest -e /etc/by-cloud-config\n" +
		"echo '" + machinev1.MachineNamePlaceholder + "' >" + bootFile + "\n\n--part--\n"
)

// padding makes cloud-config longer than EC2 takes.
func padding() string {
	return "- path: /etc/padding\n  content: |\n" + strings.Repeat("    "+strings.Repeat("padding ", 12)+"\n", 200)
}

// compressed is text as gzip writes it.
func compressed(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text) // a Buffer takes everything
	_ = w.Close()
	return out.String()
}

func onEC2(_ *testing.T, _ backend, v vm) qemu.Source {
	return qemu.EC2(qemu.Server{ID: v.ID, Name: v.NodeName, UserData: v.UserData})
}

func onAzure(_ *testing.T, _ backend, v vm) qemu.Source {
	return qemu.Azure(v.NodeName, v.UserData)
}

func onGCE(_ *testing.T, _ backend, v vm) qemu.Source {
	return qemu.GCE(v.ID, v.NodeName, gce.Metadata(v.ID))
}

func onHetzner(_ *testing.T, _ backend, v vm) qemu.Source {
	return qemu.Hetzner(qemu.Server{ID: v.ID, Name: v.NodeName, UserData: v.UserData})
}

func onOpenStack(_ *testing.T, _ backend, v vm) qemu.Source {
	return qemu.OpenStack(qemu.Server{ID: v.ID, Name: v.NodeName, UserData: v.UserData})
}

func onVSphere(t *testing.T, b backend, v vm) qemu.Source {
	t.Helper()
	guests, err := b.(*vsphereCloud).Guests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guests {
		if g.ID == v.ID {
			return qemu.VMware(g.Guestinfo)
		}
	}
	t.Fatalf("vCenter has no VM %s", v.ID)
	return qemu.Source{}
}

// TestBootData has real guests boot from what each cloud has received for a machine, as the cloud's
// VMs get it: cloud-init finds it, reads its format, and ends without an error. Two boot at once,
// since the processor is emulated.
func TestBootData(t *testing.T) {
	t.Parallel()
	image := qemu.Require(t)
	s, _ := start(t)
	var all sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, b := range boots() {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(b.provider, func(t *testing.T) { bootAt(t, s, image, b) })
		})
	}
	all.Wait()
}

// bootAt makes a machine in a cloud and boots a guest as its VM.
func bootAt(t *testing.T, s *stack.Stack, image string, b boot) {
	t.Helper()
	j := newJourney(t, s, b.provider, backends()[b.provider](t))
	j.boots = map[string][]byte{machinev1.UserDataKey: []byte(b.userData)}
	v := j.oneVM()
	began := time.Now()
	g := qemu.Start(t, qemu.Options{
		Name: v.NodeName, Disk: filepath.Join(image, "plain.qcow2"), Source: b.source(t, j.cloud, v),
	})
	status, code := g.Run("cloud-init status --wait --long")
	t.Logf("%s from %s, %d bytes: cloud-init ended after %.0f s: %s", b.format, b.provider, len(v.UserData),
		time.Since(began).Seconds(), strings.Join(strings.Fields(status), " "))
	if code != 0 || !strings.Contains(status, "status: done") {
		t.Errorf("cloud-init ends with %d: %s", code, status)
	}
	machines, err := s.Machines(t.Context(), j.name)
	j.must(err)
	if found, _ := g.Run("cat " + bootFile); strings.TrimSpace(found) != machines[0].Name {
		t.Errorf("%s is %q, want the machine's name %s", bootFile, found, machines[0].Name)
	}
	j.noVM()
}

// oneVM makes a MachineDeployment of one and returns the VM that comes.
func (j *journey) oneVM() vm {
	j.Helper()
	j.makeClass(0)
	j.must(j.Client.Create(j.Context(), stack.Deployment(j.name, j.className(0), 1, "1", "0")))
	var vms []vm
	j.eventually("one VM runs", func(ctx context.Context) (err error) {
		if vms, err = j.cloud.VMs(ctx); err == nil && len(vms) != 1 {
			err = fmt.Errorf("%d VMs", len(vms))
		}
		return err
	})
	return vms[0]
}

// noVM deletes the MachineDeployment and waits until nothing is left.
func (j *journey) noVM() {
	j.Helper()
	d := stack.Deployment(j.name, j.className(0), 1, "1", "0")
	j.must(client.IgnoreNotFound(j.Client.Delete(j.Context(), d)))
	j.eventually("nothing is left", j.nothing)
}
