package manager

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/metrics"
)

// says is a handler that answers with a text.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// peerOf returns the peer that answers with h.
func peerOf(t *testing.T, h http.Handler, clock *clocktesting.FakeClock) *peer {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	p := newPeer(machineControllerPort, 15*time.Second, clock)
	var err error
	if p.base, err = url.Parse(server.URL); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPeerGoesFirst(t *testing.T) {
	t.Parallel()
	mcm := http.NewServeMux()
	mcm.Handle("/healthz", says("ok"))
	cases := map[string]struct {
		reason string
		peer   http.Handler
		after  time.Duration
		first  bool
	}{
		"Standby":  {"a sidecar that can lead leads", says(peerStandsBy), time.Hour, true},
		"Starting": {"one that starts will", says(peerStarting), 50 * time.Second, true},
		"Soon":     {"one that does not answer yet may be about to start", http.NotFoundHandler(), 10 * time.Second, true},
		"Never":    {"one that has not come is not waited for", http.NotFoundHandler(), 16 * time.Second, false},
		"MCM":      {"MCM's own sidecar waits for its own lease only", mcm, 16 * time.Second, false},
		"Other":    {"whoever has the port, it is no process of ours", says("hello"), 16 * time.Second, false},
	}
	for name, tc := range cases {
		clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
		p := peerOf(t, tc.peer, clock)
		clock.Step(tc.after)
		if reason := p.goesFirst(t.Context(), false); (reason != "") != tc.first {
			t.Errorf("%s: %s: %q", name, tc.reason, reason)
		}
	}
}

// TestPeerThatDoesNotLead: a sidecar that answers is not waited for any longer once all
// leases have been free for a minute.
func TestPeerThatDoesNotLead(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		state  string
		held   bool
		first  bool
	}{
		"Starting": {"one that hangs in its start", peerStarting, false, false},
		"Standby":  {"one whose writes of leases fail", peerStandsBy, false, false},
		"Leads":    {"one that leads", peerLeads, false, true},
		"Other":    {"one that stands by for another pod's leader", peerStandsBy, true, true},
	}
	for name, tc := range cases {
		clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
		p := peerOf(t, says(tc.state), clock)
		for range 30 {
			if clock.Since(time.Unix(1e9, 0)) < time.Minute && p.goesFirst(t.Context(), tc.held) == "" {
				t.Errorf("%s: %s goes first for a minute", name, tc.reason)
			}
			clock.Step(2 * time.Second)
		}
		if reason := p.goesFirst(t.Context(), tc.held); (reason != "") != tc.first {
			t.Errorf("%s: %s: %q", name, tc.reason, reason)
		}
		if p.goesFirst(t.Context(), true) == "" {
			t.Errorf("%s: %s: goes first again once somebody leads", name, tc.reason)
		}
	}
}

// TestHandOverBacksOff: a sidecar that fails once it leads gets the leases less and less
// often.
func TestHandOverBacksOff(t *testing.T) {
	t.Parallel()
	const shortest = 15 * time.Second
	now, h, n := time.Unix(1e9, 0), handOvers{}, 0
	for want := shortest; want < longestHandOver; want *= 2 {
		if got := h.next(now, shortest); got != want {
			t.Fatalf("hand-over %d after %s, want %s", n, got, want)
		}
		h.at, now, n = now, now.Add(30*time.Second), n+1
	}
	if got := h.next(now, shortest); got != longestHandOver {
		t.Errorf("at last after %s, want %s", got, longestHandOver)
	}
	h.at = now
	if got := h.next(now.Add(longestHandOver), shortest); got != shortest {
		t.Errorf("after a sidecar that has worked: %s, want %s", got, shortest)
	}
}

// TestPodMetrics: each container has its half of the leader's metrics.
func TestPodMetrics(t *testing.T) {
	t.Parallel()
	leader := http.NewServeMux()
	leader.Handle(pathElection, says(peerLeads))
	leader.Handle(managerContainer.pathHalf(), says("the leader's sets"))
	leader.Handle(sidecarContainer.pathHalf(), says("the leader's machines"))
	gone := http.NewServeMux()
	gone.Handle(pathElection, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, peerLeads)
	}))
	gone.Handle(managerContainer.pathHalf(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	cases := map[string]struct {
		reason    string
		container container
		state     string
		peer      http.Handler
		want      string
	}{
		"Standby":   {"a standby passes on what the leader has", managerContainer, peerStandsBy, leader, "the leader's sets"},
		"Sidecar":   {"of its own port", sidecarContainer, peerStandsBy, leader, "the leader's machines"},
		"Leader":    {"a leader has its own", sidecarContainer, peerLeads, says(peerStandsBy), "own machines"},
		"NoLeader":  {"where none leads each has its own", managerContainer, peerStandsBy, says(peerStandsBy), "own sets"},
		"Alone":     {"without another port this one has all", managerContainer, peerLeads, http.NotFoundHandler(), "all"},
		"JustEnded": {"a leader that ends meanwhile is no failure", managerContainer, peerStandsBy, gone, "own sets"},
	}
	for name, tc := range cases {
		s := podServer{
			container: tc.container, peer: peerOf(t, tc.peer, clocktesting.NewFakeClock(time.Unix(1e9, 0))),
			state: func() string { return tc.state },
			of: map[metrics.Port]http.Handler{
				metrics.Both: says("all"), metrics.ManagerPort: says("own sets"), metrics.MachineController: says("own machines"),
			},
		}
		w := httptest.NewRecorder()
		s.mux(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics",
			http.NoBody))
		if got := w.Body.String(); got != tc.want {
			t.Errorf("%s: %s: %q, want %q", name, tc.reason, got, tc.want)
		}
	}
}

// TestLeaseWaitsForThePeer: an elector does not take leases that are free while the
// sidecar goes first, and takes them after that.
func TestLeaseWaitsForThePeer(t *testing.T) {
	t.Parallel()
	l := pair(newClientset().CoordinationV1(), "us")
	first := "the sidecar goes first"
	l.first = func(context.Context, bool) string { return first }
	record, before, err := l.Get(t.Context())
	if err != nil || record.HolderIdentity != first || record.LeaseDurationSeconds < 3600 {
		t.Errorf("while the sidecar is there: %+v, %v; want a record that it holds", record, err)
	}
	first = ""
	record, after, err := l.Get(t.Context())
	if err != nil || record.HolderIdentity != "" || string(before) == string(after) {
		t.Errorf("after that: %+v, %v; want a free record that differs", record, err)
	}
}

// TestMixed: beside one of MCM's processes without the other one nothing works that is
// the other one's.
func TestMixed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	held := func(name, by string, ago time.Duration) part {
		return part{
			lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: name}},
			seen: resourcelock.LeaderElectionRecord{
				HolderIdentity: by, LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(now.Add(-ago)),
			},
		}
	}
	missing := held(second, "", time.Hour)
	missing.missing = true
	cases := map[string]struct {
		reason string
		parts  []part
		want   string
	}{
		"One":     {"both of one process", []part{held(first, "a", 0), held(second, "a", 0)}, ""},
		"MCM":     {"both of MCM's", []part{held(first, "a", 0), held(second, "b", 0)}, ""},
		"None":    {"nobody", []part{held(first, "", 0), missing}, ""},
		"Only":    {"MCM without its sidecar", []part{held(first, "a", 0), missing}, "machine-controller by nobody"},
		"Sidecar": {"a sidecar without MCM", []part{held(first, "a", time.Hour), held(second, "b", 0)}, "held by b"},
		"Change":  {"a change of leaders", []part{held(first, "a", 20*time.Second), held(second, "b", 0)}, ""},
	}
	for name, tc := range cases {
		if got := mixed(now, tc.parts); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s: %q, want %q", name, tc.reason, got, tc.want)
		}
	}
}

// TestContainers: which ports are served follows from how Gardener starts its containers.
func TestContainers(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		args   []string
		want   container
		ports  []int
	}{
		"Alone":     {"a process for all has both ports", nil, allContainers, []int{10258, 10259}},
		"Manager":   {"Gardener's first container", []string{"--port=10258"}, managerContainer, []int{10258}},
		"Sidecar":   {"Gardener's second container", []string{"--port=10259"}, sidecarContainer, []int{10259}},
		"OtherPort": {"no container of Gardener's", []string{"--port=8080"}, allContainers, []int{8080, 10259}},
		"BothPorts": {
			"a process for all that names its ports",
			[]string{"--port=10258", "--machine-controller-port=10259"},
			allContainers,
			[]int{10258, 10259},
		},
		"OnePort": {
			"everything on one port", []string{"--port=10258", "--machine-controller-port=0"}, allContainers, []int{10258},
		},
		"Extension": {
			"a runtime extension has no lease", []string{
				"--port=10258", "--runtime-extension-port=9443", "--runtime-extension-cert-dir=x",
			}, allContainers, []int{10258, 10259},
		},
	}
	for name, tc := range cases {
		o, err := parse(tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		var ports []int
		for _, e := range o.endpoints() {
			ports = append(ports, e.port)
		}
		if o.container() != tc.want || !slices.Equal(ports, tc.ports) {
			t.Errorf("%s: %s: container %d with ports %v, want %d with %v", name, tc.reason, o.container(), ports, tc.want,
				tc.ports)
		}
	}
}
