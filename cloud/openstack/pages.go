package openstack

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// listing is what a service lists.
type listing[T any] struct {
	of    service
	path  string
	key   string // in the answer
	query url.Values
	id    func(T) string
}

// pages yields what a service lists, page by page and each once. The next page
// begins after the last item of this one; when that has gone meanwhile, after
// the one before it. It stops after the first error.
func pages[T any](ctx context.Context, a *account, op string, l listing[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := map[string]bool{}
		var after []string // ids after which the next page may begin, the best last
		for {
			items, more, err := page(ctx, a, op, l, last(after))
			if len(after) > 0 && markerGone(err) {
				after = after[:len(after)-1]
				continue
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			after = after[:0]
			for _, t := range items {
				after = append(after, l.id(t))
			}
			if !yieldNew(items, l.id, seen, yield) || !more || len(items) == 0 {
				return
			}
		}
	}
}

// markerGone reports whether a service refused a page because of where it was to
// begin.
func markerGone(err error) bool {
	return isGone(err) || err != nil && cloud.CodeOf(err) == cloud.Invalid
}

// yieldNew yields the items that were not seen before, and returns what the last
// yield returned.
func yieldNew[T any](items []T, id func(T) string, seen map[string]bool, yield func(T, error) bool) bool {
	for _, t := range items {
		if seen[id(t)] {
			continue
		}
		seen[id(t)] = true
		if !yield(t, nil) {
			return false
		}
	}
	return true
}

func last(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
}

// page returns one page, and whether there are more.
func page[T any](ctx context.Context, a *account, op string, l listing[T], after string) ([]T, bool, error) {
	path, q := l.path, maps.Clone(l.query)
	if q == nil {
		q = url.Values{}
	}
	if after != "" {
		q.Set("marker", after)
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	var out map[string]json.RawMessage
	if err := a.ask(ctx, op, call{method: http.MethodGet, of: l.of, path: path, out: &out}); err != nil {
		return nil, false, err
	}
	var items []T
	if err := json.Unmarshal(out[l.key], &items); err != nil {
		return nil, false, cloud.Errorf(cloud.Unavailable, op, "BrokenAnswer", "the cloud's answer cannot be decoded")
	}
	var links []struct {
		Rel string `json:"rel"`
	}
	_ = json.Unmarshal(out[l.key+"_links"], &links) // without links this is the last page
	for _, link := range links {
		if link.Rel == "next" {
			return items, true, nil
		}
	}
	return items, false, nil
}
