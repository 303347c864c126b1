package fields

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestEachStrategyComesBack as it was, although Cluster API has only two.
func TestEachStrategyComesBack(t *testing.T) {
	t.Parallel()
	bounds := machinev1.UpdateConfiguration{
		MaxSurge:       new(intstr.FromString("10%")),
		MaxUnavailable: new(intstr.FromInt32(0)),
	}
	for _, s := range []machinev1.MachineDeploymentStrategy{
		{
			Type:          machinev1.RollingUpdateStrategyType,
			RollingUpdate: &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: bounds},
		},
		{Type: machinev1.RecreateStrategyType},
		{
			Type: machinev1.InPlaceUpdateStrategyType,
			InPlaceUpdate: &machinev1.InPlaceUpdateMachineDeployment{
				UpdateConfiguration: bounds,
				OrchestrationType:   machinev1.OrchestrationTypeManual,
			},
		},
	} {
		back, paused := strategyToNative(strategyToClusterAPI(s), s)
		if back != s || paused {
			t.Errorf("%s became %+v, paused %v", s.Type, back, paused)
		}
	}
}
