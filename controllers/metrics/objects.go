package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Values of the label binary of mcm_misc_scrape_failure_total, by MCM's binary.
const (
	binaryManager  = "machine-controller-manager"
	binaryProvider = "machine-controller-manager-provider"
)

// Scrape returns the context that one scrape reads the cache with; it bounds the
// wait for a cache that has not synced yet.
type Scrape func() (context.Context, context.CancelFunc)

// Objects collects metrics about the objects in a cache.
type Objects struct {
	reader client.Reader
	scrape Scrape
	active func() bool
	frozen func() bool

	managerFailures, providerFailures *prometheus.CounterVec
}

var _ prometheus.Collector = &Objects{}

// NewObjects returns a collector of the objects that reader has in its cache.
// Nothing is collected while active returns false; frozen reports whether machines
// are frozen because Machines or Nodes cannot be listed. Both may be nil: always,
// never.
func NewObjects(reader client.Reader, scrape Scrape, active, frozen func() bool) *Objects {
	return &Objects{
		reader: reader, scrape: scrape, active: active, frozen: frozen,
		managerFailures: scrapeFailures(binaryManager), providerFailures: scrapeFailures(binaryProvider),
	}
}

func scrapeFailures(binary string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name:        "mcm_misc_scrape_failure_total",
		Help:        "Number of times that objects of a kind could not be read for metrics.",
		ConstLabels: prometheus.Labels{"binary": binary},
	}, []string{"kind"})
}

// Describe sends the metrics that there always are.
func (o *Objects) Describe(ch chan<- *prometheus.Desc) {
	ch <- frozenDesc
	for _, d := range []*prometheus.Desc{machineItems, setItems, deploymentItems} {
		ch <- d
	}
	for _, d := range [][]*prometheus.Desc{machineDescs(), setDescs(), deploymentDescs(), holdDescs()} {
		for _, desc := range d {
			ch <- desc
		}
	}
	o.managerFailures.Describe(ch)
	o.providerFailures.Describe(ch)
}

// Collect reads the cache. It leaves out a kind that cannot be read, and counts the
// failure.
func (o *Objects) Collect(ch chan<- prometheus.Metric) {
	defer o.managerFailures.Collect(ch)
	defer o.providerFailures.Collect(ch)
	if o.active != nil && !o.active() {
		return
	}
	ctx, cancel := o.scrape()
	defer cancel()
	ch <- gauge(frozenDesc, boolean(o.frozen != nil && o.frozen()))

	held := newHolds()
	defer held.collect(ch)
	machines := &machinev1.MachineList{}
	if o.list(ctx, machines, o.providerFailures, machinev1.MachineKind) {
		collectMachines(ch, machines.Items)
		for i := range machines.Items {
			held.add(machinev1.MachineKind, &machines.Items[i])
		}
	}
	sets := &machinev1.MachineSetList{}
	if o.list(ctx, sets, o.managerFailures, machinev1.MachineSetKind) {
		collectSets(ch, sets.Items)
		for i := range sets.Items {
			held.add(machinev1.MachineSetKind, &sets.Items[i])
		}
	}
	deployments := &machinev1.MachineDeploymentList{}
	if o.list(ctx, deployments, o.managerFailures, machinev1.MachineDeploymentKind) {
		collectDeployments(ch, deployments.Items)
		for i := range deployments.Items {
			held.add(machinev1.MachineDeploymentKind, &deployments.Items[i])
		}
	}
}

// list reads all objects of a kind without copying them; they are only read.
func (o *Objects) list(ctx context.Context, into client.ObjectList, failures *prometheus.CounterVec, kind string) bool {
	if err := o.reader.List(ctx, into, client.UnsafeDisableDeepCopy); err != nil {
		failures.WithLabelValues(kind).Inc()
		return false
	}
	return true
}

var frozenDesc = prometheus.NewDesc("mcm_machine_controller_frozen",
	"1 while machines are frozen because Machines or Nodes cannot be listed.", nil, nil)

// objectLabels name an object.
var objectLabels = []string{"namespace", "name"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(append([]string{}, objectLabels...), labels...), nil)
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// conditionValue is MCM's number for a condition's status.
func conditionValue(status string) float64 {
	switch status {
	case "True":
		return 1
	case "False":
		return 0
	}
	return 2
}

// A number is one gauge of an object; ok is false where the object has none.
type number[T any] struct {
	desc *prometheus.Desc
	of   func(o *T) (value float64, ok bool)
}

func always[T any](name, help string, of func(o *T) float64) number[T] {
	return number[T]{desc(name, help), func(o *T) (float64, bool) { return of(o), true }}
}

func maybe[T any](name, help string, of func(o *T) *int32) number[T] {
	return number[T]{desc(name, help), func(o *T) (float64, bool) {
		if v := of(o); v != nil {
			return float64(*v), true
		}
		return 0, false
	}}
}

func sendNumbers[T any](ch chan<- prometheus.Metric, numbers []number[T], o *T, namespace, name string) {
	for _, n := range numbers {
		if v, ok := n.of(o); ok {
			ch <- gauge(n.desc, v, namespace, name)
		}
	}
}

func descsOf[T any](numbers []number[T], more ...*prometheus.Desc) []*prometheus.Desc {
	for _, n := range numbers {
		more = append(more, n.desc)
	}
	return more
}

// failedLabels describe a failed machine of a set or a deployment.
var failedLabels = []string{
	"failed_machine_name", "failed_machine_provider_id", "failed_machine_owner_ref",
	"failed_machine_last_operation_state", "failed_machine_last_operation_machine_operation_type",
}

func sendFailed(ch chan<- prometheus.Metric, d *prometheus.Desc, namespace, name string,
	failed []machinev1.MachineSummary,
) {
	seen := map[string]bool{}
	for _, m := range failed {
		if seen[m.Name] { // a second one would make the whole scrape fail
			continue
		}
		seen[m.Name] = true
		ch <- gauge(d, 1, namespace, name, m.Name, m.ProviderID, m.OwnerRef, string(m.LastOperation.State),
			string(m.LastOperation.Type))
	}
}
