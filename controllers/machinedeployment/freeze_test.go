package machinedeployment

import (
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestFreezeIsMirrored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1))
	w.run()
	set := w.sets()[0]
	change(w, &set, func(s *machinev1.MachineSet) { label(s, machinev1.FreezeLabel, "True") })
	w.pass()
	d := w.deployment()
	c := rollout.Condition(&d.Status, machinev1.MachineDeploymentFrozen)
	if d.Labels[machinev1.FreezeLabel] != "True" || c == nil || c.Reason != machinev1.ReasonMachineDeploymentStateSync {
		t.Fatalf("labels %v, condition %+v", d.Labels, c)
	}
	change(w, d, func(d *machinev1.MachineDeployment) { annotate(d, machinev1.UnfreezeAnnotation, "true") })
	w.pass()
	set = w.sets()[0]
	if _, asked := w.deployment().Annotations[machinev1.UnfreezeAnnotation]; asked ||
		set.Annotations[machinev1.UnfreezeAnnotation] != "true" {
		t.Errorf("the wish must be on the set and nowhere else: %v %v", w.deployment().Annotations, set.Annotations)
	}
	change(w, &set, func(s *machinev1.MachineSet) {
		delete(s.Labels, machinev1.FreezeLabel)
		delete(s.Annotations, machinev1.UnfreezeAnnotation)
	})
	w.pass()
	d = w.deployment()
	if _, frozen := d.Labels[machinev1.FreezeLabel]; frozen || len(d.Status.Conditions) != 2 {
		t.Errorf("labels %v, conditions %+v", d.Labels, d.Status.Conditions)
	}
}
