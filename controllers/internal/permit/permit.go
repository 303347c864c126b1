// Package permit bounds how many unhealthy machines of a pool are replaced at a time.
package permit

import (
	"context"
	"fmt"
	"maps"
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

// Permits let as many unhealthy machines of a pool be replaced at a time as its limit
// allows. Unlike the phase of a Machine, a permit is known at once: it covers the time
// until the cache shows the phase. It is safe for concurrent use, and lost at a restart.
type Permits struct {
	client   client.Reader
	clock    clock.PassiveClock
	standard Limit // of pools that do not set their own

	mu      sync.Mutex
	granted map[string]permits // by pool
}

// permits are those of the machines of a pool.
type permits map[types.UID]permit

type permit struct {
	at      time.Time
	deletes bool // the machine is deleted under it, whatever its phase
}

// permitAge is how long a permit may outlive a machine that never showed it,
// because the write under it failed or the machine recovered.
const permitAge = time.Minute

// New returns Permits of which none is taken. c is a cache with index.MachineByPool
// and index.MachineByOwner; standard is the limit of pools that do not set their own.
func New(c client.Reader, clock clock.PassiveClock, standard Limit) *Permits {
	return &Permits{client: c, clock: clock, standard: standard, granted: map[string]permits{}}
}

// Take reports whether m may be marked as Failed now. If not, cause says what it waits for: of the
// machines that are being replaced it names the smallest, which seldom changes.
func (p *Permits) Take(ctx context.Context, m *machinev1.Machine) (ok bool, cause string, err error) {
	return p.take(ctx, m, permit{at: p.clock.Now()})
}

// TakeToDelete is Take for a machine that is to be deleted now, although it may be healthy.
func (p *Permits) TakeToDelete(ctx context.Context, m *machinev1.Machine) (ok bool, cause string, err error) {
	return p.take(ctx, m, permit{at: p.clock.Now(), deletes: true})
}

func (p *Permits) take(ctx context.Context, m *machinev1.Machine, as permit) (bool, string, error) {
	limit, err := p.limit(ctx, m)
	if err != nil {
		return false, "", err
	}
	key, machines, err := p.pool(ctx, m)
	if err != nil {
		return false, "", err
	}
	missing, set, err := p.missing(ctx, m)
	if err != nil {
		return false, "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	count, busy := p.busy(key, m, machines)
	switch full := count+missing >= limit; {
	case full && busy != "":
		return false, fmt.Sprintf("Machine %s of the same pool is being replaced", busy), nil
	case full:
		return false, fmt.Sprintf("MachineSet %s of the same pool has fewer Machines than it wants", set), nil
	}
	p.grant(key, m.UID, as)
	return true, "", nil
}

// busy returns how many machines are being replaced that m waits for, and the smallest name.
func (p *Permits) busy(key string, m *machinev1.Machine, machines []machinev1.Machine) (count int, first string) {
	for i := range machines {
		other := &machines[i]
		if other.UID == m.UID || leftBehind(m, other) || !replacing(other) && !p.holds(key, other) {
			continue
		}
		if count++; first == "" || other.Name < first {
			first = other.Name
		}
	}
	return count, first
}

// grant remembers a permit, and forgets those of the pool that are too old to count.
func (p *Permits) grant(key string, machine types.UID, as permit) {
	maps.DeleteFunc(p.granted[key], func(_ types.UID, of permit) bool { return p.clock.Since(of.at) > permitAge })
	if p.granted[key] == nil {
		p.granted[key] = permits{}
	}
	p.granted[key][machine] = as
}

// leftBehind reports whether other has left its set and stays as it is: it will
// not be replaced, so a machine whose set replaces it does not wait for it.
func leftBehind(m, other *machinev1.Machine) bool {
	return other.DeletionTimestamp.IsZero() && metav1.GetControllerOf(other) == nil && metav1.GetControllerOf(m) != nil
}

// holds reports whether other has a permit of the pool and the cache does not show it yet.
func (p *Permits) holds(key string, other *machinev1.Machine) bool {
	held, granted := p.granted[key][other.UID]
	if !granted || p.clock.Since(held.at) > permitAge {
		return false
	}
	if held.deletes {
		return true // the cache shows the deletion, or the permit is over
	}
	phase := other.Status.CurrentStatus.Phase
	return phase == machinev1.MachineUnknown || phase == machinev1.MachineInPlaceUpdateFailed
}

// pool returns the machines that m is replaced among: those of its
// MachineDeployment, which the label name identifies, else those of its owner,
// else m alone.
func (p *Permits) pool(ctx context.Context, m *machinev1.Machine) (string, []machinev1.Machine, error) {
	field, value := index.MachineByPool, m.Labels[machinev1.NameLabel]
	if value == "" {
		owner := metav1.GetControllerOf(m)
		if owner == nil {
			return m.Namespace + "/" + m.Name, nil, nil
		}
		field, value = index.MachineByOwner, string(owner.UID)
	}
	var list machinev1.MachineList
	err := p.client.List(ctx, &list, client.InNamespace(m.Namespace), client.MatchingFields{field: value},
		client.UnsafeDisableDeepCopy)
	return m.Namespace + "/" + field + "/" + value, list.Items, err
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
