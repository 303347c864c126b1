package mcmmachine

import (
	"errors"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/carried"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var errNotRecorded = errors.New("not recorded")

// states bring machine m to a state of its life.
func states() map[string]func(*env) {
	created := func(w *env) { // and not recorded
		w.Fault = func(r harness.Request) error {
			if m, ok := r.Object.(*infrav1.MCMMachine); ok && m.Spec.ProviderID != "" {
				return errNotRecorded
			}
			return nil
		}
		for range 5 {
			_, _ = w.reconcile("m")
		}
		w.Fault = nil
		if _, live := w.vms(); live != 1 || w.get("m").Spec.ProviderID != "" {
			w.Fatalf("%d VMs, providerID %q", live, w.get("m").Spec.ProviderID)
		}
	}
	provisioned := func(w *env) { w.settle("m", w.isProvisioned("m")) }
	return map[string]func(*env){
		"New": func(*env) {},
		"Requested": func(w *env) {
			w.cloud.SetCapacity("sim-1a", "small", 0)
			for range 3 {
				_, _ = w.reconcile("m")
			}
			w.cloud.SetCapacity("sim-1a", "small", -1)
		},
		"Created":     created,
		"Recorded":    func(w *env) { w.settle("m", func() bool { return w.get("m").Spec.ProviderID != "" }) },
		"Provisioned": provisioned,
		"CreatedAndDeleting": func(w *env) {
			created(w)
			w.delete(w.get("m"))
		},
		"Deleting": func(w *env) {
			provisioned(w)
			w.delete(w.get("m"))
		},
		"VMDeleting": func(w *env) {
			provisioned(w)
			w.delete(w.get("m"))
			_, _ = w.reconcile("m")
		},
	}
}

// TestNothingThatAnMCMMachineLosesLosesItsVM takes each annotation that docs/annotations.md lists, the
// finalizers and the status away from an MCMMachine that has its id from before a move, alone and
// together, in each state of its life.
func TestNothingThatAnMCMMachineLosesLosesItsVM(t *testing.T) {
	t.Parallel()
	strips := map[string]func(*infrav1.MCMMachine){
		"annotations": func(m *infrav1.MCMMachine) { m.Annotations = nil },
		"status":      func(m *infrav1.MCMMachine) { m.Status = infrav1.MCMMachineStatus{} },
		"finalizers": func(m *infrav1.MCMMachine) {
			if m.DeletionTimestamp.IsZero() { // else the object goes with the last one
				m.Finalizers = nil
			}
		},
	}
	strips["annotations and status"] = func(m *infrav1.MCMMachine) {
		m.Annotations, m.Status = nil, infrav1.MCMMachineStatus{}
	}
	for _, name := range carried.Names(t, "MCMMachine") {
		strips[name] = func(m *infrav1.MCMMachine) { delete(m.Annotations, name) }
	}
	for state, reach := range states() {
		for what, strip := range strips {
			for _, restarts := range []bool{false, true} {
				t.Run(state+"/"+strings.TrimPrefix(what, machinev1.OurPrefix), func(t *testing.T) {
					t.Parallel()
					w := newEnv(t)
					objects := w.newMachine("m")
					machinev1.SetAnnotation(objects[0], machinev1.OwnerIDAnnotation, "before-the-move")
					w.create(objects...)
					reach(w)
					change(w, w.get("m"), strip)
					if restarts {
						w.restart()
					}
					w.endsWell()
				})
			}
		}
	}
}

// endsWell lets machine m live until it has its VM, deletes it, and fails unless it had one VM at a time, and
// nothing is left.
func (w *env) endsWell() {
	w.Helper()
	if m := w.get("m"); m != nil && m.DeletionTimestamp.IsZero() {
		w.settle("m", func() bool {
			if _, live := w.vms(); live > 1 {
				w.Fatalf("%d VMs at a time", live)
			}
			return w.get("m").Spec.ProviderID != "" && provisioned(w.get("m"))
		})
		w.delete(w.get("m"))
	}
	for range 60 {
		if w.get("m") == nil {
			break
		}
		result, err := w.reconcile("m")
		if err != nil {
			w.Logf("pass failed: %v", err)
		}
		w.pass(max(result.RequeueAfter, time.Second))
	}
	if m := w.get("m"); m != nil {
		w.Errorf("it stays: %+v", m.Status.Conditions)
	}
	if left := w.cloud.Live(); len(left) > 0 {
		w.Errorf("left behind: %+v", left)
	}
}
