package drain

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forgetAfter is how long an unused ledger is kept. Every drain is looked at
// far more often.
const forgetAfter = time.Hour

// A book holds one ledger for each node that is being drained.
type book struct {
	mu      sync.Mutex
	ledgers map[string]*ledger // by node name
}

// A ledger is what a drain remembers between two passes. Without it, evictions
// are counted from the beginning and volumes are waited for once more.
type ledger struct {
	turn sync.Mutex // held during a pass

	// Written under the book's lock.
	started, touched time.Time
	running          bool
	awaited          awaited

	// Written by the pass that has the turn.
	attempts   map[types.UID]*attempt
	departures []*departure // in the order in which the pods began to leave
	looked     bool         // volumes that were leaving before the first pass are in departures
	confirmed  bool         // the API server has said that no pod is left
	notes      []string     // what went wrong and is not waited for any more
	said       Result
	saidAt     time.Time
}

// An attempt is what has been tried on one pod.
type attempt struct {
	accepted bool      // the API server has said yes; the cache may not show it yet
	forced   bool      // deleted without grace
	next     time.Time // when to try again
	refusals int32     // how often a disruption budget has said no
	reason   string    // why the pod is still there: a condition reason, or "" while nothing is wrong
	problem  string    // the same for a person
}

// awaited is what ends a wait before its time. The event handlers read it.
type awaited struct {
	pods    map[types.UID]bool // a pod of this drain; true if its end alone allows the next step
	volumes map[string]bool    // names of PersistentVolumes
}

// open begins a pass over a node. It is refused while another pass runs.
func (b *book) open(node string, started, now time.Time) (*ledger, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	memory := b.ledgers[node]
	if memory == nil {
		b.sweep(now)
	}
	if memory == nil || (!memory.started.Equal(started) && !memory.running) {
		memory = &ledger{started: started, attempts: map[types.UID]*attempt{}}
		b.ledgers[node] = memory
	}
	if !memory.turn.TryLock() {
		return nil, false
	}
	memory.running, memory.touched = true, now
	return memory, true
}

// closed ends a pass.
func (b *book) closed(memory *ledger, a awaited) {
	b.mu.Lock()
	defer b.mu.Unlock()
	memory.running, memory.awaited = false, a
	memory.turn.Unlock()
}

// sweep drops the ledgers of drains that have ended.
func (b *book) sweep(now time.Time) {
	for node, memory := range b.ledgers {
		if !memory.running && now.Sub(memory.touched) > forgetAfter {
			delete(b.ledgers, node)
		}
	}
}

// attempt returns the record of a pod, a new one if there is none.
func (l *ledger) attempt(pod *corev1.Pod) *attempt {
	a := l.attempts[pod.UID]
	if a == nil {
		a = &attempt{}
		l.attempts[pod.UID] = a
	}
	return a
}

// settle returns r, or what was said before as long as r differs in words only:
// the message is written to the API server, and a drain of many pods would
// change it all the time.
func (l *ledger) settle(r Result, now time.Time) Result {
	if r.Reason == l.said.Reason && now.Sub(l.saidAt) < retryInterval {
		r.Message = l.said.Message
		return r
	}
	if r.Reason != l.said.Reason || r.Message != l.said.Message {
		l.said, l.saidAt = r, now
	}
	return r
}
