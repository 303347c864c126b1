package machineset

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// outageProtected reports whether a Machine says of itself that an outage keeps it. The set
// passes it on and decides nothing from it.
func outageProtected(m *machinev1.Machine) bool {
	if m.Status.Progress == nil || !m.DeletionTimestamp.IsZero() {
		return false
	}
	c := meta.FindStatusCondition(m.Status.Progress.Conditions, machinev1.ConditionNodeReady)
	return c != nil && c.Reason == machinev1.ReasonOutage
}

// unavailableReason is why a set lacks machines that are available, and what is to be said
// of it beside their number.
func unavailableReason(s *scope) (reason, text string) {
	if slices.ContainsFunc(s.machines, outageProtected) {
		return machinev1.ReasonOutage, "; nodes were lost together, and their machines are not replaced until that is over"
	}
	return machinev1.ReasonScalingUp, firstFailure(s.machines)
}
