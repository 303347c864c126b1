package gcptest

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"
)

// Group is the name of the unmanaged instance group that each zone has.
const Group = "api-server"

// changing is how long a change of an instance group takes.
const changing = 2 * time.Second

// membership is that of an instance, whose place is the key, in the group of its zone.
type membership struct {
	since time.Time
	until time.Time // zero: it stays
}

// is reports whether an instance is a member now.
func (m membership) is(now time.Time) bool {
	return !now.Before(m.since) && (m.until.IsZero() || now.Before(m.until))
}

// membersIn returns the places of the members in a zone. Instances that have gone are none.
func (c *Cloud) membersIn(zone string) []string {
	var all []string
	for _, at := range slices.Sorted(maps.Keys(c.members)) {
		if path.Dir(at) == zone && c.vms[at] != nil && c.members[at].is(c.options.Now()) {
			all = append(all, at)
		}
	}
	return all
}

// Members returns the ids, <zone>/<name>, of the instances that are in the groups, or are joining them.
func (c *Cloud) Members() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var all []string
	for _, at := range slices.Sorted(maps.Keys(c.members)) {
		if m := c.members[at]; c.vms[at] != nil && (m.until.IsZero() || m.is(c.options.Now())) {
			all = append(all, at)
		}
	}
	return all
}

func noGroup(q call) *refusal {
	if q.values["instanceGroup"] == Group {
		return nil
	}
	return notFound("instanceGroups", q.values["instanceGroup"])
}

func (c *Cloud) listMembers(q call) (map[string]any, *refusal) {
	if refused := noGroup(q); refused != nil {
		return nil, refused
	}
	out := map[string]any{"kind": "compute#instanceGroupsListInstances"}
	var items []any
	for _, at := range c.membersIn(q.values["zone"]) {
		items = append(items, map[string]any{"instance": urlOf("instances", at), "status": c.statusOf(c.vms[at])})
	}
	if len(items) > 0 {
		out["items"] = items
	}
	return out, nil
}

func (c *Cloud) addMembers(q call) (map[string]any, *refusal) {
	return c.change(q, func(at string) *refusal {
		if m, has := c.members[at]; has && m.until.IsZero() {
			return refuse(http.StatusBadRequest, "memberAlreadyExists", "Instance '%s' is already a member of '%s'", at, Group)
		}
		c.members[at] = membership{since: c.options.Now().Add(c.takes(changing))}
		return nil
	})
}

func (c *Cloud) removeMembers(q call) (map[string]any, *refusal) {
	return c.change(q, func(at string) *refusal {
		m, has := c.members[at]
		if !has || !m.until.IsZero() {
			return refuse(http.StatusBadRequest, "memberNotFound", "Instance '%s' is not a member of '%s'", at, Group)
		}
		m.until = c.options.Now().Add(c.takes(changing))
		c.members[at] = m
		return nil
	})
}

// change changes the membership of the instances that a request names, which have to be in the zone.
func (c *Cloud) change(q call, one func(at string) *refusal) (map[string]any, *refusal) {
	if refused := noGroup(q); refused != nil {
		return nil, refused
	}
	zone := q.values["zone"]
	for _, item := range list(q.body["instances"]) {
		url := fmt.Sprint(object(item)["instance"])
		at := path.Base(path.Dir(path.Dir(url))) + "/" + path.Base(url)
		if path.Dir(at) != zone || c.vms[at] == nil {
			return nil, invalid("Invalid value for field 'instances': '%s'. It is no instance of zone %s.", url, zone)
		}
		if refused := one(at); refused != nil {
			return nil, refused
		}
	}
	return c.show(c.begin("update", zone, urlOf("instanceGroups", zone+"/"+Group), changing)), nil
}
