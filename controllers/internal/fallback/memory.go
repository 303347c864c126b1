package fallback

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
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

	mu       sync.Mutex
	known    map[Offer]shortage
	swept    time.Time
	watchers []func(Offer)
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
	m.note(o, func(s shortage, now time.Time) shortage {
		s.cause, s.prober = cause, ""
		if !now.Before(s.until) {
			s.refusals++
			s.until = now.Add(min(m.wait<<min(s.refusals-1, longestFactor), longestFactor*m.wait))
		}
		return s
	})
}

// Made notes that the cloud has granted the offer.
func (m *Memory) Made(o Offer) {
	m.note(o, func(shortage, time.Time) shortage { return shortage{} })
}

// note changes what is known of an offer, and tells watchers of what is known otherwise than before.
func (m *Memory) note(o Offer, change func(shortage, time.Time) shortage) {
	if m == nil {
		return
	}
	m.mu.Lock()
	now := m.clock.Now()
	was, known := m.known[o]
	is := change(was, now)
	is.noted = now
	m.known[o] = is
	changed := m.sweep(now)
	if !known || (was.refusals > 0) != (is.refusals > 0) {
		changed = append(changed, o)
	}
	watchers := m.watchers
	m.mu.Unlock()
	for _, offer := range changed {
		for _, tell := range watchers {
			tell(offer)
		}
	}
}

// sweep forgets, once in a while, what was learned long ago, and returns that: classes come and go.
func (m *Memory) sweep(now time.Time) []Offer {
	if now.Sub(m.swept) < time.Hour {
		return nil
	}
	m.swept = now
	kept := max(keptFor, 2*longestFactor*m.wait)
	var forgotten []Offer
	for o, s := range m.known {
		if now.Sub(s.noted) > kept {
			forgotten = append(forgotten, o)
		}
	}
	for _, o := range forgotten {
		delete(m.known, o)
	}
	slices.SortFunc(forgotten, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Zone, b.Zone))
	})
	return forgotten
}

// Source returns a source of requests for what of maps the MachineClass of an offer to, of which only name
// and namespace are set, whenever it may have become another one that [Memory.Coming] chooses.
func (m *Memory) Source(of handler.MapFunc) source.Source {
	return source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		if m == nil {
			return nil
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers = append(slices.Clone(m.watchers), func(o Offer) {
			class := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Class}}
			for _, request := range of(ctx, class) {
				q.Add(request)
			}
		})
		return nil
	})
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
