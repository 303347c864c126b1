package vsphere

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// lookTimeout is how long a look into a folder may take.
const lookTimeout = time.Minute

// looks lets those share a look into a folder who ask for it while another one
// is under way. The look that they get begins after they asked, so nobody is
// shown what was there before.
type looks struct {
	read func(ctx context.Context, s *spec) ([]*seen, error)

	mu   sync.Mutex
	next map[string]*look // that has not begun, by folder
	busy map[string]bool  // folders that are looked into
}

// look is one look. The last three fields are valid, and do not change, once
// done is closed.
type look struct {
	ctx     context.Context //nolint:containedctx // it belongs to no caller: it ends when all of them have gone
	cancel  context.CancelFunc
	spec    *spec
	waiting int

	done  chan struct{}
	vms   []*seen
	err   error
	panic string // what the look panicked with, and where
}

func newLooks(read func(ctx context.Context, s *spec) ([]*seen, error)) *looks {
	return &looks{read: read, next: map[string]*look{}, busy: map[string]bool{}}
}

// into returns all VMs of the class's folder. It gives up with ctx, which does
// not end the look for others.
func (l *looks) into(ctx context.Context, s *spec) ([]*seen, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	mine := l.join(ctx, s)
	select {
	case <-mine.done:
		if mine.panic != "" {
			panic(mine.panic) // where somebody looks after it
		}
		return mine.vms, mine.err
	case <-ctx.Done():
		l.leave(mine)
		return nil, ctx.Err()
	}
}

// join returns the next look into the folder, which begins at once unless
// another is under way.
func (l *looks) join(ctx context.Context, s *spec) *look {
	key := s.Datacenter + "\n" + s.Folder
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.next[key]
	if mine == nil {
		mine = &look{spec: s, done: make(chan struct{})}
		mine.ctx, mine.cancel = context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
		l.next[key] = mine
		if !l.busy[key] {
			l.busy[key] = true
			go l.run(key)
		}
	}
	mine.waiting++
	return mine
}

// leave takes a caller out. The look ends with the last.
func (l *looks) leave(mine *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mine.waiting--; mine.waiting == 0 {
		mine.cancel()
	}
}

// run looks until nobody asks any more.
func (l *looks) run(key string) {
	for {
		l.mu.Lock()
		mine := l.next[key]
		delete(l.next, key)
		if mine == nil {
			delete(l.busy, key)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		mine.take(l.read)
	}
}

// take looks.
func (m *look) take(read func(ctx context.Context, s *spec) ([]*seen, error)) {
	defer close(m.done)
	defer m.cancel()
	defer func() {
		if p := recover(); p != nil {
			m.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	if m.err = m.ctx.Err(); m.err == nil {
		m.vms, m.err = read(m.ctx, m.spec)
	}
}
