package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// obstacle makes writes to the target cluster fail for as long as fails is true.
type obstacle struct {
	reason string
	fails  func(verb string, o client.Object) bool
	err    error
}

var (
	errWebhook = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "app", errors.New("refused by a webhook"))
	errNoRoute = errors.New("dial tcp: no route to host")
)

// faults are those of a client that the obstacle stands before, while it does.
func (f obstacle) faults(stands *bool) interceptor.Funcs {
	blocked := func(verb string, o client.Object) bool { return *stands && f.fails(verb, o) }
	return interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if blocked("delete", o) {
				return f.err
			}
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			if blocked("patch", o) {
				return f.err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if blocked(sub, o) {
				return f.err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

func ofTarget(o client.Object) bool {
	switch o.(type) {
	case *corev1.Node, *corev1.Pod, *storagev1.VolumeAttachment:
		return true
	}
	return false
}

func obstacles() map[string]obstacle {
	isNode := func(o client.Object) bool { _, ok := o.(*corev1.Node); return ok }
	isPod := func(o client.Object) bool { _, ok := o.(*corev1.Pod); return ok }
	return map[string]obstacle{
		"Webhook": {
			"A webhook that refuses to delete a pod.",
			func(verb string, o client.Object) bool { return verb == "delete" && isPod(o) }, errWebhook,
		},
		"Cordon": {
			"A node that cannot be cordoned.",
			func(verb string, o client.Object) bool { return verb == "patch" && isNode(o) }, errNoRoute,
		},
		"Condition": {
			"A node whose condition cannot be set.",
			func(verb string, o client.Object) bool { return verb == "status" && isNode(o) }, errNoRoute,
		},
		"Unreachable": {
			"A target cluster that cannot be reached.",
			func(_ string, o client.Object) bool { return ofTarget(o) }, errNoRoute,
		},
	}
}

// obstructed is an env whose running Machine m is deleted, and whose drain fails.
func obstructed(t *testing.T, f obstacle, prepare func(*env)) (w *env, stands *bool) {
	t.Helper()
	stands = new(bool)
	w = newEnv(t, f.faults(stands))
	w.running("m")
	w.create(podOn("m"))
	prepare(w)
	*stands = true
	w.delete(w.machine("m"))
	return w, stands
}

// passes runs that many passes, however they end.
func (w *env) passes(n int) {
	w.Helper()
	for range n {
		_, _ = w.reconcile("m")
		w.pass(10 * time.Second)
	}
}

func forceLabel(value string) func(*env) {
	return func(w *env) {
		m := w.machine("m")
		m.Labels[machinev1.ForceDeletionLabel] = value
		w.update(m)
	}
}

func TestForcedDeletionContinuesAfterFailedDrain(t *testing.T) {
	t.Parallel()
	forces := map[string]struct {
		prepare, later func(*env)
		why            string
	}{
		"Label": {forceLabel("True"), func(*env) {}, "label force-deletion"},
		"Timeout": {func(*env) {}, func(w *env) {
			w.pass(3 * time.Hour)
		}, "drain timeout of 2h0m0s"},
		"NotReady": {func(w *env) { w.setUnready("m"); w.pass(6 * time.Minute) }, func(*env) {}, "unready"},
	}
	for name, f := range obstacles() {
		for by, force := range forces {
			t.Run(name+by, func(t *testing.T) {
				t.Parallel()
				w, stands := obstructed(t, f, force.prepare)
				force.later(w)
				w.passes(8)
				if _, live := w.vms(); live != 0 {
					t.Fatalf("%d VMs: %s keeps the VM of a machine that is deleted by force: %s", live, f.reason,
						w.machine("m").Status.LastOperation.Description)
				}
				if said := w.heardOne("DrainSkipped"); !strings.Contains(said, force.why) {
					t.Errorf("Event %q has to name why the deletion is forced: %s", said, force.why)
				}
				*stands = false
				w.settle("m", func() bool { return w.machine("m") == nil })
			})
		}
	}
}

func TestDeletionThatIsNotForcedWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	all := obstacles()
	delete(all, "Webhook") // a drain that is not forced evicts
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := obstructed(t, f, func(*env) {})
			w.passes(8)
			if _, live := w.vms(); live != 1 {
				t.Errorf("%d VMs: %s must not cost a VM before the drain timeout", live, f.reason)
			}
			op := w.machine("m").Status.LastOperation
			if op.State != machinev1.MachineStateFailed || !strings.HasSuffix(op.Description, machinev1.StepDrain) {
				t.Errorf("%+v: what keeps a node from being drained is a failure", op)
			}
		})
	}
}

// Failures that differ in a number only, such as a port, are not a write each.
func TestSkippedDrainKeepsItsFirstMessage(t *testing.T) {
	t.Parallel()
	p := &pass{machine: newMachine("m", time.Time{}), node: &corev1.Node{}}
	p.seen.before = p.machine.DeepCopy()
	skipDrain(t.Context(), p, "label x", errors.New("port 1"))
	first := p.did.drained.message
	p.seen.before.Status.Progress = &machinev1.Progress{Conditions: []metav1.Condition{drainCondition(p.did.drained)}}
	skipDrain(t.Context(), p, "label x", errors.New("port 2"))
	if p.did.drained.message != first || !strings.Contains(first, "port 1") || len(p.did.events) != 1 {
		t.Errorf("message %q, first %q, %d Events", p.did.drained.message, first, len(p.did.events))
	}
}

// As in MCM, a deletion by force waits for the VolumeAttachments of a node that reports
// attached volumes: they are removed before the VM is.
func TestForcedDeletionWaitsForVolumeAttachments(t *testing.T) {
	t.Parallel()
	f := obstacles()["Unreachable"]
	w, stands := obstructed(t, f, func(w *env) {
		forceLabel("true")(w)
		n := w.nodeNamed("m")
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/x^1"}}
		if err := w.client.Status().Update(w.Context(), n); err != nil {
			w.Fatal(err)
		}
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}}
		va.Spec.NodeName = "m"
		w.create(va)
	})
	w.passes(8)
	if _, live := w.vms(); live != 1 {
		t.Fatalf("%d VMs: volumes are attached, and nothing else detaches them", live)
	}
	*stands = false
	w.settle("m", func() bool { return w.machine("m") == nil })
}

// heardOne returns the one Event of that reason; it fails if there is none or more.
func (w *env) heardOne(reason string) string {
	w.Helper()
	var found []string
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.Contains(e, " "+reason+" ") {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		w.Fatalf("Events with reason %s: %q, want one", reason, found)
	}
	return found[0]
}

// As in MCM, drainTimeout: 0s is over at once: nothing waits for the pods.
func TestZeroDrainTimeoutForcesAtOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, refusing())
	w.running("m")
	w.create(podOn("m"))
	m := w.machine("m")
	m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineDrainTimeout: &metav1.Duration{}}
	w.update(m)
	w.delete(m)
	w.passes(8)
	if w.machine("m") != nil {
		t.Errorf("%+v", w.machine("m").Status)
	}
}
