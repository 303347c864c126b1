package machinedeployment

import (
	"k8s.io/apimachinery/pkg/api/meta"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// missing is why machines are missing: an outage if one of the sets says so.
func (p *pass) missing() string {
	for _, o := range p.pools {
		if o.seen.Status.Progress == nil {
			continue
		}
		c := meta.FindStatusCondition(o.seen.Status.Progress.Conditions, machinev1.ConditionReplicasReady)
		if c != nil && c.Reason == machinev1.ReasonOutage {
			return machinev1.ReasonOutage
		}
	}
	return machinev1.ReasonScalingUp
}
