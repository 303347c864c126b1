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

// A pool is one MachineSet of the deployment and its Machines.
type pool struct {
	// seen is the set as it was read, or as our last write left it.
	seen *machinev1.MachineSet
	// want is the set as it shall be; see saveSets.
	want *machinev1.MachineSet
	// machines are sorted by name. They belong to the cache.
	machines []*machinev1.Machine
	now      time.Time
}

// A pass is what one reconcile sees, wants and has done.
type pass struct {
	*Controller
	// d is the deployment as it was read, or as our last write left it.
	d *machinev1.MachineDeployment
	// want is the deployment as it shall be, without its status; see saveDeployment.
	want *machinev1.MachineDeployment
	now  time.Time

	// pools are the sets that d controls, oldest first.
	pools []*pool
	// current is the pool with the template of d; nil if there is none.
	current *pool
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

	// turn is what the pass did to the set with the template: a reason of the
	// condition Progressing and its message; empty for nothing.
	turn turn
	// collisions is the new collisionCount; nil for no change.
	collisions *int32
	// held is the set or machine whose migration the deployment waits for; empty if none.
	held string
	// wait is when to look again; 0 for when something changes.
	wait time.Duration
}

// turn is the beginning of a rollout, or why it cannot begin.
type turn struct{ reason, message string }

// observe reads what a pass needs.
func (c *Controller) observe(ctx context.Context, d *machinev1.MachineDeployment) (*pass, error) {
	p := &pass{Controller: c, d: d, want: d.DeepCopy(), now: c.Clock.Now(), nodes: map[string]*corev1.Node{}}
	sets, err := c.sets(ctx, d.Namespace, string(d.UID))
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if err := p.enlist(ctx, set); err != nil {
			return nil, err
		}
	}
	p.orphans, err = c.sets(ctx, d.Namespace, "")
	if err != nil {
		return nil, err
	}
	p.elect()
	return p, nil
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

// enlist adds a set and its machines to the pools.
func (p *pass) enlist(ctx context.Context, set *machinev1.MachineSet) error {
	list := &machinev1.MachineList{}
	if err := p.Client.List(ctx, list, client.InNamespace(set.Namespace),
		client.MatchingFields{index.MachineByOwner: string(set.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list machines of %s: %w", set.Name, err)
	}
	machines := pointers(list.Items)
	slices.SortFunc(machines, func(a, b *machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	p.pools = append(p.pools, &pool{seen: set, want: set.DeepCopy(), machines: machines, now: p.now})
	return nil
}

// elect finds the pool with the template.
func (p *pass) elect() {
	sets := make([]*machinev1.MachineSet, len(p.pools))
	for i, o := range p.pools {
		sets[i] = o.seen
	}
	p.current = nil
	if set := rollout.Current(&p.d.Spec.Template, sets); set != nil {
		p.current = p.pools[slices.Index(sets, set)]
	}
}

// old returns the pools that do not have the template, oldest first.
func (p *pass) old() []*pool {
	return slices.DeleteFunc(slices.Clone(p.pools), func(o *pool) bool { return o == p.current })
}

// views returns what the arithmetic sees of the pools; current is nil if there is none.
func (p *pass) views() (current *rollout.Set, old []rollout.Set) {
	if p.current != nil {
		view := p.current.view()
		current = &view
	}
	for _, o := range p.old() {
		old = append(old, o.view())
	}
	return current, old
}

// view returns what the arithmetic sees of a pool. The cached Machines are at
// least as new as what the set reports of them, but ones that it has just made
// may be missing; so the larger number counts for what exists, and the smaller
// for what is available.
func (o *pool) view() rollout.Set {
	s := rollout.Set{Name: o.seen.Name, Created: o.seen.CreationTimestamp.Time}
	if !o.gone() {
		s.Spec = int(o.want.Spec.Replicas)
	}
	terminating, serving := 0, 0
	for _, m := range o.machines {
		if !m.DeletionTimestamp.IsZero() {
			terminating++
			continue
		}
		s.Live++
		if marked(m) {
			s.Marked++
		}
		if serves(m) {
			serving++
		}
	}
	s.Replicas = max(int(o.seen.Status.Replicas), terminating+max(s.Spec, s.Live))
	s.Available = min(int(o.seen.Status.AvailableReplicas), serving)
	s.Preserved = int(o.seen.Status.PreservedFailedReplicas)
	s.Shielded = rollout.Ranking{Now: o.now}.Shielded(o.live())
	s.Desired = number(o.seen.Annotations[machinev1.DesiredReplicasAnnotation])
	s.Max = number(o.seen.Annotations[machinev1.MaxReplicasAnnotation])
	return s
}

// gone says that the set is being deleted.
func (o *pool) gone() bool { return !o.seen.DeletionTimestamp.IsZero() }

// live returns the machines that are not terminating.
func (o *pool) live() []*machinev1.Machine {
	return slices.DeleteFunc(slices.Clone(o.machines), func(m *machinev1.Machine) bool {
		return !m.DeletionTimestamp.IsZero()
	})
}

// serves says that a machine counts as available.
func serves(m *machinev1.Machine) bool {
	phase := m.Status.CurrentStatus.Phase
	return phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable
}

// marked says that somebody chose the machine to be deleted first.
func marked(m *machinev1.Machine) bool {
	_, chosen := m.Annotations[machinev1.DeleteMachineAnnotation]
	return chosen || m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
}

// number parses an annotation; nil for an absent or unparsable one.
func number(value string) *int {
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
