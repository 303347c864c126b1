package invariant

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// note remembers of a change what later checks need.
func (c *Checker) note(change apiserver.Change, w *Writer) {
	c.noteClusters(change)
	switch o := change.Object().(type) {
	case *machinev1.MachineSet, *machinev1.MachineDeployment:
		c.noteWanted(o)
		c.notePause(o)
	case *corev1.Node:
		// One that has just recovered was unhealthy until now: caches may not show it yet.
		healthy := change.New != nil && c.Health(o.Name)
		if !healthy || c.unhealthy[o.Name] {
			c.ailing[o.Name] = c.Now()
		}
		c.unhealthy[o.Name] = !healthy
	case *machinev1.MachineClass:
		c.noteZones(change)
		c.noteDecisions()
	case *machinev1.Machine:
		c.noteIdentity(change, w)
		c.noteMachine(change, o, w)
	case *infrav1.MCMMachine:
		c.noteIdentity(change, w)
		id := c.mcmID(o)
		if change.Old == nil {
			c.noteReturn(id)
		}
		if !moved(o) {
			c.noteDeletion(id, change)
		}
		if change.New == nil {
			c.removed[id] = c.Now()
			if w == nil && !moved(o) {
				c.taken[id], c.goingThen[id] = c.Now(), !o.DeletionTimestamp.IsZero()
			}
		} else if o.Spec.ProviderID != "" && c.bound[id].IsZero() {
			c.bound[id] = c.Now()
		}
	}
}

// noteWanted remembers what a set or a deployment asks for from now on.
func (c *Checker) noteWanted(o client.Object) {
	switch o := o.(type) {
	case *machinev1.MachineSet:
		c.want(o.UID, bounds{most: int(o.Spec.Replicas), least: int(o.Spec.Replicas)})
	case *machinev1.MachineDeployment:
		c.want(o.UID, boundsOf(o))
	}
}

// noteDeletion remembers since when the machine of an owner id is being deleted, and when it
// was created again without its deletion: by a move or by a user.
func (c *Checker) noteDeletion(id string, change apiserver.Change) {
	switch deleting := !change.Object().GetDeletionTimestamp().IsZero(); {
	case change.Old == nil && !deleting:
		c.undelete(id)
	case deleting && c.deleted[id].IsZero():
		c.deleted[id] = c.Now()
	}
}

// undeletion is when a machine was deleted, and when it was there again without its deletion.
type undeletion struct{ deleted, undone time.Time }

// undelete remembers that the machine of an owner id is not being deleted any more.
func (c *Checker) undelete(id string) {
	if deleted := c.deleted[id]; !deleted.IsZero() {
		c.undeleted[id] = undeletion{deleted: deleted, undone: c.Now()}
		delete(c.deleted, id)
	}
}

// wasDeleted reports whether the machine of an owner id was being deleted at that time, and
// is not any more. A request that was sent then cannot be called back.
func (c *Checker) wasDeleted(id string, at time.Time) bool {
	u := c.undeleted[id]
	return u.undone.After(at) && !u.deleted.After(at)
}

// noteZones remembers which zones a class does not name any more.
func (c *Checker) noteZones(change apiserver.Change) {
	before, ok := change.Old.(*machinev1.MachineClass)
	if !ok {
		return
	}
	for _, zone := range zonesOf(before) {
		c.dropped[before.Name+"/"+zone] = c.Now()
	}
}

func (c *Checker) want(uid types.UID, b bounds) {
	b.at = c.Now()
	if known := c.wanted[uid]; len(known) > 0 {
		last := known[len(known)-1]
		if last.most == b.most && last.least == b.least && last.unlimited == b.unlimited {
			return
		}
	}
	c.wanted[uid] = append(c.wanted[uid], b)
}

func (c *Checker) noteMachine(change apiserver.Change, m *machinev1.Machine, w *Writer) {
	id := c.ownerID(m)
	c.noteDeletion(id, change)
	if change.New == nil {
		c.removed[id] = c.Now()
		if w == nil {
			c.noteTaken(id, m)
		}
		return
	}
	if change.Old == nil {
		c.noteReturn(id)
		if at, taken := c.taken[id]; w != nil || taken && c.Now().Sub(at) >= confirmation {
			c.made[id] = c.Now()
		}
	}
	before, ok := change.Old.(*machinev1.Machine)
	if w == nil && (!ok || !maps.Equal(before.Labels, m.Labels)) {
		c.put[m.UID] = c.Now()
	}
	if m.Spec.ProviderID != "" && c.bound[id].IsZero() {
		c.bound[id] = c.Now()
	}
	if ok && active(before) && !active(m) && (w == nil || w.Controller != "machineset") {
		if set := c.setOf(m); set != nil {
			c.ceased[m.UID] = departure{at: c.Now(), pool: set.UID}
		}
	}
	if ok && serves(before) && !serves(m) {
		// A Machine that goes because its Node was deleted was lost to whoever did that.
		ours := w != nil && !before.DeletionTimestamp.Equal(m.DeletionTimestamp) && !c.nodeGoes(m.Labels[machinev1.NodeLabel])
		c.left[m.UID] = departure{at: c.Now(), pool: c.poolOf(m), ours: ours}
	}
	// Its set gives up a Machine whose labels somebody else has changed.
	if ok && serves(before) && serves(m) && c.poolOf(before) != c.poolOf(m) {
		_, relabelled := c.put[m.UID]
		c.left[m.UID] = departure{at: c.Now(), pool: c.poolOf(before), ours: !relabelled}
	}
}

// noteTaken remembers a Machine that somebody else has taken out of the API server,
// finalizers and all. Managers may not know yet that it is missing.
func (c *Checker) noteTaken(id string, m *machinev1.Machine) {
	c.taken[id], c.goingThen[id] = c.Now(), !m.DeletionTimestamp.IsZero()
	if set := c.setOf(m); set != nil && active(m) {
		c.ceased[m.UID] = departure{at: c.Now(), pool: set.UID}
	}
	if serves(m) {
		c.left[m.UID] = departure{at: c.Now(), pool: c.poolOf(m)}
	}
}
