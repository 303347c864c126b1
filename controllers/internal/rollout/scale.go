package rollout

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Scaling reports whether the replicas of the deployment have changed since its
// sets were last scaled. current is nil while no set has the current template:
// then a rollout goes first. Sets without the annotation do not count.
func Scaling(wanted int, newSet *Set, others []Set) bool {
	if newSet == nil {
		return false
	}
	active, left := 0, 0
	for _, s := range append([]Set{*newSet}, others...) {
		left += s.Replicas
		if !s.Active() {
			continue
		}
		active++
		if s.Desired != nil && *s.Desired != wanted {
			return true
		}
	}
	// MCM also starts from zero while machines of old sets are terminating, which
	// undoes a Recreate and exceeds the surge; then the strategy decides instead.
	return active == 0 && left == 0 && wanted > 0
}

// Scaled returns how large each set becomes when the deployment is scaled, by the
// index of sets; current is the index of the set with the current template, or
// -1. proportional is false for strategies that distribute by themselves.
//
// Out goes to the set with the current template, or to the largest where there
// is none, the youngest of several. In is taken from all sets in proportion to their size, but from
// where the machines are that somebody marked for deletion, as far as possible.
func Scaled(b Bounds, sets []Set, current int, proportional bool) []int {
	sizes := make([]int, len(sets))
	var active []int
	for i, s := range sets {
		sizes[i] = s.Spec
		if s.Active() {
			active = append(active, i)
		}
	}
	switch {
	case len(sets) == 0:
	case len(active) <= 1:
		i := activeOrLatest(sets, active, current)
		sizes[i] = single(b, sets, i)
	case current >= 0 && saturated(b, sets[current]):
		clear(sizes)
		sizes[current] = sets[current].Spec
	default:
		distribute(b, sets, active, sizes, growing(sets, active, current, proportional))
	}
	return sizes
}

// growing is the set that gets what is added: that with the template, without
// one the largest whose machines join, the youngest of several; -1 for none.
func growing(sets []Set, active []int, current int, proportional bool) int {
	switch {
	case !proportional:
		return -1
	case current >= 0:
		return current
	}
	return slices.MaxFunc(active, func(i, j int) int {
		return cmp.Or(joins(sets[i])-joins(sets[j]), cmp.Compare(sets[i].Spec, sets[j].Spec), older(sets[i], sets[j]))
	})
}

// joins is 0 for a set whose machines do not join, and 1 for others.
func joins(s Set) int {
	if s.Failing {
		return 0
	}
	return 1
}

// distribute adds to the growing set, or takes from all active ones, what
// replicas and surge differ from what is asked for.
func distribute(b Bounds, sets []Set, active, sizes []int, growing int) {
	switch more := b.Allowed() - sum(sets, spec); {
	case more < 0:
		scaleIn(b, sets, active, sizes, -more)
	case more > 0 && growing >= 0:
		// Machines that a set no longer has replicas for may still exist.
		room := max(b.Allowed()-sum(sets, expected), 0)
		// MCM gives a set more than all replicas, up to the surge, and takes them back at
		// once: a healthy machine goes if it has the lowest priority.
		sizes[growing] = max(sizes[growing], min(sizes[growing]+room, b.Replicas))
	}
}

// activeOrLatest is the one active set; without one, that with the current
// template, or the youngest.
func activeOrLatest(sets []Set, active []int, current int) int {
	switch {
	case len(active) == 1:
		return active[0]
	case current >= 0:
		return current
	}
	order := byAge(sets)
	return order[len(order)-1]
}

// single is the size of the only active set: all replicas, unless machines of
// other sets that are still there leave less room.
func single(b Bounds, sets []Set, i int) int {
	others := sum(sets, expected) - expected(sets[i])
	if b.Replicas <= sets[i].Spec {
		return b.Replicas
	}
	return max(min(b.Replicas, b.Allowed()-others), sets[i].Spec)
}

// saturated reports whether the new set has all replicas, and all are available.
func saturated(b Bounds, s Set) bool {
	return s.Spec == b.Replicas && s.Desired != nil && *s.Desired == b.Replicas && s.Available == b.Replicas
}

// scaleIn takes n machines from the active sets.
func scaleIn(b Bounds, sets []Set, active, sizes []int, n int) {
	// Largest first; of equal ones the oldest.
	slices.SortStableFunc(active, func(i, j int) int {
		return cmp.Or(cmp.Compare(sets[j].Spec, sets[i].Spec), older(sets[i], sets[j]))
	})
	taken := 0
	for _, i := range active {
		share := min(-fraction(b, sets, i), n-taken)
		share = max(min(share, sets[i].Spec), 0)
		sizes[i] -= share
		taken += share
	}
	for _, i := range active { // what rounding left over
		more := min(n-taken, sizes[i])
		sizes[i] -= more
		taken += more
	}
	keepAvailable(b, sets, active, sizes)
	preferMarked(sets, active, sizes)
}

// keepAvailable moves reductions to sets that have machines which are not available,
// as far as fewer than b.MinAvailable would be left otherwise. MCM takes in proportion
// only: a user who scales in while a rollout is stuck loses what still serves.
func keepAvailable(b Bounds, sets []Set, active, sizes []int) {
	// spare is how many machines a set can lose beyond its share before it loses an
	// available one; negative: how many available ones it loses.
	spare := func(i int) int { return unhealthy(sets[i]) - (sets[i].Spec - sizes[i]) }
	missing := b.MinAvailable() - sum(sets, available)
	for _, i := range active {
		missing += max(-spare(i), 0)
	}
	for _, i := range active {
		for _, j := range active {
			n := min(missing, -spare(i), spare(j))
			if n <= 0 {
				continue
			}
			sizes[i] += n
			sizes[j] -= n
			missing -= n
		}
	}
}

// fraction is by how much a set changes if all sets keep their proportions.
func fraction(b Bounds, sets []Set, i int) int {
	s := sets[i]
	if b.Replicas == 0 {
		return -s.Spec
	}
	whole := sum(sets, replicas)
	if s.Max != nil {
		whole = *s.Max
	}
	if whole <= 0 {
		return 0
	}
	size := math.Round(float64(s.Spec) * float64(b.Allowed()) / float64(whole))
	return int(size) - s.Spec
}

// preferMarked moves reductions to the sets whose machines were chosen, so that
// these go and not others. MCM takes in proportion only, and then deletes machines
// that were not chosen (kubernetes/autoscaler#5465 is the same in Cluster API).
func preferMarked(sets []Set, active, sizes []int) {
	for _, i := range active {
		lack := min(sets[i].Marked, sets[i].Spec) - (sets[i].Spec - sizes[i])
		for _, j := range active {
			if lack <= 0 {
				break
			}
			spare := sets[j].Spec - sizes[j] - sets[j].Marked
			n := min(lack, spare)
			if j == i || n <= 0 {
				continue
			}
			sizes[i] -= n
			sizes[j] += n
			lack -= n
		}
	}
}

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

// A DeletionRequest names a machine that a scaler wants to be deleted first.
type DeletionRequest struct {
	Name string
	// RequestedAt is a time in RFC 3339, as the scaler wrote it.
	RequestedAt string
}

// String returns the request as an entry of the annotation.
func (r DeletionRequest) String() string { return r.Name + "~" + r.RequestedAt }

// ParseDeletionRequests parses the annotation trigger-deletion-by-mcm: entries
// "name~time" separated by commas, or only names from old scalers, which get the
// time untimed. malformed has the other entries.
func ParseDeletionRequests(value string, untimed time.Time) (requests []DeletionRequest, malformed []string) {
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		name, since, timed := strings.Cut(entry, "~")
		switch {
		case entry == "":
		case !timed:
			requests = append(requests, DeletionRequest{name, untimed.UTC().Format(time.RFC3339)})
		case name == "" || !isTime(since):
			malformed = append(malformed, entry)
		default:
			requests = append(requests, DeletionRequest{name, since})
		}
	}
	return requests, malformed
}

func isTime(value string) bool {
	_, err := time.Parse(time.RFC3339, value)
	return err == nil
}
