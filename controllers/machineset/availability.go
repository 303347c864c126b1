package machineset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// eventMachinesKept is the reason of the Event for surplus machines that are not deleted
// because their MachineDeployment needs them.
const eventMachinesKept = "MachinesKept"

// keepAvailable returns which machines may be deleted now: of the candidates, in their order,
// as many as are surplus. The size of the set may follow from what a user has asked for and
// taken back since: available machines are deleted only as far as the MachineDeployment, read
// uncached, allows. It scales the set out again, or other machines become available in their
// place. Machines that a scaler lists are deleted in any case, those that a user or a scaler
// prefers as far as there are more than the MachineDeployment asks for. From a set that is
// rolled out, unavailable machines are deleted in place of those that are kept.
func (c *Controller) keepAvailable(ctx context.Context, s *scope, candidates []*machinev1.Machine, count int,
	all []*machinev1.Machine,
) ([]*machinev1.Machine, error) {
	surplus := candidates[:count]
	if s.deployment == nil || !slices.ContainsFunc(surplus, isAvailable) {
		return surplus, nil
	}
	live, bounds, err := c.liveBounds(ctx, s)
	if err != nil || bounds == nil {
		return surplus, err
	}
	tie, own := s.tieLasts(), countsOf(all)
	others, err := c.countOtherSets(ctx, s, tie)
	if err != nil {
		return nil, err
	}
	least := max(rollout.LeastAvailable(live, *bounds)-own.preserved-others.preserved, 0)
	chosen := s.chosen(live, surplus, own.existing+others.existing-mostWanted(*bounds, others))
	needed := func(m *machinev1.Machine) bool { return isAvailable(m) && !chosen[m.Name] }
	deletable, withheld := brake.Spare(surplus, isAvailable, needed, others.available+own.available-least)
	if isRolledOut(live, s.set) {
		instead := unavailable(candidates[count:], withheld)
		deletable, withheld = append(deletable, instead...), withheld-len(instead)
	}
	if s.withheld = withheld; withheld > 0 {
		c.reportKept(s, live, tie, len(surplus), least)
	}
	return deletable, nil
}

// reportKept emits an Event about surplus machines that are kept, once, and has the set look
// again if they are kept because of a tie.
func (c *Controller) reportKept(s *scope, live *machinev1.MachineDeployment, tie bool, surplus, least int) {
	if !tie {
		s.requeueAfter(tieBreak)
	}
	if s.memory.kept.since.IsZero() {
		c.Events.Eventf(s.set, corev1.EventTypeNormal, eventMachinesKept, "Kept %d of %d surplus machines: "+
			"MachineDeployment %s keeps %d available; they are deleted once others are available; "+
			"to do without one now, delete that Machine",
			s.withheld, surplus, live.Name, least)
	}
}

// tieBreak is how long two sets of a MachineDeployment may keep their surplus machines
// because of each other.
const tieBreak = time.Minute

// tieLasts reports whether the set has kept surplus machines for so long, at this size, that
// the others know its size and have ended what they had begun before.
func (s *scope) tieLasts() bool {
	kept := s.memory.kept
	return !kept.since.IsZero() && kept.size == s.set.Spec.Replicas && s.now.Sub(kept.since) >= tieBreak
}

// rememberKept remembers since when surplus machines are kept.
func (s *scope) rememberKept() {
	switch kept := &s.memory.kept; {
	case s.withheld == 0:
		*kept = keeping{}
	case kept.since.IsZero() || kept.size != s.set.Spec.Replicas:
		*kept = keeping{s.now, s.set.Spec.Replicas}
	}
}

// isRolledOut reports whether the machines of a set give way to those of another template.
func isRolledOut(live *machinev1.MachineDeployment, set *machinev1.MachineSet) bool {
	return !machinev1.SameTemplate(&live.Spec.Template, &set.Spec.Template)
}

// unavailable returns the first machines that are not available, at most so many.
func unavailable(machines []*machinev1.Machine, atMost int) []*machinev1.Machine {
	var found []*machinev1.Machine
	for _, m := range machines {
		if len(found) < atMost && !isAvailable(m) && !preservedFailed(m) {
			found = append(found, m)
		}
	}
	return found
}

// mostWanted is how many machines a MachineDeployment asks for: while there are sets beside this
// one, the surge as well.
func mostWanted(b rollout.Bounds, others counts) int {
	if others.existing > 0 {
		return b.Allowed()
	}
	return b.Replicas
}

// chosen returns the names of the surplus machines that go in any case: those that a scaler lists,
// and those that are preferred, as far as the MachineDeployment has machines beyond what it asks for.
// A preference says which machine goes when a set is scaled in, not that one goes after the user
// has taken that back.
func (s *scope) chosen(live *machinev1.MachineDeployment, surplus []*machinev1.Machine, beyond int) map[string]bool {
	requests, _ := rollout.ParseDeletionRequests(live.Annotations[machinev1.TriggerDeletionAnnotation], s.now)
	chosen := map[string]bool{}
	for _, request := range requests {
		chosen[request.Name] = true
	}
	for _, m := range surplus {
		goes := chosen[m.Name] || !isAvailable(m)
		if !goes && beyond > 0 && s.isPreferred(live, m) {
			chosen[m.Name], goes = true, true
		}
		if goes {
			beyond--
		}
	}
	return chosen
}

// isPreferred reports whether a user or a scaler wants m deleted before others of the set. The
// mark of a scaler counts as long as the MachineDeployment lists the machine. A priority
// says which machine goes when the set is scaled in, not that a rollout may do without it.
func (s *scope) isPreferred(live *machinev1.MachineDeployment, m *machinev1.Machine) bool {
	if _, marked := rollout.MarkedAt(m); marked {
		return false
	}
	if _, marked := m.Annotations[machinev1.DeleteMachineAnnotation]; marked {
		return true
	}
	if isRolledOut(live, s.set) {
		return false
	}
	priority := m.Annotations[machinev1.PriorityAnnotation]
	return priority != s.set.Spec.Template.Annotations[machinev1.PriorityAnnotation] &&
		rollout.Ranking{Now: s.now}.Prioritized(m)
}

// liveBounds returns the set's MachineDeployment, uncached, and within which numbers of machines it
// is rolled out; nil if it keeps no machine available.
func (c *Controller) liveBounds(ctx context.Context, s *scope) (*machinev1.MachineDeployment, *rollout.Bounds, error) {
	live := &machinev1.MachineDeployment{}
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.deployment), live)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read MachineDeployment on the API server: %w", err)
	}
	rolling := live.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType
	if live.UID != s.deployment.UID || !live.DeletionTimestamp.IsZero() || !rolling {
		return live, nil, nil
	}
	bounds, err := rollout.BoundsOf(live)
	if err != nil || rollout.LeastAvailable(live, bounds) == 0 {
		return live, nil, nil //nolint:nilerr // the MachineDeployment reports its invalid spec, and promises nothing
	}
	return live, &bounds, nil
}

// counts are numbers of machines.
type counts struct{ existing, available, preserved int }

// countsOf counts machines that replicas cover, those that are available, and failed ones that are
// preserved, of which as many need not be available, as for the condition Available.
func countsOf(machines []*machinev1.Machine) counts {
	c := counts{existing: len(countedMachines(machines)), available: available(machines)}
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() && preservedFailed(m) {
			c.preserved++
		}
	}
	return c
}

// countOtherSets counts the machines of the MachineDeployment's other sets. Available ones
// that such a set has beyond its size do not count: it may be deleting them now. Of two
// sets that were resized, at least the one whose change is younger sees both sizes.
//
// Two sets could keep their surplus because of each other for ever. So in a tie that lasts
// the surplus of sets with a greater name counts, read uncached: these do not count the
// surplus of this set, and leave enough machines even if it deletes all of that.
func (c *Controller) countOtherSets(ctx context.Context, s *scope, tie bool) (counts, error) {
	sets := &machinev1.MachineSetList{}
	err := c.Client.List(ctx, sets, client.InNamespace(s.set.Namespace),
		client.MatchingFields{index.SetByOwner: string(s.deployment.UID)})
	if err != nil {
		return counts{}, fmt.Errorf("list MachineSets: %w", err)
	}
	var sum counts
	for i := range sets.Items {
		other := &sets.Items[i]
		if other.UID == s.set.UID {
			continue
		}
		of, err := c.countSet(ctx, other, tie)
		if err != nil {
			return counts{}, err
		}
		if !tie || other.Name < s.set.Name {
			of.available = min(of.available, int(other.Spec.Replicas))
		}
		sum.existing += min(of.existing, int(other.Spec.Replicas))
		sum.available += of.available
		sum.preserved += of.preserved
	}
	return sum, nil
}

// countSet counts the machines of a set, on the API server or as the cache shows them.
func (c *Controller) countSet(ctx context.Context, set *machinev1.MachineSet, uncached bool) (counts, error) {
	list, err := &machinev1.MachineList{}, error(nil)
	if selector, invalid := metav1.LabelSelectorAsSelector(set.Spec.Selector); uncached && invalid == nil {
		err = c.Live.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingLabelsSelector{Selector: selector})
	} else {
		err = c.Client.List(ctx, list, client.InNamespace(set.Namespace),
			client.MatchingFields{index.MachineByOwner: string(set.UID)})
	}
	if err != nil {
		return counts{}, fmt.Errorf("list Machines: %w", err)
	}
	var machines []*machinev1.Machine
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], set) {
			machines = append(machines, &list.Items[i])
		}
	}
	return countsOf(machines), nil
}

// isAvailable reports whether a machine serves: it has a node that is ready.
func isAvailable(m *machinev1.Machine) bool {
	phase := rollout.PhaseOf(m)
	return phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable
}
