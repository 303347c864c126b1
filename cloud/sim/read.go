package sim

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query selects what to list.
type Query struct {
	Kind string // empty is every kind

	// A resource must have one of these name tags or ids; without either it is any.
	Names, IDs []string
	Tags       []string // "key" or "key=value"; a resource must have all
	Limit      int      // most resources on a page; 0 is as many as the cloud gives
	Next       string   // where the page before ended
}

// Page is a part of a list.
type Page struct {
	Items []Resource `json:"items"`
	Next  string     `json:"next,omitempty"` // empty on the last page
}

// GetVM returns a VM that is not gone and that reads show already.
func (c *Cloud) GetVM(who Login, region, id string) (Resource, error) {
	return call(c, who, OpGetVM, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r, err := c.lookup(a, KindVM, region, id)
		if err == nil && !c.settled(r, now) {
			err = refuse(CodeNotFound, "there is no VM %s in region %s", id, region)
		}
		return c.answer(r, err, now)
	})
}

// List returns a page of the account's resources in a region, in the order in
// which they were made.
func (c *Cloud) List(who Login, region string, q Query) (Page, error) {
	return call(c, who, OpList, q.subject(), func(a Tenant, now time.Time) (Page, *APIError) {
		if len(c.settings.zones(region)) == 0 {
			return Page{}, refuse(CodeInvalidRegion, "there is no region %q", region)
		}
		after, err := strconv.ParseUint(cmp.Or(q.Next, "0"), 10, 64)
		if err != nil {
			return Page{}, refuse(CodeInvalidParameter, "next is not what the page before ended with")
		}
		size := cmp.Or(c.settings.PageSize, 1000)
		if q.Limit > 0 {
			size = min(size, q.Limit)
		}
		page := Page{Items: []Resource{}}
		for _, r := range c.candidates(q, after) {
			if r.Account != a.ID || r.Region != region || !q.matches(r) || !c.settled(r, now) {
				continue
			}
			if len(page.Items) == size {
				page.Next = strconv.FormatUint(page.Items[size-1].Seq, 10)
				break
			}
			page.Items = append(page.Items, c.view(r, now))
		}
		return page, nil
	})
}

// candidates returns the live resources that come after seq and may match q.
func (c *Cloud) candidates(q Query, seq uint64) []*Resource {
	among := c.live
	if name := tagValue(q.Tags, NameTag); name != "" {
		among = c.byName[name]
	} else if len(q.Names)+len(q.IDs) > 0 {
		among = c.chosen(q)
	}
	i, _ := slices.BinarySearchFunc(among, seq+1, func(r *Resource, s uint64) int { return cmp.Compare(r.Seq, s) })
	return among[i:]
}

// subject is what faults see of the query.
func (q *Query) subject() subject {
	return subject{name: tagValue(q.Tags, NameTag), names: slices.Compact(slices.Sorted(slices.Values(q.Names)))}
}

// chosen returns the live resources of the query's names and ids.
func (c *Cloud) chosen(q Query) []*Resource {
	var among []*Resource
	for _, name := range q.Names {
		among = append(among, c.byName[name]...)
	}
	for _, id := range q.IDs {
		if r := c.all[id]; r != nil && !r.goneAt(c.clock.Now()) {
			among = append(among, r)
		}
	}
	return slices.Compact(sortedBySeq(among))
}

func (q *Query) matches(r *Resource) bool {
	if q.Kind != "" && q.Kind != r.Kind {
		return false
	}
	if len(q.Names)+len(q.IDs) > 0 && !slices.Contains(q.Names, r.Name()) && !slices.Contains(q.IDs, r.ID) {
		return false
	}
	for _, tag := range q.Tags {
		key, value, exact := strings.Cut(tag, "=")
		got, ok := r.Tags[key]
		if !ok || exact && got != value {
			return false
		}
	}
	return true
}

// tagValue returns the value that the filters ask of a tag; empty for none.
func tagValue(filters []string, key string) string {
	for _, f := range filters {
		if value, ok := strings.CutPrefix(f, key+"="); ok {
			return value
		}
	}
	return ""
}

// GetInstanceType returns what a type offers.
func (c *Cloud) GetInstanceType(who Login, region, name string) (InstanceType, error) {
	return call(c, who, OpGetInstanceType, subject{}, func(Tenant, time.Time) (InstanceType, *APIError) {
		if len(c.settings.zones(region)) == 0 {
			return InstanceType{}, refuse(CodeInvalidRegion, "there is no region %q", region)
		}
		t, ok := c.settings.instanceType(name)
		if !ok {
			return InstanceType{}, refuse(CodeInvalidInstanceType, "there is no instance type %q", name)
		}
		return t, nil
	})
}

// GetConsole returns what a VM has written to its console, oldest first.
func (c *Cloud) GetConsole(who Login, region, id string) ([]ConsoleLine, error) {
	return call(c, who, OpGetConsole, c.subject(id), func(a Tenant, _ time.Time) ([]ConsoleLine, *APIError) {
		if _, err := c.lookup(a, KindVM, region, id); err != nil {
			return nil, err
		}
		return append([]ConsoleLine{}, c.lines[id]...), nil
	})
}

// subject is what faults see of a call about a resource.
func (c *Cloud) subject(id string) subject {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.all[id]; r != nil {
		return subject{name: r.Name(), zone: r.Zone}
	}
	return subject{}
}
