package orphan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// scope is the account of a scan, and what the scan has found.
type scope struct {
	account  cloud.Account
	resolved class.Resolved
	decided  decisions
	found    []finding
}

// removeOrphans removes the orphans of a scan, and continues removals that earlier
// scans began. The owners are live. It returns after how long to continue; 0 if all
// removals are complete. One removal that fails does not stop the others.
func (c *Controller) removeOrphans(ctx context.Context, apis []Owners, g *group, s scope) (time.Duration, error) {
	reportOnly := c.reportsOnly(g)
	todo, err := unfinished(ctx, apis, g)
	if err != nil {
		return 0, err
	}
	g.pending = nil
	var failed error
	for _, r := range removals(s) {
		if reportOnly {
			c.report(ctx, g, s.resolved, finding{
				candidate{resource: r.resource},
				verdict{why: r.why + "; the collector is in report-only mode"},
			})
			continue
		}
		todo = append(todo, r)
	}
	var again time.Duration
	for _, r := range todo {
		wait, err := c.remove(ctx, g, s, r)
		failed = errors.Join(failed, err)
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again, failed
}

// reportsOnly reports whether no orphan of the group may be removed.
func (c *Controller) reportsOnly(g *group) bool {
	return c.Options.ReportOnly || c.memory.reportOnly(g)
}

// remove begins or continues one removal, and returns after how long to continue.
func (c *Controller) remove(ctx context.Context, g *group, s scope, r removal) (time.Duration, error) {
	key := name(r.resource)
	log := ctrl.LoggerFrom(ctx).WithValues("resource", key, "machine", r.resource.MachineName, "why", r.why)
	if r.resource.Kind == cloud.KindVM && !r.approved && !r.begun {
		g.removals[key] = c.Clock.Now() // it counts even if the answer is lost
	}
	deletion, err := s.account.Delete(ctx, r.ref)
	if err != nil {
		log.Error(err, "Remove orphan")
		if !g.reported[key] {
			g.reported[key] = true
			c.Events.Eventf(s.resolved.Object, corev1.EventTypeWarning, eventRemoveFailed,
				"Orphan %s not removed: %v; the next scan retries it",
				describe(r.resource), err)
		}
		return 0, fmt.Errorf("remove %s: %w", key, err)
	}
	switch {
	case deletion.Done && (r.begun || deletion.Found):
		c.reportRemoved(ctx, s.resolved, r)
	case deletion.Done:
		log.Info("Orphan was gone already, or is to stay")
	case !r.begun:
		log.Info("Orphan is being removed", "remaining", deletion.Remaining)
	}
	switch {
	case deletion.Done:
		return 0, nil
	case r.owned: // the rest is deleted with its machine; the next scans show when the VM has gone
		g.leaving[key] = r
		return 0, nil
	}
	r.begun = true
	g.pending = append(g.pending, r)
	return max(deletion.RetryAfter, time.Second), nil
}

// reportRemoved reports an orphan that has gone.
func (c *Controller) reportRemoved(ctx context.Context, resolved class.Resolved, r removal) {
	ctrl.LoggerFrom(ctx).Info("Orphan removed", "resource", name(r.resource), "machine", r.resource.MachineName, "why",
		r.why)
	c.metrics.removed.WithLabelValues(resolved.Driver.Traits().Name, string(r.resource.Kind)).Inc()
	c.Events.Eventf(resolved.Object, corev1.EventTypeWarning, eventRemoved, "Removed orphan %s: %s",
		describe(r.resource), r.why)
}

// reportLeft reports what has gone since its removal was requested, and was not asked for again.
func (c *Controller) reportLeft(ctx context.Context, o *observation) {
	there := map[string]bool{}
	for _, r := range o.resources {
		there[name(r)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(o.group.leaving)) {
		if !there[key] {
			c.reportRemoved(ctx, o.resolved, o.group.leaving[key])
			delete(o.group.leaving, key)
		}
	}
}

// recordedAtOnce is how many parts of older VMs one scan has tagged: after an upgrade there may be
// thousands, and what is deleted with a machine is tagged before that.
const recordedAtOnce = 200

// recordRetention has the parts of VMs tagged that lack what was decided about them when their VM
// was made, while the cloud still shows it. A failure is repeated with the next scan: until then
// they are attached, and so not judged.
func (c *Controller) recordRetention(ctx context.Context, o *observation) {
	var lacking []cloud.Resource
	for _, r := range o.resources {
		if r.OwnerID != "" && r.Unrecorded() && len(lacking) < recordedAtOnce {
			lacking = append(lacking, r)
		}
	}
	if len(lacking) == 0 {
		return
	}
	if err := cloud.RecordRetention(ctx, o.account, o.resolved.Class, lacking); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Record what outlives VMs", "parts", len(lacking))
	}
}

// removals returns the calls that remove what was found: one for each VM, and one for
// the parts of an owner without a VM.
func removals(s scope) []removal {
	var out []removal
	covered := map[string]bool{}
	for _, f := range s.found {
		r := f.candidate.resource
		if f.verdict.action != remove || r.Kind != cloud.KindVM && covered[r.OwnerID] {
			continue
		}
		covered[r.OwnerID] = true
		ref := cloud.Ref{Name: r.MachineName, OwnerID: r.OwnerID, Class: s.resolved.Class}
		if r.VM != nil {
			ref.ProviderID = r.VM.ProviderID
		}
		if f.verdict.owned {
			ref.Name = "" // parts of that name and owner may belong to the other VM
		}
		out = append(out, removal{
			ref: ref, resource: r, why: f.verdict.why, owned: f.verdict.owned, approved: s.decided.approved[r.ID],
		})
	}
	return out
}

// unfinished returns the removals that still have no owner: a machine that was created
// since with that name must not lose its parts. Of the others only the VM goes.
func unfinished(ctx context.Context, apis []Owners, g *group) ([]removal, error) {
	var still []removal
	for _, r := range g.pending {
		owners, err := find(ctx, apis, r.resource)
		if err != nil {
			return nil, err
		}
		if len(owners) == 0 {
			still = append(still, r)
		} else {
			g.leaving[name(r.resource)] = r
		}
	}
	return still, nil
}
