package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// A command is one run of kubectl mcm migrate.
type command func(context.Context, *Engine) error

func there(ctx context.Context, e *Engine) error {
	return e.Apply(ctx, pool(), migration.Options{To: migration.ClusterAPI, Cluster: "c1", TakeOver: true})
}

func back(ctx context.Context, e *Engine) error {
	return e.Apply(ctx, pool(), migration.Options{To: migration.Native, Cluster: "c1", TakeOver: true})
}

func rollback(ctx context.Context, e *Engine) error {
	return e.Rollback(ctx, pool(), migration.Options{TakeOver: true})
}

func finish(ctx context.Context, e *Engine) error {
	return e.Finish(ctx, pool(), migration.Options{TakeOver: true})
}

// run runs a command to its end.
func (w *env) run(c command) {
	w.t.Helper()
	if err := c(w.t.Context(), w.engine(-1)); err != nil {
		w.t.Fatalf("%v\n%s", err, strings.Join(w.last, "\n"))
	}
}

// kill runs a command that dies after so many writes, and reports whether it did.
func (w *env) kill(c command, writes int) bool {
	w.t.Helper()
	err := c(w.t.Context(), w.engine(writes))
	if err != nil && !errors.Is(err, errKilled) {
		w.t.Fatal(err)
	}
	return err != nil
}

// count is how many writes a command makes after others.
func count(t *testing.T, machines int, eager bool, before []command, c command) int {
	t.Helper()
	w := newEnv(t, machines)
	w.eager = eager
	for _, b := range before {
		w.run(b)
	}
	w.writes = 0
	w.run(c)
	return w.writes
}

// untouched fails if a VM was made or deleted.
func (w *env) untouched() {
	w.t.Helper()
	w.play()
	if w.made != 0 || len(w.gone) != 0 {
		w.t.Errorf("%d VMs were made, %v are gone: a migration touches none", w.made, w.gone)
	}
}

// onClusterAPI fails unless the pool works there with so many machines.
func (w *env) onClusterAPI(machines int) {
	w.t.Helper()
	w.play()
	for _, o := range w.capis() {
		if _, rests := o.GetAnnotations()[clusterv1.PausedAnnotation]; rests {
			w.t.Errorf("%s is still paused", objects.Title(o))
		}
		if _, retained := o.GetAnnotations()[machinev1.RetainVMAnnotation]; retained {
			w.t.Errorf("%s would leave its VM behind", objects.Title(o))
		}
	}
	for _, o := range w.natives() {
		if !pauseAcknowledged(o) {
			w.t.Errorf("%s works as well", objects.Title(o))
		}
	}
	if got := len(get(w, &clusterv1.MachineList{}).Items); got != machines || len(w.vms()) != machines {
		w.t.Errorf("%d Machines and %d VMs, want %d", got, len(w.vms()), machines)
	}
	d := get(w, &clusterv1.MachineDeploymentList{}).Items
	if len(d) != 1 || d[0].Annotations[clusterv1.AutoscalerMaxSizeAnnotation] != "9" {
		w.t.Errorf("the autoscaler's bounds did not arrive: %v", d)
	}
}

// home fails unless the pool works on the native API with so many machines, and
// nothing is left on the other one.
func (w *env) home(machines int) {
	w.t.Helper()
	w.play()
	if left := w.capis(); len(left) > 0 {
		w.t.Errorf("%s is left", objects.List(left))
	}
	w.onNative(machines)
}

func (w *env) onNative(machines int) {
	w.t.Helper()
	for _, o := range w.natives() {
		if _, held := o.GetAnnotations()[machinev1.MigrationHoldAnnotation]; held {
			w.t.Errorf("%s is still held", objects.Title(o))
		}
		if !slices.Contains(o.GetFinalizers(), machinev1.Finalizer) {
			w.t.Errorf("%s has no finalizer", objects.Title(o))
		}
	}
	if got := len(get(w, &machinev1.MachineList{}).Items); got != machines || len(w.vms()) != machines {
		w.t.Errorf("%d native Machines and %d VMs, want %d", got, len(w.vms()), machines)
	}
	d := get(w, &machinev1.MachineDeploymentList{}).Items
	if len(d) != 1 || d[0].Annotations[machinev1.NodeGroupMaxSizeAnnotation] != "9" {
		w.t.Errorf("the autoscaler's bounds did not come back: %v", d)
	}
}

// TestKilledAfterEachWrite is the fault matrix: wherever a command is killed, the
// next one leads to the end, and rollback leads home, with the same VMs.
func TestKilledAfterEachWrite(t *testing.T) {
	t.Parallel()
	moved, finished := []command{there}, []command{there, finish}
	cases := map[string]struct {
		reason  string
		before  []command
		killed  command
		after   []command
		verdict func(*env, int)
		first   int // the first write to be killed after; 0 is the first of all
	}{
		"There":         {"The next command goes on.", nil, there, []command{there}, (*env).onClusterAPI, 0},
		"ThereAndHome":  {"A half-moved pool goes home.", nil, there, []command{rollback}, (*env).home, begunWrites},
		"Rollback":      {"A rollback that is killed is repeated.", moved, rollback, []command{rollback}, (*env).home, 0},
		"RollbackThere": {"A rollback that is killed may be turned around, too.", moved, rollback, []command{there}, nil, 0},
		"Finish": {
			"What is left of a finish is done by the next.", moved, finish,
			[]command{finish},
			(*env).onClusterAPI, 0,
		},
		"FinishAndHome": {
			"A finish that is killed can still be rolled back.", moved, finish,
			[]command{homeAgain},
			(*env).home, 0,
		},
		"Back": {
			"The way back to the native API is a move like any other.", finished, back,
			[]command{back},
			(*env).onNative, 0,
		},
		"BackAndHome": {
			"Its rollback leads to Cluster API.", finished, back,
			[]command{rollback},
			(*env).onClusterAPI,
			begunWrites,
		},
		"BackThenFinish": {
			"Nothing of Cluster API stays.",
			[]command{there, finish, back},
			finish,
			[]command{finish},
			(*env).home, 0,
		},
	}
	for name, tc := range cases {
		for _, eager := range []bool{true, false} {
			machines := 1
			if name == "There" {
				machines = 2 // one is copied, the other not
			} else if !eager {
				continue // how fast controllers are makes a difference on the way there
			}
			t.Run(fmt.Sprintf("%s/Eager=%v", name, eager), func(t *testing.T) {
				t.Parallel()
				writes := count(t, machines, eager, tc.before, tc.killed)
				if writes < 5 {
					t.Fatalf("%d writes are no matrix", writes)
				}
				begun := newEnv(t, machines)
				begun.eager = eager
				for _, b := range tc.before {
					begun.run(b)
				}
				for after := max(1, tc.first); after <= writes; after++ {
					w := begun.copy()
					w.kill(tc.killed, after)
					for _, c := range tc.after {
						w.run(c)
					}
					w.untouched()
					if tc.verdict != nil {
						tc.verdict(w, machines)
					}
					if t.Failed() {
						t.Fatalf("killed after write %d of %d: %s", after, writes, tc.reason)
					}
				}
				t.Logf("%d kills", writes)
			})
		}
	}
}

// homeAgain leads a pool back to the native API and clears the other, whether or
// not the move there was finished.
func homeAgain(ctx context.Context, e *Engine) error {
	return errors.Join(back(ctx, e), finish(ctx, e))
}

// begunWrites is how many writes a command makes until its move has begun: the Lease, the record.
const begunWrites = 2

// TestScaledInTheMiddle lets a user scale the side that is the truth, after each write.
func TestScaledInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 4} {
		t.Run(fmt.Sprintf("To%d", replicas), func(t *testing.T) {
			t.Parallel()
			writes := count(t, 2, true, nil, there)
			for after := begunWrites; after <= writes; after++ {
				w := newEnv(t, 2)
				w.eager = true
				w.kill(there, after)
				w.scale(replicas)
				w.run(there)
				w.onClusterAPI(int(replicas))
				w.scale(2)
				w.play()
				w.run(rollback)
				w.home(2)
				if t.Failed() {
					t.Fatalf("scaled to %d after write %d", replicas, after)
				}
			}
		})
	}
}

// scale asks the side that is the truth for so many machines.
func (w *env) scale(replicas int32) {
	w.t.Helper()
	s, err := load(w.t.Context(), w.api, pool())
	if err != nil {
		w.t.Fatal(err)
	}
	if s.object == nil || s.Authority() == migration.Native {
		w.patchObject(&get(w, &machinev1.MachineDeploymentList{}).Items[0], func(o client.Object) {
			o.(*machinev1.MachineDeployment).Spec.Replicas = replicas
			o.SetGeneration(o.GetGeneration() + 1)
		})
		return
	}
	w.patchObject(&get(w, &clusterv1.MachineDeploymentList{}).Items[0], func(o client.Object) {
		o.(*clusterv1.MachineDeployment).Spec.Replicas = new(replicas)
		o.SetGeneration(o.GetGeneration() + 1)
	})
}

// TestOneCommandAtATime keeps two commands from working on one pool, and lets the
// next one go on once the one before is silent.
func TestOneCommandAtATime(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 1)
	w.kill(there, 5)
	e := w.engine(-1)
	look := e.Wait
	e.Wait = func(ctx context.Context, d time.Duration) error {
		l := w.lease()
		l.Spec.RenewTime = new(metav1.NewMicroTime(w.clock.Now().Add(d))) // it was not killed
		w.must(w.api.Update(ctx, l))
		return look(ctx, d)
	}
	if err := e.Rollback(t.Context(), pool(), migration.Options{}); err == nil ||
		!strings.Contains(err.Error(), "by another command") {
		t.Errorf("the one before is still there, and the next ends with %v", err)
	}
	e.Wait = look
	begun := w.clock.Now()
	if err := e.Rollback(t.Context(), pool(), migration.Options{}); err != nil {
		t.Error(err)
	}
	if waited := w.clock.Since(begun); waited < leaseDuration {
		t.Errorf("the one before had %s to be heard of, want %s", waited, leaseDuration)
	}
	w.home(1)
}

// TestAClockThatIsAhead: a command whose clock goes wrong is not waited for for long.
func TestAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 1)
	w.kill(there, 5)
	w.clock.SetTime(w.clock.Now().Add(-time.Hour))
	if err := w.engine(-1).Rollback(t.Context(), pool(), migration.Options{}); err != nil {
		t.Error(err)
	}
	w.home(1)
}
