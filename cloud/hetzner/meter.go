package hetzner

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// meter knows what is left of the project's calls, as Hetzner's answers say: the count is the project's, so
// that it has the calls of other tokens, clusters and people in it. The zero value lets everything pass; it
// is safe for concurrent use.
type meter struct {
	mu    sync.Mutex
	limit float64 // calls an hour, which is also the size of the bucket; 0 is not known
	left  float64
	at    time.Time // of left
}

// kept is the part of the project's calls that is left to what is urgent.
const kept = 0.2

// urgent reports whether an operation goes on to the last call: what machines wait for.
func urgent(op string) bool { return op != opList && op != opCapacity && op != opLabels }

// admit takes a call, or returns the error of one that has to wait. It waits a little longer than needed,
// so that a listing is not given up at its second page.
func (m *meter) admit(op string, now time.Time) *cloud.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit == 0 {
		return nil
	}
	perSecond := m.limit / time.Hour.Seconds()
	m.left = min(m.limit, m.left+now.Sub(m.at).Seconds()*perSecond)
	m.at = now
	if keep := kept * m.limit; !urgent(op) && m.left-1 < keep {
		const more = 0.02
		e := cloud.Errorf(cloud.Throttled, op, cloud.ReasonRateBudget,
			"%d of the project's %d calls an hour are left, and are kept for what is more urgent; it is asked again when "+
				"more have come in", int(m.left), int(m.limit))
		e.RetryAfter = time.Duration((keep + 1 + more*m.limit - m.left) / perSecond * float64(time.Second))
		return e
	}
	m.left = max(m.left-1, 0)
	return nil
}

// learn takes note of what an answer says is left. One that comes late may say more than is left by then.
func (m *meter) learn(h http.Header, now time.Time) {
	limit, err := strconv.ParseFloat(h.Get("RateLimit-Limit"), 64)
	if err != nil || limit <= 0 {
		return
	}
	left, err := strconv.ParseFloat(h.Get("RateLimit-Remaining"), 64)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit, m.left, m.at = limit, left, now
}

// empty takes note that Hetzner has refused a call.
func (m *meter) empty(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.at = 0, now
}
