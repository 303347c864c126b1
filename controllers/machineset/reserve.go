package machineset

import (
	"context"
	"maps"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func namesOf(set *machinev1.MachineSet) rollout.Names { return rollout.NewNames(set) }

// reserveOrdinals returns at most missing ordinals to create Machines with: those that
// an unfinished reservation left over, or new ones. They are written down in the
// set before it returns.
func (c *Controller) reserveOrdinals(ctx context.Context, s *scope, live []*machinev1.Machine, missing int) ([]int64, error) {
	record := s.ordinalsRecord(live)
	left := s.unfinishedOrdinals(record, live)
	if len(left) > 0 {
		// No write tells here that the set is out of date.
		if now, err := c.getLiveSet(ctx, s); err != nil {
			return nil, err
		} else if now.ResourceVersion != s.set.ResourceVersion {
			return nil, errCacheStale("the MachineSet has changed")
		}
		if s.memory.batch.record != record {
			s.memory.batch = batch{record: record, done: map[int64]bool{}, unconfirmedCreates: true}
		}
		return left[:min(len(left), missing)], nil
	}
	unconfirmed := record.Unsettled(s.now) > 0
	before := s.memory.batch
	next, err := record.Reserve(missing, s.now)
	if err != nil {
		return nil, err
	}
	// Remembered first, because the answer to the write may get lost.
	s.memory.batch = batch{record: next, done: map[int64]bool{}, unconfirmedCreates: unconfirmed}
	if before.record == record {
		maps.Copy(s.memory.batch.done, before.done)
	}
	if err := c.writeOrdinals(ctx, s, next); err != nil {
		return nil, err
	}
	return s.unfinishedOrdinals(next, live), nil
}

// ordinalsRecord is what the set says about its ordinals. A record that was lost or
// damaged is made anew from the machines there are.
func (s *scope) ordinalsRecord(live []*machinev1.Machine) rollout.Ordinals {
	record, err := rollout.ParseOrdinals(s.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || record.Next == 0 {
		return rollout.Recover(namesOf(s.set), live)
	}
	return record
}

// unfinishedOrdinals returns the reserved ordinals whose Machines are still to be made.
func (s *scope) unfinishedOrdinals(record rollout.Ordinals, live []*machinev1.Machine) []int64 {
	if !record.IsOpen() || (!s.allCreatesAnswered(record) && record.Unsettled(s.now) <= 0) {
		return nil
	}
	known := s.memory.batch.record == record
	there := map[string]bool{}
	for _, m := range live {
		there[m.Name] = true
	}
	names := namesOf(s.set)
	return record.Unfinished(func(ordinal int64) bool {
		return there[names.Name(ordinal)] || (known && s.memory.batch.done[ordinal])
	})
}

// allCreatesAnswered reports whether this process made a reservation, and had an answer to
// each request to create a Machine of it.
func (s *scope) allCreatesAnswered(record rollout.Ordinals) bool {
	return s.memory.batch.record == record && !s.memory.batch.unconfirmedCreates
}

// closeReservation writes down that the open ordinals are used up, if there are
// any, once no request to create one of their Machines can be under way: this
// process made them all and had all answers, or it was long ago. Until then, one
// more Machine gets one of those names, wanted or not, and a Machine that goes
// keeps its own, so that a late request of another process collides.
func (c *Controller) closeReservation(ctx context.Context, s *scope) error {
	record, err := rollout.ParseOrdinals(s.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || !record.IsOpen() {
		return nil
	}
	if left := record.Unsettled(s.now); left > 0 && !(s.allCreatesAnswered(record) && len(s.unfinishedOrdinals(record, s.machines)) == 0) {
		s.requeueAfter(left)
		return nil
	}
	return c.writeOrdinals(ctx, s, record.Close())
}

func (c *Controller) writeOrdinals(ctx context.Context, s *scope, record rollout.Ordinals) error {
	return c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[machinev1.OrdinalsAnnotation] = record.String()
	})
}
