package machineset

import (
	"context"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// settle is after how long a create request of a process that is gone can no
// longer arrive: the API server gives every request up after a minute. Until
// then the reservation of another process is finished under the same names, so
// that a late request collides. Afterwards a name without Machine is given up,
// because its Machine may have come and gone.
const settle = 2 * time.Minute

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
	record, err := record.Reserve(missing, p.now)
	if err != nil {
		return nil, err
	}
	// Remembered first, because the answer to the write may get lost.
	p.memory.batch = batch{record: record, done: map[int64]bool{}}
	if err := c.writeRecord(ctx, p, record); err != nil {
		return nil, err
	}
	return record.Unfinished(func(int64) bool { return false }), nil
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
	known := p.memory.batch.record == record
	certain := known && !p.memory.batch.doubt
	if !record.IsOpen() || (!certain && record.Age(p.now) >= settle) {
		return nil
	}
	there := map[string]bool{}
	for _, m := range live {
		there[m.Name] = true
	}
	names := namesOf(p.set)
	return record.Unfinished(func(ordinal int64) bool {
		return there[names.Name(ordinal)] || (known && p.memory.batch.done[ordinal])
	})
}

// closeReservation writes down that the open ordinals are used up, if there are
// any: their Machines have been made, or can be made by nobody any more. One that
// nobody wants stays open until then. Closed sooner, it would send the next
// creation to another name while the request of a process that stalls is still
// under way.
func (c *Controller) closeReservation(ctx context.Context, p *pass) error {
	record, err := rollout.ParseOrdinals(p.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || !record.IsOpen() {
		return nil
	}
	age := record.Age(p.now)
	if age < settle && len(p.unfinished(record, p.machines)) > 0 {
		p.after(settle - age)
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
