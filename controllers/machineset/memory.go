package machineset

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// expectationTimeout is how long a write to a Machine is remembered that the cache
// does not show. It is as long as MCM's.
const expectationTimeout = 5 * time.Minute

// memory is what this process knows of one MachineSet beyond the caches. A restart
// loses it without harm: machines are counted on the API server before one is
// created.
type memory struct {
	uid types.UID
	// writes to Machines that the cache does not show yet, by name.
	writes map[string]write
	// batch is the last reservation of this process.
	batch batch
	// unfrozenUntil is until when a set that a person has unfrozen is not frozen again.
	unfrozenUntil time.Time
	// reportedProblems is the message of the last Event about the spec.
	reportedProblems string
	// holdReported is true if an Event has said that the set waits for a held Machine.
	holdReported bool
}

// write is the outcome of a write to a Machine.
type write struct {
	machine   *machinev1.Machine
	notCached bool // created, and never yet in the cache
	expires   time.Time
}

// batch is a reservation that this process made or took over.
type batch struct {
	record rollout.Ordinals
	// done are the ordinals whose Machine has been created once.
	done map[int64]bool
	// inherited is true if a former leader made the reservation, or one that is still
	// open beside it.
	inherited bool
	// unanswered is when a create request of this process got no answer; zero if each did.
	unanswered time.Time
}

// memoryOf returns the memory of a set; it is new for another set of the same name.
func (c *Controller) memoryOf(set *machinev1.MachineSet) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	if m := c.memories[key]; m != nil && m.uid == set.UID {
		return m
	}
	m := &memory{uid: set.UID, writes: map[string]write{}}
	c.memories[key] = m
	return m
}

// forget drops the memory of a set that no longer exists.
func (c *Controller) forget(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memories, key)
}

// recordWrite remembers the Machine that a write returned.
func (m *memory) recordWrite(machine *machinev1.Machine, now time.Time) {
	m.writes[machine.Name] = write{
		machine: machine, notCached: m.writes[machine.Name].notCached, expires: now.Add(expectationTimeout),
	}
}

// recordCreate remembers a Machine that the cache may never have shown.
func (m *memory) recordCreate(machine *machinev1.Machine, now time.Time) {
	m.writes[machine.Name] = write{machine: machine, notCached: true, expires: now.Add(expectationTimeout)}
}

// recordDelete remembers that a Machine is being deleted.
func (m *memory) recordDelete(machine *machinev1.Machine, now time.Time) *machinev1.Machine {
	going := machine.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: now}
	m.recordWrite(going, now)
	return going
}

// overlay returns the cached Machines with the writes of this process applied,
// sorted by name. It forgets writes that the cache shows, and expired ones.
func (m *memory) overlay(cached []*machinev1.Machine, now time.Time) []*machinev1.Machine {
	all := make(map[string]*machinev1.Machine, len(cached))
	for _, machine := range cached {
		all[machine.Name] = m.newer(machine, now)
	}
	for name, w := range m.writes {
		if _, found := all[name]; found {
			continue
		}
		if !w.notCached || !now.Before(w.expires) {
			delete(m.writes, name)
			continue
		}
		all[name] = w.machine
	}
	names := slices.Sorted(maps.Keys(all))
	merged := make([]*machinev1.Machine, len(names))
	for i, name := range names {
		merged[i] = all[name]
	}
	return merged
}

// newer returns the newer of a cached Machine and what this process wrote to it.
func (m *memory) newer(cached *machinev1.Machine, now time.Time) *machinev1.Machine {
	w, found := m.writes[cached.Name]
	if !found {
		return cached
	}
	if w.machine.UID != cached.UID || !now.Before(w.expires) {
		delete(m.writes, cached.Name)
		return cached
	}
	w.notCached = false
	m.writes[cached.Name] = w
	if isOlder(cached, w.machine) {
		return w.machine
	}
	if !w.machine.DeletionTimestamp.IsZero() && cached.DeletionTimestamp.IsZero() {
		going := cached.DeepCopy()
		going.DeletionTimestamp = w.machine.DeletionTimestamp
		return going
	}
	delete(m.writes, cached.Name)
	return cached
}

// dropDeleted forgets Machines that were created here, were never in the cache, and
// no longer exist on the API server. It returns the known Machines without them.
func (m *memory) dropDeleted(known, live []*machinev1.Machine) []*machinev1.Machine {
	exists := map[string]bool{}
	for _, machine := range live {
		exists[machine.Name] = true
	}
	return slices.DeleteFunc(known, func(machine *machinev1.Machine) bool {
		if !m.writes[machine.Name].notCached || exists[machine.Name] {
			return false
		}
		delete(m.writes, machine.Name)
		return true
	})
}

// untilFirstExpiry returns when the first write expires; 0 if there is none.
func (m *memory) untilFirstExpiry(now time.Time) time.Duration {
	var wait time.Duration
	for _, w := range m.writes {
		if left := w.expires.Sub(now); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

func isOlder(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
