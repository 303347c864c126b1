package fields

import (
	"cmp"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// strategyToClusterAPI is how Cluster API replaces machines where MCM does so as s
// says. It is the nearest there is; see judgeStrategyType for what it lacks.
func strategyToClusterAPI(s machinev1.MachineDeploymentStrategy) clusterv1.MachineDeploymentRolloutStrategy {
	rolling := func(surge, unavailable intstr.IntOrString) clusterv1.MachineDeploymentRolloutStrategy {
		return clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
			RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
				MaxSurge: &surge, MaxUnavailable: &unavailable,
			},
		}
	}
	switch s.Type {
	case machinev1.InPlaceUpdateStrategyType:
		// The only one that never replaces a machine because of a new template.
		return clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.OnDeleteMachineDeploymentStrategyType}
	case machinev1.RecreateStrategyType:
		return rolling(intstr.FromInt32(0), intstr.FromString("100%"))
	case machinev1.RollingUpdateStrategyType:
	}
	if s.RollingUpdate == nil {
		return rolling(intstr.FromInt32(1), intstr.FromInt32(0))
	}
	surge := objects.Value(cmp.Or(s.RollingUpdate.MaxSurge, new(intstr.FromInt32(0))))
	unavailable := objects.Value(cmp.Or(s.RollingUpdate.MaxUnavailable, new(intstr.FromInt32(0))))
	if zero(surge) && zero(unavailable) {
		unavailable = intstr.FromInt32(1) // MCM takes it for that
	}
	return rolling(surge, unavailable)
}

func zero(n intstr.IntOrString) bool { return n == intstr.FromInt32(0) || n == intstr.FromString("0%") }

// strategyToNative is the reverse. The strategy that a pool has natively stays if
// Cluster API's is what it becomes there.
func strategyToNative(s clusterv1.MachineDeploymentRolloutStrategy,
	have machinev1.MachineDeploymentStrategy,
) (_ machinev1.MachineDeploymentStrategy, paused bool) {
	if have.Type != "" && apiequality.Semantic.DeepEqual(strategyToClusterAPI(have), s) {
		return have, false
	}
	bounds := machinev1.UpdateConfiguration{
		MaxSurge:       cmp.Or(s.RollingUpdate.MaxSurge, new(intstr.FromInt32(1))),
		MaxUnavailable: cmp.Or(s.RollingUpdate.MaxUnavailable, new(intstr.FromInt32(0))),
	}
	return machinev1.MachineDeploymentStrategy{
		Type:          machinev1.RollingUpdateStrategyType,
		RollingUpdate: &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: bounds},
	}, s.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
}

func judgeStrategyType(d *machinev1.MachineDeployment) outcome {
	switch d.Spec.Strategy.Type {
	case machinev1.RollingUpdateStrategyType:
		return kept("becomes spec.rollout.strategy.type")
	case machinev1.InPlaceUpdateStrategyType:
		return lost("InPlaceUpdate becomes OnDelete: Cluster API updates machines in place only through a runtime " +
			"extension; a new template replaces nothing until a machine is deleted")
	case machinev1.RecreateStrategyType:
		return lost("Recreate becomes RollingUpdate with maxSurge 0 and maxUnavailable 100%: all old machines go at once, " +
			"but new ones do not wait for the last of them")
	}
	return blocked(fmt.Sprintf("%q is no strategy of MCM, which does nothing for such a MachineDeployment",
		d.Spec.Strategy.Type), "set it to RollingUpdate, with spec.strategy.rollingUpdate")
}

func judgeRollingUpdate(d *machinev1.MachineDeployment) outcome {
	s := d.Spec.Strategy
	switch {
	case s.Type != machinev1.RollingUpdateStrategyType:
		return outcome{}
	case s.RollingUpdate == nil || incomplete(s.RollingUpdate.UpdateConfiguration):
		return blockedBounds()
	case zero(*s.RollingUpdate.MaxSurge) && zero(*s.RollingUpdate.MaxUnavailable):
		return replaced("both are 0, which MCM takes for maxUnavailable 1; that is written out, as Cluster API refuses 0 " +
			"and 0")
	}
	return kept("becomes spec.rollout.strategy.rollingUpdate, with the same numbers")
}

func judgeInPlaceUpdate(d *machinev1.MachineDeployment) outcome {
	s := d.Spec.Strategy
	switch {
	case s.Type != machinev1.InPlaceUpdateStrategyType:
		return outcome{}
	case s.InPlaceUpdate == nil || incomplete(s.InPlaceUpdate.UpdateConfiguration):
		return blockedBounds()
	}
	return lost("OnDelete has no bounds: who deletes the machines decides how many at a time")
}

func incomplete(u machinev1.UpdateConfiguration) bool {
	return u.MaxSurge == nil || u.MaxUnavailable == nil
}

func blockedBounds() outcome {
	return blocked("maxSurge or maxUnavailable is missing; MCM does nothing for such a MachineDeployment", "set both")
}
