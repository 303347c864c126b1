package machineset

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func heldSet(s *machinev1.MachineSet) {
	s.Annotations = map[string]string{machinev1.MigrationHoldAnnotation: "x"}
}

// temptations are what makes a set act.
func temptations() map[string]struct {
	reason  string
	objects func(changes ...func(*machinev1.MachineSet)) []client.Object
	after   func(*world) bool
} {
	with := func(set *machinev1.MachineSet, changes []func(*machinev1.MachineSet),
		machines ...*machinev1.Machine,
	) []client.Object {
		for _, change := range changes {
			change(set)
		}
		all := []client.Object{set}
		for _, m := range machines {
			all = append(all, m)
		}
		return all
	}
	type changes = []func(*machinev1.MachineSet)
	return map[string]struct {
		reason  string
		objects func(changes ...func(*machinev1.MachineSet)) []client.Object
		after   func(*world) bool
	}{
		"Create": {
			"A set that lacks machines makes none.",
			func(c ...func(*machinev1.MachineSet)) []client.Object { return with(newSet(3), c, newMember("a")) },
			func(w *world) bool { return len(w.alive()) == 3 },
		},
		"Delete": {
			"A set with too many deletes none.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				return with(newSet(1), c, newMember("a"), newMember("b"))
			},
			func(w *world) bool { return len(w.alive()) == 1 },
		},
		"Failed": {
			"A failed machine is not replaced.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				return with(newSet(1), c, newMember("a", phase(machinev1.MachineFailed)))
			},
			func(w *world) bool { return !slices.Contains(w.alive(), "a") },
		},
		"Freeze": {
			"Far too many freeze nothing.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				return with(newSet(0), c, newMember("a"), newMember("b"), newMember("c"), newMember("d"))
			},
			func(w *world) bool { return len(w.alive()) == 0 },
		},
		"Sync": {
			"A changed template does not reach the machines.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				set := newSet(1)
				set.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"l": "v"}
				return with(set, c, newMember("a"))
			},
			func(w *world) bool { return w.machines()[0].Spec.NodeTemplateSpec.Labels["l"] == "v" },
		},
		"Adopt": {
			"An orphan stays one.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				return with(newSet(2), c, newMember("a"), newMember("b", func(m *machinev1.Machine) { m.OwnerReferences = nil }))
			},
			func(w *world) bool { return metav1.GetControllerOf(w.machines()[1]) != nil },
		},
		"Release": {
			"A machine with other labels stays the set's.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				return with(newSet(1), c, newMember("a"), newMember("b", func(m *machinev1.Machine) {
					m.Labels = map[string]string{"pool": "b"}
				}))
			},
			func(w *world) bool { return metav1.GetControllerOf(w.machines()[1]) == nil },
		},
		"Finalizer": {
			"Not even a finalizer is put on it.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				return with(newSet(1), c, newMember("a", func(*machinev1.Machine) {}))
			},
			func(*world) bool { return true },
		},
		"Deleted": {
			"A set that is being deleted keeps its machines, and its finalizer.",
			func(c ...func(*machinev1.MachineSet)) []client.Object {
				going := func(s *machinev1.MachineSet) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
				return with(newSet(1), append(changes{going}, c...), newMember("a"))
			},
			func(w *world) bool { return len(w.alive()) == 0 },
		},
	}
}

// TestHeldSet: a set that is held answers once and does nothing else.
func TestHeldSet(t *testing.T) {
	t.Parallel()
	for name, tc := range temptations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.objects(heldSet)...)
			before := w.machines()
			for range 3 {
				if result, err := w.reconcile(); err != nil || result.RequeueAfter != 0 {
					t.Fatalf("%s %+v, %v; want nothing but the answer", tc.reason, result, err)
				}
			}
			if !machinev1.HoldAnswered(w.set()) || w.writes() != 1 || w.requests["patch"] != 1 {
				t.Errorf("%s writes %v, annotations %v; want the answer alone", tc.reason, w.requests, w.set().Annotations)
			}
			if events, told := w.told(machinev1.EventHeld); told != 1 || len(events) != 1 {
				t.Errorf("%s events %q, want one", tc.reason, events)
			}
			if !equality.Semantic.DeepEqual(before, w.machines()) {
				t.Errorf("%s machines %+v, want %+v", tc.reason, w.machines(), before)
			}
			w.edit(func(s *machinev1.MachineSet) { machinev1.DropHold(s) })
			w.settle()
			if !tc.after(w) {
				t.Errorf("%s Released, it has not done what was asked for: %+v", tc.reason, w.machines())
			}
		})
	}
}

// TestSetWithHeldMachine: a set waits for a machine that is held, says so once, and
// goes on when that is over.
func TestSetWithHeldMachine(t *testing.T) {
	t.Parallel()
	for name, tc := range temptations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tc.objects(), newMember("z", annotated(machinev1.MigrationHoldAnnotation, "x")))...)
			before := w.machines()
			for range 3 {
				if _, err := w.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			if w.writes() != w.requests["status"] || w.requests["status"] != 1 {
				t.Errorf("%s writes %v, want one of the status", tc.reason, w.requests)
			}
			if events, told := w.told(machinev1.EventHeld); told != 1 || len(events) != 1 ||
				!strings.Contains(events[0], "Machine z") {
				t.Errorf("%s events %q, want one that names the machine", tc.reason, events)
			}
			if c := w.set().Status.Progress; c == nil || c.Conditions[0].Reason != machinev1.ReasonHeld ||
				!strings.Contains(c.Conditions[0].Message, "Machine z") {
				t.Errorf("%s progress %+v, want that it waits for machine z", tc.reason, c)
			}
			if !equality.Semantic.DeepEqual(before, w.machines()) {
				t.Errorf("%s machines %+v, want %+v", tc.reason, w.machines(), before)
			}
			for _, m := range w.machines() {
				if machinev1.DropHold(m) {
					if err := w.live.Update(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.writesAfter(t, tc.reason)
		})
	}
}

// writesAfter settles and fails if the set has nothing more to wait for and says so.
func (w *world) writesAfter(t *testing.T, reason string) {
	t.Helper()
	w.settle()
	if c := w.set().Status.Progress; c != nil && c.Conditions[0].Reason == machinev1.ReasonHeld {
		t.Errorf("%s it still says that it waits: %+v", reason, c)
	}
}

// TestHeldOrphan: a machine that is held is not adopted, and the set makes no
// other one in its stead.
func TestHeldOrphan(t *testing.T) {
	t.Parallel()
	orphan := newMember("b", annotated(machinev1.MigrationHoldAnnotation, "x"), func(m *machinev1.Machine) {
		m.OwnerReferences = nil
	})
	w := newWorld(t, newSet(1), orphan)
	w.settle()
	if m := w.machines(); len(m) != 1 || metav1.GetControllerOf(m[0]) != nil {
		t.Errorf("machines %+v, want the orphan as it was", m)
	}
}

// TestHoldUnseen: the API server has a hold that the cache does not show.
func TestHoldUnseen(t *testing.T) {
	t.Parallel()
	holds := map[string]func(*world){
		"OnSet": func(w *world) { w.edit(heldSet) },
		"OnMachine": func(w *world) {
			for _, m := range w.machines() {
				setAnnotation(m, machinev1.MigrationHoldAnnotation, "x")
				if err := w.live.Update(w.t.Context(), m); err != nil {
					w.t.Fatal(err)
				}
			}
		},
	}
	for _, temptation := range []string{"Create", "Delete", "Failed", "Adopt", "Deleted"} {
		for on, holds := range holds {
			if on == "OnSet" && temptation == "Failed" || on == "OnMachine" && temptation == "Deleted" {
				continue // decided by the version of the Machine; by the hold of the Machine, which answers for itself
			}
			t.Run(temptation+on, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, temptations()[temptation].objects()...)
				w.lag(nil)
				holds(w)
				before := w.machines()
				if result, err := w.reconcile(); err != nil || result.RequeueAfter == 0 {
					t.Errorf("%+v, %v; want another look", result, err)
				}
				if !equality.Semantic.DeepEqual(before, w.machines()) {
					t.Errorf("machines %+v, want %+v", w.machines(), before)
				}
			})
		}
	}
}

// TestBornFree: a template cannot hold the machines made from it.
func TestBornFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSet(1, func(s *machinev1.MachineSet) {
		s.Spec.Template.Annotations = map[string]string{machinev1.MigrationHoldAnnotation: "x", "k": "v"}
	}))
	w.settle()
	if m := w.machines(); len(m) != 1 || machinev1.Held(m[0]) || m[0].Annotations["k"] != "v" {
		t.Errorf("machines %+v", m)
	}
}

// TestStaleHoldOfSet: the answer is not given from a set that has changed.
func TestStaleHoldOfSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSet(0, heldSet))
	w.lag(nil)
	w.edit(func(s *machinev1.MachineSet) { machinev1.DropHold(s) })
	_, err := w.c.gate.Answer(context.Background(), func() client.Object {
		s := &machinev1.MachineSet{}
		if err := w.cache.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "set"}, s); err != nil {
			t.Fatal(err)
		}
		return s
	}(), nil)
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
}
