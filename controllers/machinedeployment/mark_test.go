package machinedeployment

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// choose writes what a scaler writes: one update of replicas, list and time.
func (env *env) choose(replicas int32, list string) {
	env.changeSpec(func(d *machinev1.MachineDeployment) {
		d.Spec.Replicas = replicas
		machinev1.SetAnnotation(d, machinev1.TriggerDeletionAnnotation, list)
		machinev1.SetAnnotation(d, machinev1.LastReplicaChangeByScalerAnnotation, noon.Format(time.RFC3339))
	})
}

func TestChosenGoesFirst(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(4))
	env.run()
	chosen := env.live()[2]
	env.choose(3, chosen.Name+"~"+noon.Format(time.RFC3339))
	env.pass()
	if n := env.sets()[0].Spec.Replicas; n != 4 {
		t.Fatalf("the set shrinks before its controller can know the marks")
	}
	want := map[string]string{
		machinev1.PriorityAnnotation:          "1",
		machinev1.MarkedForDeletionAnnotation: noon.Format(time.RFC3339),
	}
	if diff := cmp.Diff(want, env.live()[2].Annotations); diff != "" {
		t.Fatalf("marks\n%s", diff)
	}
	env.run()
	for _, m := range env.live() {
		if m.Name == chosen.Name {
			t.Errorf("another machine than the chosen one went\n%s", env.describe())
		}
	}
	d := env.deployment()
	if list, ok := d.Annotations[machinev1.TriggerDeletionAnnotation]; ok {
		t.Errorf("the list still says %q", list)
	}
	if env.sets()[0].Annotations[machinev1.LastReplicaChangeByScalerAnnotation] != noon.Format(time.RFC3339) {
		t.Errorf("the set does not know when it was scaled: %v", env.sets()[0].Annotations)
	}
}

// TestChosenInSmallerSet: MCM would take the machine from the larger set.
func TestChosenInSmallerSet(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(9))
	env.run()
	env.changeSpec(class("v2"))
	env.until("some are new", func() bool { return env.set("v2").Status.AvailableReplicas >= 2 })
	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Paused = true })
	for range 3 {
		env.pass()
		env.playSets()
		env.playMachines()
	}
	before := map[string]int32{"v1": env.set("v1").Spec.Replicas, "v2": env.set("v2").Spec.Replicas}
	smaller, larger := "v2", "v1"
	if before["v1"] <= before["v2"] {
		smaller, larger = larger, smaller
	}
	if before[smaller] == 0 {
		t.Fatalf("both sets must have machines: %v", before)
	}
	chosen := env.members(env.set(smaller))[0].Name
	env.choose(before["v1"]+before["v2"]-2-1, chosen) // one less than the surge covers
	env.until("one goes", func() bool { return len(env.machines()) < int(before["v1"]+before["v2"]) })
	if env.set(larger).Spec.Replicas != before[larger] || env.set(smaller).Spec.Replicas != before[smaller]-1 ||
		slices.Contains(names(env.machines()), chosen) {
		t.Errorf("machine %s was chosen, others went; before %v\n%s", chosen, before, env.describe())
	}
}

func TestMarksAreTakenBack(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2))
	env.run()
	chosen, users := env.live()[0].Name, env.live()[1]
	change(env, &users, func(m *machinev1.Machine) { m.Annotations[machinev1.PriorityAnnotation] = "1" })
	env.choose(2, chosen)
	env.pass()
	env.choose(2, "")
	env.pass()
	live := env.live()
	if diff := cmp.Diff(map[string]string{machinev1.PriorityAnnotation: "3"}, live[0].Annotations); diff != "" {
		t.Errorf("the machine is not chosen any more\n%s", diff)
	}
	if live[1].Annotations[machinev1.PriorityAnnotation] != "1" {
		t.Errorf("a priority that a person gave was taken")
	}
}

func TestChoicesOfOthers(t *testing.T) {
	t.Parallel()
	foreign := &machinev1.Machine{}
	foreign.Status.CurrentStatus.Phase = machinev1.MachineRunning
	foreign.Namespace, foreign.Name = namespace, "foreign"
	env := newEnv(t, deployment(1), foreign)
	env.run()
	env.HeardOf("")
	ours := env.members(&env.sets()[0])[0].Name
	env.choose(1, "foreign,gone,bad~bad,"+ours)
	env.pass()
	change(env, foreign, func(m *machinev1.Machine) {
		if len(m.Annotations) != 0 {
			t.Errorf("a machine of nobody was marked: %v", m.Annotations)
		}
	})
	if got, want := env.deployment().Annotations[machinev1.TriggerDeletionAnnotation], ours+"~"+
		noon.Format(time.RFC3339); got != want {
		t.Errorf("the list is %q, want %q", got, want)
	}
	if events := env.HeardOf(machinev1.TriggerDeletionAnnotation); len(events) != 2 {
		t.Errorf("the foreign and the malformed entry want an Event each, the one that is gone none: %v", events)
	}
}
