package kubevirttest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Kinds of what a namespace has.
const (
	VM     = "vm"
	Volume = "volume"
	Secret = "secret"
)

// Thing is something in the namespace that somebody made.
type Thing struct {
	Kind, Name string
	Labels     map[string]string
	Created    time.Time
	Owned      bool // by a VM, so it goes with it
}

// Things are all VMs, volumes and Secrets, and instances whose VM has gone.
func (n *Namespace) Things(ctx context.Context) ([]Thing, error) {
	var all []Thing
	names := map[string]bool{}
	for _, at := range []struct{ kind, path string }{
		{VM, n.vms()}, {Volume, n.volumes()}, {Secret, n.core("secrets")}, {"instance", n.instances()},
	} {
		found, err := n.call(ctx, http.MethodGet, at.path, nil)
		if err != nil {
			return nil, err
		}
		for _, o := range found.items() {
			names[at.kind+o.name()] = true
			if at.kind == "instance" && names[VM+o.name()] {
				continue
			}
			created, _ := time.Parse(time.RFC3339, o.text("metadata.creationTimestamp"))
			all = append(all, Thing{at.kind, o.name(), o.labels(), created, len(o.list("metadata.ownerReferences")) > 0})
		}
	}
	return all, nil
}

// Put makes a VM, a volume or a Secret as somebody else would, or MCM's driver. A volume can be
// attached to a VM, as one of a persistent volume is.
func (n *Namespace) Put(ctx context.Context, t Thing, attachTo string) error {
	metadata := Object{"name": t.Name, "labels": t.Labels}
	path, made := n.vms(), Object{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": Object{
		"running": true,
		"template": Object{"metadata": Object{"labels": t.Labels}, "spec": Object{"domain": Object{"devices": Object{
			"interfaces": []Object{{"name": "default", "bridge": Object{}}},
		}}}},
	}}
	switch t.Kind {
	case Volume:
		path, made = n.volumes(), Object{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "spec": Object{}}
	case Secret:
		path, made = n.core("secrets"), Object{"data": Object{"userdata": "Iw=="}}
	}
	made["metadata"] = metadata
	if _, err := n.call(ctx, http.MethodPost, path, made); err != nil || attachTo == "" {
		return err
	}
	vm, err := n.call(ctx, http.MethodGet, n.vms()+"/"+escape(attachTo), nil)
	if err != nil {
		return err
	}
	volumes := append(vm.list("spec.template.spec.volumes"), Object{
		"name": t.Name, "dataVolume": Object{"name": t.Name, "hotpluggable": true},
	})
	_, err = n.call(ctx, http.MethodPatch, n.vms()+"/"+escape(attachTo), Object{
		"spec": Object{"template": Object{"spec": Object{"volumes": volumes}}},
	})
	return err
}

// Remove deletes a VM as somebody else would.
func (n *Namespace) Remove(ctx context.Context, vm string) error {
	_, err := n.call(ctx, http.MethodDelete, n.vms()+"/"+escape(vm), nil)
	return err
}

// Set brings a VM into a state, by KubeVirt's word for it, and lets it show. A DataVolumeError is that of a volume that
// has failed.
func (n *Namespace) Set(ctx context.Context, name, word string) error {
	collection, change := n.vms(), Object{"metadata": Object{"annotations": Object{heldKey: word}}}
	switch word {
	case "Stopped":
		vm, err := n.call(ctx, http.MethodGet, n.vms()+"/"+escape(name), nil)
		if err != nil {
			return err
		}
		change = Object{"spec": Object{"runStrategy": "Halted"}}
		if vm.at("spec.running") != nil {
			change = Object{"spec": Object{"running": false}}
		}
	case "DataVolumeError":
		failed := Object{"status": Object{"phase": ImportFailed}}
		path := n.volumes() + "/" + escape(name) + "/status"
		if _, err := n.call(ctx, http.MethodPatch, path, failed); err != nil {
			return err
		}
	case "Paused":
		collection, change = n.instances(), Object{"metadata": Object{"annotations": Object{pausedKey: "yes"}}}
	}
	if _, err := n.call(ctx, http.MethodPatch, collection+"/"+escape(name), change); err != nil {
		return err
	}
	return n.Move(ctx)
}

// UserData is what a VM boots with.
func (n *Namespace) UserData(ctx context.Context, name string) ([]byte, error) {
	vm, err := n.call(ctx, http.MethodGet, n.vms()+"/"+escape(name), nil)
	if err != nil {
		return nil, err
	}
	secret, err := n.call(ctx, http.MethodGet, n.core("secrets")+"/"+escape(secretOf(vm)), nil)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(secret.text("data.userdata"))
}

// Boots changes whenever a VM boots.
func (n *Namespace) Boots(ctx context.Context, name string) (string, error) {
	vmi, err := n.call(ctx, http.MethodGet, n.instances()+"/"+escape(name), nil)
	switch {
	case status(err) == http.StatusNotFound:
		return "off", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("%s %s", vmi.text("metadata.uid"), vmi.text("metadata.annotations."+bootsKey)), nil
}

// Console lets the guest of a VM write text to its console, and returns all that is there then.
func (n *Namespace) Console(name, text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.consoles[name] += text
	return n.consoles[name]
}

// Type makes an instance type.
func (s Server) Type(ctx context.Context, name string, cpus int, memory string) error {
	made := Object{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype",
		"metadata": Object{"name": name}, "spec": Object{"cpu": Object{"guest": cpus}, "memory": Object{"guest": memory}},
	}
	const types = "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes"
	_, err := s.call(ctx, http.MethodPost, types, made)
	if code := status(err); code == http.StatusConflict {
		return nil
	}
	return err
}

// Named returns a name that nothing has, which begins with a word.
func (n *Namespace) Named(word string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serial++
	return strings.ToLower(fmt.Sprintf("%s-%d", word, n.serial))
}
