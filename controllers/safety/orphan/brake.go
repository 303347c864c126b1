package orphan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// Orphans come one at a time, from lost answers. Many at once are rather the sign that the
// cluster has lost Machines whose VMs are healthy: its API server was restored from a
// backup, or the objects were deleted without their finalizers.
const (
	fewOrphans   = 3   // so many are always removed
	orphansShare = 10  // one of so many VMs of the account may be an orphan
	heldListed   = 200 // of held orphans are listed in the annotation
)

// limitOf returns how many orphan VMs of an account are removed without a person's approval.
func limitOf(vms int) int { return max(fewOrphans, vms/orphansShare) }

// decisions are what persons have decided about VMs, by the cloud's ID.
type decisions struct{ approved, kept map[string]bool }

// decisionsOf reads the decisions from the classes of a group.
func (c *Controller) decisionsOf(ctx context.Context, g *group) (decisions, error) {
	d := decisions{approved: map[string]bool{}, kept: map[string]bool{}}
	for _, key := range c.memory.classesOf(g) {
		object := &machinev1.MachineClass{}
		if err := c.Client.Get(ctx, key, object); client.IgnoreNotFound(err) != nil {
			return d, fmt.Errorf("read MachineClass: %w", err)
		}
		for _, id := range machinev1.OrphanIDs(object.Annotations[machinev1.ApprovedOrphansAnnotation]) {
			d.approved[id] = true
		}
		for _, id := range machinev1.OrphanIDs(object.Annotations[machinev1.KeptOrphansAnnotation]) {
			d.kept[id] = true
		}
	}
	return d, nil
}

// brake returns what may be removed of what was found. Where more VMs are orphans than can
// be expected, that is only what a person has approved, and the rest is reported.
func (c *Controller) brake(ctx context.Context, l *look, found []finding) ([]finding, error) {
	decided := l.decided
	held := heldOrphans(decided, l.resources, found)
	if err := c.publishHeld(ctx, l.group, l.resolved, held); err != nil {
		return nil, err
	}
	if held == nil {
		return found, nil
	}
	approved := map[string]bool{} // owner ids of VMs
	for _, f := range found {
		if r := f.candidate.resource; decided.approved[r.ID] && r.Kind == cloud.KindVM && r.OwnerID != "" {
			approved[r.OwnerID] = true
		}
	}
	return slices.DeleteFunc(found, func(f finding) bool {
		r := f.candidate.resource
		return f.verdict.action == remove && !decided.approved[r.ID] && !approved[r.OwnerID]
	}), nil
}

// heldOrphans returns the orphan VMs that no person has approved, if they are too many to
// be expected, else nil. It is pure.
func heldOrphans(decided decisions, resources []cloud.Resource, found []finding) *machinev1.HeldOrphans {
	h := &machinev1.HeldOrphans{}
	for _, r := range resources {
		if r.Kind == cloud.KindVM && !isDeleting(r) {
			h.VMs++
		}
	}
	for _, f := range found {
		r := f.candidate.resource
		if r.Kind == cloud.KindVM && f.verdict.action != report && !decided.approved[r.ID] {
			h.Orphans = append(h.Orphans, machinev1.Orphan{
				ID: r.ID, Machine: r.MachineName, OwnerID: r.OwnerID, Why: f.verdict.why,
			})
		}
	}
	h.Limit, h.Count = limitOf(h.VMs), len(h.Orphans)
	if h.Count <= h.Limit {
		return nil
	}
	slices.SortFunc(h.Orphans, func(a, b machinev1.Orphan) int { return strings.Compare(a.ID, b.ID) })
	h.Orphans = h.Orphans[:min(h.Count, heldListed)]
	return h
}

// publishHeld writes the held orphans to the first class of the group, and takes what was
// written there before off all classes when none are held any more.
func (c *Controller) publishHeld(ctx context.Context, g *group, resolved class.Resolved,
	held *machinev1.HeldOrphans,
) error {
	classes := c.memory.classesOf(g)
	for i, key := range classes {
		want := ""
		if held != nil && i == 0 {
			text, err := json.Marshal(held)
			if err != nil {
				return err
			}
			want = string(text)
		}
		if err := c.annotateHeld(ctx, key, want); err != nil {
			return err
		}
	}
	count := 0
	if held != nil {
		count = held.Count
	}
	c.metrics.held.DeletePartialMatch(labelsOf(classes[0]))
	if count > 0 {
		c.metrics.held.With(labelsOf(classes[0])).Set(float64(count))
	}
	if count > 0 && count != g.held {
		ctrl.LoggerFrom(ctx).Info("Orphans held", "orphans", count, "vms", held.VMs, "limit", held.Limit)
		c.Events.Eventf(resolved.Object, corev1.EventTypeWarning, EventHeld,
			"%d of %d VMs have no machine, more than %d: none is removed until a person decides; see kubectl mcm orphans -n %s",
			count, held.VMs, held.Limit, classes[0].Namespace)
	}
	g.held = count
	return nil
}

// annotateHeld sets the annotation of a class; "" removes it.
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
