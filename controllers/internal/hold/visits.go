package hold

import "sync"

// Visits know which nodes other controllers than the machine's are at work on,
// so that a Machine's hold is not answered in the middle of that. A nil *Visits
// knows of none. It is safe for concurrent use.
type Visits struct {
	mu    sync.Mutex
	nodes map[string]int
}

// Begin notes that a pass over a node of that name begins. It is called before
// the pass reads whether the Machine is held: a pass that begins after the
// answer then sees the hold, and one that began before is waited for. end must
// be called once.
func (v *Visits) Begin(node string) (end func()) {
	if v == nil {
		return func() {}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.nodes == nil {
		v.nodes = map[string]int{}
	}
	v.nodes[node]++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.nodes[node]--; v.nodes[node] == 0 {
			delete(v.nodes, node)
		}
	}
}

// Busy reports whether a pass over that node is going on.
func (v *Visits) Busy(node string) bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nodes[node] > 0
}
