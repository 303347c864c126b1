package driverkit

import (
	"context"
	"maps"
	"sync"
	"time"
)

// CacheOptions configure a Cache. The zero value keeps 10 000 values for ever.
type CacheOptions struct {
	Keep    time.Duration    // how long a value is believed; 0 is for ever
	Max     int              // values; 0 is 10 000
	Timeout time.Duration    // of one load; 0 is none
	Now     func() time.Time // nil is time.Now
}

// Cache keeps what rarely changes, e.g. ids by name. Those who ask for the same at the
// same time share one load. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	options CacheOptions
	loads   *Batcher[K, func(context.Context) (V, error), V]

	mu    sync.Mutex
	known map[K]entry[V]
}

type entry[V any] struct {
	value V
	since time.Time
}

// NewCache returns an empty Cache.
func NewCache[K comparable, V any](o CacheOptions) *Cache[K, V] {
	const most = 10_000
	if o.Max <= 0 {
		o.Max = most
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	first := func(ctx context.Context, _ K, loads []func(context.Context) (V, error)) (V, error) {
		return loads[0](ctx)
	}
	return &Cache[K, V]{
		options: o, known: map[K]entry[V]{},
		loads: NewBatcher(BatchOptions{Timeout: o.Timeout, Now: o.Now}, first),
	}
}

// Get returns what is known of key, or else what load returns, which is kept unless it is
// an error. It blocks as long as load does, or until ctx ends. An error has this op.
func (c *Cache[K, V]) Get(ctx context.Context, op string, key K, load func(context.Context) (V, error)) (V, error) {
	if value, ok := c.Known(key); ok {
		return value, nil
	}
	value, err := c.loads.DoSince(ctx, op, key, load, time.Time{})
	if err != nil {
		return value, WithOp(op, err)
	}
	c.Put(key, value)
	return value, nil
}

// Known returns what is known of key.
func (c *Cache[K, V]) Known(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known[key]
	if !ok || c.old(e) {
		var none V
		return none, false
	}
	return e.value, true
}

// Put keeps a value from now on. A full Cache first forgets what is too old, and
// everything if that is not enough.
func (c *Cache[K, V]) Put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.known[key]; !known && len(c.known) >= c.options.Max {
		maps.DeleteFunc(c.known, func(_ K, e entry[V]) bool { return c.old(e) })
		if len(c.known) >= c.options.Max {
			clear(c.known)
		}
	}
	c.known[key] = entry[V]{value, c.options.Now()}
}

// Forget drops one key.
func (c *Cache[K, V]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// Clear drops everything, e.g. because something of it has gone.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
}

func (c *Cache[K, V]) old(e entry[V]) bool {
	return c.options.Keep > 0 && c.options.Now().Sub(e.since) >= c.options.Keep
}
