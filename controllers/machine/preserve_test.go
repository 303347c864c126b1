package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestActOf(t *testing.T) {
	t.Parallel()
	cases := []struct {
		value           string
		failed, expired bool
		want            preserveAction
		reason          string
	}{
		{"", true, false, actionStop, "no wish ends preservation"},
		{"false", true, false, actionStop, "false ends preservation"},
		{"when-failed", false, false, actionStop, "a machine that recovered is not kept, the wish stays"},
		{"when-failed", true, false, actionPreserve, "a failed machine is kept"},
		{"when-failed", true, true, actionStopAndClear, "its time is over"},
		{"now", false, false, actionPreserve, "now means any phase"},
		{"now", true, true, actionStopAndClear, "its time is over"},
		{"auto-preserved", true, false, actionPreserve, "kept by the set"},
		{"auto-preserved", false, false, actionStopAndClear, "a machine that recovered gives its place back"},
		{"auto-preserved", true, true, actionStopAndClear, "its time is over"},
	}
	for _, tc := range cases {
		if got := preserveActionOf(tc.value, tc.failed, tc.expired); got != tc.want {
			t.Errorf("actOf(%q, failed %v, expired %v) = %d, want %d: %s", tc.value, tc.failed, tc.expired, got, tc.want,
				tc.reason)
		}
	}
}

func TestWishOf(t *testing.T) {
	t.Parallel()
	const key, last = machinev1.PreserveAnnotation, machinev1.LastAppliedNodePreserveAnnotation
	type notes = map[string]string
	cases := map[string]struct {
		reason   string
		machine  notes
		node     notes
		noNode   bool
		want     preserveRequest
		warns    bool
		disabled bool
	}{
		"MachineOnly": {
			reason: "Without a word on the node the Machine's counts.", machine: notes{key: "now"},
			want: preserveRequest{"now", false},
		},
		"NodeWins": {
			reason: "The node's word wins.", machine: notes{key: "now"}, node: notes{key: "false"},
			want: preserveRequest{"false", true},
		},
		"NodeTakenBack": {
			reason:  "A word on the node that was taken back ends it.",
			machine: notes{key: "now", last: "now"}, want: preserveRequest{"", true},
		},
		"NoNode": {
			reason: "Without a node the Machine's counts.", machine: notes{key: "when-failed", last: "now"},
			noNode: true, want: preserveRequest{"when-failed", false},
		},
		"BadOnMachine": {
			reason: "A bad value on the Machine counts as none, and is told.", machine: notes{key: "yes"},
			want: preserveRequest{}, warns: true,
		},
		"BadOnNode": {
			reason: "A bad value on the node changes nothing, and is told.", machine: notes{key: "now"},
			node: notes{key: "yes"}, warns: true, disabled: true,
		},
		"NothingAnywhere": {reason: "Nobody asks for anything.", want: preserveRequest{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, n := &machinev1.Machine{}, &corev1.Node{}
			m.Annotations, n.Annotations = tc.machine, tc.node
			if tc.noNode {
				n = nil
			}
			got, warning, ok := preserveRequestOf(m, n)
			if got != tc.want || (warning != "") != tc.warns || ok == tc.disabled {
				t.Errorf("wishOf() = %+v, %q, %v; want %+v: %s", got, warning, ok, tc.want, tc.reason)
			}
		})
	}
}

func TestPreservationIsRecordedBeforeTheNodeIsTouched(t *testing.T) {
	t.Parallel()
	broken := false
	w := newEnv(t, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if _, ok := o.(*machinev1.Machine); ok && broken {
				return errors.New("the process ends here")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	w.running("m")
	m := w.machine("m")
	m.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveNow
	w.update(m)
	broken = true
	_, _ = w.reconcile("m")
	broken = false
	w.restart()
	m = w.machine("m")
	delete(m.Annotations, machinev1.PreserveAnnotation) // the user has changed their mind meanwhile
	w.update(m)
	_, _ = w.reconcile("m")
	n := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, n); err != nil ||
		n.Annotations[machinev1.ScaleDownDisabledAnnotation] != "" {
		t.Errorf("annotations %v, %v: nobody knows any more that they are ours to remove", n.Annotations, err)
	}
}

// A MachineSet annotates each failed machine without annotation, so one whose time is over
// stays as it is until the set deletes it.
func TestAutoPreservedMachineKeepsItsExpiry(t *testing.T) {
	t.Parallel()
	for name, owned := range map[string]bool{"OfASet": true, "Alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.running("m")
			m := w.machine("m")
			m.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveAuto
			m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachinePreserveTimeout: &metav1.Duration{}}
			if owned {
				m.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: machinev1.GroupVersion.String(), Kind: machinev1.MachineSetKind, Name: "s", UID: "s",
					Controller: new(true),
				}}
			}
			w.update(m)
			m.Status.CurrentStatus.Phase = machinev1.MachineFailed
			if err := w.client.Status().Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			w.setUnready("m")
			for range 3 {
				_, _ = w.reconcile("m")
			}
			before := w.machine("m")
			for range 3 {
				_, _ = w.reconcile("m")
			}
			m = w.machine("m")
			kept := m.Annotations[machinev1.PreserveAnnotation] != "" && m.Status.CurrentStatus.PreserveExpiryTime != nil
			if kept != owned || m.ResourceVersion != before.ResourceVersion {
				t.Errorf("annotations %v, expiry %v, versions %s %s: want them kept %v and no more writes", m.Annotations,
					m.Status.CurrentStatus.PreserveExpiryTime, before.ResourceVersion, m.ResourceVersion, owned)
			}
		})
	}
}

func TestFailedDrainOfAPreservedMachineIsTriedAgain(t *testing.T) {
	t.Parallel()
	broken := true
	w := newEnv(t, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o client.Object, what client.Object,
			opts ...client.SubResourceCreateOption,
		) error {
			if broken {
				return apierrors.NewServiceUnavailable("the API server does not answer")
			}
			return c.SubResource(sub).Create(ctx, o, what, opts...)
		},
	})
	w.running("m")
	w.create(podOn("m"))
	m := w.machine("m")
	m.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveWhenFailed
	w.update(m)
	m.Status.CurrentStatus.Phase = machinev1.MachineFailed
	if err := w.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.setUnready("m")
	for range 3 {
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
		w.pass(25 * time.Second) // a refused eviction is repeated after 20
	}
	result, _ := w.reconcile("m")
	if result.RequeueAfter == 0 || result.RequeueAfter > time.Minute {
		t.Fatalf("next look after %s: nothing else wakes the machine", result.RequeueAfter)
	}
	if said := w.condition("m", machinev1.ConditionDrained); !strings.Contains(said, "does not answer") {
		t.Errorf("condition %q has to say why the node is not drained", said)
	}
	broken = false
	w.pass(result.RequeueAfter)
	for range 3 {
		_, _ = w.reconcile("m")
	}
	if said := w.condition("m", machinev1.ConditionDrained); !strings.HasPrefix(said, machinev1.ReasonDrained) {
		t.Errorf("condition %q, want the node to be drained", said)
	}
}

func TestAnnotationsNotTextsSayWhetherAPreservedNodeIsDrained(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*corev1.Node)
		stays  bool
	}{
		"OtherText": {
			"A text that others changed does not restart the drain.", func(n *corev1.Node) {
				nodeConditionOf(n, machinev1.NodePreserved).Message = "preserved"
			}, true,
		},
		"NoAnnotation": {
			"A text proves no drain.", func(n *corev1.Node) {
				delete(n.Annotations, machinev1.PreservedDrainedAnnotation)
			}, false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, interceptor.Funcs{})
			w.running("m")
			m := w.machine("m")
			m.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveWhenFailed
			w.update(m)
			m.Status.CurrentStatus.Phase = machinev1.MachineFailed
			if err := w.client.Status().Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			w.setUnready("m")
			for range 3 {
				_, _ = w.reconcile("m")
			}
			n := w.nodeNamed("m")
			shown := nodeConditionOf(n, machinev1.NodePreserved)
			if shown == nil || !strings.HasPrefix(shown.Message, machinev1.MessagePreservedDrained) ||
				n.Annotations[machinev1.PreservedDrainedAnnotation] != "true" {
				t.Fatalf("condition %+v, annotations %v: MCM reads the one, we the other", shown, n.Annotations)
			}
			tc.change(n)
			if err := w.client.Update(t.Context(), n.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			n.ResourceVersion = w.nodeNamed("m").ResourceVersion
			if err := w.client.Status().Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			w.create(podOn("m")) // somebody examines the node
			w.pass(time.Minute)
			for range 3 {
				_, _ = w.reconcile("m")
			}
			err := w.client.Get(t.Context(), client.ObjectKeyFromObject(podOn("m")), &corev1.Pod{})
			if stays := err == nil; stays != tc.stays {
				t.Errorf("pod stays: %v (%v), want %v: %s", stays, err, tc.stays, tc.reason)
			}
		})
	}
}
