package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestFenceposts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason             string
		surge, unavailable *intstr.IntOrString
		replicas           int
		wantSurge          int
		wantUnavailable    int
		wantErr            string
	}{
		"Numbers": {
			"Numbers are taken as they are.", new(intstr.FromInt32(2)), new(intstr.FromInt32(1)), 10, 2, 1,
			"",
		},
		"Percentages": {
			"Surge rounds up, unavailable down.", new(intstr.FromString("39%")),
			new(intstr.FromString("39%")), 10, 4, 3, "",
		},
		"BothZero": {
			"Nothing could be replaced, so one may be missing.", new(intstr.FromInt32(0)),
			new(intstr.FromString("0%")), 10, 0, 1, "",
		},
		"BothZeroOfNothing": {
			"The same holds without replicas.", new(intstr.FromString("0%")), new(intstr.FromString("0%")),
			0, 0, 1, "",
		},
		"RoundedToZero": {
			"10% of 5 is no machine; the surge still allows progress.", new(intstr.FromString("10%")),
			new(intstr.FromString("10%")), 5, 1, 0, "",
		},
		"MissingSurge":       {"Both are required.", nil, new(intstr.FromInt32(1)), 10, 0, 0, "maxSurge is missing"},
		"MissingUnavailable": {"Both are required.", new(intstr.FromInt32(1)), nil, 10, 0, 0, "maxUnavailable is missing"},
		"NotANumber": {
			"The message names the field.", new(intstr.FromString("oops")), new(intstr.FromString("39%")),
			10, 0, 0, `maxSurge "oops" is neither a number nor a percentage`,
		},
		"NumberAsText": {
			"Text is a percentage only with its sign.", new(intstr.FromInt32(1)),
			new(intstr.FromString("5")), 10, 0, 0, `maxUnavailable "5" is neither a number nor a percentage`,
		},
		"Negative": {
			"A negative bound could never be kept.", new(intstr.FromInt32(-1)), new(intstr.FromInt32(1)),
			10, 0, 0, `maxSurge "-1" is negative`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			surge, unavailable, err := resolveFenceposts(tc.surge, tc.unavailable, tc.replicas)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if surge != tc.wantSurge || unavailable != tc.wantUnavailable || got != tc.wantErr {
				t.Errorf("%s\ngot %d, %d, %q; want %d, %d, %q", tc.reason, surge, unavailable, got, tc.wantSurge,
					tc.wantUnavailable, tc.wantErr)
			}
		})
	}
}

func TestBoundsOf(t *testing.T) {
	t.Parallel()
	config := func(surge, unavailable int32) machinev1.UpdateConfiguration {
		return machinev1.UpdateConfiguration{
			MaxSurge:       new(intstr.FromInt32(surge)),
			MaxUnavailable: new(intstr.FromInt32(unavailable)),
		}
	}
	inPlace := func(o machinev1.OrchestrationType, c machinev1.UpdateConfiguration) machinev1.MachineDeploymentStrategy {
		return machinev1.MachineDeploymentStrategy{
			Type:          machinev1.InPlaceUpdateStrategyType,
			InPlaceUpdate: &machinev1.InPlaceUpdateMachineDeployment{UpdateConfiguration: c, OrchestrationType: o},
		}
	}
	rolling := func(c machinev1.UpdateConfiguration) machinev1.MachineDeploymentStrategy {
		return machinev1.MachineDeploymentStrategy{
			Type:          machinev1.RollingUpdateStrategyType,
			RollingUpdate: &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: c},
		}
	}
	for name, tc := range map[string]struct {
		reason   string
		replicas int32
		strategy machinev1.MachineDeploymentStrategy
		want     Bounds
		annotate int
	}{
		"Recreate": {
			"Recreate has no bounds.", 5,
			machinev1.MachineDeploymentStrategy{Type: machinev1.RecreateStrategyType},
			Bounds{Replicas: 5},
			0,
		},
		"Rolling":    {"A rolling update annotates its surge.", 5, rolling(config(2, 1)), Bounds{5, 2, 1}, 2},
		"Capped":     {"No more can be missing than are wanted.", 5, rolling(config(2, 9)), Bounds{5, 2, 5}, 2},
		"NoReplicas": {"Nothing can be missing of nothing.", 0, rolling(config(2, 1)), Bounds{0, 2, 0}, 2},
		"Auto": {
			"An update in place has a surge but does not annotate it.", 5,
			inPlace(machinev1.OrchestrationTypeAuto, config(2, 1)),
			Bounds{5, 2, 1},
			0,
		},
		"Manual": {
			"Updates by a person have no surge.", 5, inPlace(machinev1.OrchestrationTypeManual, config(2, 1)),
			Bounds{5, 0, 1},
			0,
		},
		"ManualZeros": {
			"Without its surge a manual update must let one be missing.", 5,
			inPlace(machinev1.OrchestrationTypeManual, config(2, 0)),
			Bounds{5, 0, 1},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &machinev1.MachineDeployment{Spec: machinev1.MachineDeploymentSpec{
				Replicas: tc.replicas,
				Strategy: tc.strategy,
			}}
			got, err := BoundsOf(d)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if surge := annotatedSurge(d, got); surge != tc.annotate {
				t.Errorf("%s\nannotated surge %d, want %d", tc.reason, surge, tc.annotate)
			}
		})
	}
}
