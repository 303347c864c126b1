package outage

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tracker knows which machines an outage protects, so that each pool gets one
// Event when protection begins and one when it ends. Nothing is decided from it.
// It is a metric too, and safe for concurrent use.
type Tracker struct {
	desc *prometheus.Desc

	mu       sync.Mutex
	pools    map[poolKey]*protectedPool
	machines map[types.NamespacedName]poolKey
}

// poolKey names a pool; the name is empty for machines without one.
type poolKey struct{ namespace, name string }

// protectedPool is a pool that an outage protects machines of.
type protectedPool struct {
	object   client.Object // what the Events are about
	machines map[types.NamespacedName]bool
}

// NewTracker returns a Tracker that knows of no outage.
func NewTracker() *Tracker {
	return &Tracker{
		desc: prometheus.NewDesc("mcm_machine_outage_kept_machines",
			"Machines that are not replaced or drained because many nodes of their zone or pool became unhealthy together.",
			[]string{"namespace", "machine_deployment"}, nil),
		pools: map[poolKey]*protectedPool{}, machines: map[types.NamespacedName]poolKey{},
	}
}

// Add notes that an outage protects a machine of a pool. If it is the first of
// the pool, Add returns the object that Events are about, which object makes.
func (t *Tracker) Add(key types.NamespacedName, pool string, object func() client.Object) (client.Object, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.machines[key]; known {
		return nil, false
	}
	of := poolKey{key.Namespace, pool}
	t.machines[key] = of
	if p := t.pools[of]; p != nil {
		p.machines[key] = true
		return nil, false
	}
	t.pools[of] = &protectedPool{object: object(), machines: map[types.NamespacedName]bool{key: true}}
	return t.pools[of].object, true
}

// Remove notes that no outage protects a machine. If it was the last of its pool,
// Remove returns the object that Events are about.
func (t *Tracker) Remove(key types.NamespacedName) (client.Object, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, known := t.machines[key]
	if !known {
		return nil, false
	}
	delete(t.machines, key)
	p := t.pools[of]
	delete(p.machines, key)
	if len(p.machines) > 0 {
		return nil, false
	}
	delete(t.pools, of)
	return p.object, true
}

// Len is how many machines are protected.
func (t *Tracker) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.machines)
}

// Describe describes the metric.
func (t *Tracker) Describe(ch chan<- *prometheus.Desc) { ch <- t.desc }

// Collect counts the machines of each pool.
func (t *Tracker) Collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pool, p := range t.pools {
		ch <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, float64(len(p.machines)), pool.namespace,
			pool.name)
	}
}
