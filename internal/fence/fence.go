// Package fence lets a process change something only while it leads.
//
// An elector stops a manager that has lost its lease, but a reconcile that has
// begun goes on until it notices: after a pause of the process, a slow answer or
// a retry inside a client library. Every mutating request to an API server or a
// cloud therefore passes a Fence, which is open only while the lease was renewed
// recently enough that no other process can hold it.
//
//	renewal begins            fence closes         a successor may lead
//	     │◀────── renewDeadline ──────▶│                    │
//	     │◀──────────────── leaseDuration ─────────────────▶│
//
// What passed the fence just before it closed may still be on its way. It takes
// effect within Reach, or never. A successor asks FormerLeader for how long it has
// to reckon with that; a decision that such a request could undo waits so long.
package fence

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Reach is how long a request may take effect after it was sent: an API server
// ends each request after a minute, and clouds answer sooner. A successor that
// waits this long after it was elected sees everything that its predecessor did.
const Reach = time.Minute

// ErrClosed is why a request was not sent: this process does not lead any more,
// or not yet. Nothing has happened.
var ErrClosed = errors.New("not sent: the leader election lease has expired; another process leads or will")

// A Fence lets mutating requests pass while the lease of its process holds. It
// is safe for concurrent use.
type Fence struct {
	clock clock.PassiveClock
	term  time.Duration

	mu      sync.Mutex
	former  time.Time // until when a former leader may have sent something; zero if none has
	silence time.Time // when a request of this process got no answer for the last time
	renewed time.Time // the beginning of the last renewal; zero while no lease is held
	always  bool
}

// New returns a Fence that is closed until the lease is acquired, and open for
// term after the beginning of each renewal. term is the
// elector's renew deadline, which must be shorter than the lease's duration.
func New(c clock.PassiveClock, term time.Duration) *Fence { return &Fence{clock: c, term: term} }

// Always returns a Fence that is never closed, for a process without leader
// election that starts now. A former process may have ended just before.
func Always(c clock.PassiveClock) *Fence { return &Fence{clock: c, former: c.Now(), always: true} }

// Alone returns a Fence that is never closed, for a process of which there never was
// another.
func Alone(c clock.PassiveClock) *Fence { return &Fence{clock: c, always: true} }

// Acquired records that the lease was acquired by requests of which the first
// was sent at began. The lease of a former holder has expired; its requests may
// still take effect.
func (f *Fence) Acquired(began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed, f.former = began, began
}

// AcquiredReleased is Acquired for a lease that its former holder has released,
// which it does only when all of its requests have been answered.
func (f *Fence) AcquiredReleased(began time.Time) { f.Renewed(began) }

// Renewed records that the lease was renewed by requests of which the first was
// sent at began. The successor counts from when the API server received them,
// which is later.
func (f *Fence) Renewed(began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = began
}

// Released closes the fence: the lease is given up.
func (f *Fence) Released() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = time.Time{}
}

// Unanswered records that a mutating request of this process got no answer: it may
// take effect later.
func (f *Fence) Unanswered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silence = f.clock.Now()
}

// FormerLeader returns for how long a request that a former leader has sent may
// still take effect; 0 if none can. Without leader election a former process may
// have ended just before this one began.
func (f *Fence) FormerLeader() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left(f.former)
}

// InFlight returns for how long any request that got no answer may still take
// effect, of this process or of a former leader; 0 if there is none. Only then may
// the lease be given up, so that a successor need not wait.
func (f *Fence) InFlight() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.left(f.former), f.left(f.silence))
}

// left returns for how long a request that was sent at that time may take effect.
func (f *Fence) left(sent time.Time) time.Duration {
	if sent.IsZero() {
		return 0
	}
	return max(0, Reach-f.clock.Since(sent))
}

// Check returns nil while the fence is open, else an error that wraps ErrClosed.
func (f *Fence) Check() error {
	if f.always {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return ErrClosed
	}
	if since := f.clock.Since(f.renewed); since >= f.term {
		return fmt.Errorf("%w (last renewed %s ago)", ErrClosed, since.Truncate(time.Millisecond))
	}
	return nil
}

// open returns for how long the fence stays open unless the lease is renewed;
// not positive while it is closed.
func (f *Fence) open() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return 0
	}
	return f.term - f.clock.Since(f.renewed)
}
