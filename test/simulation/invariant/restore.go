package invariant

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// restoreRules are about what an API server does not know any more.
func restoreRules() []Rule {
	return []Rule{
		{Name: "NothingLostIsRemoved", Resource: nothingLostIsRemoved},
		{Name: "KeptVMsStay", Resource: keptVMsStay},
		{Name: "NodesOfOthersStay", Object: nodesOfOthersStay},
	}
}

// How many orphan VMs a collector may remove without asking: docs/operations.md.
const (
	fewOrphans   = 3
	orphansShare = 10
)

// decided is what persons have decided about orphans, by the cloud's ID of the VM.
type decided struct {
	approved map[string]bool
	kept     map[string]bool
}

// collects reports whether a reconcile is one of a collector of orphans.
func (w *Writer) collects() bool {
	return w != nil && (w.Controller == "machinesafetyorphanvms" || w.Controller == "mcmorphanvms")
}

// nothingLostIsRemoved: a collector removes no VM that has lost its machine by a restore
// where more have than can be expected of orphans, unless a person has approved it. Each
// restore counts by itself: a manager that has started does not know what was removed before.
func nothingLostIsRemoved(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !c.ended(before, now) || !w.collects() || c.orphaned[now.ID] == 0 || c.decided.approved[now.ID] {
		return nil
	}
	c.collected[now.ID] = true
	all, lost := 0, 0
	for id, r := range c.resources {
		if r.VM == nil {
			continue
		}
		if r.Deleting.IsZero() {
			all++
		}
		same := r.Tags[machinev1.ClusterIDTag] == now.Tags[machinev1.ClusterIDTag]
		if c.orphaned[id] == c.orphaned[now.ID] && same && (r.Deleting.IsZero() || c.collected[id]) && !c.settled(r) {
			lost++
		}
	}
	if lost <= max(fewOrphans, all/orphansShare) {
		return nil
	}
	return fmt.Errorf("VM %s is removed, one of %d that a restore does not know, and no person has approved that",
		now.ID, lost)
}

// settled reports whether a VM is none of those that wait for a decision.
func (c *Checker) settled(r sim.Resource) bool {
	return c.decided.approved[r.ID] || c.decided.kept[r.ID] || c.retained[r.Tags[ownerTag]]
}

// keptVMsStay: a collector removes no VM that a person keeps.
func keptVMsStay(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !c.ended(before, now) || !w.collects() || !c.decided.kept[now.ID] || c.decided.approved[now.ID] {
		return nil
	}
	return fmt.Errorf("VM %s is removed, and a person keeps it", now.ID)
}

// nodesOfOthersStay: a manager deletes no Node whose VM runs, unless that is the VM of a
// machine that is being deleted.
func nodesOfOthersStay(c *Checker, change apiserver.Change, w *Writer) error {
	node, ok := change.Old.(*corev1.Node)
	stays := change.New != nil && change.New.GetDeletionTimestamp().IsZero()
	if !ok || w == nil || stays || !node.DeletionTimestamp.IsZero() {
		return nil
	}
	id := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
	vm, known := c.resources[id]
	if !known || vm.VM.State != sim.StateRunning || !vm.Deleting.IsZero() {
		return nil
	}
	if m := c.machineOf(vm.Tags[ownerTag]); m != nil && !m.DeletionTimestamp.IsZero() {
		return nil
	}
	return fmt.Errorf("Node %s is deleted, and its VM %s runs", node.Name, id)
}

// noteDecisions remembers what the classes say that persons have decided.
func (c *Checker) noteDecisions() {
	clear(c.decided.kept)
	for _, s := range c.Homes {
		for _, o := range s.KindOf(&machinev1.MachineClass{}).All() {
			for _, id := range machinev1.OrphanIDs(o.GetAnnotations()[machinev1.ApprovedOrphansAnnotation]) {
				c.decided.approved[id] = true
			}
			for _, id := range machinev1.OrphanIDs(o.GetAnnotations()[machinev1.KeptOrphansAnnotation]) {
				c.decided.kept[id] = true
			}
		}
	}
}

// noteReturn remembers that a VM has a machine again: what becomes of it then is not because
// of a restore.
func (c *Checker) noteReturn(owner string) {
	for id := range c.orphaned {
		if c.resources[id].Tags[ownerTag] == owner {
			delete(c.orphaned, id)
		}
	}
}

// memory is what an API server knew before it was restored.
type memory struct {
	machines map[string]client.Object // by owner id
	owned    map[string]bool          // VMs
	nodes    map[string]bool          // by name; true: unhealthy
}

func (c *Checker) remember() memory {
	m := memory{machines: map[string]client.Object{}, owned: map[string]bool{}, nodes: map[string]bool{}}
	for _, o := range c.machines() {
		m.machines[c.ownerID(o)] = o
	}
	for _, s := range c.Homes {
		for _, o := range mcmMachines(s) {
			m.machines[c.mcmID(o)] = o
		}
	}
	for id, r := range c.resources {
		if _, found := c.known(r); found && r.VM != nil && r.Deleting.IsZero() {
			m.owned[id] = true
		}
	}
	for _, k := range c.Target.Kinds() {
		if k.GVK.Kind != "Node" {
			continue
		}
		for _, o := range k.All() {
			m.nodes[o.GetName()] = !c.Health(o.GetName())
		}
	}
	return m
}

// Restored has an API server restored, and takes note of what it does not know any more, or
// knows again. It returns the Machines of the native API that it does not know any more.
func (c *Checker) Restored(s *apiserver.Server, restore func()) (lost []*machinev1.Machine) {
	c.restores++
	before := c.remember()
	zones := c.zonesNow(s)
	restore()
	after := c.remember()
	for id, o := range before.machines {
		if after.machines[id] == nil {
			c.removed[id], c.taken[id], c.goingThen[id] = c.Now(), c.Now(), !o.GetDeletionTimestamp().IsZero()
			if m, native := o.(*machinev1.Machine); native {
				lost = append(lost, m)
			}
		}
	}
	for id, o := range after.machines {
		if before.machines[id] == nil {
			delete(c.removed, id)
			delete(c.taken, id)
			c.noteReturn(id)
		}
		if o.GetDeletionTimestamp().IsZero() {
			c.undelete(id)
		}
		delete(c.left, o.GetUID())
		delete(c.ceased, o.GetUID())
	}
	for id := range before.owned {
		if !after.owned[id] {
			c.orphaned[id] = c.restores
		}
	}
	for id, r := range c.resources {
		if c.unrequested(r) {
			c.unasked[id] = true // with the other parts of its VM: the MCMMachine is from before the request
		}
	}
	c.noteNodes(before, after)
	for key := range zones {
		c.dropped[key] = c.Now()
	}
	for _, o := range slices.Concat(objectsOf(s, &machinev1.MachineSet{}), objectsOf(s, &machinev1.MachineDeployment{})) {
		c.noteWanted(o)
		c.notePause(o)
	}
	c.noteDecisions()
	c.countClusters()
	slices.SortFunc(lost, func(a, b *machinev1.Machine) int { return apiserver.ByKey(a, b) })
	return lost
}

// unrequested reports whether the MCMMachine of a VM, or of a part of it, shows no sign of having requested it.
func (c *Checker) unrequested(r sim.Resource) bool {
	for _, m := range c.claimants(r) {
		if m.Spec.ProviderID == "" && m.Annotations[machinev1.CreateAttemptAnnotation] == "" {
			return true
		}
	}
	return false
}

// noteNodes remembers which nodes are not what they were.
func (c *Checker) noteNodes(before, after memory) {
	for name, unhealthy := range before.nodes {
		if _, there := after.nodes[name]; unhealthy || !there {
			c.ailing[name] = c.Now()
			c.unhealthy[name] = !there
		}
	}
	for name, unhealthy := range after.nodes {
		if unhealthy {
			c.ailing[name] = c.Now()
		}
		c.unhealthy[name] = unhealthy
	}
}

// zonesNow are the zones of the classes of an API server, by class and zone.
func (c *Checker) zonesNow(s *apiserver.Server) map[string]bool {
	zones := map[string]bool{}
	for _, o := range objectsOf(s, &machinev1.MachineClass{}) {
		for _, zone := range zonesOf(o.(*machinev1.MachineClass)) {
			zones[o.GetName()+"/"+zone] = true
		}
	}
	return zones
}

// objectsOf are the objects of a kind; none where it is not served.
func objectsOf(s *apiserver.Server, of client.Object) []client.Object {
	k := s.KindOf(of)
	if k == nil {
		return nil
	}
	return k.All()
}
