package fallback

import (
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// standardWait is the first wait after a refusal where no other is set.
	standardWait = 10 * time.Minute
	// longestFactor bounds the wait: it doubles with each refusal in a row, up to that multiple
	// of the first one.
	longestFactor = 6
	// probeTime is how long the machine that tries an exhausted class again keeps others from
	// it. It covers the longest time after which a cloud's "not found" is believed.
	probeTime = 5 * time.Minute
	// keptFor is how long an answer of the cloud is kept at least: longer than any wait.
	keptFor = 24 * time.Hour
)

// An Offer is what machines ask for: a class, as it is now, in a zone.
type Offer struct {
	Namespace, Class string
	Spec             string // hash of the class's provider spec: another spec may have room
	Zone             string // that the machine asks for; empty leaves it to the class
}

// Memory is which offers the cloud has refused for a lack of capacity or quota. It is safe for
// concurrent use, and a nil Memory knows of none.
type Memory struct {
	clock clock.PassiveClock
	wait  time.Duration

	mu    sync.Mutex
	known map[Offer]shortage
	swept time.Time
}

// shortage is what is known of an offer; the zero shortage is that it has room.
type shortage struct {
	cause    string
	until    time.Time // it is not tried before
	refusals int       // in a row, each after a wait
	prober   string    // owner id of the machine that tries it again; empty if none does
	since    time.Time // when that machine began
	noted    time.Time // when the cloud last answered
}

// NewMemory returns a Memory that knows of no shortage. An exhausted class is tried again
// after wait, then after waits that double up to six times that; 0 is 10 minutes.
func NewMemory(clock clock.PassiveClock, wait time.Duration) *Memory {
	if wait <= 0 {
		wait = standardWait
	}
	return &Memory{clock: clock, wait: wait, known: map[Offer]shortage{}}
}

// MayTry reports whether a machine with that owner id may ask for the offer: it is not known to
// be exhausted, or it is due to be tried again and no other machine does so.
func (m *Memory) MayTry(o Offer, owner string) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayTry(m.known[o], owner)
}

func (m *Memory) mayTry(s shortage, owner string) bool {
	now := m.clock.Now()
	switch {
	case s.refusals == 0:
		return true
	case s.prober != "" && now.Sub(s.since) < probeTime:
		return s.prober == owner
	}
	return !now.Before(s.until)
}

// Begin is MayTry for a machine that asks for the offer now: where the offer is due to be tried
// again, others wait for its answer.
func (m *Memory) Begin(o Offer, owner string) bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.known[o]
	if !m.mayTry(s, owner) {
		return false
	}
	if s.refusals > 0 && s.prober != owner {
		s.prober, s.since = owner, m.clock.Now()
		m.known[o] = s
	}
	return true
}

// Refused notes that the cloud has refused the offer, and why. Refusals of machines that asked
// at the same time count as one.
func (m *Memory) Refused(o Offer, cause string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, now := m.known[o], m.clock.Now()
	s.cause, s.prober, s.noted = cause, "", now
	if !now.Before(s.until) {
		s.refusals++
		s.until = now.Add(min(m.wait<<min(s.refusals-1, longestFactor), longestFactor*m.wait))
	}
	m.known[o] = s
	m.sweep(now)
}

// Made notes that the cloud has granted the offer.
func (m *Memory) Made(o Offer) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	m.known[o] = shortage{noted: now}
	m.sweep(now)
}

// sweep forgets, once in a while, what was learned long ago: classes come and go.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < time.Hour {
		return
	}
	m.swept = now
	kept := max(keptFor, 2*longestFactor*m.wait)
	maps.DeleteFunc(m.known, func(_ Offer, s shortage) bool { return now.Sub(s.noted) > kept })
}

// Shortage returns why the offer is exhausted and when it is tried again; ok is false if it is
// not known to be.
func (m *Memory) Shortage(o Offer) (cause string, until time.Time, ok bool) {
	if m == nil {
		return "", time.Time{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.known[o]
	return s.cause, s.until, s.refusals > 0
}

// SoldOut reports whether the cloud has refused the offer's class last, in each zone that machines
// have asked for; known is false if none has. The offer's own zone does not count. A class that
// is due to be tried again is sold out until it is granted.
func (m *Memory) SoldOut(o Offer) (soldOut, known bool) {
	if m == nil {
		return false, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for asked, s := range m.known {
		if o.Zone = asked.Zone; o != asked {
			continue
		}
		if s.refusals == 0 {
			return false, true
		}
		known = true
	}
	return known, known
}
