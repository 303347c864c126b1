package machinedeployment

import (
	"k8s.io/apimachinery/pkg/api/meta"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// unavailableReason is why machines are missing: an outage if one of the sets says so.
func (s *scope) unavailableReason() string {
	for _, o := range s.sets {
		if o.observed.Status.Progress == nil {
			continue
		}
		c := meta.FindStatusCondition(o.observed.Status.Progress.Conditions, machinev1.ConditionReplicasReady)
		if c != nil && c.Reason == machinev1.ReasonOutage {
			return machinev1.ReasonOutage
		}
	}
	return machinev1.ReasonScalingUp
}
