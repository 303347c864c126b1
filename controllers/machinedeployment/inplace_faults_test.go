package machinedeployment

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// newInPlaceEnv returns an env with a pool that is complete, and three classes for it.
func newInPlaceEnv(t *testing.T, replicas int32, o machinev1.OrchestrationType, surge, unavailable int32) *env {
	t.Helper()
	env := newEnv(t, deployment(replicas, inPlace(o, surge, unavailable)),
		machineClass("v1", "eu"), machineClass("v2", "eu"), machineClass("v3", "eu"))
	env.run()
	return env
}

// selected returns the machines of the set with class v1 whose nodes are selected for their update, and the others.
func (env *env) selected() (selected, others []machinev1.Machine) {
	for _, m := range env.members(env.set("v1")) {
		if node := env.node(m.Name); node != nil && selectedForUpdate(node) {
			selected = append(selected, m)
		} else {
			others = append(others, m)
		}
	}
	return selected, others
}

// round is one pass, and then all that others do.
func (env *env) round() {
	env.pass()
	env.playSets()
	env.playMachines()
}

// serving counts the machines that are available and whose nodes take pods.
func (env *env) serving() int {
	n := 0
	for _, m := range env.live() {
		node := env.node(m.Name)
		if rollout.IsAvailable(&m) && node != nil && !node.Spec.Unschedulable {
			n++
		}
	}
	return n
}

// TestInPlaceLossWhileUpdating: old machines are lost while none may be missing and others are being
// updated. No machine is created in the place of one that will move, and the updated ones move.
func TestInPlaceLossWhileUpdating(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason          string
		replicas, surge int32
		lost            int
		capacity        bool
	}{
		"Capacity":   {"The surge is created once more.", 2, 1, 1, true},
		"NoCapacity": {"The updated machine serves although no other one can be created.", 2, 1, 1, false},
		"Several":    {"None too many is left.", 5, 2, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newInPlaceEnv(t, tc.replicas, machinev1.OrchestrationTypeAuto, tc.surge, 0)
			env.changeSpec(class("v2"))
			env.until("as many as may be are updated", func() bool {
				updating, _ := env.selected()
				return len(updating) == int(tc.surge)
			})
			updating, others := env.selected()
			for _, m := range others[:tc.lost] {
				env.terminate(&m)
			}
			known := map[string]bool{}
			for _, m := range env.machines() {
				known[m.Name] = true
			}
			for range 40 {
				env.pass()
				env.playSets()
				for _, m := range env.machines() {
					if tc.capacity || known[m.Name] {
						env.playMachine(&m)
					}
				}
			}
			if env.serving() != int(tc.replicas) || len(env.live()) > int(tc.replicas+tc.surge) ||
				tc.capacity && len(env.live()) != int(tc.replicas) {
				t.Errorf("%s\n%s", tc.reason, env.describe())
			}
			moved := map[string]bool{}
			for _, m := range env.members(env.set("v2")) {
				moved[m.Name] = true
			}
			for _, m := range updating {
				if !moved[m.Name] {
					t.Errorf("machine %s was updated, and has not moved\n%s", m.Name, env.describe())
				}
			}
		})
	}
}

// TestInPlaceScaleInBesideMoves: the new set has more machines than it is asked for, and the label of those that
// have just moved does not keep the surplus.
func TestInPlaceScaleInBesideMoves(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 4, machinev1.OrchestrationTypeManual, 0, 1)
	env.changeSpec(class("v2"))
	for range 3 {
		env.round()
	}
	choose := func(n int) {
		_, others := env.selected()
		for _, m := range others[:n] {
			change(env, env.node(m.Name), func(n *corev1.Node) { n.Labels[machinev1.SelectedForUpdateLabel] = "true" })
		}
	}
	choose(2)
	env.until("two have moved", func() bool {
		return env.set("v2").Status.AvailableReplicas == 2 && env.set("v1").Spec.Replicas == 2
	})
	choose(2)
	for range 3 { // updated, and not moved
		env.playMachines()
	}
	env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 3 })
	for range 3 { // moved before a set has deleted one
		env.pass()
	}
	env.run()
	if len(env.live()) != 3 {
		t.Error(env.describe())
	}
}

// TestInPlaceBackBesideMove changes the template while a machine has moved and its replica has not followed.
func TestInPlaceBackBesideMove(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"v1", "v3"} {
		env := newInPlaceEnv(t, 2, machinev1.OrchestrationTypeAuto, 0, 1)
		env.changeSpec(class("v2"))
		for range 3 { // selected, updated, moved
			env.pass()
			env.playMachines()
		}
		moved := env.members(env.set("v2"))
		if len(moved) != 1 {
			t.Fatal(env.describe())
		}
		env.changeSpec(class(to))
		env.pass()
		if got := env.members(env.set("v2")); to == "v3" && len(got) != len(moved) {
			t.Errorf("a machine that was updated to v2 is taken as updated to v3\n%s", env.describe())
		}
		env.playSets() // must not create a machine beside the two
		env.run()
		if len(env.live()) != 2 || len(env.members(env.set(to))) != 2 {
			t.Error(env.describe())
		}
	}
}

// TestInPlaceReplicasRefused: a machine has moved, and the API server refuses the replica for it. The label stays:
// without it the set would delete a machine as surplus.
func TestInPlaceReplicasRefused(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 2, machinev1.OrchestrationTypeAuto, 0, 1)
	env.changeSpec(class("v2"))
	for range 3 { // selected, updated, moved
		env.pass()
		env.playMachines()
	}
	env.Fault = refuseSets
	for range 3 {
		_, _ = env.try() // a conflict is an answer
		env.playSets()
	}
	if len(env.live()) != 2 || env.set("v2").Spec.Replicas != 0 {
		t.Error(env.describe())
	}
	env.Fault = nil
	env.run()
}

// refuseSets refuses each change of a MachineSet, as another one that came before.
func refuseSets(r harness.Request) error {
	if r.Verb != "patch" || r.Kind != machinev1.MachineSetKind {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Resource: "machinesets"}, r.Name, errors.New("stale"))
}

// TestInPlaceRandom plays pools that are updated in place, scaled, and changed again while machines are lost,
// changes of sets are refused, and the other controllers lag behind. env.create fails when a machine exceeds the surge.
func TestInPlaceRandom(t *testing.T) {
	t.Parallel()
	seeds := []uint64{
		770012, 770356, // a machine moved although its old set could still create another
		9000312,            // the new set grew although the write that shrinks an old one was refused
		58000110, 58000213, // a machine that had just moved was selected, although its last update was not finished
		58000126, 58000538, // machines that the new set was about to delete counted as available
		83001338, // machines that a scale-in was about to take counted as available
		9000317,  // after a rollback, surplus machines went although others were about to be updated
	}
	for seed := range uint64(40) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			playInPlace(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// playInPlace plays one pool: 25 rounds with changes, and then until it is complete.
func playInPlace(t *testing.T, r *rand.Rand) {
	t.Helper()
	env := newInPlaceEnv(t, 1+r.Int32N(5), machinev1.OrchestrationTypeAuto, r.Int32N(4), r.Int32N(3))
	lossy, scaling, disturbed := r.IntN(2) == 0, r.IntN(2) == 0, false
	env.changeSpec(class("v2"))
	for range 25 {
		env.Fault = func(q harness.Request) error {
			if r.IntN(4) > 0 {
				return nil
			}
			return refuseSets(q)
		}
		env.keepsAvailable(disturbed, func() { _, _ = env.try() }) // a conflict is an answer
		env.Fault = nil
		for _, set := range env.sets() {
			if r.IntN(4) > 0 {
				env.keepsAvailable(disturbed, func() { env.playSet(&set) })
			}
		}
		for _, m := range env.machines() {
			if r.IntN(2) == 0 {
				env.playMachine(&m)
			}
		}
		switch k := r.IntN(14); {
		case k == 0 && lossy && len(env.live()) > 0:
			m := env.live()[r.IntN(len(env.live()))]
			env.terminate(&m)
			disturbed = true
		case k == 1 && scaling:
			env.askedBefore = env.asked()
			env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 1 + r.Int32N(5) })
			disturbed = true
		case k == 2:
			env.changeSpec(class(fmt.Sprintf("v%d", 1+r.IntN(3))))
		}
		disturbed = disturbed && env.lagging()
		env.askedBefore = min(env.askedBefore, env.asked())
	}
	env.run()
}

// lagging reports whether a set has another number of machines than it is asked for.
func (env *env) lagging() bool {
	for _, set := range env.sets() {
		if len(env.members(&set)) != int(set.Spec.Replicas) {
			return true
		}
	}
	return false
}

// asked returns how many machines the sets have and may still create.
func (env *env) asked() int {
	n := 0
	for _, set := range env.sets() {
		live := slices.DeleteFunc(env.members(&set), func(m machinev1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
		if _, disabled := set.Labels[machinev1.ScaleUpDisabledLabel]; disabled {
			n += len(live)
		} else {
			n += max(len(live), int(set.Spec.Replicas))
		}
	}
	return n
}

// keepsAvailable fails if act takes availability below the minimum, where a machine whose update was asked for is not
// available. With disturbed it may: what was decided before a loss or a scale-out comes after it, and the real
// controller of MachineSets has a check of its own.
func (env *env) keepsAvailable(disturbed bool, act func()) {
	env.Helper()
	available := func() int {
		n := 0
		for _, m := range env.live() {
			if node := env.node(m.Name); rollout.IsAvailable(&m) && (node == nil || !leavesForUpdate(node)) {
				n++
			}
		}
		return n
	}
	before := available()
	act()
	if after := available(); !disturbed && after < before && after < env.bounds().MinAvailable() {
		env.Fatalf("%d machines were available, %d are, and %d must be\n%s", before, after, env.bounds().MinAvailable(),
			env.describe())
	}
}
