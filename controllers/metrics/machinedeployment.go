package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var (
	deploymentItems = prometheus.NewDesc("mcm_machine_deployment_items_total", "Number of machine deployments.", nil,
		nil)
	deploymentInfo = desc("mcm_machine_deployment_info", "Information about a machine deployment; always 1.", "createdAt",
		"spec_strategy_type")
	deploymentCondition = desc("mcm_machine_deployment_status_condition",
		"Status of a condition of the machine deployment: 1 True, 0 False, 2 Unknown.", "condition")
	deploymentFailed = desc("mcm_machine_deployment_failed_machines",
		"A machine of the deployment whose last operation failed; always 1.", failedLabels...)

	deploymentNumbers = []number[machinev1.MachineDeployment]{
		always("mcm_machine_deployment_info_spec_paused", "1 while rollouts are paused.",
			func(d *machinev1.MachineDeployment) float64 { return boolean(d.Spec.Paused) }),
		always("mcm_machine_deployment_info_spec_replicas", "Number of desired machines.",
			func(d *machinev1.MachineDeployment) float64 {
				return float64(d.Spec.Replicas)
			}),
		always("mcm_machine_deployment_info_spec_min_ready_seconds", "spec.minReadySeconds, which has no effect.",
			func(d *machinev1.MachineDeployment) float64 { return float64(d.Spec.MinReadySeconds) }),
		{desc("mcm_machine_deployment_info_spec_rolling_update_max_surge",
			"Machines that a rolling update may add; a percentage is resolved."), func(
			d *machinev1.MachineDeployment,
		) (float64, bool) {
			return bound(d, true)
		}},
		{desc("mcm_machine_deployment_info_spec_rolling_update_max_unavailable",
			"Machines that may be unavailable in a rolling update; a percentage is resolved."), func(
			d *machinev1.MachineDeployment,
		) (float64, bool) {
			return bound(d, false)
		}},
		maybe("mcm_machine_deployment_info_spec_revision_history_limit", "Old machine sets that are kept.",
			func(d *machinev1.MachineDeployment) *int32 { return d.Spec.RevisionHistoryLimit }),
		maybe("mcm_machine_deployment_info_spec_progress_deadline_seconds", "How long a rollout may make no progress.",
			func(d *machinev1.MachineDeployment) *int32 { return d.Spec.ProgressDeadlineSeconds }),
		{
			desc("mcm_machine_deployment_info_spec_rollback_to_revision",
				"Revision to roll back to, while a rollback is requested."),
			func(d *machinev1.MachineDeployment) (float64, bool) {
				if d.Spec.RollbackTo == nil {
					return 0, false
				}
				return float64(d.Spec.RollbackTo.Revision), true
			},
		},
		always("mcm_machine_deployment_status_replicas", "Number of machines.",
			func(d *machinev1.MachineDeployment) float64 { return float64(d.Status.Replicas) }),
		always("mcm_machine_deployment_status_updated_replicas", "Number of machines with the current template.",
			func(d *machinev1.MachineDeployment) float64 { return float64(d.Status.UpdatedReplicas) }),
		always("mcm_machine_deployment_status_ready_replicas", "Number of ready machines.",
			func(d *machinev1.MachineDeployment) float64 { return float64(d.Status.ReadyReplicas) }),
		always("mcm_machine_deployment_status_available_replicas", "Number of available machines.",
			func(d *machinev1.MachineDeployment) float64 { return float64(d.Status.AvailableReplicas) }),
		always("mcm_machine_deployment_status_unavailable_replicas", "Number of desired machines that are not available.",
			func(d *machinev1.MachineDeployment) float64 { return float64(d.Status.UnavailableReplicas) }),
		maybe("mcm_machine_deployment_status_collision_count", "Number of name collisions of new machine sets.",
			func(d *machinev1.MachineDeployment) *int32 { return d.Status.CollisionCount }),
	}
)

func deploymentDescs() []*prometheus.Desc {
	return descsOf(deploymentNumbers, deploymentInfo, deploymentCondition, deploymentFailed)
}

// bound is a bound of the rolling update in machines, of the surge or of the
// unavailable ones. MCM shows 0 for every percentage.
func bound(d *machinev1.MachineDeployment, surge bool) (float64, bool) {
	r := d.Spec.Strategy.RollingUpdate
	if r == nil {
		return 0, false
	}
	v := r.MaxUnavailable
	if surge {
		v = r.MaxSurge
	}
	if v == nil {
		return 0, false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(d.Spec.Replicas), surge)
	return float64(n), err == nil
}

func collectDeployments(ch chan<- prometheus.Metric, deployments []machinev1.MachineDeployment) {
	ch <- gauge(deploymentItems, float64(len(deployments)))
	for i := range deployments {
		d := &deployments[i]
		ch <- gauge(deploymentInfo, 1, d.Namespace, d.Name, strconv.FormatInt(d.CreationTimestamp.Unix(), 10),
			string(d.Spec.Strategy.Type))
		sendNumbers(ch, deploymentNumbers, d, d.Namespace, d.Name)
		seen := map[machinev1.MachineDeploymentConditionType]bool{}
		for _, c := range d.Status.Conditions {
			if !seen[c.Type] {
				seen[c.Type] = true
				ch <- gauge(deploymentCondition, conditionValue(string(c.Status)), d.Namespace, d.Name, string(c.Type))
			}
		}
		var failed []machinev1.MachineSummary
		for _, m := range d.Status.FailedMachines {
			if m != nil {
				failed = append(failed, *m)
			}
		}
		sendFailed(ch, deploymentFailed, d.Namespace, d.Name, failed)
	}
}
