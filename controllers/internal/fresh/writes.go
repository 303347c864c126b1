package fresh

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteTimeout is how long a write is remembered that the cache does not show. It
// is as long as MCM's.
const WriteTimeout = 5 * time.Minute

// Writes remember what a controller wrote to the objects of one list, in one
// namespace, until the cache shows it. Complete adds that to what the cache shows.
// The zero Writes are ready to use. They are not safe for concurrent use.
type Writes[T client.Object] struct {
	pending map[string]pending[T] // by name
}

// pending is the outcome of a write.
type pending[T client.Object] struct {
	object    T
	notCached bool // created, and never yet in the cache
	expires   time.Time
}

// Created remembers an object that the cache may never have shown.
func (w *Writes[T]) Created(o T, now time.Time) { w.put(o, true, now) }

// Updated remembers the object that an update or a patch returned.
func (w *Writes[T]) Updated(o T, now time.Time) { w.put(o, w.pending[o.GetName()].notCached, now) }

// Deleted remembers that o is being deleted, and returns it as such.
func (w *Writes[T]) Deleted(o T, now time.Time) T {
	deleted := inDeletion(o, &metav1.Time{Time: now})
	w.Updated(deleted, now)
	return deleted
}

func (w *Writes[T]) put(o T, notCached bool, now time.Time) {
	if w.pending == nil {
		w.pending = map[string]pending[T]{}
	}
	w.pending[o.GetName()] = pending[T]{object: o, notCached: notCached, expires: now.Add(WriteTimeout)}
}

// Complete returns the cached objects with the writes of this process applied,
// sorted by name. It forgets writes that the cache shows, and expired ones.
func (w *Writes[T]) Complete(cached []T, now time.Time) []T {
	all := make(map[string]T, len(cached))
	for _, o := range cached {
		all[o.GetName()] = w.newer(o, now)
	}
	for name, p := range w.pending {
		if _, found := all[name]; found {
			continue
		}
		if !p.notCached || !now.Before(p.expires) {
			delete(w.pending, name)
			continue
		}
		all[name] = p.object
	}
	return slices.SortedFunc(maps.Values(all), func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// newer returns the newer of a cached object and what this process wrote to it.
func (w *Writes[T]) newer(cached T, now time.Time) T {
	p, found := w.pending[cached.GetName()]
	if !found {
		return cached
	}
	if p.object.GetUID() != cached.GetUID() || !now.Before(p.expires) {
		delete(w.pending, cached.GetName())
		return cached
	}
	p.notCached = false
	w.pending[cached.GetName()] = p
	if older(cached.GetResourceVersion(), p.object.GetResourceVersion()) {
		return p.object
	}
	if deleted := p.object.GetDeletionTimestamp(); !deleted.IsZero() && cached.GetDeletionTimestamp().IsZero() {
		return inDeletion(cached, deleted)
	}
	delete(w.pending, cached.GetName())
	return cached
}

// DropDeleted forgets objects that were created here, were never in the cache, and
// no longer exist on the API server. It returns the known objects without them.
func (w *Writes[T]) DropDeleted(known, live []T) []T {
	exists := map[types.UID]bool{}
	for _, o := range live {
		exists[o.GetUID()] = true
	}
	return slices.DeleteFunc(known, func(o T) bool {
		if !w.pending[o.GetName()].notCached || exists[o.GetUID()] {
			return false
		}
		delete(w.pending, o.GetName())
		return true
	})
}

// UntilExpiry returns when the first write expires; 0 if there is none.
func (w *Writes[T]) UntilExpiry(now time.Time) time.Duration {
	var wait time.Duration
	for _, p := range w.pending {
		if left := p.expires.Sub(now); wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// inDeletion returns a copy of o that is being deleted since then.
func inDeletion[T client.Object](o T, since *metav1.Time) T {
	deleted := o.DeepCopyObject().(T) //nolint:forcetypeassert // a copy has the type of the original
	deleted.SetDeletionTimestamp(since)
	return deleted
}
