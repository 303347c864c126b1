package sim

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// lookup is what lookups have in common that can share a call.
type lookup struct{ op, region, tags string }

// wanted is what a lookup asks for: resources of a name, and one of an id. Either
// may be empty.
type wanted struct{ name, id string }

// lookUpMax is how many lookups share a call.
const lookUpMax = 100

// batched makes the lookups of an account wait for each other.
func (a *account) batched(w driverkit.Window) {
	a.lookups = driverkit.NewBatcher(
		driverkit.BatchOptions{Window: w, Max: lookUpMax, Timeout: time.Minute}, a.lookUp,
	)
}

// lookedUp returns what is wanted, as of now, and provably of r.
func (a *account) lookedUp(ctx context.Context, op string, s *spec, r cloud.Ref, w wanted) ([]Resource, error) {
	if w == (wanted{}) {
		return nil, nil
	}
	key := lookup{op, s.Region, strings.Join(s.ownership, "\n")}
	look := a.lookUp
	if a.lookups != nil {
		look = func(ctx context.Context, key lookup, _ []wanted) ([]Resource, error) {
			return a.lookups.Do(ctx, op, key, w)
		}
	}
	all, err := look(ctx, key, []wanted{w})
	var found []Resource
	for _, item := range all {
		if (w.name != "" && item.Name() == w.name || item.ID == w.id) && s.owns(item, r) {
			found = append(found, item)
		}
	}
	return found, err
}

// lookUp returns all that is wanted and has the tags of the lookup.
func (a *account) lookUp(ctx context.Context, l lookup, all []wanted) ([]Resource, error) {
	query := url.Values{}
	if l.tags != "" {
		query["tag"] = strings.Split(l.tags, "\n")
	}
	for _, w := range all {
		if w.name != "" {
			query.Add("name", w.name)
		}
		if w.id != "" {
			query.Add("id", w.id)
		}
	}
	var found []Resource
	for item, err := range a.pages(ctx, l.op, l.region, query) {
		if err != nil {
			return nil, err
		}
		found = append(found, item)
	}
	return found, nil
}
