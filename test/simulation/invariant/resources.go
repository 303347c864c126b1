package invariant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// made reports whether a change is that a VM comes into being.
func made(before *sim.Resource, now sim.Resource) bool { return before == nil && now.VM != nil }

// ended reports whether a change is that a manager ends a VM.
func (c *Checker) ended(before *sim.Resource, now sim.Resource) bool {
	return before != nil && now.VM != nil && before.Deleting.IsZero() && !now.Deleting.IsZero() && now.GoneBy == c.Account
}

// keepsData reports whether a resource is a disk that was to outlive its VM when that was made.
func keepsData(r sim.Resource) bool { return r.Disk != nil && r.Disk.Keep && r.Disk.Used }

// keptDisksStay: no manager deletes a disk that was to outlive its VM, whatever classes say by then.
func keptDisksStay(c *Checker, before *sim.Resource, now sim.Resource, _ *Writer) error {
	if before == nil || !keepsData(now) || !before.Deleting.IsZero() || now.Deleting.IsZero() || now.GoneBy != c.Account {
		return nil
	}
	return fmt.Errorf("disk %s of %s is deleted, and was to outlive its VM", now.ID, now.Name())
}

// atMostOneVM: a machine never has two VMs.
func atMostOneVM(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	id := now.Tags[ownerTag]
	if !made(before, now) || w == nil || id == "" {
		return nil
	}
	for _, r := range c.resources {
		if r.ID != now.ID && r.VM != nil && r.Tags[ownerTag] == id && r.Deleting.IsZero() {
			return fmt.Errorf("machine %s (owner id %s) gets VM %s and has VM %s", now.Name(), id, now.ID, r.ID)
		}
	}
	return nil
}

// intentFirst: a VM is made only for a Machine that says who it is and holds on
// to what is made.
func intentFirst(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	id := now.Tags[ownerTag]
	if !made(before, now) || w == nil || tagged(now) {
		return nil
	}
	c.takeNewIdentity(id)
	m := c.machineOf(id)
	switch {
	case id == "":
		return fmt.Errorf("VM %s has no owner id", now.ID)
	case m == nil && !c.removed[id].Before(w.Began):
		return nil // it went while the request was on its way
	case m == nil:
		return fmt.Errorf("VM %s is made for owner id %s, which no Machine has", now.ID, id)
	case c.strippedSince(m, w):
		return nil // it was asked for before
	case m.Annotations[machinev1.OwnerIDAnnotation] != id || !slices.Contains(m.Finalizers, machinev1.Finalizer):
		return fmt.Errorf("VM %s is made for Machine %s before that has finalizer and owner id", now.ID, m.Name)
	}
	return nil
}

// takeNewIdentity is for a Machine that was stripped before it had a VM, and whose id nothing gives back: it has the
// id with which it asks for one.
func (c *Checker) takeNewIdentity(id string) {
	for _, m := range c.machines() {
		first := c.ownerID(m)
		if first == id || m.Annotations[machinev1.OwnerIDAnnotation] != id || c.stripped[m.UID].IsZero() {
			continue
		}
		if !slices.ContainsFunc(c.Cloud.VMs(), func(r sim.Resource) bool { return r.Tags[ownerTag] == first }) {
			c.identities[m.UID] = id
		}
	}
}

// noSecondVM: a Machine that has a providerID gets no VM any more.
func noSecondVM(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !made(before, now) || w == nil {
		return nil
	}
	m := c.machineOf(now.Tags[ownerTag])
	if m == nil || m.Spec.ProviderID == "" || !c.bound[c.ownerID(m)].Before(w.Began) {
		return nil
	}
	return fmt.Errorf("Machine %s has VM %s and gets VM %s", m.Name, m.Spec.ProviderID, now.ID)
}

// inZoneOfClass: a VM is made in a zone that its class names, and in the failure domain
// that its Machine asks for.
func inZoneOfClass(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !made(before, now) || w == nil || w.Late {
		return nil
	}
	key, asked := c.classAndZone(now, w)
	class, ok := w.Home.KindOf(&machinev1.MachineClass{}).Look(key).(*machinev1.MachineClass)
	if !ok {
		return nil
	}
	dropped, ever := c.dropped[key.Name+"/"+now.Zone]
	switch {
	case asked != "" && asked != now.Zone:
		return fmt.Errorf("VM %s is made in zone %s for Machine %s, which asks for %s", now.ID, now.Zone, now.Name(), asked)
	case slices.Contains(zonesOf(class), now.Zone), ever && !dropped.Before(w.Began.Add(-c.Lag)):
		return nil
	}
	return fmt.Errorf("VM %s is made in zone %s, which MachineClass %s does not name", now.ID, now.Zone, key.Name)
}

// classAndZone returns the class that a VM is made from, and the failure domain that its
// Machine asks for; both may be empty.
func (c *Checker) classAndZone(vm sim.Resource, w *Writer) (class types.NamespacedName, zone string) {
	if m := c.machineOf(vm.Tags[ownerTag]); m != nil && !tagged(vm) {
		return types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.Class.Name}, ""
	}
	for _, m := range mcmMachines(w.Home) {
		if c.mcmID(m) != vm.Tags[ownerTag] {
			continue
		}
		key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		if owner, ok := w.Home.KindOf(&clusterv1.Machine{}).Look(key).(*clusterv1.Machine); ok {
			zone = owner.Spec.FailureDomain
		}
		name := cmp.Or(m.Annotations[infrav1.MadeFromAnnotation], m.Spec.MachineClassRef.Name)
		return types.NamespacedName{Namespace: m.Namespace, Name: name}, zone
	}
	return types.NamespacedName{}, ""
}

// zonesOf are the zones that a class names.
func zonesOf(class *machinev1.MachineClass) []string {
	var spec struct {
		Zone  string   `json:"zone"`
		Zones []string `json:"zones"`
	}
	if json.Unmarshal(class.ProviderSpec.Raw, &spec) != nil {
		return nil
	}
	return append(spec.Zones, spec.Zone)
}

// confirmation is how long a machine that somebody else took away has to be absent
// before its VM is an orphan, less what requests take.
const confirmation = 45 * time.Second

// onlyOrphansCollected: a VM is ended only with its Machine, or without one for some time: it may
// have been taken away by hand, and come back. One that was being deleted may be taken away, or be
// restored to before its deletion, while a reconcile, which began before, is ending its VM. A set
// that was restored to before it had created a Machine creates the same one again, with that owner
// id: a collector that began before that cannot have known.
func onlyOrphansCollected(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !c.ended(before, now) || w == nil {
		return nil
	}
	id := now.Tags[ownerTag]
	m := c.machineOf(id)
	at, taken := c.taken[id]
	if underway := c.goingThen[id] && !w.Began.After(at); taken && c.Now().Sub(at) < confirmation && m == nil &&
		len(c.claimants(now)) == 0 && !underway {
		return fmt.Errorf("VM %s is ended although its machine was there until %s", now.ID, at.Format(time.TimeOnly))
	}
	if m == nil || !m.DeletionTimestamp.IsZero() || m.Spec.ProviderID != "" &&
		!strings.HasSuffix(m.Spec.ProviderID, "/"+now.ID) {
		return nil
	}
	if at, again := c.made[id]; again && !at.Before(w.Began) || c.wasDeleted(id, w.Began) {
		return nil
	}
	if m.Spec.ProviderID == "" && w.Controller == "machine" {
		return nil // its node's name was taken by an older one
	}
	return fmt.Errorf("VM %s is ended although it is that of Machine %s, which stays", now.ID, m.Name)
}

// drained: a VM is ended only when no pods are on its node, unless the user
// forces it, the drain took too long, or the node is not healthy.
func drained(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !c.ended(before, now) || w == nil {
		return nil
	}
	m := c.machineOf(now.Tags[ownerTag])
	if m == nil || m.DeletionTimestamp.IsZero() || m.Labels[machinev1.ForceDeletionLabel] != "" ||
		c.Now().Sub(m.DeletionTimestamp.Time) > c.DrainTimeout {
		return nil
	}
	node, ok := c.node(now.Name()).(*corev1.Node)
	if !ok || !strings.HasSuffix(node.Spec.ProviderID, "/"+now.ID) || c.ailed(node.Name) {
		return nil
	}
	for _, o := range c.Target.KindOf(&corev1.Pod{}).All() {
		if o.(*corev1.Pod).Spec.NodeName == node.Name {
			return fmt.Errorf("VM %s is ended although pod %s is on its node %s", now.ID, o.GetName(), node.Name)
		}
	}
	return nil
}
