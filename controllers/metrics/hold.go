package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var (
	heldObjects = prometheus.NewDesc("mcm_migration_held_objects",
		"Number of objects that are held for a migration, by whether their controller has answered.", []string{
			"namespace", "kind",
			"answered",
		}, nil)
	heldSince = prometheus.NewDesc("mcm_migration_held_since_timestamp_seconds",
		"Unix time at which the oldest current hold of the namespace was answered.", []string{"namespace"}, nil)
)

func holdDescs() []*prometheus.Desc { return []*prometheus.Desc{heldObjects, heldSince} }

// holds sums up the objects that are held.
type holds struct {
	count map[holdKey]int
	since map[string]time.Time // by namespace
}

type holdKey struct{ namespace, kind, answered string }

func newHolds() *holds { return &holds{count: map[holdKey]int{}, since: map[string]time.Time{}} }

// add takes an object of a kind into account. A time that cannot be read is left
// out: it decides nothing.
func (h *holds) add(kind string, o metav1.Object) {
	if !machinev1.Held(o) {
		return
	}
	if !machinev1.HoldAnswered(o) {
		h.count[holdKey{o.GetNamespace(), kind, "false"}]++
		return
	}
	h.count[holdKey{o.GetNamespace(), kind, "true"}]++
	at, err := time.Parse(time.RFC3339, o.GetAnnotations()[machinev1.MigrationHeldSinceAnnotation])
	if first, known := h.since[o.GetNamespace()]; err == nil && (!known || at.Before(first)) {
		h.since[o.GetNamespace()] = at
	}
}

func (h *holds) collect(ch chan<- prometheus.Metric) {
	keys := slices.SortedFunc(maps.Keys(h.count), func(a, b holdKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind), cmp.Compare(a.answered, b.answered))
	})
	for _, k := range keys {
		ch <- gauge(heldObjects, float64(h.count[k]), k.namespace, k.kind, k.answered)
	}
	for _, namespace := range slices.Sorted(maps.Keys(h.since)) {
		ch <- gauge(heldSince, float64(h.since[namespace].Unix()), namespace)
	}
}
