package freeze

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

func TestLimitsOf(t *testing.T) {
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
		want       Limits
	}{
		"Alone": {
			reason: "A set of its own may have twice its replicas.", replicas: 3, margins: Margins{Up: 2, Down: 1},
			want: Limits{Higher: 8, Lower: 7},
		},
		"Deployed": {
			reason: "The limits of a deployment's set follow from the deployment alone.", replicas: 6,
			deployment: deployment(2, new(intstr.FromInt32(2))), margins: Margins{Up: 2, Down: 1},
			want: Limits{Higher: 6, Lower: 5},
		},
		"Percent": {
			reason:     "A percentage is of the deployment's replicas, rounded up.",
			deployment: deployment(5, new(intstr.FromString("30%"))), margins: Margins{Up: 2, Down: 1},
			want: Limits{Higher: 9, Lower: 8},
		},
		"InPlace": {
			reason: "The surge of an update in place counts where there is no other.", deployment: inPlace,
			margins: Margins{Up: 2, Down: 1}, want: Limits{Higher: 9, Lower: 8},
		},
		"Recreate": {
			reason: "Without surge, none is added.", deployment: recreate, margins: Margins{Up: 2, Down: 1},
			want: Limits{Higher: 6, Lower: 5},
		},
		"BadSurge": {
			reason:     "A surge that cannot be read is none.",
			deployment: deployment(4, new(intstr.FromString("many"))), margins: Margins{Up: 2, Down: 1},
			want: Limits{Higher: 6, Lower: 5},
		},
		"NoDown": {
			reason: "The limits never meet, or the set would freeze and unfreeze for ever.", replicas: 3,
			margins: Margins{Up: 2}, want: Limits{Higher: 8, Lower: 7},
		},
		"VeryLarge": {
			reason: "Large numbers do not overflow.", replicas: 2147483647, margins: Margins{Up: 2, Down: 1},
			want: Limits{Higher: 4294967296, Lower: 4294967295},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := &machinev1.MachineSet{}
			set.Spec.Replicas = tc.replicas
			if got := LimitsOf(set, tc.deployment, tc.margins); got != tc.want {
				t.Errorf("%s got %+v, want %+v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	limits := Limits{Higher: 6, Lower: 4}
	cases := map[string]struct {
		reason   string
		limits   Limits
		frozen   bool
		machines int
		want     Change
	}{
		"Below": {reason: "One fewer than the higher limit is fine.", limits: limits, machines: 5, want: Keep},
		"At":    {reason: "The higher limit itself freezes.", limits: limits, machines: 6, want: Freeze},
		"Again": {reason: "A frozen set is not frozen twice.", limits: limits, frozen: true, machines: 7, want: Keep},
		"Between": {
			reason: "Between the limits a frozen set stays frozen.", limits: limits, frozen: true, machines: 5,
			want: Keep,
		},
		"Back":      {reason: "The lower limit itself unfreezes.", limits: limits, frozen: true, machines: 4, want: Unfreeze},
		"NotFrozen": {reason: "A set that is not frozen is not unfrozen.", limits: limits, machines: 4, want: Keep},
		"Empty":     {reason: "A set without machines has not too many.", limits: Limits{Higher: 0, Lower: -1}, want: Keep},
		"NowEmpty": {
			reason: "A set without machines does not stay frozen.", limits: Limits{Higher: 0, Lower: -1},
			frozen: true, want: Unfreeze,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.limits.Evaluate(tc.frozen, tc.machines); got != tc.want {
				t.Errorf("%s got %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	want := "The number of machines backing MachineSet: set is 7 >= 6 which is the Max-ScaleUp-Limit"
	if got := (Limits{Higher: 6}).Message("set", 7); got != want {
		t.Errorf("got %q, want %q", got, want)
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
