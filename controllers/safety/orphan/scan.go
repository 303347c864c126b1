package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// finding is a resource with its verdict.
type finding struct {
	candidate candidate
	verdict   verdict
}

// observation is what one scan reads before it judges.
type observation struct {
	group     *group
	account   cloud.Account
	resolved  class.Resolved
	rules     rules
	decided   decisions
	resources []cloud.Resource
}

// scan lists all resources, judges them, and removes those that have no owner. It
// returns when the next scan is due. It judges everything before it removes anything,
// and removes nothing after an incomplete listing.
func (c *Controller) scan(ctx context.Context, g *group, resolved class.Resolved, began time.Time) (time.Time, error) {
	o, err := c.observe(ctx, g, resolved, began)
	if err != nil {
		return time.Time{}, err
	}
	c.recordRetention(ctx, o)
	c.reportLeft(ctx, o)
	found, err := c.judge(ctx, c.APIs, o.rules, g, o.resources)
	if err != nil {
		return time.Time{}, err
	}
	next := c.remember(ctx, g, resolved, o.rules, found)
	if err := c.spreadKept(ctx, o); err != nil {
		return time.Time{}, err
	}
	if !slices.ContainsFunc(found, removable) && len(g.pending) == 0 && !o.decided.listed {
		return next, nil
	}
	again, err := c.collect(ctx, o)
	if again > 0 {
		next = earlier(next, c.Clock.Now().Add(again))
	}
	return next, err
}

// observe reads the account and what persons have decided.
func (c *Controller) observe(ctx context.Context, g *group, resolved class.Resolved,
	began time.Time,
) (*observation, error) {
	o := &observation{group: g, resolved: resolved, rules: c.rules(resolved, began)}
	var err error
	if o.account, err = resolved.Account(ctx); err != nil {
		return nil, err
	}
	if o.resources, err = list(c.listing(ctx, g, began), o.account, resolved.Class); err != nil {
		return nil, err
	}
	return o, c.readDecisions(ctx, o, c.cachedClasses)
}

// readDecisions reads what persons have decided.
func (c *Controller) readDecisions(ctx context.Context, o *observation, classes listClasses) error {
	var err error
	o.decided, err = c.decisionsOf(ctx, o.group, classes)
	o.rules.kept = o.decided.kept
	return err
}

// collect judges again, by what the API server shows now, and removes orphans. It returns
// after how long to continue; 0 if all removals are complete.
func (c *Controller) collect(ctx context.Context, o *observation) (time.Duration, error) {
	apis, err := readLive(ctx, c.APIs)
	if err != nil {
		return 0, err
	}
	if err := c.readDecisions(ctx, o, c.liveClasses); err != nil {
		return 0, err
	}
	found, err := c.judge(ctx, apis, o.rules, o.group, o.resources)
	if err != nil {
		return 0, err
	}
	if c.reportsOnly(o.group) {
		err = c.publishReported(ctx, o, found)
	} else {
		found, err = c.brake(ctx, o, found)
	}
	if err != nil {
		return 0, err
	}
	return c.removeOrphans(ctx, apis, o.group, scope{o.account, o.resolved, o.decided, found})
}

// listing returns the context of a listing, which may be as old as the period. Where the scan may
// remove resources, the listing has to be current.
func (c *Controller) listing(ctx context.Context, g *group, began time.Time) context.Context {
	switch {
	case c.Fresh == nil:
		return ctx
	case len(g.suspects)+len(g.pending) > 0:
		return c.Fresh(ctx, began)
	default:
		return c.Fresh(ctx, began.Add(-c.Options.Period))
	}
}

func (c *Controller) rules(resolved class.Resolved, began time.Time) rules {
	return rules{
		now: began, minAge: c.Options.MinAge, decode: resolved.Driver.DecodeProviderID,
		confirm: max(c.Options.confirm, resolved.Driver.Traits().Settle),
	}
}

// list returns all resources, in a stable order, or an error.
func list(ctx context.Context, account cloud.Account, c cloud.Class) ([]cloud.Resource, error) {
	var all []cloud.Resource
	for r, err := range account.List(ctx, c) {
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	// VMs first: the decision about a part depends on its VM.
	slices.SortFunc(all, func(a, b cloud.Resource) int {
		if aVM, bVM := a.Kind == cloud.KindVM, b.Kind == cloud.KindVM; aVM != bVM {
			if aVM {
				return -1
			}
			return 1
		}
		return strings.Compare(name(a), name(b))
	})
	return all, nil
}

// judge decides about resources, with the owners that the APIs have.
func (c *Controller) judge(ctx context.Context, apis []Owners, r rules, g *group,
	resources []cloud.Resource,
) ([]finding, error) {
	var found []finding
	remaining := vms{ids: map[string]bool{}, names: map[string]bool{}}
	for _, resource := range resources {
		s := candidate{resource: resource, firstSeen: g.suspects[name(resource)], inUse: remaining.have(resource)}
		if !resource.Attached && !isDeleting(resource) {
			owners, err := find(ctx, apis, resource)
			if err != nil {
				return nil, err
			}
			s.owners = owners
		}
		v := r.decide(s)
		if resource.Kind == cloud.KindVM && v.action != remove && !isDeleting(resource) {
			remaining.add(resource)
		}
		if v.action != keep {
			found = append(found, finding{s, v})
		}
	}
	return found, nil
}

// vms are the VMs that stay, by the keys that a removal uses.
type vms struct {
	ids   map[string]bool // owner ids
	names map[string]bool // machine names of those without owner id
}

func (v vms) add(vm cloud.Resource) {
	if vm.OwnerID != "" {
		v.ids[vm.OwnerID] = true
	} else {
		v.names[vm.MachineName] = true
	}
}

// have reports whether removing the parts of part's owner could remove a VM.
func (v vms) have(part cloud.Resource) bool { return v.ids[part.OwnerID] || v.names[part.MachineName] }

// remember keeps the suspects of this scan for the next one, reports what a person has
// to decide, and returns when the next scan is due.
func (c *Controller) remember(ctx context.Context, g *group, resolved class.Resolved, r rules,
	found []finding,
) time.Time {
	next := r.now.Add(c.Options.Period)
	suspects := map[string]time.Time{}
	for _, f := range found {
		key := name(f.candidate.resource)
		if f.verdict.action == report {
			c.report(ctx, g, resolved, f)
			if !f.candidate.firstSeen.IsZero() { // it was seen twice, and needs not be seen twice again
				suspects[key] = f.candidate.firstSeen
			}
			continue
		}
		suspects[key] = f.candidate.firstSeen
		if f.candidate.firstSeen.IsZero() {
			suspects[key] = c.Clock.Now() // a listing may have taken long: it is judged now
			c.metrics.seen.WithLabelValues(resolved.Driver.Traits().Name, string(f.candidate.resource.Kind)).Inc()
			ctrl.LoggerFrom(ctx).Info("Orphan suspected", "resource", key, "why", f.verdict.why)
		}
		if f.verdict.action == suspect {
			next = earlier(next, r.removableAt(f.candidate))
		}
	}
	g.suspects = suspects
	for key := range g.reported {
		if _, ok := suspects[key]; !ok && !slices.ContainsFunc(found, func(f finding) bool {
			return name(f.candidate.resource) == key
		}) {
			delete(g.reported, key)
		}
	}
	return next
}

// report reports a resource that is not removed.
func (c *Controller) report(ctx context.Context, g *group, resolved class.Resolved, f finding) {
	key := name(f.candidate.resource)
	if g.reported[key] {
		return
	}
	g.reported[key] = true
	ctrl.LoggerFrom(ctx).Info("Orphan reported", "resource", key, "why", f.verdict.why)
	c.Events.Eventf(resolved.Object, corev1.EventTypeWarning, eventFound,
		"%s may be an orphan and is not removed: %s", describe(f.candidate.resource), f.verdict.why)
}

// find returns the owners of r in both APIs. A resource that none of them judges is
// held.
func find(ctx context.Context, apis []Owners, r cloud.Resource) ([]Owner, error) {
	var all []Owner
	for _, api := range apis {
		owners, err := api.Find(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, owners...)
	}
	if !slices.ContainsFunc(apis, func(api Owners) bool { return api.Judges(r) }) {
		all = append(all, Owner{Text: "the other API", Held: "a collector in another process judges it"})
	}
	return all, nil
}

// readLive returns the owners of all APIs with what the API server shows now.
func readLive(ctx context.Context, apis []Owners) ([]Owners, error) {
	var now []Owners
	var failed error
	for _, api := range apis {
		owners, err := api.Live(ctx)
		failed = errors.Join(failed, err)
		now = append(now, owners)
	}
	if failed != nil {
		return nil, fmt.Errorf("read owners: %w", failed)
	}
	return now, nil
}

func removable(f finding) bool { return f.verdict.action == remove }

func name(r cloud.Resource) string { return string(r.Kind) + " " + r.ID }

// describe returns a resource for people.
func describe(r cloud.Resource) string {
	text := string(r.Kind) + " " + r.ID
	if r.Kind == cloud.KindVM {
		text = "VM " + r.ID
	}
	if r.MachineName != "" {
		text += " of machine " + r.MachineName
	}
	return text
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
