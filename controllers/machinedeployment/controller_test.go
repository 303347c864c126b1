package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestFlow(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(0))
	env.pass()
	sets := env.sets()
	if len(sets) != 1 || sets[0].OwnerReferences[0].Name != "pool" || sets[0].Spec.Replicas != 0 {
		t.Fatalf("there must be one set although no machine is wanted: %+v", sets)
	}
	env.run()

	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 1; d.Spec.MinReadySeconds = 500 })
	env.run()
	type condition struct{ Type, Status, Reason string }
	var got []condition
	for _, c := range env.deployment().Status.Conditions {
		got = append(got, condition{string(c.Type), string(c.Status), c.Reason})
	}
	want := []condition{
		{"Available", "True", "MinimumReplicasAvailable"},
		{"Progressing", "True", "NewMachineSetAvailable"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MCM's suite wants exactly two conditions\n%s", diff)
	}

	for _, replicas := range []int32{6, 2} {
		env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = replicas })
		env.run()
		if n := len(env.live()); n != int(replicas) {
			t.Fatalf("%d machines, want %d", n, replicas)
		}
	}

	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 4; class("v2")(d) })
	env.run()
	if set := env.set("v2"); set.Spec.Replicas != 4 || env.set("v1").Spec.Replicas != 0 {
		t.Errorf("template and replicas changed together:\n%s", env.describe())
	}

	env.Delete(env.deployment())
	env.until("the deployment is gone", func() bool { return env.deployment() == nil })
	if n := len(env.machines()) + len(env.sets()); n != 0 {
		t.Errorf("left behind:\n%s", env.describe())
	}
}
