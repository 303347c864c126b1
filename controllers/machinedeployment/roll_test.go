package machinedeployment

import (
	"fmt"
	"math/rand/v2"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestRollKeepsBounds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason                       string
		replicas, surge, unavailable int32
	}{
		"SurgeOnly":       {"Never fewer than wanted.", 5, 1, 0},
		"UnavailableOnly": {"Never more than wanted.", 5, 0, 2},
		"Both":            {"As MCM's suite.", 5, 2, 1},
		"BothZero":        {"One may be missing then.", 3, 0, 0},
		"Everything":      {"All at once.", 4, 4, 4},
		"Twenty":          {"As the benchmark, but smaller.", 10, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(tc.replicas, func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy = rollingUpdate(tc.surge, tc.unavailable)
			}))
			env.run()
			env.changeSpec(class("v2"))
			missing := tc.unavailable
			if tc.surge == 0 && missing == 0 {
				missing = 1
			}
			env.until("the roll is done", func() bool {
				serving := int32(0)
				for _, m := range env.live() {
					if rollout.IsAvailable(&m) {
						serving++
					}
				}
				if serving < tc.replicas-missing {
					t.Fatalf("%s\nonly %d available\n%s", tc.reason, serving, env.describe())
				}
				if total := len(env.machines()); total > int(tc.replicas+tc.surge) {
					t.Fatalf("%s\n%d machines, terminating ones included\n%s", tc.reason, total, env.describe())
				}
				d := env.deployment()
				return d.Status.UpdatedReplicas == tc.replicas && d.Status.Replicas == tc.replicas &&
					d.Status.AvailableReplicas == tc.replicas
			})
			if !env.set("v1").DeletionTimestamp.IsZero() {
				t.Errorf("without a limit old sets are kept")
			}
		})
	}
}

func TestRollCosts(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(20, func(d *machinev1.MachineDeployment) { d.Spec.Strategy = rollingUpdate(4, 2) }))
	env.run()
	for range 3 {
		env.pass()
	}
	env.Forget()
	env.pass()
	if len(env.Writes()) != 0 {
		t.Errorf("a complete deployment is written: %v", env.Writes())
	}
	env.changeSpec(class("v2"))
	env.run()
	t.Logf("%v", env.Writes())
	if n := env.Count("patch Node"); n > 40 {
		t.Errorf("%d patches of nodes: one for each old one and, when the roll is over, for each new one is enough", n)
	}
	if n := env.Count("patch MachineSet") + env.Count("patch MachineDeployment/status") +
		env.Count("patch MachineDeployment"); n > 40 {
		t.Errorf("%d writes of sets and deployment are too many: %v", n, env.Writes())
	}
}

func TestRecreate(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(3, func(d *machinev1.MachineDeployment) {
		d.Spec.Strategy = machinev1.MachineDeploymentStrategy{Type: machinev1.RecreateStrategyType}
	}))
	env.run()
	for _, next := range []string{"v2", "v1"} { // to a new set, and back to an old one
		env.changeSpec(class(next))
		env.until("all are "+next, func() bool {
			seen := map[string]bool{}
			for _, m := range env.machines() {
				seen[m.Spec.Class.Name] = true
			}
			if len(seen) > 1 {
				t.Fatalf("old and new machines exist together\n%s", env.describe())
			}
			d := env.deployment()
			return seen[next] && d.Status.AvailableReplicas == 3 && d.Status.UpdatedReplicas == 3 && d.Status.Replicas == 3
		})
	}
}

// TestRecreateBeforeTheFirstMachine: an old set that has no machines yet may be about
// to create them, so it is asked for none before a new set is asked for any.
func TestRecreateBeforeTheFirstMachine(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2, func(d *machinev1.MachineDeployment) {
		d.Spec.Strategy = machinev1.MachineDeploymentStrategy{Type: machinev1.RecreateStrategyType}
	}))
	for range 3 {
		env.pass() // no MachineSet controller runs, so the set stays empty
	}
	env.changeSpec(class("v2"))
	env.pass()
	if sets := env.sets(); len(sets) != 1 || sets[0].Spec.Replicas != 0 {
		t.Fatalf("want only the old set, asked for none\n%s", env.describe())
	}
	env.pass()
	if set := env.set("v2"); set.Spec.Replicas != 2 {
		t.Errorf("the new set is asked for %d machines, want 2", set.Spec.Replicas)
	}
}

func TestRollAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			const replicas, unavailable = 5, 1
			env := newEnv(t, deployment(replicas, func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy = rollingUpdate(2, unavailable)
			}))
			env.run()
			env.changeSpec(class("v2"))
			for step := range 300 {
				switch r.IntN(4) {
				case 0:
					env.pass()
				case 1:
					sets := env.sets()
					env.scaleSet(&sets[r.IntN(len(sets))])
				case 2:
					sets := env.sets()
					env.reportSet(&sets[r.IntN(len(sets))])
				case 3:
					machines := env.machines()
					env.playMachine(&machines[r.IntN(len(machines))])
				}
				if step == 60 {
					env.changeSpec(class([]string{"v1", "v3"}[r.IntN(2)]))
				}
				serving := 0
				for _, m := range env.live() {
					if rollout.IsAvailable(&m) {
						serving++
					}
				}
				if serving < replicas-unavailable {
					t.Fatalf("step %d: only %d available\n%s", step, serving, env.describe())
				}
			}
			env.run()
		})
	}
}
