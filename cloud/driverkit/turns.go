package driverkit

import (
	"context"
	"sync"
)

// Turns let one caller at a time work on a machine, or whatever a key names. The zero
// value is ready; it keeps no key longer than there are callers.
type Turns struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the callers of one key.
type line struct {
	turn  chan struct{} // holds an entry during a turn
	users int           // who wait, or have their turn
}

// Take blocks until it is the caller's turn or ctx ends. Done ends the turn and must be
// called once. The error is a *cloud.Error of code Unavailable.
func (t *Turns) Take(ctx context.Context, op, key string) (done func(), err error) {
	l := t.join(key)
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; t.leave(key, l) }, nil
	case <-ctx.Done():
		t.leave(key, l)
		return nil, NotSent(ctx, op)
	}
}

func (t *Turns) join(key string) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines == nil {
		t.lines = map[string]*line{}
	}
	l := t.lines[key]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.lines[key] = l
	}
	l.users++
	return l
}

func (t *Turns) leave(key string, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(t.lines, key)
	}
}
