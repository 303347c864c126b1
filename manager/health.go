package manager

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// How fresh what is known about the API server has to be, and for how long a
// leader may be stuck.
const (
	pulseMax    = 30 * time.Second
	probeWait   = 3 * time.Second
	stuckLeader = 20 * time.Second
)

// health knows whether this process works, as leader or as standby.
type health struct {
	clock  clock.PassiveClock
	synced atomic.Bool  // the caches have been filled once
	answer atomic.Int64 // when the control cluster's API server last answered, UnixNano

	lock  *leaseLock // nil without leader election
	lease time.Duration
	// ask asks the API server for an answer.
	ask func(ctx context.Context) error
}

// live is nil unless only a restart helps: a leader whose elector neither
// renews the leases nor gives up.
func (h *health) live(context.Context) error {
	if h.lock == nil {
		return nil
	}
	if d := h.lock.expiredFor(h.lease); d > stuckLeader {
		return fmt.Errorf("the leases have been expired for %s and this process has not stopped", d.Truncate(time.Second))
	}
	return nil
}

// ready is nil once this process works or can take over at once: its caches are
// filled and the control cluster's API server answers.
func (h *health) ready(ctx context.Context) error {
	if !h.synced.Load() {
		return fmt.Errorf("caches are not filled yet")
	}
	if h.clock.Since(time.Unix(0, h.answer.Load())) < pulseMax {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if err := h.ask(ctx); err != nil {
		return fmt.Errorf("the API server of the control cluster does not answer: %w", err)
	}
	return nil
}

// wrap notes when the API server behind next answers; for rest.Config.Wrap. The
// electors of leader and standby ask it all the time, so that readiness costs
// no requests of its own.
func (h *health) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err == nil && resp.StatusCode < http.StatusInternalServerError {
			h.answer.Store(h.clock.Now().UnixNano())
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// askVersion returns a function that asks the API server for its version, which
// everybody may read.
func askVersion(config *rest.Config) (func(context.Context) error, error) {
	client, err := bare(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return client.Get().AbsPath("/version").Do(ctx).Error() }, nil
}

// cachesFilled is a runnable that notes that the caches have been filled: a
// manager starts it after that, leader or not.
type cachesFilled struct{ health *health }

// Start notes it and ends.
func (c cachesFilled) Start(context.Context) error {
	c.health.synced.Store(true)
	return nil
}

// NeedLeaderElection is false: a standby has caches too.
func (cachesFilled) NeedLeaderElection() bool { return false }
