package wrap

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// ListingAge is how old a listing may be that List answers from; 0 is 15
// seconds, less than 0 shares only a listing that is under way.
type ListingAge time.Duration

// SharedListing answers everyone who lists the same resources (Class.Owner, Region
// and kinds) within a period from one listing, which is kept only if it is
// complete. Callers wait for a listing that is under way, at most until their
// context ends. A listing that began at or before cloud.Freshness never answers.
// Entries are copies.
func SharedListing(age ListingAge, clock Clock) cloud.Middleware {
	const usual = ListingAge(15 * time.Second)
	if age == 0 {
		age = usual
	}
	options := driverkit.BatchOptions{InTurn: true, Keep: time.Duration(age), Now: clock.withDefaults().Now}
	return func(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
		a := &sharing{layer: layer{next}}
		a.listings = driverkit.NewBatcher(options, a.read)
		return a
	}
}

type sharing struct {
	layer
	listings *driverkit.Batcher[listingKey, listingRequest, []cloud.Resource]
}

type listingKey struct{ owner, region, kinds string }

// listingRequest is what a listing is asked for.
type listingRequest struct {
	class cloud.Class
	kinds []cloud.Kind
}

// keyOf is equal for what one listing answers.
func keyOf(c cloud.Class, kinds []cloud.Kind) listingKey {
	return listingKey{owner: c.Owner, region: c.Region, kinds: fmt.Sprint(slices.Sorted(slices.Values(kinds)))}
}

// List yields the resources of c, or one error.
func (a *sharing) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		request := listingRequest{class: c, kinds: slices.Clone(kinds)}
		resources, err := a.listings.DoSince(ctx, opList, keyOf(c, kinds), request, cloud.Freshness(ctx))
		if err != nil {
			yield(cloud.Resource{}, err)
			return
		}
		for _, r := range resources {
			if !yield(copyOf(r), nil) {
				return
			}
		}
	}
}

// read returns the complete listing that classes of one key have in common.
func (a *sharing) read(ctx context.Context, _ listingKey, requests []listingRequest) ([]cloud.Resource, error) {
	var found []cloud.Resource
	for r, err := range a.Account.List(ctx, requests[0].class, requests[0].kinds...) {
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

// copyOf returns a copy of r that shares no memory with it.
func copyOf(r cloud.Resource) cloud.Resource {
	r.Tags = maps.Clone(r.Tags)
	if r.VM != nil {
		vm := *r.VM
		vm.Addresses = slices.Clone(vm.Addresses)
		r.VM = &vm
	}
	return r
}
