package machinedeployment

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestPause(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(4))
	env.run()
	env.changeSpec(class("v2"))
	env.until("some are new", func() bool { return env.set("v2").Status.AvailableReplicas >= 2 })
	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Paused = true; class("v3")(d) })
	env.pass()
	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 7 })
	env.until("it is scaled", func() bool {
		return len(env.live()) >= 7 &&
			env.deployment().Status.AvailableReplicas >= 7
	})
	if len(env.sets()) != 2 {
		t.Errorf("a paused deployment makes no new set\n%s", env.describe())
	}
	progressing := rollout.Condition(&env.deployment().Status, machinev1.MachineDeploymentProgressing)
	if progressing.Status != "Unknown" || progressing.Reason != machinev1.ReasonDeploymentPaused {
		t.Errorf("condition %+v", progressing)
	}
	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Paused = false })
	env.run()
	if n := env.set("v3").Spec.Replicas; n != 7 {
		t.Errorf("%d machines are new after the pause\n%s", n, env.describe())
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
			env := newEnv(t, deployment(6))
			env.run()
			env.changeSpec(class("v2"))
			steps := 0
			env.until("half of it", func() bool { steps++; return env.set("v2").Status.AvailableReplicas >= 2 })
			env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = tc.to })
			env.run()
			if n := env.set("v2").Spec.Replicas; n != tc.to || env.set("v1").Spec.Replicas != 0 {
				t.Errorf("%s\n%s", tc.reason, env.describe())
			}
		})
	}
}

func TestStaleSetIsNotScaled(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(3))
	env.run()
	env.changeSpec(class("v2"))
	s, err := env.c.observe(t.Context(), env.deployment())
	if err != nil {
		t.Fatal(err)
	}
	change(env, env.set("v1"), func(set *machinev1.MachineSet) { set.Spec.Replicas = 2 })
	if err := s.act(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if n := env.set("v1").Spec.Replicas; n != 2 {
		t.Errorf("the set was scaled to %d", n)
	}
}
