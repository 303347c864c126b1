package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var (
	machineItems = prometheus.NewDesc("mcm_machine_items_total", "Number of machines.", nil, nil)
	machineInfo  = desc("mcm_machine_info", "Information about a machine; always 1.",
		"createdAt", "spec_provider_id", "spec_class_api_group", "spec_class_kind", "spec_class_name", "node_name")
	machineCondition = desc("mcm_machine_status_condition",
		"Status of a condition of the machine's node: 1 True, 0 False, 2 Unknown.", "condition")
	machinePhase = desc("mcm_machine_current_status_phase",
		"Phase of a machine: -4 Terminating, -3 Failed, -2 CrashLoopBackOff, -1 Unknown, 0 Pending and all others, 1 "+
			"Running.")
)

func machineDescs() []*prometheus.Desc {
	return []*prometheus.Desc{machineInfo, machineCondition, machinePhase}
}

func collectMachines(ch chan<- prometheus.Metric, machines []machinev1.Machine) {
	ch <- gauge(machineItems, float64(len(machines)))
	for i := range machines {
		m := &machines[i]
		class := m.Spec.Class
		ch <- gauge(machineInfo, 1, m.Namespace, m.Name,
			strconv.FormatInt(m.CreationTimestamp.Unix(),
				10), m.Spec.ProviderID, class.APIGroup, class.Kind, class.Name, m.Labels[machinev1.NodeLabel])
		ch <- gauge(machinePhase, phaseValue(m.Status.CurrentStatus.Phase), m.Namespace, m.Name)
		seen := map[string]bool{}
		for _, c := range m.Status.Conditions {
			if t := string(c.Type); !seen[t] && c.Type != machinev1.MachineJoined { // no condition of the node
				seen[t] = true
				ch <- gauge(machineCondition, conditionValue(string(c.Status)), m.Namespace, m.Name, t)
			}
		}
	}
}

// phaseValue is MCM's number for a phase.
func phaseValue(p machinev1.MachinePhase) float64 {
	switch p {
	case machinev1.MachineTerminating:
		return -4
	case machinev1.MachineFailed:
		return -3
	case machinev1.MachineCrashLoopBackOff:
		return -2
	case machinev1.MachineUnknown:
		return -1
	case machinev1.MachineRunning:
		return 1
	case machinev1.MachinePending, machinev1.MachineAvailable, machinev1.MachineInPlaceUpdating,
		machinev1.MachineInPlaceUpdateSuccessful, machinev1.MachineInPlaceUpdateFailed:
		return 0
	}
	return 0
}
