package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// refusing is an API server whose budgets refuse every eviction.
func refusing() interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o client.Object, what client.Object,
			opts ...client.SubResourceCreateOption,
		) error {
			if sub == "eviction" {
				err := apierrors.NewTooManyRequests("the budget is used up", 10)
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
				return err
			}
			return c.SubResource(sub).Create(ctx, o, what, opts...)
		},
	}
}

func podOn(node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	p.Status.Phase = corev1.PodRunning
	return p
}

func TestDeletionWaitsForPodsAndSaysSo(t *testing.T) {
	t.Parallel()
	w := newEnv(t, refusing())
	w.running("m")
	w.create(podOn("m"))
	w.delete(w.machine("m"))
	for range 3 {
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
		w.pass(25 * time.Second)
	}
	if _, live := w.vms(); live != 1 {
		t.Fatalf("%d VMs: the VM went although a pod may not be evicted", live)
	}
	if said := w.condition("m", machinev1.ConditionDrained); !strings.Contains(said, "app") {
		t.Errorf("condition %q has to name the pod that holds up the drain", said)
	}
	if text := w.machine("m").Status.LastOperation.Description; !strings.Contains(text, machinev1.StepDrain) {
		t.Errorf("description %q has to hold MCM's name of the step, for an MCM that takes over", text)
	}
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil || !n.Spec.Unschedulable ||
		nodeConditionOf(n, machinev1.NodeTerminating) == nil {
		t.Errorf("a node that is drained is cordoned and says that it terminates: %v, %+v", err, n.Status.Conditions)
	}

	w.pass(3 * time.Hour) // past the drain timeout
	w.settle("m", func() bool { return w.machine("m") == nil })
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs left behind after the drain timeout", live)
	}
}

func TestForceDeletionDoesNotWaitForPods(t *testing.T) {
	t.Parallel()
	w := newEnv(t, refusing())
	w.running("m")
	w.create(podOn("m"))
	m := w.machine("m")
	m.Labels[machinev1.ForceDeletionLabel] = "true"
	w.update(m)
	w.delete(m)
	w.settle("m", func() bool { return w.machine("m") == nil })
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "app"},
		&corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod was not deleted: %v", err)
	}
}

func TestFailedMachineIsPreserved(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	m := w.machine("m")
	m.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveWhenFailed
	w.update(m)
	w.setUnready("m")
	_, _ = w.reconcile("m")
	w.pass(11 * time.Minute)
	for range 4 {
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
	}
	m = w.machine("m")
	if m.Status.CurrentStatus.Phase != machinev1.MachineFailed || m.Status.CurrentStatus.PreserveExpiryTime == nil {
		t.Fatalf("phase %q, expiry %v: a failed machine with a wish to be kept is kept", m.Status.CurrentStatus.Phase,
			m.Status.CurrentStatus.PreserveExpiryTime)
	}
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil {
		t.Fatal(err)
	}
	shown := nodeConditionOf(n, machinev1.NodePreserved)
	if shown == nil || shown.Status != corev1.ConditionTrue || !strings.HasPrefix(shown.Message,
		machinev1.MessagePreservedDrained) {
		t.Errorf("condition %+v: the node has been drained and is kept", shown)
	}
	if n.Annotations[machinev1.ScaleDownDisabledAnnotation] != "true" || len(n.Spec.Taints) != 1 || n.Spec.Unschedulable {
		t.Errorf("annotations %v, taints %v, unschedulable %v: the autoscaler stays away, pods stay away by taint, a "+
			"user's cordon is not ours", n.Annotations, n.Spec.Taints, n.Spec.Unschedulable)
	}

	w.pass(97 * time.Hour) // past the expiry
	for range 4 {
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
	}
	m = w.machine("m")
	if m.Status.CurrentStatus.PreserveExpiryTime != nil || m.Annotations[machinev1.PreserveAnnotation] != "" {
		t.Errorf("expiry %v, annotations %v: its time is over, and the wish was fulfilled",
			m.Status.CurrentStatus.PreserveExpiryTime, m.Annotations)
	}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil || len(n.Spec.Taints) != 0 ||
		n.Annotations[machinev1.ScaleDownDisabledAnnotation] != "" {
		t.Errorf("the node is not given back: %v, taints %v, annotations %v", err, n.Spec.Taints, n.Annotations)
	}
}

func TestUpdateInPlace(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	steps := []struct {
		reason string
		label  string
		value  string
		phase  machinev1.MachinePhase
		shows  string
	}{
		{
			"A candidate is only marked.", machinev1.CandidateForUpdateLabel, "true", machinev1.MachineRunning,
			machinev1.ReasonCandidateForUpdate,
		},
		{
			"A selected node is drained and handed to the agent.", machinev1.SelectedForUpdateLabel, "true",
			machinev1.MachineInPlaceUpdating, machinev1.ReasonReadyForUpdate,
		},
		{
			"The agent's result ends it, and a healthy node runs.", machinev1.UpdateResultLabel, machinev1.UpdateSuccessful,
			machinev1.MachineRunning, machinev1.ReasonUpdateSuccessful,
		},
	}
	for _, step := range steps {
		n := &corev1.Node{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil {
			t.Fatal(err)
		}
		machinev1.SetLabel(n, step.label, step.value)
		if err := w.client.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			if _, err := w.reconcile("m"); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Second)
		}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil {
			t.Fatal(err)
		}
		shown := nodeConditionOf(n, machinev1.NodeInPlaceUpdate)
		if shown == nil || shown.Reason != step.shows || w.phase("m") != step.phase {
			t.Fatalf("after %s=%s: phase %q, condition %+v; want %q, %s: %s", step.label, step.value, w.phase("m"), shown,
				step.phase, step.shows, step.reason)
		}
	}
}

func TestDescriptionNamesTheStepThatIsNotDone(t *testing.T) {
	t.Parallel()
	steps := []string{
		machinev1.StepGetVMStatus, machinev1.StepDrain, machinev1.StepDeleteAttachments,
		machinev1.StepDeleteVM, machinev1.StepDeleteNode, machinev1.StepRemoveFinalizer,
	}
	w := newEnv(t, refusing())
	w.running("m")
	pod := podOn("m")
	pod.Labels = map[string]string{"app": "a"}
	w.create(pod)
	// A budget that allows nothing although all its pods are healthy is misconfigured, a reason of the drain's own.
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: pod.Namespace}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one,
		Selector:     &metav1.LabelSelector{MatchLabels: pod.Labels},
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	w.create(budget)
	w.delete(w.machine("m"))
	if _, err := w.reconcile("m"); err != nil {
		t.Fatal(err)
	}
	text := w.machine("m").Status.LastOperation.Description
	for _, step := range steps {
		if got, want := strings.Contains(text, step), step == machinev1.StepDrain; got != want {
			t.Errorf("description %q contains %q: %v, want %v: an MCM that takes over would skip the drain", text, step, got,
				want)
		}
	}
}

func TestDescriptionKeepsItsStepWhateverTheCloudSays(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object,
			...client.SubResourceCreateOption,
		) error {
			return errors.New(strings.Repeat("word ", 1000))
		},
	})
	w.running("m")
	w.create(podOn("m"))
	w.delete(w.machine("m"))
	_, _ = w.reconcile("m")
	if text := w.machine("m").Status.LastOperation.Description; !strings.HasSuffix(text, machinev1.StepDrain) {
		t.Errorf("description ends in %q, want the step, for an MCM that takes over", text[max(0, len(text)-60):])
	}
}

// claimed is a Machine with a VM of its own that says to be on that node.
func claimed(name, namespace, node string) *machinev1.Machine {
	m := newMachine(name, time.Time{})
	m.Namespace = namespace
	m.UID = types.UID("uid-" + namespace + "-" + name)
	m.Labels = map[string]string{machinev1.NodeLabel: node}
	m.Finalizers = []string{machinev1.Finalizer}
	m.Spec.ProviderID = "sim:///sim-1/vm-ffffffffffffffff"
	return m
}

func TestOnlyTheOwnNodeIsTouched(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		other  *machinev1.Machine // that claims the node too; nil for none
		id     string             // of the node; empty for none, "own" for that of the machine's VM
		want   bool               // the node goes with its machine
	}{
		"OtherNamespace": {"The nodes of all namespaces join one cluster.", claimed("m", "other", "m"), "", false},
		"OtherVM": {
			"A node of another VM that got the name is not the machine's.", nil,
			"sim:///sim-1/vm-aaaaaaaaaaaaaaaa", false,
		},
		"WrongRival": {
			"A node on the machine's own VM is its own, whoever else says so.", claimed("b", namespace, "m"),
			"own", true,
		},
		"Alone": {"A node that nobody else claims goes.", nil, "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.running("m")
			if tc.other != nil {
				w.create(tc.other)
			}
			n := &corev1.Node{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil {
				t.Fatal(err)
			}
			if n.Spec.ProviderID = tc.id; tc.id == "own" {
				n.Spec.ProviderID = w.machine("m").Spec.ProviderID
			}
			if err := w.client.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			w.delete(w.machine("m"))
			w.settle("m", func() bool { return w.machine("m") == nil })
			err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n)
			if gone := apierrors.IsNotFound(err); gone != tc.want || (!gone && n.Spec.Unschedulable) {
				t.Errorf("node gone %v, want %v; unschedulable %v: %s", gone, tc.want, n.Spec.Unschedulable, tc.reason)
			}
		})
	}
}

func TestPreservationLeavesTheNodeOfAnotherMachineAlone(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("a")
	w.create(podOn("a"))
	failed := claimed("b", namespace, "a")
	failed.Annotations = map[string]string{machinev1.PreserveAnnotation: machinev1.PreserveWhenFailed}
	failed.Status.CurrentStatus.Phase = machinev1.MachineFailed
	w.create(failed)
	for range 3 {
		if _, err := w.reconcile("b"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
	}
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "a"}, n); err != nil || len(n.Spec.Taints) > 0 ||
		len(n.Annotations) > 0 {
		t.Errorf("taints %v, annotations %v, %v: the node runs another machine's pods", n.Spec.Taints, n.Annotations, err)
	}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "app"}, &corev1.Pod{}); err != nil {
		t.Errorf("the other machine's pod was evicted: %v", err)
	}
	if w.machine("b").Status.CurrentStatus.PreserveExpiryTime == nil {
		t.Error("the Machine itself has to be kept, else its set deletes it")
	}
}
