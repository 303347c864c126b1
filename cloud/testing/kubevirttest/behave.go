package kubevirttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Phases of a DataVolume that tests name.
const (
	Importing      = "ImportInProgress"
	WaitsForUse    = "WaitForFirstConsumer"
	ImportFailed   = "Failed"
	ImportComplete = "Succeeded"
)

// Behaviour is how a namespace treats VMs. The zero value is the kindest: volumes are ready at once,
// quotas and nodes have room, and instances get a bridge in the network of pods.
type Behaviour struct {
	Volumes     string // the phase in which volumes stay; empty is ImportComplete
	ImportError string // what an importer has failed with, that is started again
	VolumeQuota string // how the API server refuses claims
	PodQuota    string // how the API server refuses pods
	NoNode      string // why the scheduler finds no node
	// NoNodeFor are VMs for which it finds none: those whose spec has this text; empty is all.
	NoNodeFor string

	Binding  string // defaultNetworkInterface of KubeVirt's configuration; empty is bridge
	NoBridge bool   // permitBridgeInterfaceOnPodNetwork is false
}

// Behave changes how the namespace treats VMs, which shows with the next Move.
func (n *Namespace) Behave(b Behaviour) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behaves = b
}

func (n *Namespace) behaviour() Behaviour {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.behaves
}

// admit is virt-api's admission of a new VM: nil if it has nothing against it.
func (n *Namespace) admit(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var vm Object
	if err := json.Unmarshal(body, &vm); err != nil || !n.behaviour().NoBridge {
		return nil, nil //nolint:nilnil,nilerr // it has no rule of its own to refuse; what is no VM is refused later
	}
	pods := map[string]bool{}
	for _, network := range vm.list("spec.template.spec.networks") {
		pods[network.text("name")] = network.at("pod") != nil
	}
	for _, nic := range vm.list("spec.template.spec.domain.devices.interfaces") {
		if nic.at("bridge") != nil && pods[nic.text("name")] {
			return refuse(http.StatusUnprocessableEntity, "Invalid",
				`admission webhook "virtualmachine-validator.kubevirt.io" denied the request: `+
					"Bridge on pod network configuration is not enabled under kubevirt-config"), nil
		}
	}
	return nil, nil //nolint:nilnil // there is no refusal
}

// connected returns the spec of an instance with the interface that it gets if its VM has none.
func (b Behaviour) connected(spec Object) Object {
	if len(spec.list("networks"))+len(spec.list("domain.devices.interfaces")) > 0 {
		return spec
	}
	binding := b.Binding
	if binding == "" {
		binding = "bridge"
	}
	spec["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}}}
	domain, _ := spec["domain"].(map[string]any)
	devices, _ := domain["devices"].(map[string]any)
	devices["interfaces"] = []any{map[string]any{"name": "default", binding: map[string]any{}}}
	return spec
}

// condition of an object.
func condition(kind, status, reason, message string) Object {
	return Object{"type": kind, "status": status, "reason": reason, "message": message}
}

// timed returns conditions with the times since when they are so.
func (n *Namespace) timed(conditions, before []Object) []Object {
	for _, c := range conditions {
		c["lastTransitionTime"] = n.Now().UTC().Format(time.RFC3339)
		for _, old := range before {
			if old.text("type") == c.text("type") && old.text("status") == c.text("status") {
				c["lastTransitionTime"] = old.at("lastTransitionTime")
			}
		}
	}
	return conditions
}

// same reports whether conditions say what others said before.
func same(conditions, before []Object) bool {
	said := func(all []Object) string {
		var b strings.Builder
		for _, c := range all {
			fmt.Fprintf(&b, "%q %q %q %q\n", c.text("type"), c.text("status"), c.text("reason"), c.text("message"))
		}
		return b.String()
	}
	return said(conditions) == said(before)
}

// imports is what CDI does about a volume: it brings it into the phase of the namespace's behaviour.
func (n *Namespace) imports(ctx context.Context, s *state, volume Object) error {
	b := n.behaviour()
	phase := b.Volumes
	var conditions []Object
	switch {
	case b.VolumeQuota != "":
		phase, conditions = "Pending", []Object{condition("Bound", "Unknown", "ErrExceededQuota", b.VolumeQuota)}
	case b.ImportError != "":
		conditions = []Object{condition("Running", "False", "Error", b.ImportError)}
		if phase == "" {
			phase = Importing
		}
	case phase == "":
		phase = ImportComplete
	}
	before := volume.list("status.conditions")
	now := volume.text("status.phase")
	if now == ImportComplete || now == ImportFailed || now == phase && same(conditions, before) {
		return nil
	}
	return n.change(ctx, s, http.MethodPatch, n.volumes()+"/"+escape(volume.name())+"/status", Object{
		"status": Object{"phase": phase, "conditions": n.timed(conditions, before)},
	})
}

// unready is virt-controller's word for a VM whose volumes keep its instance from being made, and what it notes
// about them; the word is empty if nothing does.
func unready(s *state, vm Object) (word string, failure []Object) {
	for _, t := range vm.list("spec.dataVolumeTemplates") {
		volume := named(s.volumes, t.name())
		for _, c := range volume.list("status.conditions") {
			switch c.text("reason") {
			case "ErrExceededQuota":
				return "Stopped", []Object{condition("Failure", "True", "FailedCreate", fmt.Sprintf(
					"Error encountered while creating DataVolumes: DataVolume %s importer is not running due to an error: %s",
					t.name(), c.text("message")))}
			case "Error":
				return "DataVolumeError", nil
			}
		}
		switch volume.text("status.phase") {
		case ImportComplete, WaitsForUse:
		case ImportFailed:
			return "DataVolumeError", nil
		default:
			word = "Provisioning"
		}
	}
	return word, nil
}

// mustJSON is a part of an Object as text.
func mustJSON(part any) string {
	text, err := json.Marshal(part)
	if err != nil {
		panic(err) // it came as JSON
	}
	return string(text)
}

// held is virt-controller's word for a VM whose instance does not run, and what it notes about that; empty if
// nothing keeps it from running.
func (b Behaviour) held(s *state, vm Object) (word string, conditions []Object) {
	switch {
	case b.PodQuota != "":
		return "Starting", []Object{condition("Synchronized", "False", "FailedCreate",
			"failed to create virtual machine pod: "+b.PodQuota)}
	case b.NoNode != "" && strings.Contains(mustJSON(vm.at("spec.template.spec")), b.NoNodeFor):
		return "ErrorUnschedulable", []Object{condition("PodScheduled", "False", "Unschedulable", b.NoNode)}
	}
	for _, t := range vm.list("spec.dataVolumeTemplates") {
		if named(s.volumes, t.name()).text("status.phase") == WaitsForUse {
			return "WaitingForVolumeBinding", nil
		}
	}
	return "", nil
}

// End lets the guest of a VM end, in phase Succeeded or Failed.
func (n *Namespace) End(ctx context.Context, name, phase string) error {
	_, err := n.call(ctx, http.MethodPatch, n.instances()+"/"+escape(name), Object{"status": Object{"phase": phase}})
	if err != nil {
		return err
	}
	return n.Move(ctx)
}

// Interfaces are those of the instance of a VM, as "name binding".
func (n *Namespace) Interfaces(ctx context.Context, name string) ([]string, error) {
	vmi, err := n.call(ctx, http.MethodGet, n.instances()+"/"+escape(name), nil)
	var all []string
	for _, nic := range vmi.list("spec.domain.devices.interfaces") {
		for _, binding := range []string{"bridge", "masquerade"} {
			if nic.at(binding) != nil {
				all = append(all, nic.text("name")+" "+binding)
			}
		}
	}
	return all, err
}

// Template is the part of a VM that its instances are made of.
func (n *Namespace) Template(ctx context.Context, name string) (Object, error) {
	vm, err := n.call(ctx, http.MethodGet, n.vms()+"/"+escape(name), nil)
	template, _ := vm.at("spec.template").(map[string]any)
	return template, err
}
