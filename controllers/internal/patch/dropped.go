package patch

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Dropped remembers that the API server drops fields from the status of a kind, and
// what the objects of that kind should have in them: MCM's own CRDs, which Gardener
// installs, prune fields that they do not know. Without that memory every reconcile
// would write and emit the same Events again. It is lost at a restart, which costs
// one write and finds out whether the CRD has the fields by now. The zero Dropped is
// ready to use and safe for concurrent use.
type Dropped[T any] struct {
	mu    sync.Mutex
	known bool
	kept  map[types.UID]T
}

// Known reports whether the API server drops the fields. Then they are not sent.
func (d *Dropped[T]) Known() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

// Learn notes that the API server has dropped fields of a kind that were sent, and
// logs that once.
func (d *Dropped[T]) Learn(ctx context.Context, kind string, fields ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known {
		ctrl.LoggerFrom(ctx).Info("The CRD lacks fields of this manager, which sends them no more; "+
			"Events have the same messages", "kind", kind, "fields", fields)
	}
	d.known = true
}

// Get returns what was kept last for an object; the zero value if nothing was.
func (d *Dropped[T]) Get(uid types.UID) T {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[uid]
}

// Keep remembers what an object should have in the fields.
func (d *Dropped[T]) Keep(uid types.UID, what T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil {
		d.kept = map[types.UID]T{}
	}
	d.kept[uid] = what
}

// Forget forgets an object that is gone.
func (d *Dropped[T]) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kept, uid)
}
