package machineset

import (
	"context"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/fence"
	"github.com/capmcm/cluster-api-provider-mcm/naming"
)

func namesOf(set *machinev1.MachineSet) naming.Names { return naming.NewNames(set) }

// reserveOrdinals returns at most missing ordinals to create Machines with: those
// of an unfinished reservation, or new ones. They are recorded in the set before
// it returns.
func (c *Controller) reserveOrdinals(ctx context.Context, s *scope, live []*machinev1.Machine, missing int,
) ([]int64, error) {
	record := s.ordinalsRecord(live)
	left := c.unfinishedOrdinals(s, record, live)
	if len(left) > 0 {
		// Nothing is written here, so no conflict would reveal a stale set.
		if now, err := c.getLiveSet(ctx, s); err != nil {
			return nil, err
		} else if now.ResourceVersion != s.set.ResourceVersion {
			return nil, errCacheStale("the MachineSet has changed")
		}
		s.memory.batch = s.memory.batch.follow(record)
		return left[:min(len(left), missing)], nil
	}
	inFlight := c.createsInFlight(s, record) > 0
	next, err := reserve(record, missing, inFlight)
	if err != nil {
		return nil, err
	}
	// Remembered before the write, because its answer may get lost.
	b := batch{done: map[int64]bool{}}
	if inFlight {
		b = s.memory.batch.follow(record)
	}
	b.record = next
	s.memory.batch = b
	if err := c.writeOrdinals(ctx, s, next); err != nil {
		return nil, err
	}
	return c.unfinishedOrdinals(s, next, live), nil
}

// reserve reserves count further ordinals. An earlier reservation stays open if
// requests to create its Machines are in flight: they may still take effect.
func reserve(record naming.Ordinals, count int, inFlight bool) (naming.Ordinals, error) {
	if inFlight {
		return record.Reserve(count)
	}
	return record.Close().Reserve(count)
}

// ordinalsRecord returns the set's record of ordinals. A lost or damaged record is
// restored from the existing Machines.
func (s *scope) ordinalsRecord(live []*machinev1.Machine) naming.Ordinals {
	record, err := naming.ParseOrdinals(s.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || record.Next == 0 {
		return naming.Recover(namesOf(s.set), live)
	}
	return record
}

// unfinishedOrdinals returns the reserved ordinals whose Machines are yet to be created.
// Once no request to create one can be in flight any more, a name without Machine
// is given up: its Machine may have existed.
func (c *Controller) unfinishedOrdinals(s *scope, record naming.Ordinals, live []*machinev1.Machine) []int64 {
	if !record.IsOpen() || (!s.allCreatesAnswered(record) && c.createsInFlight(s, record) == 0) {
		return nil
	}
	known := s.memory.batch.record == record
	exists := map[string]bool{}
	for _, m := range live {
		exists[m.Name] = true
	}
	names := namesOf(s.set)
	return record.Unfinished(func(ordinal int64) bool {
		return exists[names.Name(ordinal)] || (known && s.memory.batch.done[ordinal])
	})
}

// allCreatesAnswered reports whether this process made the reservation and received
// an answer to each of its create requests.
func (s *scope) allCreatesAnswered(record naming.Ordinals) bool {
	b := s.memory.batch
	return b.record == record && !b.inherited && b.unanswered.IsZero()
}

// createsInFlight returns for how long a request to create a Machine of an open
// reservation may still take effect: one of a former leader, or one of this process
// that got no answer; 0 if there is none.
func (c *Controller) createsInFlight(s *scope, record naming.Ordinals) time.Duration {
	b := s.memory.batch
	if !record.IsOpen() {
		return 0
	}
	var left time.Duration
	if !b.unanswered.IsZero() { // whatever the record says: a write of it may have got lost
		left = fence.Reach - s.now.Sub(b.unanswered)
	}
	if b.record != record || b.inherited {
		left = max(left, c.Fence.FormerLeader())
	}
	return max(left, 0)
}

// closeReservation records that the open ordinals are used up, once no request to
// create one of their Machines can be in flight. Until then a further Machine gets
// one of those names, and a deleted Machine keeps its name, so that a late request
// collides.
func (c *Controller) closeReservation(ctx context.Context, s *scope) error {
	record, err := naming.ParseOrdinals(s.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || !record.IsOpen() {
		return nil //nolint:nilerr // the next reservation restores a damaged record
	}
	if left := c.createsInFlight(s, record); left > 0 {
		s.requeueAfter(left)
		return nil
	}
	return c.writeOrdinals(ctx, s, record.Close())
}

func (c *Controller) writeOrdinals(ctx context.Context, s *scope, record naming.Ordinals) error {
	return c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[machinev1.OrdinalsAnnotation] = record.String()
	})
}
