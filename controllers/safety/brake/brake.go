// Package brake decides what may be replaced or deleted at once, and why not. Many machines that look
// lost, surplus or orphaned at the same time are rather a mistake than many losses, and machines that
// are gone do not come back. This page has all rules; they are pure. What they count is read and
// remembered by the [Brake], of which a manager has one.
//
//	question                               answer                                    asked by
//	may an unhealthy machine be replaced?  not in an outage: Around                  machine, mcmremediation
//	                                       as many of a pool as its limit: Turn      machine
//	may a Machine go with its Node?        not with many others: Expected, then Turn node
//	may a set create Machines?             not while it has far too many: Create     machineset
//	which surplus machines may go?         those that are not needed: Spare          machineset
//	which orphan VMs may go?               none where there are many: Orphans        orphan
//
// An API server that does not answer stops all of these: package apiserver.
package brake

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// An Answer is whether something may be done now. The zero Answer is no.
type Answer struct {
	Allowed bool
	Reason  string        // of the condition or Event that reports it; empty if allowed
	Message string        // why not, for users; stays the same while the cause does
	Again   time.Duration // when to ask again; 0: a change of what was asked about does that
}

// 1. Outages: what becomes unhealthy together is not replaced, since new VMs do not mend a partition,
// a broken network plugin, or a load balancer in front of the API server.
//
//	unhealthy  ├──┤ window        two of a zone, or of a pool: an outage
//	─────────x─────x──────────▶
//	unhealthy  ├──┤
//	─────────x───────────────x▶   two independent failures
//
// All follows from the nodes' conditions and their transition times, so a restart changes nothing.

const (
	// Window is how far apart two losses may be and still belong together. Node controllers notice an
	// unreachable node within a minute; zones fail in steps.
	Window = 5 * time.Minute
	// OutageLimit is the default for how long an outage keeps a machine, see --machine-safety-outage-limit.
	OutageLimit = 2 * time.Hour
)

// A Loss is a machine with an unhealthy node.
type Loss struct {
	Place

	// Signs are the conditions that make the node unhealthy, and since when.
	Signs map[string]time.Time
}

// Place is the zone and the pool of a machine; empty if unknown, or if it has none.
type Place struct{ Zone, Pool string }

// An Outage is where nodes became unhealthy together. The zero Outage is none.
type Outage struct {
	Zone, Pool string // one of them is set
	Nodes      int    // how many became unhealthy together
}

// Where names the zone or the pool that has the outage.
func (o Outage) Where() string {
	if o.Zone != "" {
		return "in zone " + o.Zone
	}
	return "of pool " + o.Pool
}

// Around returns the outage where a machine is: at least two nodes of its zone, or of its pool, that
// show the same sign, each at most window after the one before, all at since or later. Zones come
// before pools.
func Around(p Place, losses []Loss, window time.Duration, since time.Time) Outage {
	if p.Zone != "" {
		n := together(losses, func(l Loss) bool { return l.Zone == p.Zone }, window, since)
		if n > 0 {
			return Outage{Zone: p.Zone, Nodes: n}
		}
	}
	if p.Pool != "" {
		n := together(losses, func(l Loss) bool { return l.Pool == p.Pool }, window, since)
		if n > 0 {
			return Outage{Pool: p.Pool, Nodes: n}
		}
	}
	return Outage{}
}

// together returns the size of the largest group of losses that belong together, among those that
// in is true for; 0 if no two do.
func together(losses []Loss, in func(Loss) bool, window time.Duration, since time.Time) int {
	began := map[string][]time.Time{}
	for _, l := range losses {
		if !in(l) {
			continue
		}
		for sign, at := range l.Signs {
			if !at.Before(since) {
				began[sign] = append(began[sign], at)
			}
		}
	}
	largest := 0
	for _, times := range began {
		slices.SortFunc(times, time.Time.Compare)
		group := 1
		for i := 1; i < len(times); i++ {
			if times[i].Sub(times[i-1]) > window {
				group = 1
				continue
			}
			group++
			largest = max(largest, group)
		}
	}
	return largest
}

// 2. Turns: of a pool, as many machines are replaced at a time as its limit allows.

// A Limit is how many machines of a pool may be replaced at a time: a number, or a
// percentage of the pool's replicas. The zero Limit is one machine.
type Limit struct {
	value intstr.IntOrString
}

// ParseLimit reads a number from 1, or a percentage from 1% to 100%.
func ParseLimit(text string) (Limit, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 || percent && n > 100 {
		return Limit{}, fmt.Errorf("%q is neither a number from 1 to %d nor a percentage from 1%% to 100%%", text,
			math.MaxInt32)
	}
	return Limit{intstr.Parse(text)}, nil
}

// Of returns how many machines of a pool of that many replicas may be replaced at a
// time: a percentage is rounded down, and at least one machine may be.
func (l Limit) Of(replicas int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&l.value, replicas, false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// Replacing is what is being replaced in a pool.
type Replacing struct {
	Machines []string // the names of those that go, or come to take the place of one that went
	Missing  int      // how many successors do not exist yet
	Set      string   // a MachineSet that has yet to create some
}

// Turn is the answer about one more machine of a pool. Of the machines that are being replaced the
// message names the smallest, which seldom changes.
func Turn(limit int, r Replacing) Answer {
	a := Answer{Reason: machinev1.ReasonWaitingForTurn, Again: turnRetry}
	switch full := len(r.Machines)+r.Missing >= limit; {
	case full && len(r.Machines) > 0:
		a.Message = fmt.Sprintf("Machine %s of the same pool is being replaced", slices.Min(r.Machines))
	case full:
		a.Message = fmt.Sprintf("MachineSet %s of the same pool has fewer Machines than it wants", r.Set)
	default:
		return Answer{Allowed: true}
	}
	return a
}

// turnRetry is when a machine that waits for its turn asks again.
const turnRetry = 5 * time.Second

// 3. Mass deletion: Nodes are deleted, and VMs lose their machines, one at a time. Many at once are a
// cloud controller manager that is shown no VMs any more, or objects that were lost in a restore.

// Expected returns how many of so many nodes or VMs may be deleted, or be without a machine, at once.
func Expected(all int) int { return max(few, all/share) }

const (
	few   = 3  // always
	share = 10 // one in so many
)

// EventOrphansHeld is the reason of the Event on a MachineClass whose orphans are kept.
const EventOrphansHeld = "OrphansHeld"

// OrphanVMs are numbers of VMs of an account.
type OrphanVMs struct {
	Orphans, All int
	Removed      int  // recently, beside the orphans
	Held         bool // they were held before, and a person has not decided about each yet
}

// Orphans is the answer about the orphan VMs of an account. Once they are held they stay so, down to
// the last one.
func Orphans(n OrphanVMs) Answer {
	if n.Orphans == 0 || !n.Held && n.Orphans+n.Removed <= Expected(n.All) {
		return Answer{Allowed: true}
	}
	return Answer{
		Reason: EventOrphansHeld,
		Message: fmt.Sprintf("%d of %d VMs have no machine, which is more than can be expected: each is kept until a "+
			"person decides about it", n.Orphans, n.All),
	}
}

// 4. Overshoot: a set with far too many machines creates none until the surplus is gone. Its label
// Freeze is the state.

// FrozenLabel is what the label Freeze has on a frozen object. Any other value means that it is not frozen.
const FrozenLabel = "True"

// Bounds are numbers of machines: so many and more freeze a set, so many and fewer unfreeze it.
type Bounds struct{ Freeze, Unfreeze int64 }

// Margins are how many machines more than wanted freeze a set, and how many fewer than that unfreeze it.
type Margins struct{ Up, Down int32 }

// BoundsOf returns the bounds of a MachineSet: those that follow from the
// MachineDeployment it belongs to, or twice its own replicas if it has none.
func BoundsOf(set *machinev1.MachineSet, deployment *machinev1.MachineDeployment, m Margins) Bounds {
	most := 2*int64(set.Spec.Replicas) + int64(m.Up)
	if deployment != nil {
		most = int64(deployment.Spec.Replicas) + surge(deployment) + int64(m.Up)
	}
	return Bounds{Freeze: most, Unfreeze: min(most-int64(m.Down), most-1)}
}

// surge is what a MachineDeployment may have in excess. One that names none, or
// none that can be read, has none.
func surge(d *machinev1.MachineDeployment) int64 {
	var value *intstr.IntOrString
	switch strategy := d.Spec.Strategy; {
	case strategy.RollingUpdate != nil:
		value = strategy.RollingUpdate.MaxSurge
	case strategy.InPlaceUpdate != nil:
		value = strategy.InPlaceUpdate.MaxSurge
	}
	if value == nil {
		return 0
	}
	scaled, err := intstr.GetScaledValueFromIntOrPercent(value, int(d.Spec.Replicas), true)
	if err != nil {
		return 0
	}
	return int64(max(scaled, 0))
}

// Frozen reports whether a set with that many machines is to be frozen, or stays so if it already is.
// One without machines never is.
func (b Bounds) Frozen(set *machinev1.MachineSet, machines int) bool {
	count := int64(machines)
	if IsFrozen(set) {
		return count > b.Unfreeze && count > 0
	}
	return count >= b.Freeze && count > 0
}

// IsFrozen reports whether a MachineSet or MachineDeployment is labelled as frozen.
func IsFrozen(o metav1.Object) bool { return o.GetLabels()[machinev1.FreezeLabel] == FrozenLabel }

// Create is the answer about a MachineSet that has fewer Machines than it wants.
func Create(set *machinev1.MachineSet) Answer {
	_, disabled := set.Labels[machinev1.ScaleUpDisabledLabel]
	switch {
	case IsFrozen(set):
		return Answer{
			Reason: machinev1.ReasonFrozen,
			Message: fmt.Sprintf("none is created until the surplus is deleted; annotation %s lifts that",
				machinev1.UnfreezeAnnotation),
		}
	case disabled:
		return Answer{
			Reason:  machinev1.ReasonScalingUp,
			Message: fmt.Sprintf("label %s prevents more from being created", machinev1.ScaleUpDisabledLabel),
		}
	}
	return Answer{Allowed: true}
}

// 5. Availability: machines that a MachineDeployment needs are no surplus.

// Spare returns those of the surplus machines that may be deleted, in their order, and how many are
// kept: of the machines that are needed, as many go as there are spare ones. An available machine
// that goes in any case is one of the spare ones, too.
func Spare[M any](surplus []M, available, needed func(M) bool, spare int) (deletable []M, kept int) {
	for _, m := range surplus {
		if available(m) && !needed(m) {
			spare--
		}
	}
	for _, m := range surplus {
		if needed(m) {
			if spare--; spare < 0 {
				kept++
				continue
			}
		}
		deletable = append(deletable, m)
	}
	return deletable, kept
}
