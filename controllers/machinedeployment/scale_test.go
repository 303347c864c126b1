package machinedeployment

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(4))
	w.run()
	w.changeSpec(class("v2"))
	w.until("some are new", func() bool { return w.set("v2").Status.AvailableReplicas >= 2 })
	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Paused = true; class("v3")(d) })
	w.pass()
	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 7 })
	w.until("it is scaled", func() bool { return len(w.live()) >= 7 && w.deployment().Status.AvailableReplicas >= 7 })
	if len(w.sets()) != 2 {
		t.Errorf("a paused deployment makes no new set\n%s", w.describe())
	}
	progressing := rollout.Condition(&w.deployment().Status, machinev1.MachineDeploymentProgressing)
	if progressing.Status != "Unknown" || progressing.Reason != machinev1.ReasonDeploymentPaused {
		t.Errorf("condition %+v", progressing)
	}
	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Paused = false })
	w.run()
	if n := w.set("v3").Spec.Replicas; n != 7 {
		t.Errorf("%d machines are new after the pause\n%s", n, w.describe())
	}
}

func TestScaleInProgress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		to     int32
	}{
		"Out":    {"The new set makes what is missing.", 9},
		"In":     {"Both sets give in proportion.", 3},
		"ToZero": {"Nothing is left.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment(6))
			w.run()
			w.changeSpec(class("v2"))
			steps := 0
			w.until("half of it", func() bool { steps++; return w.set("v2").Status.AvailableReplicas >= 2 })
			w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = tc.to })
			w.run()
			if n := w.set("v2").Spec.Replicas; n != tc.to || w.set("v1").Spec.Replicas != 0 {
				t.Errorf("%s\n%s", tc.reason, w.describe())
			}
		})
	}
}

func TestStaleSetIsNotScaled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(3))
	w.run()
	w.changeSpec(class("v2"))
	p, err := w.c.observe(t.Context(), w.deployment())
	if err != nil {
		t.Fatal(err)
	}
	change(w, w.set("v1"), func(s *machinev1.MachineSet) { s.Spec.Replicas = 2 })
	if err := p.act(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if n := w.set("v1").Spec.Replicas; n != 2 {
		t.Errorf("the set was scaled to %d", n)
	}
}
