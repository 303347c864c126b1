package machinedeployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// An ownedSet is a MachineSet of the deployment with its Machines.
type ownedSet struct {
	// observed is the set as it was read, or as our last write left it.
	observed *machinev1.MachineSet
	// desired is the set as patchSets writes it.
	desired *machinev1.MachineSet
	// machines are sorted by name. They belong to the cache.
	machines []*machinev1.Machine
	now      time.Time
}

// A scope is what one reconcile has observed, wants and has done.
type scope struct {
	*Controller
	// d is the deployment as it was read, or as our last write left it.
	d *machinev1.MachineDeployment
	// desired is the deployment, without its status, as patchDeployment writes it.
	desired *machinev1.MachineDeployment
	now     time.Time

	// sets are the MachineSets that d controls, oldest first.
	sets []*ownedSet
	// newSet is the one with the template of d; nil if there is none.
	newSet *ownedSet
	// orphans are the sets of the namespace without a controller.
	orphans []*machinev1.MachineSet
	// nodes are the Nodes that were read, by name; nil for one that does not exist.
	nodes map[string]*corev1.Node

	// selector and bounds are only set if d is valid.
	selector labels.Selector
	bounds   rollout.Bounds
	problems []cloud.Problem
	// invalid is true if nothing is done until a person corrects d.
	invalid bool

	// rolloutEvent is reason and message of the condition Progressing for what was
	// done to the new set; zero if nothing was.
	rolloutEvent rollout.Explanation
	// collisions is the new collisionCount; nil for no change.
	collisions *int32
	// heldObject is the set or machine that is held for a migration; "" if none is.
	heldObject string
	// unanswered is the set whose size may still change by a request of this process that got
	// no answer, which the sizes of the others wait for; "" if there is none.
	unanswered string
	// failing is how the new machines of a rollout failed to join.
	failing joining.Rollout
	// capacityMissing is true while a rolling update lacks capacity for its surge; fellBack
	// if an old machine goes in this reconcile because of that.
	capacityMissing, fellBack bool
	// requeue is when the next reconcile comes if nothing changes; 0 for never.
	requeue time.Duration
}

// observe reads from the caches what a reconcile needs.
func (c *Controller) observe(ctx context.Context, d *machinev1.MachineDeployment) (*scope, error) {
	s := &scope{Controller: c, d: d, desired: d.DeepCopy(), now: c.Clock.Now(), nodes: map[string]*corev1.Node{}}
	sets, err := c.listOwnedSets(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if err := s.addSet(ctx, set); err != nil {
			return nil, err
		}
	}
	s.orphans, err = c.listSets(ctx, d.Namespace, "")
	if err != nil {
		return nil, err
	}
	s.findNewSet()
	return s, nil
}

// listOwnedSets returns the sets of a deployment, oldest first. It fails with a conflict if the
// cache does not show what this process last wrote to one of them: how large a set may be depends
// on all others, and the optimistic lock of its patch covers it alone.
func (c *Controller) listOwnedSets(ctx context.Context, d *machinev1.MachineDeployment) ([]*machinev1.MachineSet,
	error,
) {
	sets, err := c.listSets(ctx, d.Namespace, string(d.UID))
	if err != nil {
		return nil, err
	}
	objects := make([]client.Object, len(sets))
	for i, set := range sets {
		objects[i] = set
	}
	return sets, c.ownSets.Check(ctx, d.UID, objects)
}

// listSets returns the sets that owner controls, oldest first; with an empty owner
// those without controller. A set whose labels no longer match the selector is
// included: MCM skips it and creates all its machines again in a new set.
func (c *Controller) listSets(ctx context.Context, namespace, owner string) ([]*machinev1.MachineSet, error) {
	list := &machinev1.MachineSetList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace),
		client.MatchingFields{index.SetByOwner: owner}); err != nil {
		return nil, fmt.Errorf("list MachineSets: %w", err)
	}
	sets := pointers(list.Items)
	rollout.SortByAge(sets)
	return sets, nil
}

// addSet adds a set and its machines.
func (s *scope) addSet(ctx context.Context, set *machinev1.MachineSet) error {
	list := &machinev1.MachineList{}
	if err := s.Client.List(ctx, list, client.InNamespace(set.Namespace),
		client.MatchingFields{index.MachineByOwner: string(set.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Machines of MachineSet %s: %w", set.Name, err)
	}
	machines := pointers(list.Items)
	slices.SortFunc(machines, func(a, b *machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	s.sets = append(s.sets, &ownedSet{observed: set, desired: set.DeepCopy(), machines: machines, now: s.now})
	return nil
}

// findNewSet finds the set with the template.
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

// oldSets returns the sets that do not have the template, oldest first.
func (s *scope) oldSets() []*ownedSet {
	return slices.DeleteFunc(slices.Clone(s.sets), func(o *ownedSet) bool { return o == s.newSet })
}

// setViews returns the input of the rollout arithmetic; newSet is nil if there is none.
func (s *scope) setViews() (newSet *rollout.Set, old []rollout.Set) {
	if s.newSet != nil {
		view := s.newSet.view()
		newSet = &view
	}
	for _, o := range s.oldSets() {
		old = append(old, o.view())
	}
	return newSet, old
}

// view returns the input of the rollout arithmetic for one set.
func (o *ownedSet) view() rollout.Set {
	return rollout.ViewOf(o.observed, o.desired.Spec.Replicas, o.machines, o.now)
}

// deleting reports whether the set is being deleted.
func (o *ownedSet) deleting() bool { return !o.observed.DeletionTimestamp.IsZero() }

// live returns the machines that are not being deleted.
func (o *ownedSet) live() []*machinev1.Machine {
	return slices.DeleteFunc(slices.Clone(o.machines), func(m *machinev1.Machine) bool {
		return !m.DeletionTimestamp.IsZero()
	})
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
