package machineset

import (
	"context"
	"maps"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func namesOf(set *machinev1.MachineSet) rollout.Names { return rollout.NewNames(set) }

// reserve returns at most missing ordinals to create Machines with: those that
// an unfinished reservation left over, or new ones. They are written down in the
// set before it returns.
func (c *Controller) reserve(ctx context.Context, p *pass, live []*machinev1.Machine, missing int) ([]int64, error) {
	record := p.record(live)
	left := p.unfinished(record, live)
	if len(left) > 0 {
		// No write tells here that the set is out of date.
		if now, err := c.liveSet(ctx, p); err != nil {
			return nil, err
		} else if now.ResourceVersion != p.set.ResourceVersion {
			return nil, behind("the MachineSet has changed")
		}
		if p.memory.batch.record != record {
			p.memory.batch = batch{record: record, done: map[int64]bool{}, doubt: true}
		}
		return left[:min(len(left), missing)], nil
	}
	doubt := record.Unsettled(p.now) > 0
	before := p.memory.batch
	next, err := record.Reserve(missing, p.now)
	if err != nil {
		return nil, err
	}
	// Remembered first, because the answer to the write may get lost.
	p.memory.batch = batch{record: next, done: map[int64]bool{}, doubt: doubt}
	if before.record == record {
		maps.Copy(p.memory.batch.done, before.done)
	}
	if err := c.writeRecord(ctx, p, next); err != nil {
		return nil, err
	}
	return p.unfinished(next, live), nil
}

// record is what the set says about its ordinals. A record that was lost or
// damaged is made anew from the machines there are.
func (p *pass) record(live []*machinev1.Machine) rollout.Ordinals {
	record, err := rollout.ParseOrdinals(p.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || record.Next == 0 {
		return rollout.Recover(namesOf(p.set), live)
	}
	return record
}

// unfinished returns the reserved ordinals whose Machines are still to be made.
func (p *pass) unfinished(record rollout.Ordinals, live []*machinev1.Machine) []int64 {
	if !record.IsOpen() || (!p.certain(record) && record.Unsettled(p.now) <= 0) {
		return nil
	}
	known := p.memory.batch.record == record
	there := map[string]bool{}
	for _, m := range live {
		there[m.Name] = true
	}
	names := namesOf(p.set)
	return record.Unfinished(func(ordinal int64) bool {
		return there[names.Name(ordinal)] || (known && p.memory.batch.done[ordinal])
	})
}

// certain reports whether this process made a reservation, and had an answer to
// each request to create a Machine of it.
func (p *pass) certain(record rollout.Ordinals) bool {
	return p.memory.batch.record == record && !p.memory.batch.doubt
}

// closeReservation writes down that the open ordinals are used up, if there are
// any, once no request to create one of their Machines can be under way: this
// process made them all and had all answers, or it was long ago. Until then, one
// more Machine gets one of those names, wanted or not, and a Machine that goes
// keeps its own, so that a late request of another process collides.
func (c *Controller) closeReservation(ctx context.Context, p *pass) error {
	record, err := rollout.ParseOrdinals(p.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || !record.IsOpen() {
		return nil
	}
	if left := record.Unsettled(p.now); left > 0 && !(p.certain(record) && len(p.unfinished(record, p.machines)) == 0) {
		p.after(left)
		return nil
	}
	return c.writeRecord(ctx, p, record.Close())
}

func (c *Controller) writeRecord(ctx context.Context, p *pass, record rollout.Ordinals) error {
	return c.patchSet(ctx, p, func(s *machinev1.MachineSet) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[machinev1.OrdinalsAnnotation] = record.String()
	})
}
