// Package fresh tells a stale cached object from a current one.
package fresh

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Marks remember the newest version of each object that this process wrote. An
// object older than its mark was read from a cache that has not caught up: a
// decision taken from it would repeat what has been done. The zero Marks are
// ready to use; they are safe for concurrent use. They are lost at a restart,
// when caches start from a fresh listing.
type Marks struct {
	mu       sync.Mutex
	versions map[types.UID]string
	named    map[types.NamespacedName]types.UID // of versions
	ended    map[types.NamespacedName]types.UID
}

// Wrote notes the version that a write returned.
func (m *Marks) Wrote(o client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versions == nil {
		m.versions, m.named = map[types.UID]string{}, map[types.NamespacedName]types.UID{}
	}
	m.named[client.ObjectKeyFromObject(o)] = o.GetUID()
	if older(m.versions[o.GetUID()], o.GetResourceVersion()) {
		m.versions[o.GetUID()] = o.GetResourceVersion()
	}
}

// Stale reports whether o is older than what this process wrote.
func (m *Marks) Stale(o client.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return older(o.GetResourceVersion(), m.versions[o.GetUID()])
}

// Foreign passes updates that this process did not write, beside all events that
// are none. A predecessor's write that arrives late may undo what is said of an
// object without changing anything else of it.
func (m *Marks) Foreign() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		version := e.ObjectNew.GetResourceVersion()
		return version != e.ObjectOld.GetResourceVersion() && older(m.versions[e.ObjectNew.GetUID()], version)
	}}
}

// Forget drops the mark of an object that somebody else removed.
func (m *Marks) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, uid)
	maps.DeleteFunc(m.named, func(_ types.NamespacedName, of types.UID) bool { return of == uid })
}

// Drop drops the mark of an object that the cache, which has shown it, does not
// show any more.
func (m *Marks) Drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, m.named[key])
	delete(m.named, key)
}

// Ended notes that this process has let go of o, so that whatever the cache
// still shows of it is stale.
func (m *Marks) Ended(o client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, o.GetUID())
	delete(m.named, client.ObjectKeyFromObject(o))
	if m.ended == nil {
		m.ended = map[types.NamespacedName]types.UID{}
	}
	m.ended[client.ObjectKeyFromObject(o)] = o.GetUID()
}

// HasEnded reports whether this process has let go of o.
func (m *Marks) HasEnded(o client.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid, ok := m.ended[client.ObjectKeyFromObject(o)]
	return ok && uid == o.GetUID()
}

// Absent notes that the cache shows no object of that name any more.
func (m *Marks) Absent(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ended, key)
}

// older reports whether version a is older than b. Versions that cannot be
// compared are not older, except that anything is newer than none.
func older(a, b string) bool {
	if a == "" || b == "" {
		return a == "" && b != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
