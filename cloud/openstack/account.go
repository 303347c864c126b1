package openstack

import (
	"context"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// account is the cloud.Account of one set of credentials in one region.
type account struct {
	region string
	now    func() time.Time
	*session

	flavors memory[flavor]
	ids     memory[string] // of images, networks and groups, by kind and name
	turns   turns

	requests memory[request] // for servers, by attempt
}

func newAccount(now func() time.Time, region string, s *session) *account {
	return &account{region: region, now: now, session: s}
}

// Close ends the session.
func (a *account) Close() error {
	a.close()
	return nil
}

// memory keeps what rarely changes for a while.
type memory[V any] struct {
	mu    sync.Mutex
	known map[string]V
	since map[string]time.Time
}

// get returns what is known of key and younger than age.
func (m *memory[V]) get(key string, now time.Time, age time.Duration) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[key]
	return v, ok && now.Sub(m.since[key]) < age
}

func (m *memory[V]) put(key string, v V, now time.Time) {
	const forget = 10_000
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= forget {
		m.known, m.since = map[string]V{}, map[string]time.Time{}
	}
	m.known[key], m.since[key] = v, now
}

// turns lets one caller at a time do something with a machine.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue
}

type queue struct {
	turn    chan struct{}
	waiting int
}

// take returns when it is the caller's turn, and how to end it.
func (t *turns) take(ctx context.Context, op, key string) (done func(), failed *cloud.Error) {
	t.mu.Lock()
	if t.queues == nil {
		t.queues = map[string]*queue{}
	}
	q := t.queues[key]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		t.queues[key] = q
	}
	q.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.waiting--; q.waiting == 0 {
			delete(t.queues, key)
		}
	}
	select {
	case q.turn <- struct{}{}:
		return func() { <-q.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, cloud.Errorf(cloud.Unavailable, op, "NotSent", "request not sent: %w", ctx.Err())
	}
}
