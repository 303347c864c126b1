package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// queues is what controller-runtime exposes of its queues.
func queues() *prometheus.Registry {
	r := prometheus.NewRegistry()
	depth := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "h"},
		[]string{"name", "controller", "priority"})
	depth.WithLabelValues("machine", "machine", "0").Set(3)
	depth.WithLabelValues("machine", "machine", "-100").Set(4)
	depth.WithLabelValues("machineset", "machineset", "").Set(1)
	adds := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_adds_total", Help: "h"},
		[]string{"name", "controller"})
	adds.WithLabelValues("machine", "machine").Add(7)
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "workqueue_work_duration_seconds", Help: "h",
		Buckets: []float64{1},
	}, []string{"name", "controller"})
	took.WithLabelValues("machine", "machine").Observe(2)
	r.MustRegister(depth, adds, took)
	return r
}

func gathered(t *testing.T, reason string, g prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(g, strings.NewReader(want), names...); err != nil {
		t.Errorf("%s\n%v", reason, err)
	}
}

func TestQueuesUnderMCMNames(t *testing.T) {
	t.Parallel()
	gathered(t, "the queues have MCM's names and its one label; priorities are added up; the original stays",
		underMCMNames(queues()), `
# HELP mcm_workqueue_adds_total h
# TYPE mcm_workqueue_adds_total counter
mcm_workqueue_adds_total{name="machine"} 7
# HELP mcm_workqueue_depth h
# TYPE mcm_workqueue_depth gauge
mcm_workqueue_depth{name="machine"} 7
mcm_workqueue_depth{name="machineset"} 1
# HELP mcm_workqueue_work_duration_seconds h
# TYPE mcm_workqueue_work_duration_seconds histogram
mcm_workqueue_work_duration_seconds_bucket{name="machine",le="1"} 0
mcm_workqueue_work_duration_seconds_bucket{name="machine",le="+Inf"} 1
mcm_workqueue_work_duration_seconds_sum{name="machine"} 2
mcm_workqueue_work_duration_seconds_count{name="machine"} 1
# HELP workqueue_adds_total h
# TYPE workqueue_adds_total counter
workqueue_adds_total{controller="machine",name="machine"} 7
`, "mcm_workqueue_depth", "mcm_workqueue_adds_total", "mcm_workqueue_work_duration_seconds", "workqueue_adds_total")
}

func TestPorts(t *testing.T) {
	t.Parallel()
	stale := prometheus.NewCounter(prometheus.CounterOpts{Name: "mcm_machine_stale_machines_total", Help: "h"})
	r, err := NewRegistry(NewObjects(clientOf(t, machine("m1", "")), scrape(t), nil, nil), stale)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason    string
		port      Port
		has, lack []string
	}{
		"Both": {
			reason: "one port serves everything",
			port:   Both,
			has: []string{
				"mcm_machine_items_total", "mcm_machine_set_items_total", "mcm_workqueue_depth",
				"mcm_machine_stale_machines_total",
			},
		},
		"Manager": {
			reason: "the port of machine-controller-manager serves what MCM serves there",
			port:   ManagerPort,
			has: []string{
				"mcm_machine_set_items_total", "mcm_machine_deployment_items_total",
				"mcm_machine_stale_machines_total", "workqueue_depth",
			},
			lack: []string{"mcm_machine_items_total", "mcm_workqueue_adds_total"},
		},
		"MachineController": {
			reason: "the port of machine-controller serves what MCM serves there, and nothing twice",
			port:   MachineController,
			has:    []string{"mcm_machine_items_total", "mcm_machine_controller_frozen", "mcm_workqueue_adds_total"},
			lack:   []string{"mcm_machine_set_items_total", "mcm_machine_stale_machines_total", "workqueue_depth"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			families, err := r.Gatherer(tc.port, queues()).Gather()
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]bool{}
			for _, f := range families {
				there[f.GetName()] = true
			}
			for _, want := range tc.has {
				if !there[want] {
					t.Errorf("%s: %s is missing", tc.reason, want)
				}
			}
			for _, not := range tc.lack {
				if there[not] {
					t.Errorf("%s: %s is there", tc.reason, not)
				}
			}
		})
	}
}
