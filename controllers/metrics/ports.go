package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A Port is one of the two that MCM's binaries serve metrics on.
type Port uint8

// The ports. A metric is served on the port of the binary that has it in MCM,
// and never on both, so that sums over both ports stay right; only what
// describes the process (go_, process_) is on both.
const (
	Both              Port = iota // there is only one port
	ManagerPort                   // machine-controller-manager: sets, deployments, and what MCM does not have
	MachineController             // machine-controller: machines, cloud calls
)

// managerQueues are the queues of MCM's machine-controller-manager.
var managerQueues = map[string]bool{"machineset": true, "machinedeployment": true, "machinesafetyovershooting": true}

// ofPort leaves of what g gathers what is served on that port.
func ofPort(g prometheus.Gatherer, port Port) prometheus.Gatherer {
	if port == Both {
		return g
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		var kept []*dto.MetricFamily
		for _, f := range families {
			if f = onPort(f, port); f != nil {
				kept = append(kept, f)
			}
		}
		return kept, err
	})
}

// onPort is f with the series that are served on that port, nil without any.
func onPort(f *dto.MetricFamily, port Port) *dto.MetricFamily {
	kept := &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type, Unit: f.Unit}
	for _, m := range f.GetMetric() {
		if p := portOf(f.GetName(), m); p == Both || p == port {
			kept.Metric = append(kept.Metric, m)
		}
	}
	if len(kept.Metric) == 0 {
		return nil
	}
	return kept
}

func portOf(name string, m *dto.Metric) Port {
	hasPrefix := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
		return false
	}
	switch {
	case hasPrefix("go_", "process_"):
		return Both
	case hasPrefix("mcm_machine_set_", "mcm_machine_deployment_", "mcm_machine_stale_"):
		return ManagerPort
	case hasPrefix("mcm_machine_", "mcm_cloud_api_"):
		return MachineController
	case hasPrefix("mcm_misc_") && labelValue(m, "binary") == binaryProvider:
		return MachineController
	case hasPrefix("mcm_workqueue_") && !managerQueues[labelValue(m, "name")]:
		return MachineController
	}
	return ManagerPort
}
