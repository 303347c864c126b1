package orphan

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// metrics count what scans find and remove.
type metrics struct {
	seen    *prometheus.CounterVec // provider, kind
	removed *prometheus.CounterVec // provider, kind
	failed  *prometheus.CounterVec // provider
	held    *prometheus.GaugeVec   // collector, namespace, machineclass
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "mcm", Subsystem: "safety", Name: name, Help: help},
			labels)
	}
	return &metrics{
		seen: counter("orphans_seen_total", "Resources in the cloud that were found without an owner.", "provider",
			"kind"),
		removed: counter("orphans_removed_total",
			"Resources in the cloud that were removed because they have no owner.", "provider", "kind"),
		failed: counter("orphan_scans_failed_total", "Scans for orphans that failed.", "provider"),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "mcm", Subsystem: "safety", Name: "orphans_held",
			Help: "VMs without a machine that are not removed until a person decides, because they are many.",
		}, []string{"collector", "namespace", "machineclass"}),
	}
}

// labelsOf are the labels of what this collector holds for a class.
func (c *Controller) labelsOf(class types.NamespacedName) prometheus.Labels {
	return prometheus.Labels{"collector": c.Name, "namespace": class.Namespace, "machineclass": class.Name}
}

// begin makes the series of a provider. What increases is measured between two scrapes,
// so a series has to be there before the first orphan is.
func (m *metrics) begin(provider string) {
	m.failed.WithLabelValues(provider)
	for _, kind := range cloud.Kinds() {
		m.seen.WithLabelValues(provider, string(kind))
		m.removed.WithLabelValues(provider, string(kind))
	}
}

// Register registers the metrics of c, and makes the series of these providers. Collectors
// of the same registry share their metrics.
func (c *Controller) Register(r prometheus.Registerer, providers []string) error {
	if err := c.register(r); err != nil {
		return err
	}
	for _, p := range providers {
		c.metrics.begin(p)
	}
	return nil
}

func (c *Controller) register(r prometheus.Registerer) error {
	for _, v := range []**prometheus.CounterVec{&c.metrics.seen, &c.metrics.removed, &c.metrics.failed} {
		err := r.Register(*v)
		if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			*v, _ = there.ExistingCollector.(*prometheus.CounterVec)
			continue
		}
		if err != nil {
			return err
		}
	}
	err := r.Register(c.metrics.held)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		c.metrics.held, _ = there.ExistingCollector.(*prometheus.GaugeVec)
		return nil
	}
	return err
}
