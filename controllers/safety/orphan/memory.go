package orphan

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// memory is what earlier scans have found. Nothing depends on it: after a restart,
// each orphan has to be seen twice again.
type memory struct {
	mu     sync.Mutex
	groups map[string]*group
	// wanted are the classes that request a scan, and the earliest time for it.
	wanted map[types.NamespacedName]time.Time
}

// group is the state of all classes with the same account and ownership tags, which
// share their scans.
type group struct {
	next     time.Time                     // when the next scan is due
	scanning bool                          // a scan runs, and owns the fields below
	classes  map[types.NamespacedName]bool // of the group; true: report only
	failures int                           // scans that have failed since the last successful one
	suspects map[string]time.Time          // by resource, when first seen
	reported map[string]bool               // by resource, what was reported already
	pending  []removal                     // begun and not yet complete
	held     int                           // orphan VMs that wait for a person's decision
	removals map[string]time.Time          // by orphan VM, when its removal was requested without one
	leaving  map[string]removal            // by resource: its removal was requested, and is not repeated
}

// removal is a resource that is being removed.
type removal struct {
	ref      cloud.Ref
	resource cloud.Resource
	why      string
	owned    bool // an owner exists, with another VM
	begun    bool // it was requested, and something was there
	approved bool // by a person
}

func newMemory() *memory {
	return &memory{groups: map[string]*group{}, wanted: map[types.NamespacedName]time.Time{}}
}

// requestScan records that a class requests a scan at that time or later.
func (m *memory) requestScan(class types.NamespacedName, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted[class] = at
}

// begin moves a class into its group, and returns the group if a scan is due and none
// runs. Otherwise it returns nil and how long to wait.
func (m *memory) begin(key string, class types.NamespacedName, reportOnly bool, now time.Time) (*group, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeClass(class, key)
	g := m.groups[key]
	if g == nil {
		g = &group{
			classes: map[types.NamespacedName]bool{}, suspects: map[string]time.Time{}, reported: map[string]bool{},
			removals: map[string]time.Time{}, leaving: map[string]removal{},
		}
		m.groups[key] = g
	}
	g.classes[class] = reportOnly
	wait := m.dueIn(g, now)
	if wait > 0 || g.scanning {
		return nil, max(wait, time.Second)
	}
	g.scanning = true
	return g, 0
}

// end ends a scan that began at that time, and returns how long to wait for the next.
func (m *memory) end(g *group, began, now, next time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	g.scanning, g.next = false, next
	for class := range g.classes {
		if at, ok := m.wanted[class]; ok && !at.After(began) {
			delete(m.wanted, class)
		}
	}
	return max(m.dueIn(g, now), time.Second)
}

// dueIn returns the time until the next scan of the group.
func (m *memory) dueIn(g *group, now time.Time) time.Duration {
	at := g.next
	for class := range g.classes {
		if wanted, ok := m.wanted[class]; ok && wanted.Before(at) {
			at = wanted
		}
	}
	return at.Sub(now)
}

// reportOnly reports whether a class of the group forbids removals.
func (m *memory) reportOnly(g *group) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, reports := range g.classes {
		if reports {
			return true
		}
	}
	return false
}

// forget drops a class that is gone.
func (m *memory) forget(class types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.wanted, class)
	m.removeClass(class, "")
}

// removeClass removes the class from every group but one, and drops empty groups. The
// caller holds the lock.
func (m *memory) removeClass(class types.NamespacedName, but string) {
	for key, g := range m.groups {
		if key == but {
			continue
		}
		delete(g.classes, class)
		if len(g.classes) == 0 && !g.scanning {
			delete(m.groups, key)
		}
	}
}
