package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	headerTimeout   = 10 * time.Second
	shutdownTimeout = time.Second
)

// newMux serves what each of MCM's binaries serves, and readiness.
func newMux(h *health, metrics prometheus.Gatherer, flags *pflag.FlagSet, s serverOptions) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/healthz", check(h.live))
	mux.Handle("/livez", check(h.live))
	mux.Handle("/readyz", check(h.ready))
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
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
