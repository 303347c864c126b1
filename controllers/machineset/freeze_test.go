package machineset

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// Six machines, and the deployment with a surge of two is scaled to two: with
// MCM's default limits that freezes once and unfreezes once, whatever the
// controller sees first and however fast the machines vanish.
func TestOvershoot(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// seen is run between the scaling of the deployment and that of the set.
		seen func(env *env)
	}{
		"Both": {reason: "One pass sees deployment and set scaled.", seen: func(*env) {}},
		"OnlyTheFirst": {reason: "A pass sees the deployment scaled and the set not yet.", seen: func(env *env) {
			env.settle()
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(6)
			d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(2))
			env := newEnv(t, d, newSet(6, owned))
			env.settle()
			env.become(machinev1.MachineRunning)
			env.settle()
			env.told("")

			harness.Edit(env.Cluster, d, func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 2 })
			tc.seen(env)
			env.scale(2)
			if _, err := env.reconcile(); err != nil {
				t.Fatal(err)
			}
			if !brake.IsFrozen(env.set()) || len(env.alive()) != 2 {
				t.Fatalf("%s after it the set is frozen, %v, and %d machines are alive, want 2", tc.reason,
					brake.IsFrozen(env.set()), len(env.alive()))
			}
			set := env.set()
			at := slices.IndexFunc(set.Status.Conditions, func(c machinev1.MachineSetCondition) bool {
				return c.Type == machinev1.MachineSetFrozen
			})
			if at < 0 || set.Status.Conditions[at].Reason != machinev1.ReasonOverShooting ||
				set.Status.Conditions[at].Status != machinev1.ConditionTrue {
				t.Errorf("conditions: %+v", set.Status.Conditions)
			}
			for _, m := range env.machines() {
				env.vanish(m.Name)
				env.settle()
			}
			all, froze := env.told(machinev1.EventFrozeMachineSet)
			unfroze := len(slices.DeleteFunc(slices.Clone(all), func(e string) bool {
				return e != "Normal "+machinev1.EventUnfrozeMachineSet+" "+messageUnfrozen
			}))
			if froze != 1 || unfroze != 1 {
				t.Errorf("%s frozen %d times and unfrozen %d times: %q", tc.reason, froze, unfroze, all)
			}
			set = env.set()
			if brake.IsFrozen(set) || len(set.Status.Conditions) != 0 || len(env.alive()) != 2 {
				t.Errorf("%s in the end: label %v, conditions %v, machines %v", tc.reason, set.Labels, set.Status.Conditions,
					env.alive())
			}
		})
	}
}

// Six machines, scaled in to four and then to two while the first two still drain: no set
// has a surplus of six at any time.
func TestTerminatingMachinesAreNoOvershoot(t *testing.T) {
	t.Parallel()
	d := newDeployment(6)
	d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(2))
	env := newEnv(t, d, newSet(6, owned))
	env.settle()
	env.become(machinev1.MachineRunning)
	env.settle()
	for _, replicas := range []int32{4, 2} {
		harness.Edit(env.Cluster, d, func(d *machinev1.MachineDeployment) { d.Spec.Replicas = replicas })
		env.scale(replicas)
		env.settle()
	}
	if len(env.alive()) != 2 || len(env.machines()) != 6 {
		t.Fatalf("%d of %d machines are alive", len(env.alive()), len(env.machines()))
	}
	if all, froze := env.told(machinev1.EventFrozeMachineSet); froze > 0 || brake.IsFrozen(env.set()) {
		t.Errorf("machines that terminate are no surplus: %q", all)
	}
}

func terminatingMember(name string) *machinev1.Machine {
	return newMember(name, func(m *machinev1.Machine) { m.DeletionTimestamp = new(metav1.Now()) })
}

// A set of four whose machines are stuck in deletion is frozen at ten.
func frozenWorld(t *testing.T) *env {
	t.Helper()
	objects := []client.Object{newSet(4)}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		objects = append(objects, terminatingMember(name))
	}
	env := newEnv(t, objects...)
	env.settle()
	if !brake.IsFrozen(env.set()) || len(env.alive()) != 0 {
		t.Fatalf("terminating machines count: frozen %v, alive %v", brake.IsFrozen(env.set()), env.alive())
	}
	return env
}

func TestFrozenSetIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	env := frozenWorld(t)
	if wait := env.settle().RequeueAfter; wait != time.Minute {
		t.Errorf("the next look is in %v, want a minute", wait)
	}
	env.vanish("a", "b", "c", "d", "e")
	env.settle()
	if brake.IsFrozen(env.set()) || len(env.alive()) != 4 {
		t.Errorf("the surplus is gone: frozen %v, alive %v", brake.IsFrozen(env.set()), env.alive())
	}
}

func TestUnfreezeByHand(t *testing.T) {
	t.Parallel()
	env := frozenWorld(t)
	env.told("")
	env.edit(func(set *machinev1.MachineSet) {
		set.Annotations = map[string]string{machinev1.UnfreezeAnnotation: ""}
	})
	if _, err := env.reconcile(); err != nil {
		t.Fatal(err)
	}
	set := env.set()
	if _, left := set.Annotations[machinev1.UnfreezeAnnotation]; left || brake.IsFrozen(set) || len(env.alive()) != 4 {
		t.Fatalf("a person's word counts: labels %v, annotations %v, alive %v", set.Labels, set.Annotations, env.alive())
	}
	env.settle()
	if brake.IsFrozen(env.set()) {
		t.Error("it counts for a period")
	}
	env.Advance(time.Minute)
	env.settle()
	if brake.IsFrozen(env.set()) {
		t.Error("a set that lacks nothing is not frozen for machines that terminate")
	}
	env.Delete(active(env.machines())[0])
	env.settle()
	if !brake.IsFrozen(env.set()) || len(env.alive()) != 3 {
		t.Errorf("it does not count for longer than a period: labels %v, alive %v", env.set().Labels, env.alive())
	}
	if _, count := env.told(machinev1.EventUnfrozeMachineSet); count != 1 {
		t.Errorf("%d Events tell of it, want 1", count)
	}
}

func TestUnfreezeAnnotationGoesAlsoIfNotFrozen(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(0, func(set *machinev1.MachineSet) {
		set.Annotations = map[string]string{machinev1.UnfreezeAnnotation: "true"}
	}))
	env.settle()
	if _, left := env.set().Annotations[machinev1.UnfreezeAnnotation]; left {
		t.Error("it would lift the next freeze at once")
	}
	if all, _ := env.told(""); len(all) != 0 {
		t.Errorf("nothing happened, and yet: %q", all)
	}
}
