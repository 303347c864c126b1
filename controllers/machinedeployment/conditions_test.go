package machinedeployment

import (
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(2, func(d *machinev1.MachineDeployment) {
		d.Spec.ProgressDeadlineSeconds = new(int32(600))
	}))
	w.pass()
	if got := w.pass().RequeueAfter; got != 601*time.Second {
		t.Errorf("the deadline is looked at after %s", got)
	}
	w.clock.SetTime(noon.Add(11 * time.Minute))
	w.pass()
	c := rollout.Condition(&w.deployment().Status, machinev1.MachineDeploymentProgressing)
	if c.Status != "False" || c.Reason != machinev1.ReasonProgressDeadlineExceeded {
		t.Errorf("condition %+v", c)
	}
	if got := w.pass().RequeueAfter; got != 0 {
		t.Errorf("nothing is left to wait for, but it waits %s", got)
	}
	w.run()
	if c := rollout.Condition(&w.deployment().Status,
		machinev1.MachineDeploymentProgressing); c.Reason != machinev1.ReasonNewMachineSetAvailable {
		t.Errorf("a late success is a success: %+v", c)
	}
}
