package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Registry holds the metrics of one manager. It is not the process's global
// registry, so that several managers can run in one process.
type Registry struct {
	registry *prometheus.Registry
	stale    prometheus.Counter
}

// NewRegistry returns a registry of these collectors and of
// mcm_machine_stale_machines_total.
func NewRegistry(cs ...prometheus.Collector) (*Registry, error) {
	r := &Registry{
		registry: prometheus.NewRegistry(),
		stale: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mcm_machine_stale_machines_total", Help: "Failed machines that were replaced.",
		}),
	}
	for _, c := range append(cs, r.stale) {
		if err := r.registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return r, nil
}

// StaleMachine counts a failed machine that is being replaced.
func (r *Registry) StaleMachine() { r.stale.Inc() }

// Gatherer returns what is served on that port: this registry and others, such
// as that of the queues, also under MCM's names.
func (r *Registry) Gatherer(port Port, others ...prometheus.Gatherer) prometheus.Gatherer {
	all := append(prometheus.Gatherers{r.registry}, others...)
	return ofPort(underMCMNames(all), port)
}
