package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Registry holds the metrics of one manager. It is not the process's global
// registry, so that several managers can run in one process.
type Registry struct{ *prometheus.Registry }

// NewRegistry returns a registry of these collectors.
func NewRegistry(cs ...prometheus.Collector) (*Registry, error) {
	r := &Registry{prometheus.NewRegistry()}
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return r, nil
}

// Gatherer returns what is served on that port: this registry and others, such
// as that of the queues, also under MCM's names.
func (r *Registry) Gatherer(port Port, others ...prometheus.Gatherer) prometheus.Gatherer {
	all := append(prometheus.Gatherers{r.Registry}, others...)
	return ofPort(underMCMNames(all), port)
}
