package fresh

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Dropped remembers, by object, what the API server drops of a status: MCM's own
// CRDs, which Gardener installs, prune fields that they do not know. Without that
// memory every pass would write, and tell the same Events again. It is lost at a
// restart, which costs one write per object. The zero Dropped is ready to use and
// safe for concurrent use.
type Dropped[T any] struct {
	mu   sync.Mutex
	kept map[types.UID]T
}

// Get returns what was dropped last; ok is false if nothing was.
func (d *Dropped[T]) Get(uid types.UID) (what T, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what, ok = d.kept[uid]
	return what, ok
}

// Keep remembers what was dropped.
func (d *Dropped[T]) Keep(uid types.UID, what T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil {
		d.kept = map[types.UID]T{}
	}
	d.kept[uid] = what
}

// Forget forgets an object that is gone, or whose status is stored whole.
func (d *Dropped[T]) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kept, uid)
}
