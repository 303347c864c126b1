package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

func TestMachineJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.create(newMachine("m", w.clock.Now()))
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })

	m := w.machine("m")
	if m.Spec.ProviderID == "" || m.Labels[machinev1.NodeLabel] != "m" ||
		m.Annotations[machinev1.PriorityAnnotation] != "3" ||
		m.Annotations[machinev1.OwnerIDAnnotation] != "uid-m" || !m.Status.CurrentStatus.TimeoutActive {
		t.Fatalf("a Pending machine has to be complete: %+v", m)
	}
	if tokens := w.bootstrapTokens(); tokens != 1 {
		t.Errorf("%d bootstrap tokens, want 1 for the node to join with", tokens)
	}
	w.join("m", corev1.ConditionTrue)
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachineRunning })
	if tokens := w.bootstrapTokens(); tokens != 0 {
		t.Errorf("%d bootstrap tokens after the node has joined, want 0", tokens)
	}
	if m = w.machine("m"); m.Status.NodeRef == nil || m.Status.NodeRef.Name != "m" || len(m.Status.Conditions) == 0 {
		t.Errorf("a Running machine has to name its node: %+v", m.Status)
	}

	w.delete(m)
	w.settle("m", func() bool { return w.machine("m") == nil })
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs left behind", live)
	}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, &corev1.Node{}); err == nil {
		t.Error("the node was left behind")
	}
}

func TestSteadyStateWritesNothing(t *testing.T) {
	t.Parallel()
	writes := 0
	count := interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
	w := newEnv(t, count)
	w.running("m")
	writes = 0
	for range 5 {
		w.pass(time.Minute)
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 0 {
		t.Errorf("%d writes although nothing has changed", writes)
	}
}

func TestLostAnswersMakeOneVM(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sim.FaultBefore, sim.FaultAfter, sim.FaultDrop, sim.FaultLost, sim.FaultThrottle} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: mode, Count: 2})
			w.create(newMachine("m", w.clock.Now()))
			w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
			if made, live := w.vms(); made != 1 || live != 1 {
				t.Errorf("%d VMs made, %d live, want one of each", made, live)
			}
		})
	}
}

func TestCrashBetweenCreateAndRecordKeepsTheVM(t *testing.T) {
	t.Parallel()
	broken := true
	w := newEnv(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			if m, ok := o.(*machinev1.Machine); ok && broken && m.Spec.ProviderID != "" {
				return errors.New("the API server is gone")
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	w.create(newMachine("m", w.clock.Now()))
	for range 3 {
		_, _ = w.reconcile("m")
		w.restart()
	}
	broken = false
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
	if made, _ := w.vms(); made != 1 {
		t.Errorf("%d VMs made, want 1: the token has to be the same after each restart", made)
	}
}

func TestDeletionFindsAVMThatWasNeverRecorded(t *testing.T) {
	t.Parallel()
	broken := true
	w := newEnv(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			if m, ok := o.(*machinev1.Machine); ok && broken && m.Spec.ProviderID != "" {
				return errors.New("the API server is gone")
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	w.create(newMachine("m", w.clock.Now()))
	_, _ = w.reconcile("m")
	broken = false
	if _, live := w.vms(); live != 1 {
		t.Fatalf("%d VMs, want the one whose record failed", live)
	}
	w.restart()
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m") == nil })
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs left behind by a machine that never knew them", live)
	}
	if tokens := w.bootstrapTokens(); tokens != 0 {
		t.Errorf("%d bootstrap tokens left behind", tokens)
	}
}

func TestExhaustedCapacityReachesTheAutoscaler(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(newMachine("m", w.clock.Now()))
	_, _ = w.reconcile("m")
	op := w.machine("m").Status.LastOperation
	if w.phase("m") != machinev1.MachineCrashLoopBackOff || op.ErrorCode != "ResourceExhausted" ||
		op.Type != machinev1.MachineOperationCreate || op.State != machinev1.MachineStateFailed {
		t.Errorf("phase %q, operation %+v: autoscalers back off on CrashLoopBackOff with Create, Failed, ResourceExhausted",
			w.phase("m"), op)
	}
	w.pass(21 * time.Minute)
	_, _ = w.reconcile("m")
	if w.phase("m") != machinev1.MachineFailed {
		t.Errorf("phase %q after the creation timeout, want Failed", w.phase("m"))
	}
}

func TestOneUnhealthyMachineOfAPoolIsReplacedAtATime(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	for _, name := range []string{"a", "b"} {
		w.running(name)
		m := w.machine(name)
		m.Labels[machinev1.NameLabel] = "pool"
		w.update(m)
		w.setUnready(name)
		_, _ = w.reconcile(name)
		w.pass(brake.Window + time.Minute) // together they would be an outage
	}
	w.pass(11 * time.Minute)
	for _, name := range []string{"a", "b"} {
		_, _ = w.reconcile(name)
	}
	if a, b := w.phase("a"), w.phase("b"); a != machinev1.MachineFailed || b != machinev1.MachineUnknown {
		t.Fatalf("phases %q and %q, want Failed and Unknown", a, b)
	}
	if said := w.condition("b", machinev1.ConditionNodeReady); !strings.HasPrefix(said, machinev1.ReasonWaitingForTurn) {
		t.Errorf("condition %q has to say that it is not b's turn", said)
	}
}

func TestNodeOfTwoMachinesIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("a")
	rival := newMachine("b", w.clock.Now())
	rival.Labels = map[string]string{machinev1.NodeLabel: "a"}
	rival.Finalizers = []string{machinev1.Finalizer}
	rival.Spec.ProviderID = "sim:///sim-1/vm-ffffffffffffffff"
	w.create(rival)
	w.delete(w.machine("b"))
	w.settle("b", func() bool { return w.machine("b") == nil })
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "a"}, n); err != nil || n.Spec.Unschedulable {
		t.Errorf("the node that two machines claim was touched: %v, unschedulable %v", err, n.Spec.Unschedulable)
	}
	if _, live := w.vms(); live != 1 {
		t.Errorf("%d VMs, want a's to live", live)
	}
}

func TestFrozenDecidesNothingAndStillDeletes(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	w.controller.Frozen = func() bool { return true }
	w.setUnready("m")
	w.pass(time.Hour)
	_, _ = w.reconcile("m")
	if w.phase("m") != machinev1.MachineRunning {
		t.Errorf("phase %q: while an API server was unreachable nothing is known about nodes", w.phase("m"))
	}
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m") == nil })
}

func (w *env) update(m *machinev1.Machine) {
	w.Helper()
	if err := w.client.Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

func (w *env) bootstrapTokens() int {
	w.Helper()
	var list corev1.SecretList
	if err := w.client.List(w.Context(), &list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		w.Fatal(err)
	}
	return len(list.Items)
}
