package machine

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// shelter knows which machines an outage keeps, so that each pool is told once
// when it begins and once when it is over. Nothing is decided from it.
type shelter struct {
	kept *prometheus.Desc

	mu    sync.Mutex
	pools map[poolKey]*sheltered
	in    map[types.NamespacedName]poolKey
}

// poolKey names a pool; the name is empty for machines without one.
type poolKey struct{ namespace, name string }

// sheltered is a pool that an outage keeps machines of.
type sheltered struct {
	about    client.Object // what the Events are about
	machines map[types.NamespacedName]bool
}

func newShelter() *shelter {
	return &shelter{
		kept: prometheus.NewDesc("mcm_machine_outage_kept_machines",
			"Machines that are not replaced or drained because their nodes were lost together with others.",
			[]string{"namespace", "machine_deployment"}, nil),
		pools: map[poolKey]*sheltered{}, in: map[types.NamespacedName]poolKey{},
	}
}

// enter notes that an outage keeps a machine, and returns true if it is the
// first of its pool. about is called then.
func (s *shelter) enter(key types.NamespacedName, pool poolKey, about func() client.Object) (client.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, in := s.in[key]; in {
		return nil, false
	}
	s.in[key] = pool
	if p := s.pools[pool]; p != nil {
		p.machines[key] = true
		return nil, false
	}
	s.pools[pool] = &sheltered{about: about(), machines: map[types.NamespacedName]bool{key: true}}
	return s.pools[pool].about, true
}

// exit notes that no outage keeps a machine, and returns true if it was the last
// of its pool.
func (s *shelter) exit(key types.NamespacedName) (client.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, in := s.in[key]
	if !in {
		return nil, false
	}
	delete(s.in, key)
	p := s.pools[pool]
	delete(p.machines, key)
	if len(p.machines) > 0 {
		return nil, false
	}
	delete(s.pools, pool)
	return p.about, true
}

// Describe describes the metric.
func (s *shelter) Describe(ch chan<- *prometheus.Desc) { ch <- s.kept }

// Collect counts the machines of each pool.
func (s *shelter) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pool, p := range s.pools {
		ch <- prometheus.MustNewConstMetric(s.kept, prometheus.GaugeValue, float64(len(p.machines)), pool.namespace,
			pool.name)
	}
}

// Collectors are the metrics that the controller has of its own.
func (c *Controller) Collectors() []prometheus.Collector { return []prometheus.Collector{c.shelter} }

// tellOutage tells a pool when an outage begins to keep machines of it, and when
// it does no more.
func (c *Controller) tellOutage(ctx context.Context, f *facts) {
	key := client.ObjectKeyFromObject(f.machine)
	switch {
	case f.frozen:
	case !f.outage || f.released:
		c.leaveShelter(key)
	default:
		pool := poolKey{f.machine.Namespace, poolOf(f.machine)}
		about, first := c.shelter.enter(key, pool, func() client.Object { return c.poolObject(ctx, f.machine) })
		if first {
			c.Events.Event(about, corev1.EventTypeWarning, eventOutage,
				"Nodes of a zone or of this pool were lost together: machines whose VMs are not gone are neither replaced nor "+
					"drained until that is over")
		}
	}
}

// leaveShelter notes that no outage keeps the machine of that name.
func (c *Controller) leaveShelter(key types.NamespacedName) {
	if about, last := c.shelter.exit(key); last {
		c.Events.Event(about, corev1.EventTypeNormal, eventOutageOver,
			"No machine of this pool is kept by an outage any more")
	}
}

// poolObject is the MachineDeployment of m, else its MachineSet, else m.
func (c *Controller) poolObject(ctx context.Context, m *machinev1.Machine) client.Object {
	set, deployment := &machinev1.MachineSet{}, &machinev1.MachineDeployment{}
	switch {
	case !c.ownerInto(ctx, m, machinev1.MachineSetKind, set):
		return m
	case !c.ownerInto(ctx, set, machinev1.MachineDeploymentKind, deployment):
		return set
	}
	return deployment
}

// ownerInto reads the controller of o if it is of that kind.
func (c *Controller) ownerInto(ctx context.Context, o client.Object, kind string, into client.Object) bool {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != kind {
		return false
	}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}, into)
	return err == nil && into.GetUID() == ref.UID
}
