package machine

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// preserved brings up Machine m with that preserve annotation, which may be empty.
func (w *env) preserved(value string) {
	w.Helper()
	w.running("m")
	w.ask(value)
}

// health sets whether the node is Ready and gives the controller the time to see it through.
func (w *env) health(ready corev1.ConditionStatus) {
	w.Helper()
	n := w.nodeNamed("m")
	*nodeConditionOf(n, corev1.NodeReady) = corev1.NodeCondition{
		Type: corev1.NodeReady, Status: ready, LastTransitionTime: n.Status.Conditions[0].LastTransitionTime,
	}
	if err := w.client.Status().Update(w.Context(), n); err != nil {
		w.Fatal(err)
	}
	w.look()
	w.pass(11 * time.Minute) // the health timeout
	w.look()
}

// ask sets the preserve annotation of Machine m, or removes it.
func (w *env) ask(value string) {
	w.Helper()
	m := w.machine("m")
	machinev1.SetOrRemoveAnnotation(m, machinev1.PreserveAnnotation, value)
	w.update(m)
}

// look runs a few passes, a second apart.
func (w *env) look() {
	w.Helper()
	for range 6 {
		if _, err := w.reconcile("m"); err != nil {
			w.Fatal(err)
		}
		w.pass(time.Second)
	}
}

// MCM drains the node of a machine that is preserved on request once: after its second
// failure the pods stay, and new ones come.
func TestPreservedMachineIsDrainedAtEachFailure(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.preserved(machinev1.PreserveNow)
	for round := range 2 {
		pod := podOn("m")
		w.create(pod)
		w.health(corev1.ConditionFalse)
		if n := w.nodeNamed("m"); w.phase("m") != machinev1.MachineFailed || !preserveTainted(n) ||
			n.Annotations[machinev1.PreservedDrainedAnnotation] != "true" {
			t.Fatalf("failure %d: phase %s, taints %v, annotations %v: want it drained", round, w.phase("m"), n.Spec.Taints,
				n.Annotations)
		}
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err == nil {
			t.Errorf("failure %d: the pod is still there", round)
		}
		w.health(corev1.ConditionTrue)
		n := w.nodeNamed("m")
		shown := nodeConditionOf(n, machinev1.NodePreserved)
		if w.phase("m") != machinev1.MachineRunning || preserveTainted(n) || shown.Status != corev1.ConditionTrue ||
			strings.Contains(shown.Message, machinev1.MessagePreservedDrained) {
			t.Fatalf("recovery %d: phase %s, taints %v, condition %v: want it to take pods", round, w.phase("m"),
				n.Spec.Taints, shown)
		}
	}
}

// Preservation takes no cordon for its own: neither does it cordon, nor does it uncordon.
func TestPreservationLeavesAUsersCordon(t *testing.T) {
	t.Parallel()
	for _, cordoned := range []bool{true, false} {
		for _, value := range []string{machinev1.PreserveNow, machinev1.PreserveWhenFailed, machinev1.PreserveAuto, ""} {
			w := newEnv(t, interceptor.Funcs{})
			w.preserved(value)
			n := w.nodeNamed("m")
			n.Spec.Unschedulable = cordoned
			if err := w.client.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			check := func(when string) {
				if got := w.nodeNamed("m").Spec.Unschedulable; got != cordoned {
					t.Errorf("preserve=%q, %s: unschedulable is %v, the user has set %v", value, when, got, cordoned)
				}
			}
			w.health(corev1.ConditionFalse)
			check("failed")
			w.health(corev1.ConditionTrue)
			check("recovered")
			w.ask("")
			w.look()
			check("over")
		}
	}
}

// A machine that recovered before it was preserved is preserved again at its next
// failure only if its set asks for it then.
func TestAutomaticRequestOfAHealthyMachineIsRemoved(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.preserved(machinev1.PreserveAuto)
	w.look()
	if value, ok := w.machine("m").Annotations[machinev1.PreserveAnnotation]; ok {
		t.Errorf("annotation %q is left: it counts against the limit of the set", value)
	}
}

func TestNodesRequestRemovesTheMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.preserved("")
	n := w.nodeNamed("m")
	machinev1.SetAnnotation(n, machinev1.PreserveAnnotation, machinev1.PreserveWhenFailed)
	if err := w.client.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.ask(machinev1.PreserveFalse) // later than the node's
	w.look()
	m := w.machine("m")
	if m.Annotations[machinev1.PreserveAnnotation] != "" ||
		m.Annotations[machinev1.LastAppliedNodePreserveAnnotation] != machinev1.PreserveWhenFailed {
		t.Errorf("annotations %v: the node's request decides, so the Machine's goes", m.Annotations)
	}
}

// A machine is kept from neither failing nor being written when its preservation fails, and
// its creation timeout does not start over.
func TestPreservationDoesNotHoldUpTheCreationTimeout(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.create(newMachine("m", w.clock.Now()))
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
	w.pass(15 * time.Minute)
	w.ask(machinev1.PreserveNow)
	w.look()
	if w.machine("m").Status.CurrentStatus.PreserveExpiryTime == nil {
		t.Fatal("not preserved")
	}
	w.pass(5 * time.Minute)
	w.look()
	if got := w.phase("m"); got != machinev1.MachineFailed {
		t.Errorf("phase %s 20 minutes after its creation, want Failed", got)
	}
}

// The node of a machine that no user asks to preserve is not written.
func TestMachinesWithoutRequestAreLeftAlone(t *testing.T) {
	t.Parallel()
	var writes []string
	count := false
	w := newEnv(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			if _, ok := o.(*corev1.Node); ok && count {
				writes = append(writes, o.GetName())
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if _, ok := o.(*corev1.Node); ok && count {
				writes = append(writes, o.GetName()+"/"+sub)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	w.preserved("")
	n := w.nodeNamed("m")
	n.Spec.Unschedulable = true
	if err := w.client.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	count = true
	w.look()
	if len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}

func preserveTainted(n *corev1.Node) bool {
	return len(withoutPreservedTaint(n.Spec.Taints)) != len(n.Spec.Taints)
}
