package orphan

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// site is where a look takes place, and what it found.
type site struct {
	account  cloud.Account
	resolved class.Resolved
	found    []finding
}

// clear removes what was found to be nobody's, and goes on with removals that
// earlier looks began. doors are live. It returns when it is worth going on; 0
// if all is done. One removal that fails does not stop the others.
func (c *Controller) clear(ctx context.Context, doors []Owners, g *group, s site) (time.Duration, error) {
	reportOnly := c.Options.ReportOnly || c.memory.reportOnly(g)
	todo, err := unfinished(ctx, doors, g.pending)
	if err != nil {
		return 0, err
	}
	g.pending = nil
	var failed error
	for _, r := range removals(s) {
		if reportOnly {
			c.report(ctx, g, s.resolved, finding{
				sighting{resource: r.resource},
				verdict{why: r.why + "; the collector only reports"},
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

// remove asks for one removal to go on, and returns when to ask again.
func (c *Controller) remove(ctx context.Context, g *group, s site, r removal) (time.Duration, error) {
	key := name(r.resource)
	log := ctrl.LoggerFrom(ctx).WithValues("resource", key, "machine", r.resource.MachineName, "why", r.why)
	deletion, err := s.account.Delete(ctx, r.ref)
	if err != nil {
		log.Error(err, "Remove orphan")
		if !g.told[key] {
			g.told[key] = true
			c.Events.Eventf(s.resolved.Object, corev1.EventTypeWarning, EventRemoveFailed, "Removing orphan %s: %v",
				describe(r.resource), err)
		}
		return 0, fmt.Errorf("remove %s: %w", key, err)
	}
	if !r.begun {
		log.Info("Orphan removed", "done", deletion.Done)
		c.metrics.removed.WithLabelValues(s.resolved.Driver.Traits().Name, string(r.resource.Kind)).Inc()
		c.Events.Eventf(s.resolved.Object, corev1.EventTypeWarning, EventRemoved, "Removed orphan %s: %s",
			describe(r.resource), r.why)
	}
	if deletion.Done || r.owned {
		return 0, nil // what is left of a second VM goes with the machine that it was made for
	}
	r.begun = true
	g.pending = append(g.pending, r)
	return max(deletion.RetryAfter, time.Second), nil
}

// removals are the calls that remove what was found: one for each VM, and one
// for the parts that an owner left without a VM.
func removals(s site) []removal {
	var out []removal
	covered := map[string]bool{}
	for _, f := range s.found {
		r := f.sighting.resource
		if f.verdict.action != remove || r.Kind != cloud.KindVM && covered[r.OwnerID] {
			continue
		}
		covered[r.OwnerID] = true
		ref := cloud.Ref{Name: r.MachineName, OwnerID: r.OwnerID, Class: s.resolved.Class}
		if r.VM != nil {
			ref.ProviderID = r.VM.ProviderID
		}
		if f.verdict.owned {
			ref.Name = "" // loose parts of that name and owner may be the other VM's
		}
		out = append(out, removal{ref: ref, resource: r, why: f.verdict.why, owned: f.verdict.owned})
	}
	return out
}

// unfinished returns the removals that have still no owner; a machine that took
// the name since must not lose its parts.
func unfinished(ctx context.Context, doors []Owners, pending []removal) ([]removal, error) {
	var still []removal
	for _, r := range pending {
		owners, err := find(ctx, doors, r.resource)
		if err != nil {
			return nil, err
		}
		if len(owners) == 0 {
			still = append(still, r)
		}
	}
	return still, nil
}
