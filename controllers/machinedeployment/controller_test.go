package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(0))
	w.pass()
	sets := w.sets()
	if len(sets) != 1 || sets[0].OwnerReferences[0].Name != "pool" || sets[0].Spec.Replicas != 0 {
		t.Fatalf("there must be one set although no machine is wanted: %+v", sets)
	}
	w.run()

	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 1; d.Spec.MinReadySeconds = 500 })
	w.run()
	type condition struct{ Type, Status, Reason string }
	var got []condition
	for _, c := range w.deployment().Status.Conditions {
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
		w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = replicas })
		w.run()
		if n := len(w.live()); n != int(replicas) {
			t.Fatalf("%d machines, want %d", n, replicas)
		}
	}

	w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 4; class("v2")(d) })
	w.run()
	if s := w.set("v2"); s.Spec.Replicas != 4 || w.set("v1").Spec.Replicas != 0 {
		t.Errorf("template and replicas changed together:\n%s", w.describe())
	}

	if err := w.client.Delete(t.Context(), w.deployment()); err != nil {
		t.Fatal(err)
	}
	w.until("the deployment is gone", func() bool { return w.deployment() == nil })
	if n := len(w.machines()) + len(w.sets()); n != 0 {
		t.Errorf("left behind:\n%s", w.describe())
	}
}
