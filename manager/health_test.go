package manager

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		given  func(h *health, clock *clocktesting.FakeClock)
		path   string
		want   int
	}{
		"Starting": {
			"before the caches are filled nothing could be taken over", func(*health, *clocktesting.FakeClock) {},
			"/readyz", 500,
		},
		"StartsLive": {"but a restart would not help", func(*health, *clocktesting.FakeClock) {}, "/healthz", 200},
		"Answered": {
			"with caches and a recent answer it is ready, without asking",
			func(h *health, _ *clocktesting.FakeClock) {
				h.synced.Store(true)
				answered(h)
			}, "/readyz", 200,
		},
		"Silent": {"after a silence the API server is asked", func(h *health, clock *clocktesting.FakeClock) {
			h.synced.Store(true)
			answered(h)
			clock.Step(time.Minute)
			h.ask = func(context.Context) error { return nil }
		}, "/readyz", 200},
		"Unreachable": {"without an answer it is not ready", func(h *health, clock *clocktesting.FakeClock) {
			h.synced.Store(true)
			answered(h)
			clock.Step(time.Minute)
		}, "/readyz", 500},
		"UnreachableLives": {"but a restart would not help", func(h *health, clock *clocktesting.FakeClock) {
			h.synced.Store(true)
			clock.Step(time.Minute)
		}, "/healthz", 200},
		"Leading": {"a leader that renews its leases lives", func(h *health, clock *clocktesting.FakeClock) {
			lead(t, h, clock)
			clock.Step(10 * time.Second)
		}, "/healthz", 200},
		"Stuck": {
			"a leader that neither renews its leases nor gives up is restarted",
			func(h *health, clock *clocktesting.FakeClock) {
				lead(t, h, clock)
				clock.Step(time.Minute)
			}, "/healthz", 500,
		},
		"StuckLivez": {"under both names", func(h *health, clock *clocktesting.FakeClock) {
			lead(t, h, clock)
			clock.Step(time.Minute)
		}, "/livez", 500},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1700000000, 0))
			h := &health{clock: clock, lease: 15 * time.Second, ask: func(context.Context) error {
				return errors.New("no route")
			}}
			tc.given(h, clock)
			w := httptest.NewRecorder()
			mux := newMux(h, prometheus.NewRegistry(), NewOptions("test", "1").flags, serverOptions{})
			mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.path, http.NoBody))
			if w.Code != tc.want {
				t.Errorf("%s: %s is %d %q, want %d", tc.reason, tc.path, w.Code, w.Body.String(), tc.want)
			}
		})
	}
}

// answered lets the API server answer once.
func answered(h *health) {
	rt := h.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusForbidden}, nil
	}))
	_, _ = rt.RoundTrip(&http.Request{}) //nolint:bodyclose // there is none
}

// lead takes both leases.
func lead(t *testing.T, h *health, clock *clocktesting.FakeClock) {
	t.Helper()
	h.lock = newLeaseLock(newClientset().CoordinationV1(), "ns", "us", clock, fence.Always(clock), first, second)
	if _, _, err := h.lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "us"}); err != nil {
		t.Fatal(err)
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	for profiling, want := range map[bool]int{true: http.StatusOK, false: http.StatusNotFound} {
		w := httptest.NewRecorder()
		s := serverOptions{insecureDiagnostics: true, profiling: profiling}
		mux := newMux(&health{}, prometheus.NewRegistry(), NewOptions("test", "1").flags, s)
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/cmdline", http.NoBody))
		if w.Code != want {
			t.Errorf("with --profiling=%v profiles are %d, want %d", profiling, w.Code, want)
		}
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	s := serverOptions{address: "127.0.0.1"}
	port := freePort(t)
	first, err := newServer(t.Context(), s, "port", port, http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Listener.Close()
	if _, err := newServer(t.Context(), s, "port", port, http.NotFoundHandler()); err == nil {
		t.Error("a port that is taken is no error at the start")
	}
}
