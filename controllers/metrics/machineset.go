package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var (
	setItems = prometheus.NewDesc("mcm_machine_set_items_total", "Number of machine sets.", nil, nil)
	setInfo  = desc("mcm_machine_set_info", "Information about a machine set; always 1.",
		"createdAt", "spec_machine_class_api_group", "spec_machine_class_kind", "spec_machine_class_name")
	setCondition = desc("mcm_machine_set_status_condition",
		"Status of a condition of the machine set: 1 True, 0 False, 2 Unknown.", "condition")
	setFailed = desc("mcm_machine_set_failed_machines", "A machine of the set whose last operation failed; always 1.",
		failedLabels...)

	setNumbers = []number[machinev1.MachineSet]{
		always("mcm_machine_set_info_spec_replicas", "Number of desired machines.", func(s *machinev1.MachineSet) float64 {
			return float64(s.Spec.Replicas)
		}),
		always("mcm_machine_set_info_spec_min_ready_seconds", "spec.minReadySeconds, which has no effect.",
			func(s *machinev1.MachineSet) float64 { return float64(s.Spec.MinReadySeconds) }),
		always("mcm_machine_set_status_replicas", "Number of machines.", func(s *machinev1.MachineSet) float64 {
			return float64(s.Status.Replicas)
		}),
		always("mcm_machine_set_status_ready_replicas", "Number of ready machines.", func(s *machinev1.MachineSet) float64 {
			return float64(s.Status.ReadyReplicas)
		}),
		always("mcm_machine_set_status_available_replicas", "Number of available machines.",
			func(s *machinev1.MachineSet) float64 { return float64(s.Status.AvailableReplicas) }),
		always("mcm_machine_set_status_fully_labelled_replicas", "Number of machines with all labels of the template.",
			func(s *machinev1.MachineSet) float64 { return float64(s.Status.FullyLabeledReplicas) }),
	}
)

func setDescs() []*prometheus.Desc {
	return descsOf(setNumbers, setInfo, setCondition, setFailed)
}

func collectSets(ch chan<- prometheus.Metric, sets []machinev1.MachineSet) {
	ch <- gauge(setItems, float64(len(sets)))
	for i := range sets {
		s := &sets[i]
		class := s.Spec.MachineClass
		ch <- gauge(setInfo, 1, s.Namespace, s.Name, strconv.FormatInt(s.CreationTimestamp.Unix(), 10), class.APIGroup,
			class.Kind, class.Name)
		sendNumbers(ch, setNumbers, s, s.Namespace, s.Name)
		seen := map[machinev1.MachineSetConditionType]bool{}
		for _, c := range s.Status.Conditions {
			if !seen[c.Type] {
				seen[c.Type] = true
				ch <- gauge(setCondition, conditionValue(string(c.Status)), s.Namespace, s.Name, string(c.Type))
			}
		}
		if failed := s.Status.FailedMachines; failed != nil {
			sendFailed(ch, setFailed, s.Namespace, s.Name, *failed)
		}
	}
}
