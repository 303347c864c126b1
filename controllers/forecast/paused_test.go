package forecast_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/forecast"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// TestPausedRollout changes a pool whose rollout is paused because its new machines fail to join: they
// are kept, so that people see what is wrong.
func TestPausedRollout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*machinev1.MachineDeployment)
		deleted int
	}{
		"Label":  {func(d *machinev1.MachineDeployment) { machinev1.SetLabel(d, "a", "b") }, 0},
		"Larger": {func(d *machinev1.MachineDeployment) { d.Spec.Replicas++ }, 0},
		"Resumed": {func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.Class.Name = "v0"
		}, 1}, // back to what works: the failed machine goes
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := fixture.MachineDeployment("pool", "v0", 3)
			fixture.RollingUpdate("1", "0")(d)
			p := newPlayer(t, d)
			p.run()
			p.failing = "v1"
			p.change(func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = "v1" })
			for range 10 { // a run also ends where only machines change
				p.run()
			}
			if p.deployment().Annotations[machinev1.RolloutPausedAnnotation] == "" {
				t.Fatalf("the rollout is not paused:\n%s", p.describe())
			}
			before, changed := p.observed(), p.deployment()
			tc.change(changed)
			want, err := forecast.OfDeployment(changed, before, p.Clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			p.change(func(d *machinev1.MachineDeployment) { tc.change(d) })
			for range 3 {
				p.run()
			}
			got := p.outcome(before)
			compared := cmpopts.IgnoreFields(forecast.Outcome{}, "Surge", "Unavailable", "Most", "Least", "Rounds", "Waits")
			if diff := cmp.Diff(want, got, compared, cmpopts.EquateEmpty()); diff != "" || len(got.Deleted) != tc.deleted {
				t.Errorf("the forecast (-) is not what happens (+), with %d deleted:\n%s\n%s", tc.deleted, diff, p.describe())
			}
		})
	}
}
