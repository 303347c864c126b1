package kubevirttest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// What the played controllers note on objects.
const (
	pausedKey = "kubevirttest-paused"
	heldKey   = "kubevirttest-held" // KubeVirt's word for a VM that does not become better
	bootsKey  = "kubevirttest-boots"

	pausedAt = "metadata.annotations." + pausedKey
	heldAt   = "metadata.annotations." + heldKey

	finalizer        = "kubevirt.io/virtualMachineControllerFinalize"
	foreground       = "foregroundDeletion"
	launcherPrefix   = "virt-launcher-"
	consoleContainer = "guest-console-log"
)

// state is what a namespace has.
type state struct {
	vms, instances, volumes, pods []Object

	secrets map[string]bool
	changed bool
}

// Move lets those who act on objects do what there is to do, until nothing is left. It is what
// happens in a cluster within seconds.
func (n *Namespace) Move(ctx context.Context) error {
	n.moving.Lock()
	defer n.moving.Unlock()
	const most = 20
	for range most {
		changed, err := n.step(ctx)
		if err != nil || !changed {
			return err
		}
	}
	return errors.New("the played controllers come to no end")
}

// step does one thing about each object.
func (n *Namespace) step(ctx context.Context) (changed bool, err error) {
	s := &state{secrets: map[string]bool{}}
	var secrets []Object
	for path, into := range map[string]*[]Object{
		n.vms(): &s.vms, n.instances(): &s.instances, n.volumes(): &s.volumes, n.core("pods"): &s.pods,
		n.core("secrets"): &secrets,
	} {
		all, err := n.call(ctx, http.MethodGet, path, nil)
		if err != nil {
			return false, err
		}
		*into = all.items()
	}
	for _, secret := range secrets {
		s.secrets[secret.name()] = true
	}
	for _, vm := range s.vms {
		if err := n.control(ctx, s, vm); err != nil {
			return false, fmt.Errorf("VM %s: %w", vm.name(), err)
		}
	}
	return s.changed, n.collect(ctx, s)
}

// change makes a change and notes it. What has gone meanwhile, or was changed, is looked at again.
func (n *Namespace) change(ctx context.Context, s *state, method, path string, in Object) error {
	s.changed = true
	_, err := n.call(ctx, method, path, in)
	if code := status(err); code == http.StatusNotFound || code == http.StatusConflict {
		return nil
	}
	return err
}

func (n *Namespace) merge(ctx context.Context, s *state, collection, name string, in Object) error {
	return n.change(ctx, s, http.MethodPatch, collection+"/"+escape(name), in)
}

func (n *Namespace) remove(ctx context.Context, s *state, collection, name string) error {
	return n.change(ctx, s, http.MethodDelete, collection+"/"+escape(name), nil)
}

// named finds an object.
func named(all []Object, name string) Object {
	i := slices.IndexFunc(all, func(o Object) bool { return o.name() == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// control is what virt-controller does about a VM.
func (n *Namespace) control(ctx context.Context, s *state, vm Object) error {
	vmi := named(s.instances, vm.name())
	switch {
	case vm.going() && vmi != nil:
		return n.remove(ctx, s, n.instances(), vm.name())
	case vm.going():
		return n.release(ctx, s, n.vms(), vm, finalizer)
	case !slices.Contains(finalizers(vm), finalizer):
		return n.merge(ctx, s, n.vms(), vm.name(), Object{"metadata": Object{
			"finalizers": append(finalizers(vm), finalizer), "resourceVersion": vm.text("metadata.resourceVersion"),
		}})
	}
	if err := n.fill(ctx, s, vm); err != nil {
		return err
	}
	return n.run(ctx, s, vm, vmi)
}

// run lets a VM that is to run do so, and stops another one.
func (n *Namespace) run(ctx context.Context, s *state, vm, vmi Object) error {
	word := vm.text(heldAt)
	unready, failure := unready(s, vm)
	switch {
	case word == "ErrorUnschedulable":
		return n.show(ctx, s, vm, word, vmi != nil,
			condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available"))
	case word != "":
		return n.show(ctx, s, vm, word, vmi != nil)
	case vmi != nil && strategy(vm) == "RerunOnFailure" && vmi.text("status.phase") == "Failed" && !asked(vm):
		return n.change(ctx, s, http.MethodPatch, n.vms()+"/"+escape(vm.name())+"/status", Object{
			"status": Object{"stateChangeRequests": []Object{{"action": "Start"}}},
		})
	case vmi != nil && stops(vm, vmi):
		return n.remove(ctx, s, n.instances(), vm.name())
	case vmi != nil && ended(vmi):
		return n.show(ctx, s, vm, "Stopped", true)
	case vmi != nil:
		return n.boot(ctx, s, vm, vmi)
	case unready != "":
		return n.show(ctx, s, vm, unready, false, failure...)
	case !starts(vm):
		return n.show(ctx, s, vm, "Stopped", false)
	}
	return n.launch(ctx, s, vm)
}

// strategy is the runStrategy of a VM.
func strategy(vm Object) string {
	switch vm.at("spec.running") {
	case true:
		return "Always"
	case false:
		return "Halted"
	}
	return vm.text("spec.runStrategy")
}

func ended(vmi Object) bool {
	phase := vmi.text("status.phase")
	return phase == "Succeeded" || phase == "Failed"
}

// stops reports whether virt-controller removes the instance of a VM.
func stops(vm, vmi Object) bool {
	switch strategy(vm) {
	case "", "Halted":
		return true
	case "Always", "RerunOnFailure":
		return ended(vmi)
	}
	return false
}

// starts reports whether virt-controller makes an instance of a VM that has none.
func starts(vm Object) bool {
	switch strategy(vm) {
	case "Always", "Once":
		return true
	case "RerunOnFailure": // the first, and one that was asked for
		return asked(vm) || vm.text("status.runStrategy") != "RerunOnFailure"
	}
	return asked(vm)
}

// asked reports whether a VM is to be started by somebody's request.
func asked(vm Object) bool { return len(vm.list("status.stateChangeRequests")) > 0 }

// fill is what CDI does: it makes the volumes of a VM.
func (n *Namespace) fill(ctx context.Context, s *state, vm Object) error {
	for _, t := range vm.list("spec.dataVolumeTemplates") {
		if volume := named(s.volumes, t.name()); volume != nil {
			if err := n.imports(ctx, s, volume); err != nil {
				return err
			}
			continue
		}
		metadata := Object{"name": t.name(), "labels": t.at("metadata.labels"), "ownerReferences": owner(vm)}
		made := Object{
			"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": metadata, "spec": t.at("spec"),
		}
		if err := n.change(ctx, s, http.MethodPost, n.volumes(), made); err != nil {
			return err
		}
	}
	return nil
}

// launch makes the instance of a VM, and the pod in which it is to run.
func (n *Namespace) launch(ctx context.Context, s *state, vm Object) error {
	spec, _ := vm.at("spec.template.spec").(map[string]any)
	vmi := Object{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": Object{
			"name": vm.name(), "labels": vm.at("spec.template.metadata.labels"), "ownerReferences": owner(vm),
		},
		"spec": n.behaviour().connected(spec), "status": Object{"phase": "Scheduling"},
	}
	if err := n.change(ctx, s, http.MethodPost, n.instances(), vmi); err != nil {
		return err
	}
	return n.show(ctx, s, vm, "Starting", true)
}

// boot lets an instance run, once the Secret is there that it boots from.
func (n *Namespace) boot(ctx context.Context, s *state, vm, vmi Object) error {
	word, conditions := n.behaviour().held(s, vm)
	if word != "" && vmi.text("status.phase") != "Running" {
		return n.show(ctx, s, vm, word, true, conditions...)
	}
	if named(s.pods, launcherPrefix+vm.name()) == nil {
		return n.change(ctx, s, http.MethodPost, n.core("pods"), launcher(vmi))
	}
	word = "Starting"
	switch {
	case vmi.at(pausedAt) != nil:
		word = "Paused"
	case vmi.text("status.phase") == "Running":
		word = "Running"
	case s.secrets[secretOf(vm)] || secretOf(vm) == "":
		return n.merge(ctx, s, n.instances(), vm.name(), Object{"status": Object{
			"phase": "Running", "nodeName": "node-1", "interfaces": interfaces(vmi, n.lease(vm.name())),
		}})
	}
	return n.show(ctx, s, vm, word, true)
}

// lease is the number of a VM's addresses. They stay its own while it is off, as in a network that
// keeps leases; in one of pods it would get others.
func (n *Namespace) lease(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leases[name] == 0 {
		n.leases[name] = len(n.leases) + 1
	}
	return n.leases[name]
}

// launcher is the pod that an instance runs in.
func launcher(vmi Object) Object {
	container := func(name string) Object { return Object{"name": name, "image": "virt-launcher"} }
	return Object{
		"metadata": Object{
			"name":            launcherPrefix + vmi.name(),
			"labels":          Object{"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": vmi.text("metadata.uid")},
			"ownerReferences": owner(vmi),
		},
		"spec": Object{
			"automountServiceAccountToken": false,
			"containers":                   []Object{container("compute"), container(consoleContainer)},
		},
	}
}

// interfaces are those of an instance with their addresses.
func interfaces(vmi Object, serial int) []Object {
	const block = 200
	var all []Object
	for i, nic := range vmi.list("spec.domain.devices.interfaces") {
		ip := fmt.Sprintf("10.%d.%d.%d", i+1, serial/block, serial%block+1)
		all = append(all, Object{
			"name": nic.text("name"), "ipAddress": ip, "ipAddresses": []string{ip, fmt.Sprintf("fd00::%x:%x", i+1, serial)},
		})
	}
	return all
}

// secretOf is the name of the Secret that a VM boots from.
func secretOf(vm Object) string {
	for _, volume := range vm.list("spec.template.spec.volumes") {
		for _, format := range []string{"cloudInitNoCloud", "cloudInitConfigDrive"} {
			if name := volume.text(format + ".secretRef.name"); name != "" {
				return name
			}
		}
	}
	return ""
}

// show writes how far a VM is. Once an instance was made, it notes under which runStrategy, and what was asked for
// is done.
func (n *Namespace) show(ctx context.Context, s *state, vm Object, word string, created bool, notes ...Object) error {
	ready := condition("Ready", "False", "GuestNotRunning", "Guest VM is not reported as running")
	switch {
	case !created:
		ready = condition("Ready", "False", "VMINotExists", "VMI does not exist")
	case word == "Running":
		ready = condition("Ready", "True", "", "")
	}
	conditions := append([]Object{ready}, notes...)
	before := vm.list("status.conditions")
	if vm.text("status.printableStatus") == word && (vm.at("status.created") == true) == created &&
		same(conditions, before) {
		return nil
	}
	state := Object{
		"printableStatus": word, "created": created, "ready": word == "Running", "conditions": n.timed(conditions, before),
	}
	if created {
		state["runStrategy"], state["stateChangeRequests"] = strategy(vm), []Object{}
	}
	return n.change(ctx, s, http.MethodPatch, n.vms()+"/"+escape(vm.name())+"/status", Object{"status": state})
}

// collect is what the garbage collector does: what belongs to an object that has gone goes too, and
// an object that waits for what is its goes after that.
func (n *Namespace) collect(ctx context.Context, s *state) error {
	alive := map[string]bool{}
	for _, o := range slices.Concat(s.vms, s.instances) {
		alive[o.text("metadata.uid")] = !o.going() || !slices.Contains(finalizers(o), foreground)
	}
	waits := map[string]bool{}
	owned := map[string][]Object{n.instances(): s.instances, n.volumes(): s.volumes, n.core("pods"): s.pods}
	for path, all := range owned {
		for _, o := range all {
			by := ownerOf(o)
			if by == "" || alive[by] {
				continue
			}
			waits[by] = true
			if err := n.remove(ctx, s, path, o.name()); err != nil {
				return err
			}
		}
	}
	return n.finish(ctx, s, waits)
}

// finish lets those VMs go that nothing is left of; waits has the ids of the others.
func (n *Namespace) finish(ctx context.Context, s *state, waits map[string]bool) error {
	for _, vm := range s.vms {
		if vm.going() && !waits[vm.text("metadata.uid")] {
			if err := n.release(ctx, s, n.vms(), vm, foreground); err != nil {
				return err
			}
		}
	}
	return nil
}

// release takes a finalizer from an object.
func (n *Namespace) release(ctx context.Context, s *state, collection string, o Object, which string) error {
	left := slices.DeleteFunc(finalizers(o), func(name string) bool { return name == which })
	if len(left) == len(finalizers(o)) {
		return nil
	}
	return n.merge(ctx, s, collection, o.name(), Object{"metadata": Object{
		"finalizers": left, "resourceVersion": o.text("metadata.resourceVersion"),
	}})
}

func finalizers(o Object) []string {
	all, _ := o.at("metadata.finalizers").([]any)
	names := []string{}
	for _, name := range all {
		text, _ := name.(string)
		names = append(names, text)
	}
	return names
}

// ownerOf is the id of the object that another one goes with; empty if there is none.
func ownerOf(o Object) string {
	for _, by := range o.list("metadata.ownerReferences") {
		return by.text("uid")
	}
	return ""
}

// owner is a reference to an object that another one goes with.
func owner(o Object) []Object {
	return []Object{{
		"apiVersion": o.text("apiVersion"), "kind": o.text("kind"), "name": o.name(), "uid": o.text("metadata.uid"),
		"controller": true, "blockOwnerDeletion": true,
	}}
}
