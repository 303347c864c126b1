package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/metrics"
)

const (
	headerTimeout   = 10 * time.Second
	shutdownTimeout = time.Second
	exportTimeout   = 5 * time.Second // of the last traces
)

// newMux serves what each of MCM's binaries serves, and readiness; only the health if s
// has insecure diagnostics off.
func newMux(h *health, gatherer prometheus.Gatherer, flags *pflag.FlagSet, s serverOptions) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/healthz", check(h.live))
	mux.Handle("/livez", check(h.live))
	mux.Handle("/readyz", check(h.ready))
	if !s.insecureDiagnostics {
		return mux
	}
	mux.Handle("/metrics", metricsHandler(gatherer))
	mux.Handle("/configz", configz(flags))
	if s.profiling {
		addProfiles(mux)
	}
	return mux
}

// check answers 200 while f returns nil, else 500 and why.
func check(f func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := f(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("ok")) // a client that has gone needs no answer
	})
}

// configz answers with the values of all flags; none of them is a secret.
func configz(flags *pflag.FlagSet) http.Handler {
	values := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) { values[f.Name] = f.Value.String() })
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]map[string]string{"componentconfig": values})
	})
}

func addProfiles(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

// profileContention makes the profiles of lock contention record something.
func profileContention() {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
}

// newServer listens at once, so that a port that is taken is an error at the
// start, and serves as part of a manager, leader or not.
func newServer(ctx context.Context, s serverOptions, flag string, port int, h http.Handler) (*manager.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(s.address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &manager.Server{
		Name: flag, Listener: listener, ShutdownTimeout: new(shutdownTimeout),
		Server: &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout},
	}, nil
}

// endpoint is a port and what of the metrics it serves.
type endpoint struct {
	flag  string
	port  int
	serve metrics.Port
}

// endpoints are the ports to serve; where they are one, it serves all.
func (o *Options) endpoints() []endpoint {
	s := o.server
	first := endpoint{"port", s.port, metrics.Both}
	if o.container() != allContainers || s.machineControllerPort == 0 || s.machineControllerPort == s.port {
		return []endpoint{first}
	}
	first.serve = metrics.ManagerPort
	return []endpoint{first, {"machine-controller-port", s.machineControllerPort, metrics.MachineController}}
}

// serve adds the servers of all ports.
func (w *wiring) serve(ctx context.Context, h *health) error {
	s := w.server
	if s.contentionProfiling {
		profileContention()
	}
	if err := w.serveDiagnostics(ctx, h); err != nil {
		return err
	}
	all := w.endpoints()
	for i, e := range slices.Backward(all) {
		var handler http.Handler = newMux(h, w.gatherer(e.serve), w.flags, s)
		if w.peer != nil {
			handler = w.podServer(h).mux(handler)
		}
		server, err := newServer(ctx, s, e.flag, e.port, handler)
		if i > 0 && errors.Is(err, syscall.EADDRINUSE) && !w.given(e.flag) {
			klog.Background().Info("Warning: the default of the second port is taken; all metrics are on the first port",
				"flag", "--"+e.flag, "port", e.port)
			all[0].serve = metrics.Both
			continue
		}
		if err != nil {
			return err
		}
		if err := w.manager.Add(server); err != nil {
			return err
		}
	}
	return nil
}

// gatherer has the metrics of a port.
func (w *wiring) gatherer(port metrics.Port) prometheus.Gatherer {
	return w.registry.Gatherer(port, ctrlmetrics.Registry)
}

// joinPod connects this process with the other container of its pod, if it has one: the
// sidecar leads whenever it can.
func (w *wiring) joinPod(lock *leaseLock, stop context.CancelCauseFunc) error {
	c, e := w.container(), w.election
	if c == allContainers || lock == nil {
		return nil
	}
	w.peer = newPeer(c.peerPort(), e.leaseDuration, clock.RealClock{})
	if c == sidecarContainer {
		return nil
	}
	lock.first = w.peer.goesFirst
	return w.manager.Add(handOver{to: w.peer, every: e.retryPeriod, stop: stop, past: &w.handOvers})
}

// podServer serves this process as a container of the pod.
func (w *wiring) podServer(h *health) podServer {
	leads := leading(w.manager)
	s := podServer{container: w.container(), peer: w.peer, of: map[metrics.Port]http.Handler{}}
	s.state = func() string {
		switch {
		case leads():
			return peerLeads
		case h.synced.Load():
			return peerStandsBy
		}
		return peerStarting
	}
	for _, port := range []metrics.Port{metrics.Both, metrics.ManagerPort, metrics.MachineController} {
		s.of[port] = metricsHandler(w.gatherer(port))
	}
	return s
}

func metricsHandler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
