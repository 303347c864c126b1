package orphan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// Orphans come one at a time, from lost answers. Many at once are rather the sign that the
// cluster has lost Machines whose VMs are healthy: its API server was restored from a
// backup, or the objects were deleted without their finalizers.
const (
	removalsAge = 24 * time.Hour // for so long removed orphans count too
	heldListed  = 200            // of held orphans are listed in the annotation
	heldBytes   = 96 << 10       // of JSON have these at most: an object has 256 KiB for all annotations
)

// brake returns what may be removed of what was found. Where more VMs are orphans than can
// be expected, that is only what a person has approved, until each of them is decided
// about, and the rest is reported.
func (c *Controller) brake(ctx context.Context, o *observation, found []finding) ([]finding, error) {
	h := o.undecided(found)
	recent := o.group.removalsSince(o.rules.now.Add(-removalsAge), found)
	answer := brake.Orphans(brake.OrphanVMs{Orphans: h.Count, All: h.VMs, Removed: recent, Held: o.decided.held})
	if answer.Allowed {
		return found, c.publishHeld(ctx, o.group, o.resolved, nil, "")
	}
	if err := c.publishHeld(ctx, o.group, o.resolved, h, answer.Message); err != nil {
		return nil, err
	}
	return o.approvedOf(found), nil
}

// approvedOf returns what was found without the orphans that no person has approved. Parts
// are approved with a VM of their owner.
func (o *observation) approvedOf(found []finding) []finding {
	owners := map[string]bool{}
	for _, f := range found {
		if r := f.candidate.resource; o.decided.approved[r.ID] && r.OwnerID != "" {
			owners[r.OwnerID] = true
		}
	}
	return slices.DeleteFunc(found, func(f finding) bool {
		r := f.candidate.resource
		part := r.Kind != cloud.KindVM && owners[r.OwnerID]
		return removable(f) && !o.decided.approved[r.ID] && !part
	})
}

// undecided returns the orphan VMs that no person has decided about. It is pure.
func (o *observation) undecided(found []finding) *machinev1.HeldOrphans {
	h := &machinev1.HeldOrphans{}
	for _, r := range o.resources {
		if r.Kind == cloud.KindVM && !isDeleting(r) {
			h.VMs++
		}
	}
	for _, f := range found {
		r := f.candidate.resource
		if r.Kind == cloud.KindVM && f.verdict.action != report && !o.decided.approved[r.ID] {
			h.Orphans = append(h.Orphans, orphanOf(f))
		}
	}
	h.Limit, h.Count = brake.Expected(h.VMs), len(h.Orphans)
	slices.SortFunc(h.Orphans, func(a, b machinev1.Orphan) int { return strings.Compare(a.ID, b.ID) })
	h.Orphans = listable(h.Orphans)
	return h
}

// orphanOf returns what the annotation says about an orphan VM.
func orphanOf(f finding) machinev1.Orphan {
	r := f.candidate.resource
	o := machinev1.Orphan{
		ID: r.ID, Machine: r.MachineName, OwnerID: r.OwnerID, Why: f.verdict.why, Second: f.verdict.owned,
		ClusterID: r.Tags[machinev1.ClusterIDTag],
	}
	if r.VM != nil {
		o.ProviderID, o.NodeProviderID = r.VM.ProviderID, r.VM.NodeProviderID
		o.Node, o.Zone = r.VM.NodeName, r.VM.Zone
	}
	return o
}

// listable returns as many of the orphans as the annotation has room for.
func listable(all []machinev1.Orphan) []machinev1.Orphan {
	size := 0
	for i := range all {
		text, err := json.Marshal(all[i])
		if size += len(text) + 1; err != nil || size > heldBytes || i == heldListed {
			return all[:i]
		}
	}
	return all
}

// removalsSince returns how many orphan VMs were removed without a decision since then, and
// forgets those before. Those that were found again were not removed. After a restart it
// knows of none.
func (g *group) removalsSince(then time.Time, found []finding) int {
	maps.DeleteFunc(g.removals, func(_ string, at time.Time) bool { return at.Before(then) })
	count := len(g.removals)
	for _, f := range found {
		if _, again := g.removals[name(f.candidate.resource)]; again {
			count--
		}
	}
	return count
}

// publishReported writes the orphans that stay because the collector only reports them, so
// that a person can have their machines recovered.
func (c *Controller) publishReported(ctx context.Context, o *observation, found []finding) error {
	h := o.undecided(found)
	h.ReportOnly = true
	if h.Count == 0 {
		h = nil
	}
	o.group.held = 0
	return c.writeHeld(ctx, o.group, h)
}

// publishHeld writes the held orphans to the first class of the group, and why they are; nil are none.
func (c *Controller) publishHeld(ctx context.Context, g *group, resolved class.Resolved,
	held *machinev1.HeldOrphans, why string,
) error {
	if err := c.writeHeld(ctx, g, held); err != nil {
		return err
	}
	if held == nil {
		g.held = 0
		return nil
	}
	first := c.memory.classesOf(g)[0]
	c.metrics.held.With(c.labelsOf(first)).Set(float64(held.Count))
	if held.Count != g.held {
		ctrl.LoggerFrom(ctx).Info("Orphans held", "orphans", held.Count, "vms", held.VMs, "limit", held.Limit)
		c.Events.Eventf(resolved.Object, corev1.EventTypeWarning, brake.EventOrphansHeld,
			"%s; see kubectl mcm orphans list -n %s", why, first.Namespace)
	}
	g.held = held.Count
	return nil
}

// writeHeld sets the annotation of the first class of the group; nil removes it. It takes
// what was written before off the others.
func (c *Controller) writeHeld(ctx context.Context, g *group, held *machinev1.HeldOrphans) error {
	classes := c.memory.classesOf(g)
	for i, key := range classes {
		want := ""
		if held != nil && i == 0 {
			held.Classes = nil
			for _, of := range classes {
				held.Classes = append(held.Classes, of.String())
			}
			text, err := json.Marshal(held)
			if err != nil {
				return err
			}
			want = string(text)
		}
		if err := c.annotateHeld(ctx, key, want); err != nil {
			return err
		}
		c.metrics.held.Delete(c.labelsOf(key))
	}
	return nil
}

// annotateHeld sets the collector's annotation of a class; "" removes it.
func (c *Controller) annotateHeld(ctx context.Context, key types.NamespacedName, want string) error {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, key, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	if object.Annotations[c.HeldKey] == want {
		return nil
	}
	changed := object.DeepCopy()
	if want == "" {
		delete(changed.Annotations, c.HeldKey)
	} else {
		machinev1.SetAnnotation(changed, c.HeldKey, want)
	}
	if err := c.Client.Patch(ctx, changed, client.MergeFrom(object)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write held orphans to MachineClass: %w", err)
	}
	return nil
}

// classesOf returns the classes of a group, sorted. There is at least the one that scans.
func (m *memory) classesOf(g *group) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(g.classes), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
}
