package machine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/carried"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var errNotRecorded = errors.New("not recorded")

// statesOfMachine bring a Machine to a state of its life.
func statesOfMachine() map[string]func(*env, string) {
	created := func(w *env, name string) { // and not recorded
		w.Fault = func(r harness.Request) error {
			if m, ok := r.Object.(*machinev1.Machine); ok && m.Spec.ProviderID != "" {
				return errNotRecorded
			}
			return nil
		}
		for range 5 {
			_, _ = w.reconcile(name)
		}
		w.Fault = nil
		if _, live := w.vms(); live != 1 || w.machine(name).Spec.ProviderID != "" {
			w.Fatalf("%d VMs, providerID %q", live, w.machine(name).Spec.ProviderID)
		}
	}
	running := func(w *env, name string) {
		w.settle(name, func() bool { return w.phase(name) == machinev1.MachinePending })
		w.join(name, corev1.ConditionTrue)
		w.settle(name, func() bool { return w.phase(name) == machinev1.MachineRunning })
	}
	return map[string]func(*env, string){
		"New": func(*env, string) {},
		"Requested": func(w *env, name string) {
			w.cloud.SetCapacity("sim-1a", "small", 0)
			for range 3 {
				_, _ = w.reconcile(name)
			}
			w.cloud.SetCapacity("sim-1a", "small", -1)
		},
		"Created": created,
		"Recorded": func(w *env, name string) {
			w.settle(name, func() bool { return w.machine(name).Spec.ProviderID != "" })
		},
		"Running": running,
		"CreatedAndDeleting": func(w *env, name string) {
			created(w, name)
			w.delete(w.machine(name))
		},
		"Deleting": func(w *env, name string) {
			running(w, name)
			w.delete(w.machine(name))
		},
		"VMDeleting": func(w *env, name string) {
			running(w, name)
			w.delete(w.machine(name))
			_, _ = w.reconcile(name)
		},
	}
}

// TestNothingThatAMachineLosesLosesItsVM takes each annotation and label that docs/annotations.md lists, the finalizers
// and the status away from a Machine, alone and all together, in each state of its life.
func TestNothingThatAMachineLosesLosesItsVM(t *testing.T) {
	t.Parallel()
	strips := map[string]func(*machinev1.Machine){
		"annotations": func(m *machinev1.Machine) { m.Annotations = nil },
		"labels":      func(m *machinev1.Machine) { m.Labels = nil },
		"status":      func(m *machinev1.Machine) { m.Status = machinev1.MachineStatus{} },
		"finalizers": func(m *machinev1.Machine) {
			if m.DeletionTimestamp.IsZero() { // else the object goes with the last one
				m.Finalizers = nil
			}
		},
	}
	strips["everything"] = func(m *machinev1.Machine) {
		for _, of := range []string{"annotations", "labels", "status", "finalizers"} {
			strips[of](m)
		}
	}
	for _, name := range carried.Names(t, "Machine") {
		strips[name] = func(m *machinev1.Machine) { delete(m.Annotations, name) }
	}
	if !slices.Contains(carried.Names(t, "Machine"), machinev1.OwnerIDAnnotation) {
		t.Fatal("the page names no owner id")
	}
	for state, reach := range statesOfMachine() {
		for what, strip := range strips {
			for _, restarts := range []bool{false, true} {
				t.Run(state+"/"+strings.TrimPrefix(what, machinev1.OurPrefix), func(t *testing.T) {
					t.Parallel()
					w := newEnv(t, interceptor.Funcs{})
					m := w.ofSet()
					w.create(m)
					reach(w, m.Name)
					harness.Edit(w.Cluster, w.machine(m.Name), strip)
					if restarts {
						w.restart()
					}
					w.endsWell(m.Name)
				})
			}
		}
	}
}

// endsWell lets a Machine live until it has its VM, deletes it, and fails unless it had one VM at a time, and
// nothing is left.
func (w *env) endsWell(name string) {
	w.Helper()
	if m := w.machine(name); m != nil && m.DeletionTimestamp.IsZero() {
		w.settle(name, func() bool {
			if _, live := w.vms(); live > 1 {
				w.Fatalf("%d VMs at a time", live)
			}
			return w.machine(name).Spec.ProviderID != "" && w.machine(name).Status.CurrentStatus.Phase != ""
		})
		w.delete(w.machine(name))
	}
	for range 60 {
		if w.machine(name) == nil {
			break
		}
		result, err := w.reconcile(name)
		if err != nil {
			w.Logf("pass failed: %v", err)
		}
		w.pass(max(result.RequeueAfter, 1e9))
	}
	if m := w.machine(name); m != nil {
		w.Errorf("it stays: %s, %+v", w.condition(name, machinev1.ConditionDeleted), m.Status.LastOperation)
	}
	if left := w.cloud.Live(); len(left) > 0 {
		w.Errorf("left behind: %+v", left)
	}
}
