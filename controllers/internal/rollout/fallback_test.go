package rollout

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestSurgeStuck(t *testing.T) {
	t.Parallel()
	old := []Set{{Spec: 3, Available: 3}}
	for name, tc := range map[string]struct {
		reason  string
		bounds  Bounds
		current Set
		old     []Set
		want    bool
	}{
		"Refused": {"The one surge machine is refused.", Bounds{3, 1, 0}, Set{Spec: 1, Live: 1, Exhausted: 1}, old, true},
		"SomeServe": {
			"What is available needs nothing.", Bounds{3, 2, 0}, Set{Spec: 2, Live: 2, Available: 1, Exhausted: 1}, old, true,
		},
		"OneGoes": {
			"An old machine that is going makes room.",
			Bounds{3, 1, 0},
			Set{Spec: 1, Live: 1, Exhausted: 1},
			[]Set{{Spec: 2, Live: 2, Available: 2, Replicas: 3}},
			false,
		},
		"OneComes": {
			"A machine that is on its way frees an old one soon.",
			Bounds{3, 2, 0},
			Set{Spec: 2, Live: 2, Exhausted: 1},
			old,
			false,
		},
		"NotYetThere": {
			"A machine that was only just asked for may get a VM.",
			Bounds{3, 2, 0},
			Set{Spec: 2, Live: 1, Exhausted: 1},
			old,
			false,
		},
		"NoSurge": {
			"Without surge an old machine has gone first already.",
			Bounds{3, 0, 1},
			Set{Spec: 1, Live: 1, Exhausted: 1},
			old,
			false,
		},
		"NoOldOnes": {
			"A scale-out without capacity has nothing to take it from.",
			Bounds{3, 1, 0},
			Set{Spec: 3, Live: 3, Exhausted: 3},
			[]Set{{}},
			false,
		},
		"Enough": {"Nothing is refused.", Bounds{3, 1, 0}, Set{Spec: 1, Live: 1, Available: 1}, old, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := surgeStuck(tc.bounds, tc.current, tc.old); got != tc.want {
				t.Errorf("%t, want %t: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestFallbackTakesOne: and not another one until the first has been replaced.
func TestFallbackTakesOne(t *testing.T) {
	t.Parallel()
	for surge := 1; surge <= 3; surge++ {
		b := Bounds{Replicas: 3, Surge: surge}
		current := Set{Spec: surge, Live: surge, Exhausted: surge}
		keep := oldReplicas(Fallback(b), current, []Set{{Spec: 3, Live: 3, Available: 3}})
		if keep[0] != 2 {
			t.Errorf("surge %d: %d old machines are kept, want 2", surge, keep[0])
		}
		keep = oldReplicas(Fallback(b), current, []Set{{Spec: 2, Live: 2, Available: 2, Replicas: 3}})
		if keep[0] != 2 {
			t.Errorf("surge %d: %d old machines are kept while one is going, want 2", surge, keep[0])
		}
	}
}

func TestLeastAvailable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value       string
		surge, want int
	}{
		"NotAsked": {"", 1, 3}, "Asked": {"true", 1, 2}, "Otherwise": {"yes", 1, 3}, "NoSurge": {"true", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &machinev1.MachineDeployment{}
			d.Spec.Replicas = 3
			d.Annotations = map[string]string{machinev1.SurgeFallbackAnnotation: tc.value}
			d.Spec.Strategy.Type = machinev1.RollingUpdateStrategyType
			d.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{
				UpdateConfiguration: machinev1.UpdateConfiguration{
					MaxSurge: new(intstr.FromInt(tc.surge)), MaxUnavailable: new(intstr.FromInt(0)),
				},
			}
			b, err := BoundsOf(d)
			if err != nil {
				t.Fatal(err)
			}
			if got := LeastAvailable(d, b); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}
