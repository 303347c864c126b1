package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
)

// recovered checks that each of so many machines is there, that the sizes are right, that
// nothing is held any more, and that no controller would have created or deleted any.
func (w *env) recovered(machines int) error {
	s := w.state()
	p := recovery.Of(s, recovery.Options{})
	var errs []error
	if len(p.Held) > 0 || unfinished(&p) {
		errs = append(errs, fmt.Errorf("%d objects are held, and the plan has %+v", len(p.Held), p.Pools))
	}
	if n := len(s.Machines) + len(s.ClusterMachines); n != machines {
		errs = append(errs, fmt.Errorf("%d machines, want %d", n, machines))
	}
	for i := range s.Deployments {
		set := &s.Sets[i]
		if n := s.Deployments[i].Spec.Replicas; int(n) != machines || set.Spec.Replicas != n ||
			set.Annotations[machinev1.DesiredReplicasAnnotation] != fmt.Sprint(n) {
			errs = append(errs, fmt.Errorf("the deployment wants %d, the set %d: %v", n, set.Spec.Replicas, set.Annotations))
		}
	}
	for i := range s.ClusterDeployments {
		if n := *s.ClusterDeployments[i].Spec.Replicas; int(n) != machines || *s.ClusterSets[i].Spec.Replicas != n {
			errs = append(errs, fmt.Errorf("the deployment wants %d", n))
		}
	}
	if len(w.wrong) > 0 {
		errs = append(errs, errors.New(strings.Join(w.wrong, "\n")))
	}
	return errors.Join(errs...)
}

func worlds(t *testing.T) map[string][]client.Object {
	t.Helper()
	return map[string][]client.Object{"native": nativePool(t, 2), "cluster API": clusterPool(t, 2)}
}

// TestRun: machines come back, and no controller sees a pool whose size does not fit them.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, objects := range worlds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, objects...)
			n, err := w.run(recovery.Options{})
			if err := errors.Join(err, w.recovered(3)); err != nil || n != 2 {
				t.Errorf("%d created: %v", n, err)
			}
			class := &machinev1.MachineClass{}
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "class"}, class); err != nil {
				t.Fatal(err)
			}
			if class.Annotations[machinev1.LookForOrphansAnnotation] == "" {
				t.Error("the collector is not asked to look again")
			}
			wrote := w.wrote
			if n, err := w.run(recovery.Options{}); n != 0 || err != nil || w.wrote != wrote {
				t.Errorf("a second run has created %d, with %d writes: %v", n, w.wrote-wrote, err)
			}
		})
	}
}

// TestSlowControllers: a deployment is not released before its sets have counted the
// machines. It would replace those that are not available as far as it sees.
func TestSlowControllers(t *testing.T) {
	t.Parallel()
	for name, objects := range worlds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, objects...)
			w.slow = true
			_, err := w.run(recovery.Options{})
			if err := errors.Join(err, w.recovered(3)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRunIsKilledAtAnyWrite: the next run goes on, and adds nothing twice.
func TestRunIsKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	for name := range worlds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kill := 0; ; kill++ {
				w := newEnv(t, worlds(t)[name]...)
				w.left = kill
				_, err := w.run(recovery.Options{})
				if err == nil {
					if kill < 10 {
						t.Errorf("it was over after %d writes", kill)
					}
					return
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("killed at write %d: %v", kill, err)
				}
				w.left = -1
				if _, err := w.run(recovery.Options{}); err != nil {
					t.Fatalf("after a kill at write %d: %v", kill, err)
				}
				if err := w.recovered(3); err != nil {
					t.Fatalf("after a kill at write %d: %v", kill, err)
				}
			}
		})
	}
}

// TestOneAfterTheOther: VMs that are chosen one by one add up.
func TestOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nativePool(t, 3)...)
	for i := range 3 {
		if n, err := w.run(recovery.Options{VMs: []string{fmt.Sprintf("vm-%d", i+1)}}); n != 1 || err != nil {
			t.Fatalf("%d created: %v", n, err)
		}
	}
	if err := w.recovered(4); err != nil {
		t.Error(err)
	}
}

// TestAnotherSelectionAfterAKill: a run that recovers other VMs than the one that was killed
// at any write adds its machines to all that this one has added.
func TestAnotherSelectionAfterAKill(t *testing.T) {
	t.Parallel()
	selections := map[string][]string{
		"native": {"vm-1", "vm-2"}, "cluster API": {"pool-bcdfg-bbbbb", "pool-bcdfg-bbbbc"},
	}
	for name, first := range selections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kill := 0; ; kill++ {
				pool := clusterPool(t, 4)
				if name == "native" {
					pool = nativePool(t, 4)
				}
				w := newEnv(t, pool...)
				w.left = kill
				_, killed := w.run(recovery.Options{VMs: first})
				if killed != nil && !errors.Is(killed, errKilled) {
					t.Fatalf("killed at write %d: %v", kill, killed)
				}
				w.left = -1
				_, err := w.run(recovery.Options{})
				if err := errors.Join(err, w.recovered(5)); err != nil {
					t.Fatalf("after a kill at write %d: %v", kill, err)
				}
				if killed == nil {
					return
				}
			}
		})
	}
}

// TestPausedByAPerson: nothing is written to a pool that a person has paused, also not by a run
// that goes on, and the person learns what stays held.
func TestPausedByAPerson(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, clusterPool(t, 2)...)
			pause := func(value string) {
				s := w.state()
				o := client.Object(&s.ClusterDeployments[0])
				if kind == "MachineSet" {
					o = &s.ClusterSets[0]
				}
				w.patch(o, false, func() { o.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: value}) })
			}
			pause("person")
			w.play()
			if n, err := w.run(recovery.Options{}); n != 0 || err != nil || w.wrote != 0 {
				t.Fatalf("%d created, with %d writes: %v", n, w.wrote, err)
			}
			pause(recovery.HoldPrefix + "run.1")
			w.left = 7 // both are held, and a machine is created
			if _, err := w.run(recovery.Options{}); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			w.left, w.wrote = -1, 0
			pause("person")
			_, err := w.run(recovery.Options{})
			if err == nil || w.wrote != 0 || !strings.Contains(err.Error(), "still held") ||
				!strings.Contains(err.Error(), "remove that annotation") {
				t.Fatalf("after %d writes: %v", w.wrote, err)
			}
			pause(recovery.HoldPrefix + "run.1")
			_, err = w.run(recovery.Options{})
			if err := errors.Join(err, w.recovered(3)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnprovisioned: a VM that cannot be provisioned is released once its state is known. One
// that was not looked up holds its own pool only, and a person learns why.
func TestUnprovisioned(t *testing.T) {
	t.Parallel()
	both := func(reason string) *env {
		native := nativePool(t, 1)
		native[len(native)-1].SetName("class-2")
		w := newEnv(t, append(clusterPool(t, 2), native...)...)
		w.unprovisioned = map[string]string{"pool-bcdfg-bbbbb": reason}
		return w
	}
	w := both(machinev1.ReasonVMStopped)
	n, err := w.run(recovery.Options{})
	if p := recovery.Of(w.state(), recovery.Options{}); n != 3 || err != nil || len(p.Held) > 0 {
		t.Errorf("%d created, %d objects are held: %v", n, len(p.Held), err)
	}
	w = both(machinev1.ReasonCredentialsRefused)
	_, err = w.run(recovery.Options{})
	if err == nil || !strings.Contains(err.Error(), machinev1.ReasonCredentialsRefused) {
		t.Errorf("got error %v, want the reason of the condition", err)
	}
	for _, o := range recovery.Of(w.state(), recovery.Options{}).Held {
		if isMachine(o) && o.GetName() != "pool-bcdfg-bbbbb" || strings.HasPrefix(fmt.Sprintf("%T", o), "*v1alpha1") {
			t.Errorf("%T %s is held, and could be released", o, o.GetName())
		}
	}
}

// TestOtherVMsAfterAKill: a Machine that a run has left without MCMMachine gets it, also from
// a run that recovers another VM.
func TestOtherVMsAfterAKill(t *testing.T) {
	t.Parallel()
	for kill := range 12 {
		w := newEnv(t, clusterPool(t, 2)...)
		w.left = kill
		if _, err := w.run(recovery.Options{VMs: []string{"pool-bcdfg-bbbbb"}}); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		w.left = -1
		if _, err := w.run(recovery.Options{VMs: []string{"pool-bcdfg-bbbbc"}}); err != nil {
			t.Errorf("after a kill at write %d: %v", kill, err)
		}
		s := w.state()
		if n := len(s.ClusterMachines); n != len(s.MCMMachines)+1 { // one is of the backup
			t.Errorf("after a kill at write %d: %d Machines, %d MCMMachines", kill, n, len(s.MCMMachines))
		}
		if err := w.recovered(len(s.ClusterMachines)); err != nil && len(s.ClusterMachines) == 3 {
			t.Errorf("after a kill at write %d: %v", kill, err)
		}
	}
}

// TestDecided: what a person wants removed or left alone is not recovered by the way. Where it
// is chosen, it is not approved for removal any more.
func TestDecided(t *testing.T) {
	t.Parallel()
	for _, key := range []string{machinev1.ApprovedOrphansAnnotation, machinev1.KeptOrphansAnnotation} {
		pool := nativePool(t, 3)
		class := pool[len(pool)-1]
		machinev1.SetAnnotation(class, key, "vm-2,vm-3")
		w := newEnv(t, pool...)
		n, err := w.run(recovery.Options{})
		if err := errors.Join(err, w.recovered(2)); err != nil || n != 1 {
			t.Errorf("%s: %d created: %v", key, n, err)
		}
		n, err = w.run(recovery.Options{VMs: []string{"vm-2"}})
		if err := errors.Join(err, w.recovered(3)); err != nil || n != 1 {
			t.Errorf("%s: %d created: %v", key, n, err)
		}
		approved := w.state().MachineClasses[0].Annotations[machinev1.ApprovedOrphansAnnotation]
		if key == machinev1.ApprovedOrphansAnnotation && approved != "vm-3" {
			t.Errorf("approved are %q, want vm-3", approved)
		}
	}
}

// TestNoManager: without controllers nothing is created, and a person learns why.
func TestNoManager(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nativePool(t, 1)...)
	cl := w.api
	e := New(Deps{
		Control: cl, Target: cl, Clock: w.clock, Name: func() string { return "run" }, Progress: func(string) {},
		Wait: func(_ context.Context, d time.Duration) error {
			w.clock.Step(d)
			return nil
		},
	})
	n, err := e.Run(t.Context(), "default", recovery.Options{}, lookAgain)
	if n != 0 || err == nil || !strings.Contains(err.Error(), "leave them alone; do they run?") {
		t.Errorf("%d created: %v", n, err)
	}
}
