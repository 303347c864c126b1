package fields

import (
	"cmp"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/migration"
	"github.com/capmcm/cluster-api-provider-mcm/migration/objects"
)

// strategyToClusterAPI is how Cluster API replaces machines where MCM does so as s
// says. It is the nearest there is; see judgeStrategy for what it lacks.
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

// judgeStrategy says what becomes of a native strategy.
func judgeStrategy(object string, s machinev1.MachineDeploymentStrategy) []migration.Finding {
	f := migration.Finding{Level: migration.Kept, Object: object, Field: "spec.strategy.type", Text: "becomes spec.rollout.strategy.type"}
	bounds, field := (*machinev1.UpdateConfiguration)(nil), ""
	switch s.Type {
	case machinev1.RollingUpdateStrategyType:
		field = "spec.strategy.rollingUpdate"
		if s.RollingUpdate != nil {
			bounds = &s.RollingUpdate.UpdateConfiguration
		}
	case machinev1.InPlaceUpdateStrategyType:
		field = "spec.strategy.inPlaceUpdate"
		if s.InPlaceUpdate != nil {
			bounds = &s.InPlaceUpdate.UpdateConfiguration
		}
		f.Level, f.Text = migration.Lost, "InPlaceUpdate becomes OnDelete: Cluster API updates machines in place only through a "+
			"runtime extension; a new template replaces nothing until a machine is deleted"
	case machinev1.RecreateStrategyType:
		f.Level, f.Text = migration.Lost, "Recreate becomes RollingUpdate with maxSurge 0 and maxUnavailable 100%: all old machines "+
			"go at once, but new ones do not wait for the last of them"
		return []migration.Finding{f}
	default:
		f.Level, f.Text = migration.Blocked, fmt.Sprintf("%q is no strategy of MCM, which does nothing for such a MachineDeployment",
			s.Type)
		f.Remedy = "set it to RollingUpdate, with spec.strategy.rollingUpdate"
		return []migration.Finding{f}
	}
	if bounds == nil || bounds.MaxSurge == nil || bounds.MaxUnavailable == nil {
		return []migration.Finding{f, {
			Level: migration.Blocked, Object: object, Field: field,
			Text: "maxSurge or maxUnavailable is missing; MCM does nothing for such a MachineDeployment", Remedy: "set both",
		}}
	}
	found := []migration.Finding{f, {
		Level: migration.Kept, Object: object, Field: field,
		Text: "becomes spec.rollout.strategy.rollingUpdate, with the same numbers",
	}}
	switch {
	case s.Type == machinev1.InPlaceUpdateStrategyType:
		found[1].Level, found[1].Text = migration.Lost, "OnDelete has no bounds: who deletes the machines decides how many at a time"
	case zero(*bounds.MaxSurge) && zero(*bounds.MaxUnavailable):
		found[1].Level, found[1].Text = migration.Replaced, "both are 0, which MCM takes for maxUnavailable 1; that is written out, "+
			"as Cluster API refuses 0 and 0"
	}
	return found
}
