package gcptest

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// get shows an instance.
func (c *Cloud) get(q call) (map[string]any, *refusal) {
	v := c.shown(q.at("instance"))
	if v == nil {
		return nil, notFound("instances", q.values["instance"])
	}
	return c.instance(v), nil
}

// instance returns an instance as the API shows it.
func (c *Cloud) instance(v *vm) map[string]any {
	zone, name, _ := strings.Cut(v.at, "/")
	out := maps.Clone(v.body)
	maps.Copy(out, map[string]any{
		"kind": "compute#instance", "id": id(v.at), "name": name, "zone": zoneURL(zone), "status": c.statusOf(v),
		"creationTimestamp": stamp(v.made), "labelFingerprint": fingerprint(v.labels), "selfLink": urlOf("instances", v.at),
	})
	if kind, has := out["machineType"].(string); has {
		out["machineType"] = zoneURL(zone) + "/machineTypes/" + path.Base(kind)
	}
	if delete(out, "labels"); len(v.labels) > 0 {
		out["labels"] = v.labels
	}
	return out
}

// show returns a disk as the API shows it.
func (d *disk) show() map[string]any {
	zone, name, _ := strings.Cut(d.at, "/")
	out := maps.Clone(d.body)
	maps.Copy(out, map[string]any{
		"kind": "compute#disk", "id": id(d.at), "name": name, "zone": zoneURL(zone), "creationTimestamp": stamp(d.made),
		"labelFingerprint": fingerprint(d.labels),
		"selfLink":         urlOf("disks", d.at),
	})
	if len(d.labels) > 0 {
		out["labels"] = d.labels
	}
	if d.vm != "" {
		out["users"] = []string{urlOf("instances", d.vm)}
	}
	return out
}

// operation shows an operation.
func (c *Cloud) operation(q call) (map[string]any, *refusal) {
	o := c.ops[q.values["operation"]]
	if o == nil {
		return nil, notFound("operations", q.values["operation"])
	}
	return c.show(o), nil
}

// machineTypes are those of every zone.
func machineTypes() map[string]map[string]any {
	return map[string]map[string]any{
		"n2-standard-2":  {"guestCpus": 2, "memoryMb": 8192, "architecture": "X86_64"},
		"n2-standard-4":  {"guestCpus": 4, "memoryMb": 16384, "architecture": "X86_64"},
		"t2a-standard-1": {"guestCpus": 1, "memoryMb": 4096, "architecture": "ARM64"},
		"g2-standard-4": {
			"guestCpus": 4, "memoryMb": 16384, "architecture": "X86_64",
			"accelerators": []any{map[string]any{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}},
		},
	}
}

func machineType(q call) (map[string]any, *refusal) {
	found := machineTypes()[q.values["machineType"]]
	if found == nil {
		return nil, notFound("machineTypes", q.values["machineType"])
	}
	maps.Copy(found, map[string]any{
		"kind": "compute#machineType", "name": q.values["machineType"], "zone": q.values["zone"],
	})
	return found, nil
}

// serialPort shows the console of an instance from a position on; a negative one counts from the
// end.
func (c *Cloud) serialPort(q call) (map[string]any, *refusal) {
	v := c.shown(q.at("instance"))
	if v == nil {
		return nil, notFound("instances", q.values["instance"])
	}
	start, _ := strconv.Atoi(q.URL.Query().Get("start"))
	if start < 0 {
		start += len(v.console)
	}
	start = min(max(start, 0), len(v.console))
	return map[string]any{
		"kind": "compute#serialPortOutput", "contents": v.console[start:], "start": strconv.Itoa(start),
		"next": strconv.Itoa(len(v.console)),
	}, nil
}

// entry is something in a listing.
type entry struct {
	at   string
	show func() map[string]any
}

var filterForm = regexp.MustCompile(`^labels\.([a-z0-9_-]+)(:\*|="([a-z0-9_-]*)")$`)

// pass reports whether labels pass a filter. The double knows two forms of them.
func pass(filter string, labels map[string]any) (bool, *refusal) {
	if filter == "" {
		return true, nil
	}
	parts := filterForm.FindStringSubmatch(filter)
	if parts == nil {
		return false, invalid("Invalid value for field 'filter': '%s'.", filter)
	}
	value, has := labels[parts[1]]
	return has && (parts[2] == ":*" || value == parts[3]), nil
}

// page returns the entries of a page, in order, and the token of the next one.
func (c *Cloud) page(q call, all []entry) ([]entry, string) {
	size := c.options.PageSize
	if most, err := strconv.Atoi(q.URL.Query().Get("maxResults")); err == nil {
		size = min(size, most)
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.at, b.at) })
	after := q.URL.Query().Get("pageToken")
	all = slices.DeleteFunc(all, func(e entry) bool { return e.at <= after })
	if len(all) <= size {
		return all, ""
	}
	return all[:size], all[size-1].at
}

// scoped returns a page by zone, as listings of all zones are.
func (c *Cloud) scoped(q call, kind string, all []entry) map[string]any {
	shown, next := c.page(q, all)
	items := map[string]any{"regions/" + Region: map[string]any{"warning": noResults()}}
	for zone := range zones() {
		var here []any
		for _, e := range shown {
			if strings.HasPrefix(e.at, zone+"/") {
				here = append(here, e.show())
			}
		}
		switch {
		case c.warning != "":
			items["zones/"+zone] = map[string]any{"warning": map[string]any{"code": c.warning, "message": "no answer"}}
		case here == nil:
			items["zones/"+zone] = map[string]any{"warning": noResults()}
		default:
			items["zones/"+zone] = map[string]any{kind: here}
		}
	}
	out := map[string]any{"items": items}
	if c.unreachable != "" {
		delete(items, "zones/"+c.unreachable)
		out["unreachables"] = []any{"zones/" + c.unreachable}
		out["warning"] = map[string]any{"code": "UNREACHABLE", "message": "Some zones were not reached."}
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out
}

func noResults() map[string]any {
	return map[string]any{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope on this page."}
}

func (c *Cloud) listInstances(q call) (map[string]any, *refusal) {
	var all []entry
	for at, v := range c.vms {
		ok, refused := pass(q.URL.Query().Get("filter"), v.labels)
		if refused != nil {
			return nil, refused
		}
		if ok && c.shown(at) != nil {
			all = append(all, entry{at, func() map[string]any { return c.instance(v) }})
		}
	}
	return c.scoped(q, "instances", all), nil
}

// disksThat returns the disks of a zone, or of all, that pass the filter of a request.
func (c *Cloud) disksThat(q call, zone string) (all []entry, refused *refusal) {
	for at, d := range c.disks {
		ok, refused := pass(q.URL.Query().Get("filter"), d.labels)
		if refused != nil {
			return nil, refused
		}
		if ok && strings.HasPrefix(at, zone) {
			all = append(all, entry{at, d.show})
		}
	}
	return all, nil
}

func (c *Cloud) listAllDisks(q call) (map[string]any, *refusal) {
	all, refused := c.disksThat(q, "")
	if refused != nil {
		return nil, refused
	}
	return c.scoped(q, "disks", all), nil
}

func (c *Cloud) listDisks(q call) (map[string]any, *refusal) {
	all, refused := c.disksThat(q, q.values["zone"]+"/")
	if refused != nil {
		return nil, refused
	}
	shown, next := c.page(q, all)
	var items []any
	for _, e := range shown {
		items = append(items, e.show())
	}
	out := map[string]any{"kind": "compute#diskList", "id": fmt.Sprint("projects/", Project), "items": items}
	if items == nil {
		delete(out, "items")
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out, nil
}
