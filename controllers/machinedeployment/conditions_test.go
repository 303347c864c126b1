package machinedeployment

import (
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2, func(d *machinev1.MachineDeployment) {
		d.Spec.ProgressDeadlineSeconds = new(int32(600))
	}))
	env.pass()
	if got := env.pass().RequeueAfter; got != 601*time.Second {
		t.Errorf("the deadline is looked at after %s", got)
	}
	env.Clock.SetTime(noon.Add(11 * time.Minute))
	env.pass()
	c := rollout.Condition(&env.deployment().Status, machinev1.MachineDeploymentProgressing)
	if c.Status != "False" || c.Reason != machinev1.ReasonProgressDeadlineExceeded {
		t.Errorf("condition %+v", c)
	}
	if got := env.pass().RequeueAfter; got != 0 {
		t.Errorf("nothing is left to wait for, but it waits %s", got)
	}
	env.run()
	if c := rollout.Condition(&env.deployment().Status,
		machinev1.MachineDeploymentProgressing); c.Reason != machinev1.ReasonNewMachineSetAvailable {
		t.Errorf("a late success is a success: %+v", c)
	}
}
