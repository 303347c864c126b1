package cloud

import (
	"sync"
	"time"
)

// RefusalTime is how long refused credentials are not tried again: clouds lock
// users after a few wrong passwords.
const RefusalTime = 10 * time.Minute

// Refusals remembers which credentials a cloud has refused lately, by
// fingerprint. The zero value remembers none. Its methods may be called
// concurrently; they do not block.
type Refusals struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Lately reports whether the cloud has refused these credentials less than
// RefusalTime before now.
func (r *Refusals) Lately(fingerprint string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, there := r.until[fingerprint]
	return there && now.Before(until)
}

// Note takes down that the cloud has refused these credentials, and forgets what
// is longer ago.
func (r *Refusals) Note(fingerprint string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, until := range r.until {
		if !now.Before(until) {
			delete(r.until, key)
		}
	}
	if r.until == nil {
		r.until = map[string]time.Time{}
	}
	r.until[fingerprint] = now.Add(RefusalTime)
}
