package migration

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// CheckOf is the MachineHealthCheck of the pool's name, else the first that selects
// its machines; nil if none does.
func CheckOf(checks []clusterv1.MachineHealthCheck, c *ClusterAPIObjects, p Pool) *clusterv1.MachineHealthCheck {
	var found *clusterv1.MachineHealthCheck
	for i := range checks {
		check := &checks[i]
		if check.Spec.ClusterName != c.ClusterName() || !objects.Selects(&check.Spec.Selector, c.machineLabels()) {
			continue
		}
		if check.Name == p.Name {
			return check
		}
		if found == nil || check.Name < found.Name {
			found = check
		}
	}
	return found
}

// OwnCheck is the pool's MachineHealthCheck if it is for this pool alone: one that
// decides for others, too, outlives it. nil if there is none.
func (s *PoolState) OwnCheck() *clusterv1.MachineHealthCheck {
	check := s.ClusterAPI.HealthCheck
	if check == nil || !s.Pool.owns(check) {
		return nil
	}
	return check
}

// owns reports whether a MachineHealthCheck was made for the pool, or asks for its name.
func (p Pool) owns(check *clusterv1.MachineHealthCheck) bool {
	asked := check.Spec.Selector.MatchLabels
	switch p.Kind {
	case KindDeployment:
		return objects.CopiedFrom(check, machinev1.MachineDeploymentKind) == p.Name ||
			asked[clusterv1.MachineDeploymentNameLabel] == p.Name
	case KindSet:
		return objects.CopiedFrom(check, machinev1.MachineSetKind) == p.Name ||
			asked[clusterv1.MachineSetNameLabel] == format.MustFormatValue(p.Name)
	case KindMachine:
	}
	return false
}
