package hetznertest

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// item is a thing in a listing.
type item struct {
	name   string
	labels map[string]string
	show   map[string]any
}

// list answers with a page of a kind.
func (c *Cloud) list(to call) (map[string]any, error) {
	kind := strings.TrimPrefix(to.path, "/")
	query := to.http.URL.Query()
	matches, err := selector(query.Get("label_selector"))
	if err != nil {
		return nil, err
	}
	var found []any
	for _, i := range c.items(kind, query) {
		if (query.Get("name") == "" || i.name == query.Get("name")) && matches(i.labels) {
			found = append(found, i.show)
		}
	}
	page, at, err := c.page(found, query)
	if err != nil {
		return nil, err
	}
	return map[string]any{kind: page, "meta": map[string]any{"pagination": at}}, nil
}

// page cuts a page out of all that was found.
func (c *Cloud) page(found []any, query url.Values) ([]any, map[string]any, error) {
	const usual = 25
	number, size := 1, usual
	for key, into := range map[string]*int{"page": &number, "per_page": &size} {
		if query.Get(key) == "" {
			continue
		}
		n, err := strconv.Atoi(query.Get(key))
		if err != nil || n < 1 || key == "per_page" && n > 50 {
			return nil, nil, invalid("invalid input in field '%s'", key)
		}
		*into = n
	}
	if sort := query.Get("sort"); sort != "" && sort != "id:asc" {
		return nil, nil, invalid("invalid input in field 'sort'")
	}
	size = min(size, c.settings.PageMax)
	last := max(1, (len(found)+size-1)/size)
	at := map[string]any{
		"page": number, "per_page": size, "last_page": last, "total_entries": len(found), "previous_page": nil,
		"next_page": nil,
	}
	if number < last {
		at["next_page"] = number + 1
	}
	from := min((number-1)*size, len(found))
	return slices.Concat([]any{}, found[from:min(from+size, len(found))]), at, nil
}

// selector returns a function that reports whether labels fit an expression. Of Hetzner's
// expressions the Cloud knows k, k=v and k==v, joined by commas.
func selector(text string) (func(labels map[string]string) bool, error) {
	type term struct {
		key, value string
		any        bool
	}
	var terms []term
	for part := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		key, value, isEqual := strings.Cut(strings.Replace(part, "==", "=", 1), "=")
		if !labelKey.MatchString(key) || !labelValue.MatchString(value) {
			return nil, invalid("invalid input in field 'label_selector': %q", part)
		}
		terms = append(terms, term{key, value, !isEqual})
	}
	return func(labels map[string]string) bool {
		return !slices.ContainsFunc(terms, func(t term) bool {
			value, there := labels[t.key]
			return !there || !t.any && value != t.value
		})
	}, nil
}

// items are the things of a kind, by id.
func (c *Cloud) items(kind string, query url.Values) (all []item) {
	switch kind {
	case "servers":
		for _, id := range ids(c.servers) {
			if s := c.servers[id]; c.shown(s.created) {
				all = append(all, item{s.name, s.labels, c.showServer(s)})
			}
		}
	case "floating_ips":
		for _, id := range ids(c.floats) {
			if f := c.floats[id]; c.shown(f.created) {
				all = append(all, item{f.name, f.labels, c.showFloating(f)})
			}
		}
	case "images":
		return c.images(query)
	}
	return append(all, c.catalog(kind, query)...)
}

// catalog is what servers are made from.
func (c *Cloud) catalog(kind string, query url.Values) (all []item) {
	switch kind {
	case "server_types":
		for _, name := range slices.Sorted(maps.Keys(c.settings.Types)) {
			all = append(all, item{name: name, show: c.showType(name, c.settings.Types[name])})
		}
	case "ssh_keys":
		return byName(c.settings.Keys, keyItem, query.Get("fingerprint"))
	case "placement_groups":
		return byName(c.settings.Groups, func(name string, id int64) item {
			return item{name: name, show: map[string]any{"id": id, "name": name, "type": "spread", "servers": c.inGroup(id)}}
		}, "")
	case "networks":
		return byName(c.settings.Networks, plainItem, "")
	case "firewalls":
		return byName(c.settings.Firewalls, plainItem, "")
	}
	return all
}

func keyItem(fingerprint string, id int64) item {
	name := "key-" + strconv.FormatInt(id, 10)
	return item{name: name, show: map[string]any{
		"id": id, "name": name, "fingerprint": fingerprint, "public_key": "ssh-ed25519 AAAA",
	}}
}

func plainItem(name string, id int64) item {
	return item{name: name, show: map[string]any{"id": id, "name": name}}
}

// byName shows things of the settings: all, or that with one key.
func byName(things map[string]int64, show func(key string, id int64) item, only string) (all []item) {
	for _, key := range slices.Sorted(maps.Keys(things)) {
		if only == "" || key == only {
			all = append(all, show(key, things[key]))
		}
	}
	return all
}

func (c *Cloud) inGroup(id int64) []int64 {
	in := []int64{}
	for _, of := range ids(c.servers) {
		s := c.servers[of]
		if s.group == id && !c.clock().Before(s.created.Add(c.settings.GroupLag)) {
			in = append(in, of)
		}
	}
	return in
}

// images are those of an architecture. Those that are deprecated are shown if that is asked for.
func (c *Cloud) images(query url.Values) (all []item) {
	architecture := query.Get("architecture")
	for _, i := range c.settings.Images {
		if architecture != "" && i.Architecture != architecture || i.Deprecated && query.Get("include_deprecated") != "true" {
			continue
		}
		show := map[string]any{
			"id": i.ID, "name": i.Name, "architecture": i.Architecture, "status": "available", "type": "system",
			"deprecated": nil, "created": c.clock().AddDate(-1, 0, 0),
		}
		if i.Deprecated {
			show["deprecated"], show["created"] = c.clock(), c.clock()
		}
		all = append(all, item{name: i.Name, show: show})
	}
	return all
}
