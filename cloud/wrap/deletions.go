package wrap

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// deletionStep is the longest time by which a repeated Delete is put off so that
// it coincides with others.
const deletionStep = time.Second

// PacedDeletions repeats a Delete that the cloud has accepted no sooner than its
// Deletion.RetryAfter. Until then Delete returns what the cloud last said, with
// the time that is left: a reconcile that an event triggers costs no call. The
// wait is rounded up to a common step of at most a second, so that those who wait
// ask together, and a driver that shares lookups needs one for all of them.
//
// Only the cloud says that a VM is gone: what is remembered is never Done, and a
// Create for the same machine forgets it.
func PacedDeletions(clock Clock) cloud.Middleware {
	clock = clock.withDefaults()
	return func(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
		return &pacing{layer: layer{next}, clock: clock, accepted: map[deletionKey]acceptedDeletion{}}
	}
}

type pacing struct {
	layer
	clock Clock

	mu       sync.Mutex
	accepted map[deletionKey]acceptedDeletion
}

// deletionKey is equal for calls of Delete that ask for the same.
type deletionKey struct{ name, ownerID, providerID, state, owner, region string }

func deletionKeyOf(r cloud.Ref) deletionKey {
	return deletionKey{r.Name, r.OwnerID, r.ProviderID, r.State, r.Class.Owner, r.Class.Region}
}

// acceptedDeletion is a deletion that is under way.
type acceptedDeletion struct {
	next      time.Time // when the cloud may be asked again
	remaining []string
}

// Create forgets the deletions of the machine.
func (a *pacing) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	a.forget(r.Ref)
	return a.Account.Create(ctx, r)
}

// Delete asks the cloud, unless that has said to come back later.
func (a *pacing) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	key := deletionKeyOf(r)
	if d, early := a.remembered(key); early {
		return d, nil
	}
	d, err := a.Account.Delete(ctx, r)
	return a.remember(key, d, err), err
}

// remembered returns what the cloud last said; early is false if it may be asked.
func (a *pacing) remembered(key deletionKey) (d cloud.Deletion, early bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.accepted[key]
	left := last.next.Sub(a.clock.Now())
	if !known || left <= 0 {
		return cloud.Deletion{}, false
	}
	return cloud.Deletion{RetryAfter: left, Remaining: slices.Clone(last.remaining)}, true
}

// remember notes what the cloud said, and returns it with the wait rounded up.
func (a *pacing) remember(key deletionKey, d cloud.Deletion, err error) cloud.Deletion {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	maps.DeleteFunc(a.accepted, func(_ deletionKey, old acceptedDeletion) bool { return !old.next.After(now) })
	delete(a.accepted, key)
	if err != nil || d.Done || d.RetryAfter <= 0 {
		return d
	}
	step := min(d.RetryAfter, deletionStep)
	next := now.Add(d.RetryAfter)
	if whole := next.Truncate(step); whole.Before(next) {
		next = whole.Add(step)
	}
	a.accepted[key] = acceptedDeletion{next: next, remaining: slices.Clone(d.Remaining)}
	d.RetryAfter = next.Sub(now)
	return d
}

// forget drops the deletions of a machine, in whatever form they were asked for.
func (a *pacing) forget(r cloud.Ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.accepted, func(key deletionKey, _ acceptedDeletion) bool {
		return key.name == r.Name || r.OwnerID != "" && key.ownerID == r.OwnerID
	})
}
