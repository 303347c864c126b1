package brake

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Deps are what a Brake needs; Client and Clock are required.
type Deps struct {
	Client client.Reader // control cluster, a cache with the indexes of package index
	Nodes  client.Reader // target cluster, a cache with the indexes of package index; nil: there are no nodes
	Clock  clock.PassiveClock
	// Limit is of pools that do not set their own.
	Limit Limit
	// IgnoreOutages lets machines be replaced and deleted together as if each were alone.
	IgnoreOutages bool
	// OutageLimit is how long an outage keeps a machine from being replaced, and the Machines of
	// Nodes that are deleted together are kept; 0 is OutageLimit.
	OutageLimit time.Duration
}

// Brake reads what the rules count, and remembers what the caches do not show yet: which machines
// have had their turn, and which Nodes were deleted just before. A restart loses that; nothing
// but time depends on it. It is safe for concurrent use.
type Brake struct {
	Deps

	mu    sync.Mutex
	turns map[string]turns             // by pool
	found map[failureDomain]finding    // outages that were found a moment ago
	gone  map[types.UID]time.Time      // machines whose VM the cloud has reported gone
	kept  map[poolKey]*keptPool        // machines that an outage keeps, for Events and the metric
	in    map[client.ObjectKey]poolKey // the pools of those
	held  map[string]bool              // Nodes whose deletion is held, by name

	deciding sync.Mutex              // held while it is decided whether a Machine goes with its Node
	followed map[types.UID]time.Time // when it was decided that it does, within the Window
}

// New returns a Brake that remembers nothing.
func New(d Deps) *Brake {
	if d.OutageLimit <= 0 {
		d.OutageLimit = OutageLimit
	}
	return &Brake{
		Deps: d, turns: map[string]turns{}, found: map[failureDomain]finding{}, gone: map[types.UID]time.Time{},
		kept: map[poolKey]*keptPool{}, in: map[client.ObjectKey]poolKey{}, held: map[string]bool{},
		followed: map[types.UID]time.Time{},
	}
}

// turns are those of the machines of a pool. Unlike the phase of a Machine, a turn is known at once:
// it covers the time until the cache shows the phase.
type turns map[types.UID]turn

type turn struct {
	at      time.Time
	deletes bool // the machine is deleted in it, whatever its phase
}

// turnAge is how long a turn may outlive a machine that never showed it, because the write in it
// failed or the machine recovered.
const turnAge = time.Minute

// Replace answers whether the unhealthy machine m may be marked as Failed now. If so, it has its turn.
func (b *Brake) Replace(ctx context.Context, m *machinev1.Machine) (Answer, error) {
	return b.take(ctx, m, turn{at: b.Clock.Now()})
}

// Delete is Replace for a machine that is to be deleted now, although it may be healthy.
func (b *Brake) Delete(ctx context.Context, m *machinev1.Machine) (Answer, error) {
	return b.take(ctx, m, turn{at: b.Clock.Now(), deletes: true})
}

func (b *Brake) take(ctx context.Context, m *machinev1.Machine, as turn) (Answer, error) {
	set, deployment, err := b.OwnersOf(ctx, m)
	if err != nil {
		return Answer{}, err
	}
	key, machines, err := b.pool(ctx, m)
	if err != nil {
		return Answer{}, err
	}
	r, err := b.missing(ctx, set)
	if err != nil {
		return Answer{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range machines {
		other := &machines[i]
		if other.UID != m.UID && !leftBehind(m, other) && (replacing(other) || b.turns[key].covers(other, as.at)) {
			r.Machines = append(r.Machines, other.Name)
		}
	}
	answer := Turn(b.limit(set, deployment), r)
	if answer.Allowed {
		maps.DeleteFunc(b.turns[key], func(_ types.UID, t turn) bool { return as.at.Sub(t.at) > turnAge })
		if b.turns[key] == nil {
			b.turns[key] = turns{}
		}
		b.turns[key][m.UID] = as
	}
	return answer, nil
}

// OwnersOf returns the MachineSet that controls m, and the MachineDeployment that controls that; nil
// where there is none, or none any more. They are not to be changed.
func (b *Brake) OwnersOf(ctx context.Context, m *machinev1.Machine) (
	*machinev1.MachineSet, *machinev1.MachineDeployment, error,
) {
	set, deployment := &machinev1.MachineSet{}, &machinev1.MachineDeployment{}
	if found, err := b.controllerOf(ctx, m, machinev1.MachineSetKind, set); err != nil || !found {
		return nil, nil, err
	}
	if found, err := b.controllerOf(ctx, set, machinev1.MachineDeploymentKind, deployment); err != nil || !found {
		return set, nil, err
	}
	return set, deployment, nil
}

// controllerOf reads the controller of o into owner, and reports whether it has one of
// that kind that still exists.
func (b *Brake) controllerOf(ctx context.Context, o client.Object, kind string, owner client.Object) (bool, error) {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != kind {
		return false, nil
	}
	err := b.Client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}, owner,
		client.UnsafeDisableDeepCopy)
	return err == nil && owner.GetUID() == ref.UID, client.IgnoreNotFound(err)
}

// limit returns how many machines of a pool may be replaced at a time: what the MachineDeployment is
// annotated with, or the MachineSet if no deployment controls that, else the default. A value that
// cannot be read does not count; the pool reports it.
func (b *Brake) limit(set *machinev1.MachineSet, deployment *machinev1.MachineDeployment) int {
	replicas, annotations := 1, map[string]string(nil)
	switch {
	case deployment != nil:
		replicas, annotations = int(deployment.Spec.Replicas), deployment.Annotations
	case set != nil:
		replicas, annotations = int(set.Spec.Replicas), set.Annotations
	}
	if own, err := ParseLimit(annotations[machinev1.MaxReplacementsAnnotation]); err == nil {
		return own.Of(replicas)
	}
	return b.Limit.Of(replicas)
}

// pool returns the machines that m is replaced among: those of its MachineDeployment, which the label
// name identifies, else those of its owner, else m alone.
func (b *Brake) pool(ctx context.Context, m *machinev1.Machine) (string, []machinev1.Machine, error) {
	field, value := index.MachineByPool, m.Labels[machinev1.NameLabel]
	if value == "" {
		owner := metav1.GetControllerOf(m)
		if owner == nil {
			return m.Namespace + "/" + m.Name, nil, nil
		}
		field, value = index.MachineByOwner, string(owner.UID)
	}
	var list machinev1.MachineList
	err := b.Client.List(ctx, &list, client.InNamespace(m.Namespace), client.MatchingFields{field: value},
		client.UnsafeDisableDeepCopy)
	return m.Namespace + "/" + field + "/" + value, list.Items, err
}

// missing returns how many successors the MachineSets beside set, and set itself, have yet to create:
// a machine that is gone is being replaced until its successor exists. A set that does not create
// Machines, or cannot, wants none: else its pool could never be repaired.
func (b *Brake) missing(ctx context.Context, set *machinev1.MachineSet) (r Replacing, err error) {
	if set == nil {
		return r, nil
	}
	sets := []machinev1.MachineSet{*set}
	if owner := metav1.GetControllerOf(set); owner != nil {
		var list machinev1.MachineSetList
		if err := b.Client.List(ctx, &list, client.InNamespace(set.Namespace),
			client.MatchingFields{index.SetByOwner: string(owner.UID)}, client.UnsafeDisableDeepCopy); err != nil {
			return r, err
		}
		sets = list.Items
	}
	for i := range sets {
		set := &sets[i]
		refused := slices.ContainsFunc(set.Status.Conditions, func(c machinev1.MachineSetCondition) bool {
			return c.Type == machinev1.MachineSetReplicaFailure && c.Status == machinev1.ConditionTrue
		})
		if refused || !set.DeletionTimestamp.IsZero() || !Create(set).Allowed {
			continue
		}
		var list machinev1.MachineList
		if err := b.Client.List(ctx, &list, client.InNamespace(set.Namespace),
			client.MatchingFields{index.MachineByOwner: string(set.UID)}, client.UnsafeDisableDeepCopy); err != nil {
			return r, err
		}
		if short := int(set.Spec.Replicas) - len(list.Items); short > 0 { // those that are being deleted count by themselves
			r.Missing += short
			r.Set = cmp.Or(r.Set, set.Name)
		}
	}
	return r, nil
}

// leftBehind reports whether other has left its set and stays as it is: it will
// not be replaced, so a machine whose set replaces it does not wait for it.
func leftBehind(m, other *machinev1.Machine) bool {
	return other.DeletionTimestamp.IsZero() && metav1.GetControllerOf(other) == nil && metav1.GetControllerOf(m) != nil
}

// replacing reports whether m is a machine in between: going, or coming to take
// the place of one that went. A machine that only waits for capacity is not:
// else a pool without quota could never replace a broken machine. Neither is one
// that waits for its turn: else two of them would wait for each other.
func replacing(m *machinev1.Machine) bool {
	if !m.DeletionTimestamp.IsZero() {
		return true
	}
	if m.Status.CurrentStatus.PreserveExpiryTime != nil {
		return false
	}
	switch m.Status.CurrentStatus.Phase {
	case machinev1.MachineRunning, machinev1.MachineUnknown, machinev1.MachineAvailable,
		machinev1.MachineInPlaceUpdateFailed:
		return false
	case "", machinev1.MachineCrashLoopBackOff:
		return m.Status.LastOperation.ErrorCode != outcome.ResourceExhausted
	default:
		return true
	}
}

// covers reports whether m has its turn and the cache does not show it yet. A deletion is shown as such.
func (all turns) covers(m *machinev1.Machine, now time.Time) bool {
	t, taken := all[m.UID]
	phase := m.Status.CurrentStatus.Phase
	return taken && now.Sub(t.at) <= turnAge &&
		(t.deletes || phase == machinev1.MachineUnknown || phase == machinev1.MachineInPlaceUpdateFailed)
}
