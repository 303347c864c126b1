package orphan

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// memory is what earlier looks have found. Nothing is lost with it: after a
// restart everything takes two looks again.
type memory struct {
	mu     sync.Mutex
	groups map[string]*group
	// wanted are classes that ask for a look, and from when on it makes sense.
	wanted map[types.NamespacedName]time.Time
}

// group is what equal accounts with equal ownership tags share: one look is
// enough for all classes in it.
type group struct {
	next     time.Time                     // when the next look is due
	looking  bool                          // somebody is at it, and owns the fields below
	classes  map[types.NamespacedName]bool // that are in it; true: report only
	failures int                           // looks that failed since the last good one
	suspects map[string]time.Time          // by resource, since when
	told     map[string]bool               // by resource, what needs telling only once
	pending  []removal                     // asked for and not yet complete
}

// removal is something that is being removed.
type removal struct {
	ref      cloud.Ref
	resource cloud.Resource
	why      string
	owned    bool // an owner exists, with another VM
	begun    bool // it was told
}

func newMemory() *memory {
	return &memory{groups: map[string]*group{}, wanted: map[types.NamespacedName]time.Time{}}
}

// want notes that a class asks for a look at that time or later.
func (m *memory) want(class types.NamespacedName, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted[class] = at
}

// enter puts a class into its group, takes it out of others, and hands the group
// over if a look is due. Otherwise it returns nil and how long to wait.
func (m *memory) enter(key string, class types.NamespacedName, reportOnly bool, now time.Time) (*group, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave(class, key)
	g := m.groups[key]
	if g == nil {
		g = &group{classes: map[types.NamespacedName]bool{}, suspects: map[string]time.Time{}, told: map[string]bool{}}
		m.groups[key] = g
	}
	g.classes[class] = reportOnly
	wait := m.dueIn(g, now)
	if wait > 0 || g.looking {
		return nil, max(wait, time.Second)
	}
	g.looking = true
	return g, 0
}

// done takes a group back after a look that began at that time and returns how
// long it is until the next.
func (m *memory) done(g *group, began, now, next time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	g.looking, g.next = false, next
	for class := range g.classes {
		if at, ok := m.wanted[class]; ok && !at.After(began) {
			delete(m.wanted, class)
		}
	}
	return max(m.dueIn(g, now), time.Second)
}

// dueIn is the time until the group's next look.
func (m *memory) dueIn(g *group, now time.Time) time.Duration {
	at := g.next
	for class := range g.classes {
		if wanted, ok := m.wanted[class]; ok && wanted.Before(at) {
			at = wanted
		}
	}
	return at.Sub(now)
}

// reportOnly reports whether a class of the group wants no removals.
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
	m.leave(class, "")
}

// leave takes the class out of every group but one, and drops empty groups. The
// caller holds the lock.
func (m *memory) leave(class types.NamespacedName, but string) {
	for key, g := range m.groups {
		if key == but {
			continue
		}
		delete(g.classes, class)
		if len(g.classes) == 0 && !g.looking {
			delete(m.groups, key)
		}
	}
}
