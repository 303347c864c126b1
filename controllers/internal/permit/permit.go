// Package permit lets one unhealthy machine of a pool be replaced at a time.
package permit

import (
	"context"
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

// Permits let one unhealthy machine of a pool be replaced at a time. Unlike the
// phase of a Machine, a permit is known at once: it covers the time until the
// cache shows the phase. It is safe for concurrent use, and lost at a restart.
type Permits struct {
	client client.Reader
	clock  clock.PassiveClock

	mu      sync.Mutex
	granted map[string]permit // by pool
}

type permit struct {
	machine types.UID
	at      time.Time
}

// permitAge is how long a permit may outlive a machine that never showed it,
// because the write under it failed or the machine recovered.
const permitAge = time.Minute

// New returns Permits of which none is taken. c is a cache with index.MachineByPool
// and index.MachineByOwner.
func New(c client.Reader, clock clock.PassiveClock) *Permits {
	return &Permits{client: c, clock: clock, granted: map[string]permit{}}
}

// Take reports whether m may be marked as Failed now. If not, busy names the
// machine that is being replaced.
func (p *Permits) Take(ctx context.Context, m *machinev1.Machine) (ok bool, busy string, err error) {
	key, machines, err := p.pool(ctx, m)
	if err != nil {
		return false, "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range machines {
		other := &machines[i]
		if other.UID != m.UID && !leftBehind(m, other) && (replacing(other) || p.holds(key, other)) {
			return false, other.Name, nil
		}
	}
	p.granted[key] = permit{m.UID, p.clock.Now()}
	return true, "", nil
}

// leftBehind reports whether other has left its set and stays as it is: it will
// not be replaced, so a machine whose set replaces it does not wait for it.
func leftBehind(m, other *machinev1.Machine) bool {
	return other.DeletionTimestamp.IsZero() && metav1.GetControllerOf(other) == nil && metav1.GetControllerOf(m) != nil
}

// holds reports whether other has the pool's permit and the cache does not show it yet.
func (p *Permits) holds(key string, other *machinev1.Machine) bool {
	held := p.granted[key]
	if held.machine != other.UID || p.clock.Since(held.at) > permitAge {
		return false
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
