package machineset

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func deletedSet(replicas int32, changes ...func(*machinev1.MachineSet)) *machinev1.MachineSet {
	return newSet(replicas, append([]func(*machinev1.MachineSet){func(s *machinev1.MachineSet) {
		s.DeletionTimestamp = new(metav1.Now())
	}}, changes...)...)
}

func (w *world) gone() bool {
	err := w.live.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "set"}, &machinev1.MachineSet{})
	return client.IgnoreNotFound(err) == nil && err != nil
}

func TestRemove(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		set    *machinev1.MachineSet
	}{
		"Valid": {reason: "A set takes its machines with it.", set: deletedSet(2)},
		"Invalid": {
			reason: "A set that is wrong can be deleted all the same.",
			set:    deletedSet(2, func(s *machinev1.MachineSet) { s.Spec = machinev1.MachineSetSpec{Replicas: -1} }),
		},
		"Other": {reason: "Machines go whatever their labels are.", set: deletedSet(2, func(s *machinev1.MachineSet) {
			s.Spec.Selector.MatchLabels["pool"] = "b"
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.set, newMember("a"), newMember("b"))
			w.settle()
			if n := len(w.alive()); n != 0 || len(w.machines()) != 2 || w.gone() {
				t.Fatalf("%s %d machines are alive, the set is gone: %v", tc.reason, n, w.gone())
			}
			if kind := w.machine("a").Spec.Class.Kind; kind != machinev1.MachineClassKind {
				t.Errorf("%s the class of a machine has become %q", tc.reason, kind)
			}
			w.vanish()
			_, _ = w.reconcile()
			if !w.gone() {
				t.Errorf("%s it is not gone after its machines", tc.reason)
			}
		})
	}
}

// The set stays until the API server has no machine of it, also if the cache
// has not seen one yet.
func TestRemoveWaitsForUnseenMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deletedSet(1), newMember("a"))
	w.lag(func(o client.Object) bool { return !isMachine(o) })
	for range 2 {
		_, _ = w.reconcile()
	}
	if w.gone() {
		t.Error("the set was let go before its machine")
	}
}

// kubectl delete --cascade=orphan: the garbage collector takes the owner away
// from the machines, and they live on.
func TestRemoveLeavesOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deletedSet(1, func(s *machinev1.MachineSet) {
		s.Finalizers = append(s.Finalizers, metav1.FinalizerOrphanDependents)
	}), newMember("a"))
	w.settle()
	if n := len(w.alive()); n != 1 || w.gone() {
		t.Fatalf("%d machines are alive, the set is gone: %v", n, w.gone())
	}
	m := w.machine("a")
	m.OwnerReferences = nil
	if err := w.live.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.edit(func(s *machinev1.MachineSet) {
		s.Finalizers = slices.DeleteFunc(s.Finalizers, func(f string) bool { return f == metav1.FinalizerOrphanDependents })
	})
	_, _ = w.reconcile()
	if len(w.alive()) != 1 || !w.gone() {
		t.Errorf("%d machines are alive, the set is gone: %v", len(w.alive()), w.gone())
	}
}

func TestDeleteFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newSet(0), newMember("a"), newMember("b"))
	fail := true
	w.fault = func(verb string, _ client.Object) error {
		if verb == "delete" && fail {
			return errBoom
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil {
		t.Error("a failed deletion is tried again, so it is an error")
	}
	set := w.set()
	if len(set.Status.Conditions) == 0 || set.Status.Conditions[0].Reason != machinev1.ReasonFailedDelete {
		t.Errorf("conditions: %+v", set.Status.Conditions)
	}
	if _, count := w.told(machinev1.EventFailedDelete); count != 1 {
		t.Errorf("%d Events tell of it", count)
	}
	fail = false
	w.settle()
	w.vanish()
	w.settle()
	if len(w.machines()) != 0 || len(w.set().Status.Conditions) != 0 {
		t.Errorf("machines %v, conditions %v", w.alive(), w.set().Status.Conditions)
	}
}

func TestStaleMachinesAreCounted(t *testing.T) {
	t.Parallel()
	before := testutil.ToFloat64(StaleMachines)
	unhealthy := func(m *machinev1.Machine) {
		m.Status.LastOperation.Type = machinev1.MachineOperationHealthCheck
	}
	w := newWorld(t, newSet(3), newMember("a", phase(machinev1.MachineFailed), unhealthy),
		newMember("b", phase(machinev1.MachineFailed)), newMember("c", unhealthy))
	w.settle()
	if got := testutil.ToFloat64(StaleMachines) - before; got != 1 {
		t.Errorf("counted %v machines, want 1: those that failed their health check", got)
	}
}
