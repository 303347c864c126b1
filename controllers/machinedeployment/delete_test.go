package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestRemove(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		change func(*machinev1.MachineDeployment)
	}{
		"Valid": {"The sets go, with their machines.", func(*machinev1.MachineDeployment) {}},
		"Invalid": {"A broken spec keeps nothing alive.", func(d *machinev1.MachineDeployment) {
			d.Spec.Selector = nil
			d.Spec.Strategy.Type = ""
		}},
		"Paused": {"Nor does a pause.", func(d *machinev1.MachineDeployment) { d.Spec.Paused = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(2))
			env.run()
			env.changeSpec(tc.change)
			env.Delete(env.deployment())
			env.until("the deployment is gone", func() bool { return env.deployment() == nil })
			if len(env.sets())+len(env.machines()) != 0 {
				t.Errorf("%s\n%s", tc.reason, env.describe())
			}
		})
	}
}

func TestHistoryLimit(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1, func(d *machinev1.MachineDeployment) { d.Spec.RevisionHistoryLimit = new(int32(1)) }))
	for _, next := range []string{"v1", "v2", "v3"} {
		env.changeSpec(class(next))
		env.run()
	}
	env.playSets()
	var classes []string
	for _, set := range env.sets() {
		classes = append(classes, set.Spec.Template.Spec.Class.Name)
	}
	if diff := cmp.Diff([]string{"v2", "v3"}, classes); diff != "" {
		t.Errorf("one old set is kept\n%s", diff)
	}
}
