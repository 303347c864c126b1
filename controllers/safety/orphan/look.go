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
	sighting sighting
	verdict  verdict
}

// look lists what is there, judges it, and removes what is nobody's for sure. It
// returns when the next look makes sense. Everything is judged before anything
// is removed, and nothing is removed after an incomplete listing.
func (c *Controller) look(ctx context.Context, g *group, resolved class.Resolved, began time.Time) (time.Time, error) {
	account, err := resolved.Account(ctx)
	if err != nil {
		return time.Time{}, err
	}
	resources, err := list(c.listing(ctx, g, began), account, resolved.Class)
	if err != nil {
		return time.Time{}, err
	}
	r := c.rules(resolved, began)
	found, err := c.judge(ctx, c.Doors, r, g, resources)
	if err != nil {
		return time.Time{}, err
	}
	next := c.remember(ctx, g, resolved, r, found)
	if !slices.ContainsFunc(found, removable) && len(g.pending) == 0 {
		return next, nil
	}
	doors, err := readLive(ctx, c.Doors)
	if err != nil {
		return time.Time{}, err
	}
	found, err = c.judge(ctx, doors, r, g, resources)
	if err != nil {
		return time.Time{}, err
	}
	again, err := c.clear(ctx, doors, g, site{account, resolved, found})
	if again > 0 {
		next = earlier(next, c.Clock.Now().Add(again))
	}
	return next, err
}

// listing is the context of a listing: what may be removed now must be there now.
func (c *Controller) listing(ctx context.Context, g *group, began time.Time) context.Context {
	if c.Fresh != nil && len(g.suspects)+len(g.pending) > 0 {
		return c.Fresh(ctx, began)
	}
	return ctx
}

func (c *Controller) rules(resolved class.Resolved, began time.Time) rules {
	return rules{
		now: began, minAge: c.Options.MinAge, decode: resolved.Driver.DecodeProviderID,
		confirm: max(c.Options.Confirm, resolved.Driver.Traits().Settle),
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
	// VMs first: what becomes of a part depends on its VM.
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

// judge decides about resources with the owners that doors know.
func (c *Controller) judge(ctx context.Context, doors []Owners, r rules, g *group,
	resources []cloud.Resource,
) ([]finding, error) {
	var found []finding
	staying := vms{ids: map[string]bool{}, names: map[string]bool{}}
	for _, resource := range resources {
		s := sighting{resource: resource, first: g.suspects[name(resource)], inUse: staying.have(resource)}
		if !resource.Attached && !going(resource) {
			owners, err := find(ctx, doors, resource)
			if err != nil {
				return nil, err
			}
			s.owners = owners
		}
		v := r.decide(s)
		if resource.Kind == cloud.KindVM && v.action != remove && !going(resource) {
			staying.add(resource)
		}
		if v.action != keep {
			found = append(found, finding{s, v})
		}
	}
	return found, nil
}

// vms are the VMs that stay, for now at least, as a removal by owner id and name
// would find them.
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

// have reports whether removing what is left of part's owner could take a VM.
func (v vms) have(part cloud.Resource) bool { return v.ids[part.OwnerID] || v.names[part.MachineName] }

// remember keeps the suspects of this look for the next, tells about what a
// person has to look at, and returns when to look next.
func (c *Controller) remember(ctx context.Context, g *group, resolved class.Resolved, r rules,
	found []finding,
) time.Time {
	next := r.now.Add(c.Options.Period)
	suspects := map[string]time.Time{}
	for _, f := range found {
		key := name(f.sighting.resource)
		if f.verdict.action == report {
			c.report(ctx, g, resolved, f)
			continue
		}
		suspects[key] = f.sighting.first
		if f.sighting.first.IsZero() {
			suspects[key] = r.now
			c.metrics.seen.WithLabelValues(resolved.Driver.Traits().Name, string(f.sighting.resource.Kind)).Inc()
			ctrl.LoggerFrom(ctx).Info("Orphan suspected", "resource", key, "why", f.verdict.why)
		}
		if f.verdict.action == suspect {
			next = earlier(next, r.ripe(f.sighting))
		}
	}
	g.suspects = suspects
	for key := range g.told {
		if _, ok := suspects[key]; !ok && !slices.ContainsFunc(found, func(f finding) bool {
			return name(f.sighting.resource) == key
		}) {
			delete(g.told, key)
		}
	}
	return next
}

// report tells about a resource that stays.
func (c *Controller) report(ctx context.Context, g *group, resolved class.Resolved, f finding) {
	key := name(f.sighting.resource)
	if g.told[key] {
		return
	}
	g.told[key] = true
	ctrl.LoggerFrom(ctx).Info("Orphan reported", "resource", key, "why", f.verdict.why)
	c.Events.Eventf(resolved.Object, corev1.EventTypeWarning, EventFound,
		"%s may be an orphan and stays: %s", describe(f.sighting.resource), f.verdict.why)
}

// find returns the owners of r behind all doors. What none of them judges is held.
func find(ctx context.Context, doors []Owners, r cloud.Resource) ([]Owner, error) {
	var all []Owner
	for _, door := range doors {
		owners, err := door.Find(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, owners...)
	}
	if !slices.ContainsFunc(doors, func(door Owners) bool { return door.Judges(r) }) {
		all = append(all, Owner{Text: "another door", Held: "controllers that run elsewhere judge it"})
	}
	return all, nil
}

// readLive returns doors that know what the API server shows now.
func readLive(ctx context.Context, doors []Owners) ([]Owners, error) {
	var now []Owners
	var failed error
	for _, door := range doors {
		owners, err := door.Live(ctx)
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

// describe names a resource for a person.
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
