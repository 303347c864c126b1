package manager

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/metrics"
)

// The ports of MCM's two binaries, which Gardener probes and scrapes.
const (
	managerPort           = 10258
	machineControllerPort = 10259
)

// container is the container of MCM's pod that this process stands in for.
//
// Gardener runs MCM as two containers of one pod, with arguments that are not ours to
// change. With this manager in both, one of them works, and each serves what is probed
// and scraped on its port. The provider's sidecar goes first: it has the flags about
// machines, and the only mount of a workload identity's token. The other one takes over
// while the sidecar is away.
type container uint8

const (
	allContainers    container = iota // this process is alone
	managerContainer                  // machine-controller-manager
	sidecarContainer                  // machine-controller-manager-provider-<name>
)

// container tells Gardener's containers by the port that they are given.
func (o *Options) container() container {
	switch {
	case !o.given("port"), o.given("machine-controller-port"), o.extension.port != 0:
		return allContainers
	case o.server.port == managerPort:
		return managerContainer
	case o.server.port == machineControllerPort:
		return sidecarContainer
	}
	return allContainers
}

// peerPort is the port of the other container.
func (c container) peerPort() int {
	if c == managerContainer {
		return machineControllerPort
	}
	return managerPort
}

// half is the part of the metrics that MCM has on the port of this container.
func (c container) half() metrics.Port {
	switch c {
	case managerContainer:
		return metrics.ManagerPort
	case sidecarContainer:
		return metrics.MachineController
	case allContainers:
	}
	return metrics.Both
}

// What a process tells its peer at pathElection.
const (
	peerAbsent   = "" // no process answers, or not one of this project
	peerStarting = "starting"
	peerStandsBy = "standing by"
	peerLeads    = "leading"
)

// The paths that a container has for its peer.
const (
	pathElection = "/leader-election"
	pathHalf     = "/metrics/of-port/" // and the port whose metrics this process has
)

// peerTimeout bounds a question to the peer, which is in the same pod.
const peerTimeout = time.Second

// peer is the other container of the pod. It is safe for concurrent use.
type peer struct {
	base   *url.URL
	client *http.Client
	clock  clock.PassiveClock
	// patience is for how long a peer that does not answer is waited for.
	patience time.Duration

	mu   sync.Mutex
	seen time.Time // when it answered for the last time, at first when this process began
	idle time.Time // since when no process leads, although this one could; zero if one does
}

// patiences is for how many times its patience a peer is waited for that answers and does
// not lead: to fill its caches takes longer than to answer.
const patiences = 4

func newPeer(port int, patience time.Duration, c clock.PassiveClock) *peer {
	return &peer{
		base:   &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))},
		client: &http.Client{Timeout: peerTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
		clock:  c, patience: patience, seen: c.Now(),
	}
}

// ask returns what the peer does.
func (p *peer) ask(ctx context.Context) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.JoinPath(pathElection).String(), http.NoBody)
	if err != nil {
		return peerAbsent
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return peerAbsent
	}
	defer resp.Body.Close()
	const longest = 64
	body, err := io.ReadAll(io.LimitReader(resp.Body, longest))
	if err != nil || resp.StatusCode != http.StatusOK {
		return peerAbsent
	}
	switch state := string(body); state {
	case peerStarting, peerStandsBy, peerLeads:
		return state
	}
	return peerAbsent
}

// goesFirst returns why the peer is left to lead, and "" once it has not answered for
// its patience, or answers and has left the leases free for several times that. held
// tells that somebody holds a lease validly.
func (p *peer) goesFirst(ctx context.Context, held bool) string {
	state := p.ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	switch {
	case held || state == peerLeads:
		p.idle = time.Time{}
	case p.idle.IsZero():
		p.idle = now
	case now.Sub(p.idle) >= patiences*p.patience:
		return ""
	}
	if state != peerAbsent {
		p.seen = now
		return "the provider sidecar at " + p.base.Host + " goes first"
	}
	if now.Sub(p.seen) < p.patience {
		return "waiting for the provider sidecar at " + p.base.Host
	}
	return ""
}

// errHandOver ends a term in favor of the sidecar.
var errHandOver = errors.New("the provider sidecar is back")

// longestHandOver is the longest time that a sidecar has to stand by before it may lead.
const longestHandOver = 30 * time.Minute

// handOvers are the hand-overs of a process, one term after another.
type handOvers struct {
	patience time.Duration // of the last one
	at       time.Time     // of the last one; zero if there was none
}

// next returns for how long the sidecar has to stand by before it leads again. A sidecar
// that can start and cannot work costs a time without leader each time that it leads, so
// each hand-over that came back doubles the time. It is the shortest one again after a
// sidecar that has worked.
func (h *handOvers) next(now time.Time, shortest time.Duration) time.Duration {
	if h.at.IsZero() || now.Sub(h.at) >= longestHandOver {
		h.patience = shortest
	} else {
		h.patience = max(shortest, min(2*h.patience, longestHandOver))
	}
	return h.patience
}

// handOver is a runnable that ends this process' term when the sidecar has been standing
// by for some time. Shorter would be a change of leaders for each restart of a sidecar
// that fails again and again.
type handOver struct {
	to    *peer
	every time.Duration
	stop  context.CancelCauseFunc
	past  *handOvers
}

// Start blocks until ctx ends or the sidecar may lead.
func (h handOver) Start(ctx context.Context) error {
	ticker := time.NewTicker(h.every)
	defer ticker.Stop()
	since := h.to.clock.Now()
	patience := h.past.next(since, h.to.patience)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if h.to.ask(ctx) != peerStandsBy {
			since = h.to.clock.Now()
		}
		if h.to.clock.Since(since) >= patience {
			klog.Background().Info("Handing over to the provider sidecar, which has this pod's flags about machines",
				"sidecar", h.to.base.Host)
			h.past.at = h.to.clock.Now()
			h.stop(errHandOver)
			return nil
		}
	}
}

// NeedLeaderElection is true: there is something to hand over.
func (handOver) NeedLeaderElection() bool { return true }

// podServer serves a container of the pod: what it has itself, and of the metrics those
// of the container that leads.
type podServer struct {
	container container
	peer      *peer
	state     func() string
	of        map[metrics.Port]http.Handler // the metrics of this process
}

// mux is own with what the pod needs beside it.
func (s podServer) mux(own http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/", own)
	mux.HandleFunc(pathElection, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, s.state()) // a client that has gone needs no answer
	})
	for _, c := range []container{managerContainer, sidecarContainer} {
		mux.Handle(c.pathHalf(), s.of[c.half()])
	}
	mux.HandleFunc("/metrics", s.metrics)
	return mux
}

// pathHalf is where each container serves its part of the metrics of c.
func (c container) pathHalf() string {
	if c == managerContainer {
		return pathHalf + strconv.Itoa(managerPort)
	}
	return pathHalf + strconv.Itoa(machineControllerPort)
}

// metrics serves this port's half of the leader's metrics, and all of them where there
// is no other port.
func (s podServer) metrics(w http.ResponseWriter, r *http.Request) {
	other := s.peer.ask(r.Context())
	own := s.of[s.container.half()]
	switch {
	case other == peerAbsent:
		s.of[metrics.Both].ServeHTTP(w, r)
	case other != peerLeads || s.state() == peerLeads:
		own.ServeHTTP(w, r)
	default:
		proxy := httputil.ReverseProxy{
			Rewrite: func(out *httputil.ProxyRequest) {
				out.SetURL(s.peer.base)
				out.Out.URL.Path, out.Out.URL.RawQuery = s.container.pathHalf(), ""
			},
			// It has gone since it was asked.
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) { own.ServeHTTP(w, r) },
		}
		proxy.ServeHTTP(w, r)
	}
}
