package drain

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forgetAfter is how long the state of a node is kept after its last pass. Passes
// of a drain follow each other much sooner.
const forgetAfter = time.Hour

// A tracker has the state of each node that is being drained.
type tracker struct {
	mu     sync.Mutex
	states map[string]*nodeState // by node name
}

// A nodeState is what a drain remembers between two passes. If it is lost, refused
// evictions are counted from 0 and volumes are waited for once more.
type nodeState struct {
	pass sync.Mutex // held during a pass

	// Written under the tracker's lock.
	started, touched time.Time
	began            time.Time // the first pass of this process
	running          bool
	awaited          awaited

	// Written by the pass that holds the lock pass.
	attempts   map[types.UID]*attempt
	departures []*departure // in the order in which the pods were evicted
	recovered  bool         // departures has the volumes that were detaching before the first pass
	notes      []string     // what the drain gave up waiting for
	reported   Result
	reportedAt time.Time
}

// An attempt is the eviction of one pod.
type attempt struct {
	accepted bool      // the API server has accepted it; the cache may not show it yet
	forced   bool      // deleted without grace
	next     time.Time // when to retry
	refusals int32     // how often a disruption budget has refused it
	reason   string    // condition reason why the pod is still there; empty while nothing is wrong
	problem  string    // the same for people
}

// awaited has the pods and volumes whose events begin the next pass early. The event
// handlers read it.
type awaited struct {
	pods    map[types.UID]bool // pods of this drain; true if the next step needs only this pod to end
	volumes map[string]bool    // names of PersistentVolumes
}

// begin begins a pass over a node. ok is false while another pass runs.
func (t *tracker) begin(node string, started, now time.Time) (state *nodeState, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state = t.states[node]
	if state == nil {
		t.prune(now)
	}
	if state == nil || (!state.started.Equal(started) && !state.running) {
		state = &nodeState{started: started, began: now, attempts: map[types.UID]*attempt{}}
		t.states[node] = state
	}
	if !state.pass.TryLock() {
		return nil, false
	}
	state.running, state.touched = true, now
	return state, true
}

// end ends a pass.
func (t *tracker) end(state *nodeState, a awaited) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state.running, state.awaited = false, a
	state.pass.Unlock()
}

// prune drops the states of drains that have ended.
func (t *tracker) prune(now time.Time) {
	for node, state := range t.states {
		if !state.running && now.Sub(state.touched) > forgetAfter {
			delete(t.states, node)
		}
	}
}

// attempt returns the attempt to evict a pod; a new one if there is none.
func (s *nodeState) attempt(pod *corev1.Pod) *attempt {
	a := s.attempts[pod.UID]
	if a == nil {
		a = &attempt{}
		s.attempts[pod.UID] = a
	}
	return a
}

// report returns r, with the last message for as long as its reason is the same: the
// message is written to the API server, and in a drain of many pods it would change
// all the time.
func (s *nodeState) report(r Result, now time.Time) Result {
	if r.Reason == s.reported.Reason && now.Sub(s.reportedAt) < retryInterval {
		r.Message = s.reported.Message
		return r
	}
	if r.Reason != s.reported.Reason || r.Message != s.reported.Message {
		s.reported, s.reportedAt = r, now
	}
	return r
}
