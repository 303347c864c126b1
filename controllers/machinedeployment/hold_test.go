package machinedeployment

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// temptations are what makes a deployment act, and what then becomes of it.
func temptations() map[string]struct {
	reason string
	tempt  func(*world)
	after  func(*world) bool
} {
	return map[string]struct {
		reason string
		tempt  func(*world)
		after  func(*world) bool
	}{
		"Scale": {
			"It is not scaled.",
			func(w *world) { w.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec.Replicas = 5 }) },
			func(w *world) bool { return len(w.live()) == 5 },
		},
		"Roll": {
			"A changed template is not rolled out.",
			func(w *world) { w.changeSpec(class("v2")) },
			func(w *world) bool { return len(w.sets()) == 2 && w.deployment().Status.UpdatedReplicas == 2 },
		},
		"Template": {
			"What is changed in place stays as it is.",
			func(w *world) {
				w.changeSpec(func(d *machinev1.MachineDeployment) {
					d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"l": "v"}
				})
			},
			func(w *world) bool { return w.sets()[0].Spec.Template.Spec.NodeTemplateSpec.Labels["l"] == "v" },
		},
		"Choice": {
			"A scaler's choice is not marked.",
			func(w *world) {
				w.changeSpec(func(d *machinev1.MachineDeployment) {
					annotate(d, machinev1.TriggerDeletionAnnotation, w.machines()[1].Name+"~2026-01-01T12:00:00Z")
				})
			},
			func(w *world) bool {
				return w.machines()[1].Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
			},
		},
		"Deleted": {
			"One that is being deleted keeps its sets, and its finalizer.",
			func(w *world) {
				if err := w.client.Delete(w.t.Context(), w.deployment()); err != nil {
					w.t.Fatal(err)
				}
			},
			func(w *world) bool { return w.deployment() == nil && len(w.machines()) == 0 },
		},
	}
}

// counted are the writes, status included.
func (w *world) counted() int {
	n := 0
	for _, count := range w.writes {
		n += count
	}
	return n
}

// TestHeldDeployment: a deployment that is held answers once and does nothing else.
func TestHeldDeployment(t *testing.T) {
	t.Parallel()
	for name, tc := range temptations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment(2))
			w.run()
			tc.tempt(w)
			change(w, w.deployment(), func(d *machinev1.MachineDeployment) {
				annotate(d, machinev1.MigrationHoldAnnotation, "x")
			})
			sets, machines, writes := w.sets(), w.machines(), w.counted()
			w.eventsOf("")
			for range 3 {
				if result := w.pass(); result.RequeueAfter != 0 {
					t.Errorf("%s %+v, want no wait", tc.reason, result)
				}
			}
			if !machinev1.HoldAnswered(w.deployment()) || w.counted() != writes+1 {
				t.Errorf("%s %d writes, annotations %v; want the answer alone", tc.reason, w.counted()-writes,
					w.deployment().Annotations)
			}
			if told := w.eventsOf(""); len(told) != 1 || !strings.Contains(told[0], machinev1.EventHeld) {
				t.Errorf("%s events %q, want one", tc.reason, told)
			}
			if !equality.Semantic.DeepEqual(sets, w.sets()) || !equality.Semantic.DeepEqual(machines, w.machines()) {
				t.Errorf("%s\n%s", tc.reason, w.describe())
			}
			change(w, w.deployment(), func(d *machinev1.MachineDeployment) { machinev1.DropHold(d) })
			w.until("what was asked for happens", func() bool { return tc.after(w) })
		})
	}
}

// TestDeploymentWithHeldPart: a deployment waits for a set or machine that is
// held, says so once, and goes on when that is over.
func TestDeploymentWithHeldPart(t *testing.T) {
	t.Parallel()
	parts := map[string]func(*world) client.Object{
		"MachineSet": func(w *world) client.Object { return &w.sets()[0] },
		"Machine":    func(w *world) client.Object { return &w.machines()[0] },
	}
	for name, tc := range temptations() {
		for kind, part := range parts {
			t.Run(name+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, deployment(2))
				w.run()
				change(w, part(w), func(o client.Object) { annotate(o, machinev1.MigrationHoldAnnotation, "x") })
				tc.tempt(w)
				sets, machines := w.sets(), w.machines()
				w.eventsOf("")
				for range 3 {
					w.pass()
				}
				if told := w.eventsOf(machinev1.EventHeld); len(told) != 1 || !strings.Contains(told[0], part(w).GetName()) {
					t.Errorf("%s events %q, want one that names %s", tc.reason, told, part(w).GetName())
				}
				if text := w.waitsFor(); !strings.Contains(text, machinev1.ReasonHeld) {
					t.Errorf("%s it waits for %q, want %s", tc.reason, text, machinev1.ReasonHeld)
				}
				if !equality.Semantic.DeepEqual(sets, w.sets()) || !equality.Semantic.DeepEqual(machines, w.machines()) {
					t.Errorf("%s\n%s", tc.reason, w.describe())
				}
				change(w, part(w), func(o client.Object) { machinev1.DropHold(o) })
				w.until("what was asked for happens", func() bool { return tc.after(w) })
				if w.deployment() != nil && strings.Contains(w.waitsFor(), machinev1.ReasonHeld) {
					t.Errorf("%s it still waits: %s", tc.reason, w.waitsFor())
				}
			})
		}
	}
}

// waitsFor is what the deployment says that its replicas wait for.
func (w *world) waitsFor() string {
	if p := w.deployment().Status.Progress; p != nil {
		for _, c := range p.Conditions {
			if c.Type == machinev1.ConditionReplicasReady {
				return c.Reason + ": " + c.Message
			}
		}
	}
	return ""
}

// TestHeldSetIsNotAdopted: nor does the deployment make another in its stead.
func TestHeldSetIsNotAdopted(t *testing.T) {
	t.Parallel()
	set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "orphan", UID: "uid-orphan", Labels: map[string]string{"pool": "a"},
		Annotations: map[string]string{machinev1.MigrationHoldAnnotation: "x"},
	}}
	set.Spec = machinev1.MachineSetSpec{
		Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
		Template: deployment(0).Spec.Template,
	}
	w := newWorld(t, deployment(2), set)
	for range 3 {
		w.pass()
	}
	if all := w.sets(); len(all) != 1 || metav1.GetControllerOf(&all[0]) != nil {
		t.Errorf("sets %+v, want the orphan as it was", all)
	}
	change(w, set, func(s *machinev1.MachineSet) { machinev1.DropHold(s) })
	w.until("it is adopted", func() bool { return metav1.IsControlledBy(&w.sets()[0], w.deployment()) })
}

// TestHoldStaysWhereItIs: a hold on the deployment is none on its sets.
func TestHoldStaysWhereItIs(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation,
		machinev1.MigrationHeldSinceAnnotation,
	} {
		if travels(key) {
			t.Errorf("%s is copied to the sets", key)
		}
	}
}

// lagging reads the deployment as it was.
type lagging struct {
	client.Client
	was *machinev1.MachineDeployment
}

func (l lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if d, ok := o.(*machinev1.MachineDeployment); ok {
		l.was.DeepCopyInto(d)
		return nil
	}
	return l.Client.Get(ctx, key, o, opts...)
}

// TestHoldOfAnotherLeader: a process that has just taken over sees a deployment as
// it was before the hold that its predecessor answered.
func TestHoldOfAnotherLeader(t *testing.T) {
	t.Parallel()
	for name, tc := range temptations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment(2))
			w.run()
			tc.tempt(w)
			was := w.deployment()
			change(w, w.deployment(), func(d *machinev1.MachineDeployment) {
				annotate(d, machinev1.MigrationHoldAnnotation, "x")
			})
			w.pass()
			sets, machines := w.sets(), w.machines()
			w.c = New(w.c.Deps)
			w.c.Client = lagging{w.client, was}
			for range 3 {
				if result, err := w.try(); result.RequeueAfter == 0 && err == nil {
					t.Errorf("%s it does not look again", tc.reason)
				}
			}
			if !equality.Semantic.DeepEqual(sets, w.sets()) || !equality.Semantic.DeepEqual(machines, w.machines()) {
				t.Errorf("%s\n%s", tc.reason, w.describe())
			}
		})
	}
}

// TestUnseenHoldOfSet: the API server has a hold on a set that the cache does not
// show. The deployment makes no other set.
func TestUnseenHoldOfSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(2))
	w.run()
	w.changeSpec(class("v2"))
	p, err := w.c.observe(t.Context(), w.deployment())
	if err != nil {
		t.Fatal(err)
	}
	change(w, &w.sets()[0], func(s *machinev1.MachineSet) { annotate(s, machinev1.MigrationHoldAnnotation, "x") })
	if err := p.act(t.Context()); !apierrors.IsConflict(err) || len(w.sets()) != 1 {
		t.Errorf("got %v and %d sets, want a conflict and one", err, len(w.sets()))
	}
}
