package machinedeployment

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// A ownedSet is one MachineSet of the deployment and its Machines.
type ownedSet struct {
	// observed is the set as it was read, or as our last write left it.
	observed *machinev1.MachineSet
	// desired is the set as it shall be; see saveSets.
	desired *machinev1.MachineSet
	// machines are sorted by name. They belong to the cache.
	machines []*machinev1.Machine
	now      time.Time
}

// A scope is what one reconcile sees, wants and has done.
type scope struct {
	*Controller
	// d is the deployment as it was read, or as our last write left it.
	d *machinev1.MachineDeployment
	// desired is the deployment as it shall be, without its status; see saveDeployment.
	desired *machinev1.MachineDeployment
	now  time.Time

	// sets are the sets that d controls, oldest first.
	sets []*ownedSet
	// newSet is the pool with the template of d; nil if there is none.
	newSet *ownedSet
	// orphans are the sets of the namespace that nobody controls.
	orphans []*machinev1.MachineSet
	// nodes are those that were looked up, by name; nil where there is none.
	nodes map[string]*corev1.Node

	// selector and bounds are set once d is known to be valid.
	selector labels.Selector
	bounds   rollout.Bounds
	problems []problem
	// invalid says that the problems leave nothing to be done.
	invalid bool

	// rolloutEvent is what the pass did to the set with the template: a reason of the
	// condition Progressing and its message; empty for nothing.
	rolloutEvent explanation
	// collisions is the new collisionCount; nil for no change.
	collisions *int32
	// heldObject is the set or machine whose migration the deployment waits for; empty if none.
	heldObject string
	// requeue is when to look again; 0 for when something changes.
	requeue time.Duration
}

// rolloutEvent is the beginning of a rollout, or why it cannot begin.
type explanation struct{ reason, message string }

// observe reads what a pass needs.
func (c *Controller) observe(ctx context.Context, d *machinev1.MachineDeployment) (*scope, error) {
	s := &scope{Controller: c, d: d, desired: d.DeepCopy(), now: c.Clock.Now(), nodes: map[string]*corev1.Node{}}
	sets, err := c.sets(ctx, d.Namespace, string(d.UID))
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if err := s.addSet(ctx, set); err != nil {
			return nil, err
		}
	}
	s.orphans, err = c.sets(ctx, d.Namespace, "")
	if err != nil {
		return nil, err
	}
	s.findNewSet()
	return s, nil
}

// sets returns the sets that owner controls, oldest first. A set whose labels no
// longer match the selector stays in: MCM skips it and makes all its machines
// once more in a new set.
func (c *Controller) sets(ctx context.Context, namespace, owner string) ([]*machinev1.MachineSet, error) {
	list := &machinev1.MachineSetList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace),
		client.MatchingFields{index.SetByOwner: owner}); err != nil {
		return nil, fmt.Errorf("list machine sets: %w", err)
	}
	sets := pointers(list.Items)
	rollout.SortByAge(sets)
	return sets, nil
}

// addSet adds a set and its machines to the pools.
func (s *scope) addSet(ctx context.Context, set *machinev1.MachineSet) error {
	list := &machinev1.MachineList{}
	if err := s.Client.List(ctx, list, client.InNamespace(set.Namespace),
		client.MatchingFields{index.MachineByOwner: string(set.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list machines of %s: %w", set.Name, err)
	}
	machines := pointers(list.Items)
	slices.SortFunc(machines, func(a, b *machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	s.sets = append(s.sets, &ownedSet{observed: set, desired: set.DeepCopy(), machines: machines, now: s.now})
	return nil
}

// findNewSet finds the pool with the template.
func (s *scope) findNewSet() {
	sets := make([]*machinev1.MachineSet, len(s.sets))
	for i, o := range s.sets {
		sets[i] = o.observed
	}
	s.newSet = nil
	if set := rollout.FindNewSet(&s.d.Spec.Template, sets); set != nil {
		s.newSet = s.sets[slices.Index(sets, set)]
	}
}

// oldSets returns the pools that do not have the template, oldest first.
func (s *scope) oldSets() []*ownedSet {
	return slices.DeleteFunc(slices.Clone(s.sets), func(o *ownedSet) bool { return o == s.newSet })
}

// setViews returns what the arithmetic sees of the pools; current is nil if there is none.
func (s *scope) setViews() (current *rollout.Set, old []rollout.Set) {
	if s.newSet != nil {
		view := s.newSet.view()
		current = &view
	}
	for _, o := range s.oldSets() {
		old = append(old, o.view())
	}
	return current, old
}

// view returns what the arithmetic sees of a pool. The cached Machines are at
// least as new as what the set reports of them, but ones that it has just made
// may be missing; so the larger number counts for what exists, and the smaller
// for what is available.
func (o *ownedSet) view() rollout.Set {
	s := rollout.Set{Name: o.observed.Name, Created: o.observed.CreationTimestamp.Time}
	if !o.deleting() {
		s.Spec = int(o.desired.Spec.Replicas)
	}
	terminating, serving := 0, 0
	for _, m := range o.machines {
		if !m.DeletionTimestamp.IsZero() {
			terminating++
			continue
		}
		s.Live++
		if markedForDeletion(m) {
			s.Marked++
		}
		if isAvailable(m) {
			serving++
		}
	}
	s.Replicas = max(int(o.observed.Status.Replicas), terminating+max(s.Spec, s.Live))
	s.Available = min(int(o.observed.Status.AvailableReplicas), serving)
	s.Preserved = int(o.observed.Status.PreservedFailedReplicas)
	s.ProtectedUnavailable = rollout.Ranking{Now: o.now}.ProtectedUnavailable(o.live())
	s.Desired = parseNumber(o.observed.Annotations[machinev1.DesiredReplicasAnnotation])
	s.Max = parseNumber(o.observed.Annotations[machinev1.MaxReplicasAnnotation])
	return s
}

// deleting says that the set is being deleted.
func (o *ownedSet) deleting() bool { return !o.observed.DeletionTimestamp.IsZero() }

// live returns the machines that are not terminating.
func (o *ownedSet) live() []*machinev1.Machine {
	return slices.DeleteFunc(slices.Clone(o.machines), func(m *machinev1.Machine) bool {
		return !m.DeletionTimestamp.IsZero()
	})
}

// isAvailable says that a machine counts as available.
func isAvailable(m *machinev1.Machine) bool {
	phase := m.Status.CurrentStatus.Phase
	return phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable
}

// markedForDeletion says that somebody chose the machine to be deleted first.
func markedForDeletion(m *machinev1.Machine) bool {
	_, chosen := m.Annotations[machinev1.DeleteMachineAnnotation]
	return chosen || m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
}

// parseNumber parses an annotation; nil for an absent or unparsable one.
func parseNumber(value string) *int {
	n, err := strconv.Atoi(value)
	if err != nil {
		return nil
	}
	return &n
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
