package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// giveBackTimeout bounds the write that returns the first lease after the
// second one could not be taken.
const giveBackTimeout = 5 * time.Second

// pairLock is one lock made of MCM's two leases: it is held while both are held
// by the same identity, so that neither another of us nor MCM's two processes
// ever work at the same time as we do.
//
// Nobody holds one lease while waiting for the other: both are taken in one
// attempt that starts only when both are free, always in the same order, and an
// attempt that gets only the first returns it at once. Without hold-and-wait
// there is no deadlock, neither among several of us nor with MCM's two
// processes, each of which takes one lease and never asks for the other.
//
// An elector sees one record. It is held by whoever holds either lease, and it
// changes whenever either lease does; so it expires only when both have not
// been renewed for the lease's duration.
type pairLock struct {
	identity string
	halves   [2]half
	clock    clock.PassiveClock
	renewed  atomic.Int64 // when both were last written as ours, UnixNano; 0 while they are not
}

// half is one of the two leases as it was last seen.
type half struct {
	lock    *resourcelock.LeaseLock
	seen    resourcelock.LeaderElectionRecord
	missing bool // there is no such lease yet
}

var _ resourcelock.Interface = &pairLock{}

// newPairLock returns the lock on the leases machine-controller-manager and
// machine-controller in that namespace. Nothing is written until it is used.
func newPairLock(leases coordinationv1client.LeasesGetter, namespace, identity string, c clock.PassiveClock) *pairLock {
	l := &pairLock{identity: identity, clock: c}
	for i, name := range []string{machinev1.LeaseMachineControllerManager, machinev1.LeaseMachineController} {
		l.halves[i].lock = &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
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

// Get reads both leases. A lease that does not exist counts as free.
func (l *pairLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	for i := range l.halves {
		if err := l.halves[i].read(ctx); err != nil {
			return nil, nil, err
		}
	}
	raw, err := json.Marshal([]resourcelock.LeaderElectionRecord{l.halves[0].seen, l.halves[1].seen})
	if err != nil {
		return nil, nil, err
	}
	return l.combined(), raw, nil
}

// combined is both leases as one record: ours if both are ours, another's if
// either is, else nobody's.
func (l *pairLock) combined() *resourcelock.LeaderElectionRecord {
	if l.ours(0) && l.ours(1) {
		record := l.halves[0].seen
		return &record
	}
	record := resourcelock.LeaderElectionRecord{}
	for i, h := range l.halves {
		if h.seen.HolderIdentity == "" || l.ours(i) {
			continue
		}
		if record.HolderIdentity == "" {
			record = h.seen
		}
		record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, h.seen.LeaseDurationSeconds)
	}
	return &record
}

// Create takes both leases. Get never says that the lock is missing, so that an
// elector does not get here.
func (l *pairLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update takes, renews or, for a record without holder, releases both leases as
// they were last seen: it fails when either has changed since, and holds
// neither then unless it held both before.
func (l *pairLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return l.release(ctx, record)
	}
	held := l.ours(0) && l.ours(1)
	for i := range l.halves {
		err := l.halves[i].write(ctx, l.recordFor(i, record))
		if err == nil {
			continue
		}
		if i > 0 && !held {
			err = errors.Join(err, l.giveBack(ctx))
		}
		return fmt.Errorf("write lease %s: %w", l.halves[i].lock.Describe(), err)
	}
	l.renewed.Store(l.clock.Now().UnixNano())
	return nil
}

// recordFor is record with the history of that lease, not of its twin.
func (l *pairLock) recordFor(i int, record resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	seen := l.halves[i].seen
	record.LeaderTransitions = seen.LeaderTransitions
	switch {
	case l.ours(i):
		record.AcquireTime = seen.AcquireTime
	case !l.halves[i].missing:
		record.LeaderTransitions++
	}
	return record
}

// giveBack frees the first lease. The attempt may have ended with its context.
func (l *pairLock) giveBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	return l.halves[0].write(ctx, l.freed(0))
}

// freed is the record of a lease that nobody holds.
func (l *pairLock) freed(i int) resourcelock.LeaderElectionRecord {
	now := metav1.NewTime(l.clock.Now())
	return resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, LeaderTransitions: l.halves[i].seen.LeaderTransitions,
		AcquireTime: now, RenewTime: now,
	}
}

// release frees whichever lease is ours; one that fails does not keep the other.
func (l *pairLock) release(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.renewed.Store(0)
	var failed []error
	for i := range l.halves {
		if !l.ours(i) {
			continue
		}
		record.LeaderTransitions = l.halves[i].seen.LeaderTransitions
		if err := l.halves[i].write(ctx, record); err != nil {
			failed = append(failed, fmt.Errorf("release lease %s: %w", l.halves[i].lock.Describe(), err))
		}
	}
	return errors.Join(failed...)
}

// RecordEvent does nothing: the leases say who leads.
func (l *pairLock) RecordEvent(string) {}

// Identity is who we are.
func (l *pairLock) Identity() string { return l.identity }

// Describe names both leases.
func (l *pairLock) Describe() string {
	return l.halves[0].lock.Describe() + "+" + l.halves[1].lock.LeaseMeta.Name
}

// expiredFor says for how long we have been holding the leases without renewing
// them, beyond their duration; 0 if we do not hold them or have renewed them.
// An elector gives up long before, so that a positive answer means it is stuck.
func (l *pairLock) expiredFor(duration time.Duration) time.Duration {
	at := l.renewed.Load()
	if at == 0 {
		return 0
	}
	return max(0, l.clock.Since(time.Unix(0, at))-duration)
}

func (l *pairLock) ours(i int) bool { return l.halves[i].seen.HolderIdentity == l.identity }

// read looks the lease up and remembers it.
func (h *half) read(ctx context.Context) error {
	record, _, err := h.lock.Get(ctx)
	if h.missing = apierrors.IsNotFound(err); h.missing {
		h.seen = resourcelock.LeaderElectionRecord{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read lease %s: %w", h.lock.Describe(), err)
	}
	h.seen = *record
	return nil
}

// write creates the lease, or updates it if it still is as it was last seen.
func (h *half) write(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	put := h.lock.Update
	if h.missing {
		put = h.lock.Create
	}
	if err := put(ctx, record); err != nil {
		return err
	}
	h.missing, h.seen = false, record
	return nil
}
