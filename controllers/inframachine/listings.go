package inframachine

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

const (
	// sharedAge is how old a listing may be that several callers share.
	sharedAge = 15 * time.Second
	// failedAge is how long a listing that failed stands for those who ask next: an
	// account that is refused or throttled is not asked once for each machine.
	failedAge = 30 * time.Second
)

// vmListings remembers the last listing of each account's VMs, by id, so that
// thousands of machines that check theirs within a period of minutes cost one call.
// It does not replace wrap.SharedListing, which all calls pass: that one coalesces
// calls at the same time, for seconds, gives each caller a copy of every VM, and
// asks again after a failure.
type vmListings struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	last map[string]listing
}

// listing is what one listing showed.
type listing struct {
	read time.Time           // when it was asked for
	asOf time.Time           // what was there then is in it
	vms  map[string]cloud.VM // by the cloud's id
	err  error               // why there are none; nil if there are
}

func newVMListings(c clock.PassiveClock) *vmListings {
	return &vmListings{clock: c, last: map[string]listing{}}
}

// get returns a listing that was read since then, and that shows what was there
// at asOf. It asks the cloud if there is none.
func (s *vmListings) get(ctx context.Context, r class.Resolved, since, asOf time.Time) (listing, error) {
	key, now := listingKey(r), s.clock.Now()
	l, ok := s.cached(key)
	switch {
	case ok && l.err != nil && now.Sub(l.read) < failedAge:
		return l, l.err
	case ok && l.err == nil && !l.read.Before(since) && !l.asOf.Before(asOf):
		return l, nil
	}
	l = read(ctx, r, now, asOf)
	s.put(key, l)
	return l, l.err
}

// read asks the cloud for all VMs of the account.
func read(ctx context.Context, r class.Resolved, now, asOf time.Time) listing {
	l := listing{read: now, asOf: now.Add(-sharedAge), vms: map[string]cloud.VM{}}
	if asOf.After(l.asOf) {
		l.asOf = asOf
		ctx = cloud.NotBefore(ctx, asOf)
	}
	account, err := r.Account(ctx)
	if err != nil {
		return listing{read: now, err: err}
	}
	for found, err := range account.List(ctx, r.Class, cloud.KindVM) {
		if err != nil {
			return listing{read: now, err: err}
		}
		if found.VM != nil {
			l.vms[found.ID] = *found.VM
		}
	}
	return l
}

func (s *vmListings) cached(key string) (listing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.last[key]
	return l, ok
}

// put keeps a listing, and forgets those that were not asked for in hours,
// e.g. because the credentials were rotated.
func (s *vmListings) put(key string, l listing) {
	const idle = 2 * time.Hour
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[key] = l
	for k, other := range s.last {
		if l.read.Sub(other.read) > idle {
			delete(s.last, k)
		}
	}
}

// listingKey is equal for classes whose account and listing are the same.
func listingKey(r class.Resolved) string {
	return strings.Join([]string{
		r.Driver.Traits().Name, r.Class.Endpoint, r.Class.Owner, r.Class.Region,
		r.Credentials.Fingerprint(),
	}, "\x00")
}
