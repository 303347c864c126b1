package brake

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func deployment(replicas int32, surge *intstr.IntOrString) *machinev1.MachineDeployment {
	d := &machinev1.MachineDeployment{}
	d.Spec.Replicas = replicas
	d.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{}
	d.Spec.Strategy.RollingUpdate.MaxSurge = surge
	return d
}

func TestBoundsOf(t *testing.T) {
	t.Parallel()
	inPlace := deployment(4, nil)
	inPlace.Spec.Strategy.RollingUpdate = nil
	inPlace.Spec.Strategy.InPlaceUpdate = &machinev1.InPlaceUpdateMachineDeployment{}
	inPlace.Spec.Strategy.InPlaceUpdate.MaxSurge = new(intstr.FromInt32(3))
	recreate := deployment(4, nil)
	recreate.Spec.Strategy.RollingUpdate = nil
	cases := map[string]struct {
		reason     string
		replicas   int32
		deployment *machinev1.MachineDeployment
		margins    Margins
		want       Bounds
	}{
		"Alone": {
			reason: "A set of its own may have twice its replicas.", replicas: 3, margins: Margins{Up: 2, Down: 1},
			want: Bounds{Freeze: 8, Unfreeze: 7},
		},
		"Deployed": {
			reason: "The limits of a deployment's set follow from the deployment alone.", replicas: 6,
			deployment: deployment(2, new(intstr.FromInt32(2))), margins: Margins{Up: 2, Down: 1},
			want: Bounds{Freeze: 6, Unfreeze: 5},
		},
		"Percent": {
			reason:     "A percentage is of the deployment's replicas, rounded up.",
			deployment: deployment(5, new(intstr.FromString("30%"))), margins: Margins{Up: 2, Down: 1},
			want: Bounds{Freeze: 9, Unfreeze: 8},
		},
		"InPlace": {
			reason: "The surge of an update in place counts where there is no other.", deployment: inPlace,
			margins: Margins{Up: 2, Down: 1}, want: Bounds{Freeze: 9, Unfreeze: 8},
		},
		"Recreate": {
			reason: "Without surge, none is added.", deployment: recreate, margins: Margins{Up: 2, Down: 1},
			want: Bounds{Freeze: 6, Unfreeze: 5},
		},
		"BadSurge": {
			reason:     "A surge that cannot be read is none.",
			deployment: deployment(4, new(intstr.FromString("many"))), margins: Margins{Up: 2, Down: 1},
			want: Bounds{Freeze: 6, Unfreeze: 5},
		},
		"NoDown": {
			reason: "The limits never meet, or the set would freeze and unfreeze for ever.", replicas: 3,
			margins: Margins{Up: 2}, want: Bounds{Freeze: 8, Unfreeze: 7},
		},
		"VeryLarge": {
			reason: "Large numbers do not overflow.", replicas: 2147483647, margins: Margins{Up: 2, Down: 1},
			want: Bounds{Freeze: 4294967296, Unfreeze: 4294967295},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := &machinev1.MachineSet{}
			set.Spec.Replicas = tc.replicas
			if got := BoundsOf(set, tc.deployment, tc.margins); got != tc.want {
				t.Errorf("%s got %+v, want %+v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestFrozen(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Freeze: 6, Unfreeze: 4}
	cases := map[string]struct {
		reason   string
		bounds   Bounds
		frozen   bool
		machines int
		want     bool
	}{
		"Below":     {"One fewer than the upper bound is fine.", bounds, false, 5, false},
		"At":        {"The upper bound itself freezes.", bounds, false, 6, true},
		"Again":     {"A frozen set stays so.", bounds, true, 7, true},
		"Between":   {"Between the bounds a frozen set stays frozen.", bounds, true, 5, true},
		"Back":      {"The lower bound itself unfreezes.", bounds, true, 4, false},
		"NotFrozen": {"A set that is not frozen stays so.", bounds, false, 4, false},
		"Empty":     {"A set without machines has not too many.", Bounds{Freeze: 0, Unfreeze: -1}, false, 0, false},
		"NowEmpty":  {"A set without machines does not stay frozen.", Bounds{Freeze: 0, Unfreeze: -1}, true, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := &machinev1.MachineSet{}
			if tc.frozen {
				machinev1.SetLabel(set, machinev1.FreezeLabel, FrozenLabel)
			}
			if got := tc.bounds.Frozen(set, tc.machines); got != tc.want {
				t.Errorf("%s got %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestIsFrozen(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"True": true, "true": false, "": false, "False": false} {
		set := &machinev1.MachineSet{}
		set.Labels = map[string]string{machinev1.FreezeLabel: value}
		if IsFrozen(set) != want {
			t.Errorf("label %q: frozen is %v", value, !want)
		}
	}
}
