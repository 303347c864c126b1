package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A Ranking orders Machines by how soon they are deleted when a set shrinks.
type Ranking struct {
	// Now tells which machines are preserved.
	Now time.Time
	// Chosen are names of Machines that a scaler wants deleted; they count as
	// having the highest priority. Nil is none.
	Chosen map[string]bool
	// Class is the class that is kept before others, of machines that are equal but for their
	// age; empty prefers none.
	Class string
}

// Sort orders machines in place, the first to be deleted first. The order is
// that of MCM: preserved machines last, then by priority, mark, phase and age;
// equal machines go by name. Machines of other classes than Class go before older ones.
func (r Ranking) Sort(machines []*machinev1.Machine) {
	slices.SortFunc(machines, func(a, b *machinev1.Machine) int {
		return cmp.Or(
			r.byPreservation(a, b),
			cmp.Compare(r.priority(a), r.priority(b)),
			byMark(a, b),
			cmp.Compare(phaseRank[PhaseOf(a)], phaseRank[PhaseOf(b)]),
			cmp.Compare(r.classRank(a), r.classRank(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name),
		)
	})
}

// ProtectedUnavailable is how many machines are neither available nor preserved and are
// deleted only after one that is available. machines are live ones.
func (r Ranking) ProtectedUnavailable(machines []*machinev1.Machine) int {
	sorted := slices.Clone(machines)
	r.Sort(sorted)
	count, behind := 0, false
	for _, m := range sorted {
		switch phase := PhaseOf(m); {
		case phase == machinev1.MachineRunning, phase == machinev1.MachineAvailable:
			behind = true
		case behind && !Preserved(m, r.Now):
			count++
		}
	}
	return count
}

// phaseRank orders phases. Those that are not listed rank first: "" and every
// phase of an update in place.
var phaseRank = map[machinev1.MachinePhase]int{
	machinev1.MachineTerminating:      0,
	machinev1.MachineFailed:           1,
	machinev1.MachineCrashLoopBackOff: 2,
	machinev1.MachineUnknown:          3,
	machinev1.MachinePending:          4,
	machinev1.MachineAvailable:        5,
	machinev1.MachineRunning:          6,
}

// PhaseOf is the phase of a machine; one that is being deleted is Terminating
// whatever its status says.
func PhaseOf(m *machinev1.Machine) machinev1.MachinePhase {
	if !m.DeletionTimestamp.IsZero() {
		return machinev1.MachineTerminating
	}
	return m.Status.CurrentStatus.Phase
}

// Preserved reports whether a machine is kept for examination at that time.
func Preserved(m *machinev1.Machine, now time.Time) bool {
	expiry := m.Status.CurrentStatus.PreserveExpiryTime
	return expiry != nil && expiry.After(now)
}

func (r Ranking) classRank(m *machinev1.Machine) int {
	return boolRank(r.Class == "" || m.Spec.Class.Name == r.Class)
}

func (r Ranking) byPreservation(a, b *machinev1.Machine) int {
	first, second := Preserved(a, r.Now), Preserved(b, r.Now)
	if !first || !second {
		return cmp.Compare(boolRank(first), boolRank(second))
	}
	return cmp.Or(
		-cmp.Compare(boolRank(autoPreserved(a)), boolRank(autoPreserved(b))),
		a.Status.CurrentStatus.PreserveExpiryTime.Compare(b.Status.CurrentStatus.PreserveExpiryTime.Time),
	)
}

func autoPreserved(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.PreserveAnnotation] == machinev1.PreserveAuto
}

// Priorities: that of machines which are deleted first, and that of those without one.
const highest, standard = 1, 3

// priority of a machine: a lower one is deleted earlier. An autoscaler's
// delete-machine annotation counts as 1, whatever its value.
func (r Ranking) priority(m *machinev1.Machine) int {
	priority, err := strconv.Atoi(m.Annotations[machinev1.PriorityAnnotation])
	if err != nil {
		priority = standard
	}
	_, marked := m.Annotations[machinev1.DeleteMachineAnnotation]
	if marked || r.Chosen[m.Name] {
		return min(priority, highest)
	}
	return priority
}

// Prioritized reports whether a user or a scaler wants a machine deleted before those of
// the standard priority.
func (r Ranking) Prioritized(m *machinev1.Machine) bool {
	return r.priority(m) < standard
}

// MarkedAt is when a machine was marked for deletion; false if it is not marked
// or the mark is not a time.
func MarkedAt(m *machinev1.Machine) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, m.Annotations[machinev1.MarkedForDeletionAnnotation])
	return at, err == nil
}

func byMark(a, b *machinev1.Machine) int {
	first, isFirst := MarkedAt(a)
	second, isSecond := MarkedAt(b)
	if isFirst && isSecond {
		return first.Compare(second)
	}
	return -cmp.Compare(boolRank(isFirst), boolRank(isSecond))
}

func boolRank(statement bool) int {
	if statement {
		return 1
	}
	return 0
}
