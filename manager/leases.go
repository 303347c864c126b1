package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// giveBackTimeout bounds the write that returns leases after the
// next one could not be taken.
const giveBackTimeout = 5 * time.Second

// deferral is the duration of the leases, in seconds, that an elector sees while
// another process is left to take them. It ends when that does, not after this time.
const deferral = 24 * 60 * 60

// leaseLock is one lock made of several leases, those of the groups that run: it
// is held while all are held by the same identity. The native API has MCM's
// two, so that neither another of us nor MCM's two processes ever work at the
// same time as we do.
//
// No process holds one lease while it waits for another: all are taken in one
// attempt that starts only when all are free, always in the same order, and an
// attempt that does not get them all returns what it got at once. Without
// hold-and-wait there is no deadlock, neither among several of us nor with MCM's
// two processes, each of which takes one lease and never asks for the other.
//
// An elector sees one record. It is held by whoever holds any lease, and it
// changes whenever any lease does; so it expires only when none has been
// renewed for the lease's duration.
type leaseLock struct {
	identity string
	parts    []part
	clock    clock.PassiveClock
	fence    *fence.Fence // open while all are ours
	renewed  atomic.Int64 // when all were last written as ours, UnixNano; 0 while they are not

	// first returns why another process is left to take the leases, "" if none is; held
	// tells that somebody holds one of them validly. nil means never.
	first   func(ctx context.Context, held bool) string
	standby standby
}

// part is one of the leases as it was last seen.
type part struct {
	lock    *resourcelock.LeaseLock
	seen    resourcelock.LeaderElectionRecord
	missing bool // there is no such lease yet
}

var _ resourcelock.Interface = &leaseLock{}

// newLeaseLock returns the lock on the leases of these names, at least one, in
// that namespace. Nothing is written until it is used. Each lease is marked as
// held by us, since MCM's identities look like ours.
func newLeaseLock(leases coordinationv1client.LeasesGetter, namespace, identity string, c clock.PassiveClock,
	f *fence.Fence, names ...string,
) *leaseLock {
	l := &leaseLock{identity: identity, clock: c, fence: f}
	for _, name := range names {
		l.parts = append(l.parts, part{lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			Labels:     map[string]string{machinev1.LeaseHolderLabel: machinev1.LeaseMark(identity)},
		}})
	}
	return l
}

// newIdentity returns an identity that no other process has, also not an
// earlier one on the same host: "<hostname>_<uuid>".
func newIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read hostname: %w", err)
	}
	return host + "_" + uuid.NewString(), nil
}

// Get reads all leases, at once. A lease that does not exist counts as free.
func (l *leaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.atOnce(func(i int) error { return l.parts[i].read(ctx) }); err != nil {
		return nil, nil, err
	}
	var seen []resourcelock.LeaderElectionRecord
	for _, p := range l.parts {
		seen = append(seen, p.seen)
	}
	raw, err := json.Marshal(seen)
	if err != nil {
		return nil, nil, err
	}
	record := l.combined()
	if record.HolderIdentity == l.identity {
		return record, raw, nil
	}
	reason := ""
	if l.first != nil {
		reason = l.first(ctx, l.anyHeld())
	}
	l.standby.tell(l.clock.Now(), reason, l.parts)
	if reason != "" {
		// As if somebody held them; an elector notices that this has ended by the bytes.
		record.HolderIdentity, record.LeaseDurationSeconds, raw = reason, deferral, append(raw, reason...)
	}
	return record, raw, nil
}

// combined is all leases as one record: ours if all are ours, another's if any
// is, else without a holder.
func (l *leaseLock) combined() *resourcelock.LeaderElectionRecord {
	if l.allOurs() {
		record := l.parts[0].seen
		return &record
	}
	record := resourcelock.LeaderElectionRecord{}
	for i, p := range l.parts {
		if p.seen.HolderIdentity == "" || l.ours(i) {
			continue
		}
		if record.HolderIdentity == "" {
			record = p.seen
		}
		record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, p.seen.LeaseDurationSeconds)
	}
	return &record
}

// Create takes all leases. Get never says that the lock is missing, so that an
// elector does not get here.
func (l *leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update takes, renews or, for a record without holder, releases all leases as
// they were last seen: it fails when any has changed since, and holds none then
// unless it held all before.
func (l *leaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return l.release(ctx, record)
	}
	held, free, began := l.allOurs(), l.allFree(), l.clock.Now()
	write := l.take
	if held {
		write = l.renew
	}
	if err := write(ctx, record); err != nil {
		return err
	}
	l.renewed.Store(l.clock.Now().UnixNano())
	switch {
	case held:
		l.fence.Renewed(began)
	case free:
		l.fence.AcquiredReleased(began)
	default:
		l.fence.Acquired(began)
	}
	return nil
}

// take takes all leases, one after the other, and gives back what it got where it does not get one.
func (l *leaseLock) take(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	for i := range l.parts {
		if err := l.write(ctx, i, record); err != nil {
			return errors.Join(err, l.giveBack(ctx, i))
		}
	}
	return nil
}

// renew renews all leases at once: one after the other they would take several times as long on a
// slow API server, and be lost sooner the more APIs run.
func (l *leaseLock) renew(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.atOnce(func(i int) error { return l.write(ctx, i, record) })
}

func (l *leaseLock) write(ctx context.Context, i int, record resourcelock.LeaderElectionRecord) error {
	if err := l.parts[i].write(ctx, l.recordFor(i, record)); err != nil {
		return fmt.Errorf("write lease %s: %w", l.parts[i].lock.Describe(), err)
	}
	return nil
}

// atOnce does something with each lease, and returns when all of it has ended.
func (l *leaseLock) atOnce(do func(i int) error) error {
	failed := make([]error, len(l.parts))
	var all sync.WaitGroup
	for i := range l.parts {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// recordFor is record with the history of that lease, not of another.
func (l *leaseLock) recordFor(i int, record resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	seen := l.parts[i].seen
	record.LeaderTransitions = seen.LeaderTransitions
	switch {
	case l.ours(i):
		record.AcquireTime = seen.AcquireTime
	case !l.parts[i].missing:
		record.LeaderTransitions++
	}
	return record
}

// giveBack frees the first n leases. The attempt may have ended with its context.
func (l *leaseLock) giveBack(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	var failed error
	for i := range n {
		failed = errors.Join(failed, l.parts[i].write(ctx, l.freed(i)))
	}
	return failed
}

// freed is the record of a lease without a holder.
func (l *leaseLock) freed(i int) resourcelock.LeaderElectionRecord {
	now := metav1.NewTime(l.clock.Now())
	return resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, LeaderTransitions: l.parts[i].seen.LeaderTransitions,
		AcquireTime: now, RenewTime: now,
	}
}

// release frees whichever lease is ours, unless a request may still take effect; one
// that fails does not keep the others.
func (l *leaseLock) release(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.renewed.Store(0)
	l.fence.Released()
	if l.fence.InFlight() > 0 {
		return nil // they expire, which tells the successor that a request may still be on its way
	}
	var failed []error
	for i := range l.parts {
		if !l.ours(i) {
			continue
		}
		record.LeaderTransitions = l.parts[i].seen.LeaderTransitions
		if err := l.parts[i].write(ctx, record); err != nil {
			failed = append(failed, fmt.Errorf("release lease %s: %w", l.parts[i].lock.Describe(), err))
		}
	}
	return errors.Join(failed...)
}

// RecordEvent does nothing: the leases say who leads.
func (l *leaseLock) RecordEvent(string) {}

// Identity is who we are.
func (l *leaseLock) Identity() string { return l.identity }

// Describe names all leases.
func (l *leaseLock) Describe() string {
	names := []string{l.parts[0].lock.Describe()}
	for _, p := range l.parts[1:] {
		names = append(names, p.lock.LeaseMeta.Name)
	}
	return strings.Join(names, "+")
}

// expiredFor says for how long we have been holding the leases without renewing
// them, beyond their duration; 0 if we do not hold them or have renewed them.
// An elector gives up long before, so that a positive answer means it is stuck.
func (l *leaseLock) expiredFor(duration time.Duration) time.Duration {
	at := l.renewed.Load()
	if at == 0 {
		return 0
	}
	return max(0, l.clock.Since(time.Unix(0, at))-duration)
}

// allOurs reports whether we hold every lease.
func (l *leaseLock) allOurs() bool {
	for i := range l.parts {
		if !l.ours(i) {
			return false
		}
	}
	return true
}

// allFree reports whether every lease was free when it was last read: the former
// holder gave them up, or there was none.
func (l *leaseLock) allFree() bool {
	return !slices.ContainsFunc(l.parts, func(p part) bool { return p.seen.HolderIdentity != "" })
}

// anyHeld reports whether some lease was valid when it was last read.
func (l *leaseLock) anyHeld() bool {
	now := l.clock.Now()
	return slices.ContainsFunc(l.parts, func(p part) bool { return p.heldAt(now) })
}

func (l *leaseLock) ours(i int) bool { return l.parts[i].seen.HolderIdentity == l.identity }

// read looks the lease up and remembers it.
func (p *part) read(ctx context.Context) error {
	record, _, err := p.lock.Get(ctx)
	if p.missing = apierrors.IsNotFound(err); p.missing {
		p.seen = resourcelock.LeaderElectionRecord{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read lease %s: %w", p.lock.Describe(), err)
	}
	p.seen = *record
	return nil
}

// write creates the lease, or updates it if it still is as it was last seen.
func (p *part) write(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	put := p.lock.Update
	if p.missing {
		put = p.lock.Create
	}
	if err := put(ctx, record); err != nil {
		return err
	}
	p.missing, p.seen = false, record
	return nil
}
