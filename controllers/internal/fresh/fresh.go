// Package fresh tells a stale cached object from a current one.
package fresh

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Marks remember the newest version of each object that this process wrote. An
// object older than its mark was read from a cache that has not caught up: a
// decision taken from it would repeat what has been done. The zero Marks are
// ready to use; they are safe for concurrent use. They are lost at a restart,
// when caches start from a fresh listing.
type Marks struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

// Wrote notes the version that a write returned.
func (m *Marks) Wrote(o client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versions == nil {
		m.versions = map[types.UID]string{}
	}
	if older(m.versions[o.GetUID()], o.GetResourceVersion()) {
		m.versions[o.GetUID()] = o.GetResourceVersion()
	}
}

// Stale says whether o is older than what this process wrote.
func (m *Marks) Stale(o client.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return older(o.GetResourceVersion(), m.versions[o.GetUID()])
}

// Forget drops the mark of an object that is gone.
func (m *Marks) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, uid)
}

// older says whether version a is older than b. Versions that cannot be
// compared are not older, except that anything is newer than none.
func older(a, b string) bool {
	if a == "" || b == "" {
		return a == "" && b != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
