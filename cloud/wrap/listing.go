package wrap

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// ListingAge is how old a listing may be that List answers from; 0 is 15
// seconds, less than 0 shares only what is being read at the moment.
type ListingAge time.Duration

// SharedListing gives everyone who lists the same resources (Class.Owner and
// Region) within a period the same listing, which is read once. The listing is
// kept only when it is whole. Those who ask while it is read wait for it, or
// until their context ends. Entries are copies.
func SharedListing(age ListingAge, clock Clock) cloud.Middleware {
	const usual = ListingAge(15 * time.Second)
	if age == 0 {
		age = usual
	}
	clock = clock.withDefaults()
	return func(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
		return &sharing{layer: layer{next}, age: time.Duration(age), clock: clock, listings: map[listingKey]*listing{}}
	}
}

type sharing struct {
	layer
	age   time.Duration
	clock Clock

	mu       sync.Mutex
	listings map[listingKey]*listing // whole ones, and those being read
}

type listingKey struct{ owner, region string }

// listing is one reading. All but the first two fields are valid once done is
// closed.
type listing struct {
	began time.Time
	done  chan struct{}

	resources []cloud.Resource
	err       error
	abandoned bool // the reader gave up; err says nothing about the cloud
}

// List yields the resources of c, or one error.
func (a *sharing) List(ctx context.Context, c cloud.Class) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		resources, err := a.get(ctx, c)
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

// get returns a listing that is young enough, from memory or from the cloud.
func (a *sharing) get(ctx context.Context, c cloud.Class) ([]cloud.Resource, error) {
	key := listingKey{c.Owner, c.Region}
	after := cloud.Freshness(ctx)
	for {
		l, mine := a.claim(key, after)
		if mine {
			a.read(ctx, c, key, l)
			return l.resources, l.err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, cloud.Errorf(cloud.Unavailable, opList, "Canceled", "wait for a listing: %w", ctx.Err())
		}
		if !l.abandoned && l.began.After(after) {
			return l.resources, l.err
		}
	}
}

// claim returns a listing that began after that time or is being read, or a new
// one that the caller has to read. Listings that are too old are forgotten.
func (a *sharing) claim(key listingKey, after time.Time) (l *listing, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	maps.DeleteFunc(a.listings, func(_ listingKey, l *listing) bool {
		return l.read() && now.Sub(l.began) > a.age
	})
	if l := a.listings[key]; l != nil && (!l.read() || l.began.After(after)) {
		return l, false
	}
	l = &listing{began: now, done: make(chan struct{})}
	a.listings[key] = l
	return l, true
}

// read reports whether the reading is over.
func (l *listing) read() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// read fills l from the cloud. Only a whole listing stays in memory. Those who
// wait are released even by a panic.
func (a *sharing) read(ctx context.Context, c cloud.Class, key listingKey, l *listing) {
	var found []cloud.Resource
	whole := false
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if l.resources = found; !whole {
			l.resources, l.abandoned = nil, l.err == nil || ctx.Err() != nil
			if a.listings[key] == l {
				delete(a.listings, key)
			}
		}
		close(l.done)
	}()
	for r, err := range a.Account.List(ctx, c) {
		if err != nil {
			l.err = err
			return
		}
		found = append(found, r)
	}
	whole = true
}

// copyOf returns r with nothing shared.
func copyOf(r cloud.Resource) cloud.Resource {
	r.Tags = maps.Clone(r.Tags)
	if r.VM != nil {
		vm := *r.VM
		vm.Addresses = slices.Clone(vm.Addresses)
		r.VM = &vm
	}
	return r
}
