package metrics

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// place says which machines are alike: those of one pool, of one instance type
// in one zone. A pool is what the machines' label name says, the machine
// deployment.
type place struct{ namespace, pool, instanceType, zone string }

// Durations keeps how long the steps of machines' lives took, per pool. What
// belongs to a pool is forgotten once the pool has no machine and no machine
// deployment any more. It is safe for concurrent use.
type Durations struct {
	reader client.Reader
	scrape Scrape

	mu     sync.Mutex
	last   map[string]map[place]float64 // by step: MCM's gauges hold the last machine's
	failed map[place]float64
	steps  *prometheus.HistogramVec
}

var _ prometheus.Collector = &Durations{}

// durationDescs are MCM's gauges, by step.
var durationDescs = map[string]*prometheus.Desc{
	"create":     durationDesc("create", "instance_type", "zone"),
	"initialize": durationDesc("initialize", "instance_type", "zone"),
	"join":       durationDesc("join", "instance_type", "zone"),
	"delete":     durationDesc("delete", "instance_type", "zone"),
	"drain":      durationDesc("drain"),
}

var failedJoinDesc = prometheus.NewDesc("mcm_machine_num_failed_join", "Machines whose node did not join in time.",
	[]string{"namespace", "machine_deployment", "instance_type", "zone"}, nil)

func durationDesc(step string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("mcm_machine_"+step+"_duration_seconds", "How long the step "+step+
		" of the last machine of the pool took.",
		append([]string{"namespace", "machine_deployment"}, labels...), nil)
}

// NewDurations returns a collector without durations. reader has Machines, by
// pool, and MachineDeployments in its cache.
func NewDurations(reader client.Reader, scrape Scrape) *Durations {
	return &Durations{
		reader: reader, scrape: scrape, last: map[string]map[place]float64{}, failed: map[place]float64{},
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mcm_machine_step_duration_seconds",
			Help: "How long a step of a machine's life took.",
			// From half a second to two hours, MCM's drain timeout.
			Buckets: []float64{.5, 1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 2400, 3600, 7200},
		}, []string{"namespace", "machine_deployment", "instance_type", "zone", "step"}),
	}
}

// Observe keeps how long a step of m took: create, initialize, join, drain,
// delete or any other. A machine without the label name belongs to no pool and
// is not counted, as in MCM.
func (d *Durations) Observe(m *machinev1.Machine, instanceType, zone, step string, seconds float64) {
	p := place{m.Namespace, m.Labels[machinev1.NameLabel], instanceType, zone}
	if p.pool == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps.WithLabelValues(p.namespace, p.pool, p.instanceType, p.zone, step).Observe(seconds)
	d.begin(p)
	if step == "drain" { // MCM's gauge does not tell where
		p.instanceType, p.zone = "", ""
	}
	if d.last[step] == nil {
		d.last[step] = map[place]float64{}
	}
	d.last[step][p] = seconds
}

// begin makes the series of what may follow the first step of a place. What increases is
// measured between two scrapes, so a series has to be there before its first event.
func (d *Durations) begin(p place) {
	if _, known := d.failed[p]; known {
		return
	}
	d.failed[p] = 0
	d.steps.WithLabelValues(p.namespace, p.pool, p.instanceType, p.zone, "join")
}

// FailedJoin counts a machine whose node did not join in time.
func (d *Durations) FailedJoin(m *machinev1.Machine, instanceType, zone string) {
	if pool := m.Labels[machinev1.NameLabel]; pool != "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failed[place{m.Namespace, pool, instanceType, zone}]++
	}
}

// Describe sends MCM's gauges and the histogram.
func (d *Durations) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range durationDescs {
		ch <- desc
	}
	ch <- failedJoinDesc
	d.steps.Describe(ch)
}

// Collect forgets pools that are gone and sends the others.
func (d *Durations) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	for step, places := range d.last {
		for p, seconds := range places {
			switch {
			case durationDescs[step] == nil: // only in the histogram
			case step == "drain":
				ch <- gauge(durationDescs[step], seconds, p.namespace, p.pool)
			default:
				ch <- gauge(durationDescs[step], seconds, p.namespace, p.pool, p.instanceType, p.zone)
			}
		}
	}
	for p, n := range d.failed {
		ch <- prometheus.MustNewConstMetric(failedJoinDesc, prometheus.CounterValue, n, p.namespace, p.pool, p.instanceType,
			p.zone)
	}
	d.steps.Collect(ch)
}

// forget drops what belongs to pools that are gone. A pool that cannot be
// looked up is kept.
func (d *Durations) forget() {
	ctx, cancel := d.scrape()
	defer cancel()
	gone := map[client.ObjectKey]bool{}
	isGone := func(p place) bool {
		key := client.ObjectKey{Namespace: p.namespace, Name: p.pool}
		if _, known := gone[key]; !known {
			gone[key] = d.poolGone(ctx, key)
		}
		return gone[key]
	}
	for _, places := range d.last {
		for p := range places {
			if isGone(p) {
				delete(places, p)
			}
		}
	}
	for p := range d.failed {
		if isGone(p) {
			delete(d.failed, p)
		}
	}
	for key, g := range gone {
		if g {
			d.steps.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "machine_deployment": key.Name})
		}
	}
}

// poolGone reports whether there is neither a machine deployment of that name nor
// a machine of that pool.
func (d *Durations) poolGone(ctx context.Context, key client.ObjectKey) bool {
	if err := d.reader.Get(ctx, key, &machinev1.MachineDeployment{}); client.IgnoreNotFound(err) != nil || err == nil {
		return false
	}
	machines := &machinev1.MachineList{}
	err := d.reader.List(ctx, machines, client.InNamespace(key.Namespace),
		client.MatchingFields{index.MachineByPool: key.Name},
		client.Limit(1), client.UnsafeDisableDeepCopy)
	return err == nil && len(machines.Items) == 0
}
