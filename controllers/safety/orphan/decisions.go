package orphan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/live"
)

// decisions are what persons have decided about VMs, by the cloud's ID, and whether VMs of
// the group waited for a decision at the last scan of any process.
type decisions struct {
	approved, kept map[string]bool
	held           bool // VMs wait for a decision because they are many
	listed         bool // a class lists VMs, for this or another reason
}

// listClasses calls visit with all MachineClasses, a page at a time.
type listClasses func(ctx context.Context, visit func(*machinev1.MachineClassList)) error

// cachedClasses lists what the cache shows, which has no pages.
func (c *Controller) cachedClasses(ctx context.Context, visit func(*machinev1.MachineClassList)) error {
	all := &machinev1.MachineClassList{}
	if err := c.Client.List(ctx, all, client.InNamespace(c.Namespace)); err != nil {
		return err
	}
	visit(all)
	return nil
}

// liveClasses lists what the API server shows.
func (c *Controller) liveClasses(ctx context.Context, visit func(*machinev1.MachineClassList)) error {
	return live.Pages(ctx, c.Live, visit, client.InNamespace(c.Namespace))
}

// decisionsOf reads the decisions from all classes: IDs of VMs are unique, and a class may
// leave its group at any time, because its Secret changes or it is deleted.
func (c *Controller) decisionsOf(ctx context.Context, g *group, list listClasses) (decisions, error) {
	d := decisions{approved: map[string]bool{}, kept: map[string]bool{}, held: g.held > 0, listed: g.held > 0}
	inGroup := c.memory.classesOf(g)
	err := list(ctx, func(page *machinev1.MachineClassList) {
		for i := range page.Items {
			d.add(&page.Items[i], c.HeldKey, inGroup)
		}
	})
	if err != nil {
		return d, fmt.Errorf("read decisions about orphans: %w", err)
	}
	maps.DeleteFunc(d.kept, func(id string, _ bool) bool { return d.approved[id] })
	return d, nil
}

// add adds the decisions of a class.
func (d *decisions) add(class *machinev1.MachineClass, heldKey string, inGroup []types.NamespacedName) {
	for _, id := range machinev1.OrphanIDs(class.Annotations[machinev1.ApprovedOrphansAnnotation]) {
		d.approved[id] = true
	}
	for _, id := range machinev1.OrphanIDs(class.Annotations[machinev1.KeptOrphansAnnotation]) {
		d.kept[id] = true
	}
	if text := class.Annotations[heldKey]; text != "" && slices.Contains(inGroup, client.ObjectKeyFromObject(class)) {
		d.listed = true
		d.held = d.held || !listedInReportOnly(text)
	}
}

// listedInReportOnly reports whether the value of the annotation lists VMs that stay only
// because the collector removed none. One that cannot be read counts as a brake.
func listedInReportOnly(text string) bool {
	var h machinev1.HeldOrphans
	return json.Unmarshal([]byte(text), &h) == nil && h.ReportOnly
}

// spreadKept writes the IDs of kept VMs that exist to every class of the group, so that
// they outlive the class that a person wrote them to.
func (c *Controller) spreadKept(ctx context.Context, o *observation) error {
	var ids []string
	for _, r := range o.resources {
		if r.Kind == cloud.KindVM && o.decided.kept[r.ID] {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	for _, key := range c.memory.classesOf(o.group) {
		object := &machinev1.MachineClass{}
		if err := c.Client.Get(ctx, key, object); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return fmt.Errorf("read MachineClass: %w", err)
		}
		has := machinev1.OrphanIDs(object.Annotations[machinev1.KeptOrphansAnnotation])
		if !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(has, id) }) {
			continue
		}
		union := append(has, ids...)
		slices.Sort(union)
		changed := object.DeepCopy()
		machinev1.SetAnnotation(changed, machinev1.KeptOrphansAnnotation, strings.Join(slices.Compact(union), ","))
		// A person may be adding an ID to the same list, which must not be lost.
		patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
		if err := c.Client.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write kept orphans to MachineClass: %w", err)
		}
	}
	return nil
}
