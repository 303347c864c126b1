package machinedeployment

import (
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestFreezeIsMirrored(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1))
	env.run()
	set := env.sets()[0]
	change(env, &set, func(set *machinev1.MachineSet) { machinev1.SetLabel(set, machinev1.FreezeLabel, "True") })
	env.pass()
	d := env.deployment()
	c := rollout.Condition(&d.Status, machinev1.MachineDeploymentFrozen)
	if d.Labels[machinev1.FreezeLabel] != "True" || c == nil || c.Reason != machinev1.ReasonMachineDeploymentStateSync {
		t.Fatalf("labels %v, condition %+v", d.Labels, c)
	}
	const why = "The number of machines backing MachineSet: x is 6 >= 6 which is the Max-ScaleUp-Limit"
	change(env, &set, func(set *machinev1.MachineSet) {
		set.Status.Conditions = []machinev1.MachineSetCondition{{
			Type: machinev1.MachineSetFrozen, Status: machinev1.ConditionTrue,
			Reason: machinev1.ReasonOverShooting, Message: why,
		}}
	})
	env.pass()
	d = env.deployment()
	if c = rollout.Condition(&d.Status, machinev1.MachineDeploymentFrozen); c == nil ||
		c.Reason != machinev1.ReasonOverShooting || c.Message != why {
		t.Errorf("condition %+v: the set says why, with its numbers", c)
	}
	change(env, d, func(d *machinev1.MachineDeployment) {
		machinev1.SetAnnotation(d, machinev1.UnfreezeAnnotation,
			"true")
	})
	env.pass()
	set = env.sets()[0]
	if _, asked := env.deployment().Annotations[machinev1.UnfreezeAnnotation]; asked ||
		set.Annotations[machinev1.UnfreezeAnnotation] != "true" {
		t.Errorf("the wish must be on the set and nowhere else: %v %v", env.deployment().Annotations, set.Annotations)
	}
	change(env, &set, func(set *machinev1.MachineSet) {
		delete(set.Labels, machinev1.FreezeLabel)
		delete(set.Annotations, machinev1.UnfreezeAnnotation)
	})
	env.pass()
	d = env.deployment()
	if _, frozen := d.Labels[machinev1.FreezeLabel]; frozen || len(d.Status.Conditions) != 2 {
		t.Errorf("labels %v, conditions %+v", d.Labels, d.Status.Conditions)
	}
}
