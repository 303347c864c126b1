package machine

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestAHealthyNodeOutweighsWhatIsWrong: a machine whose node is healthy is neither replaced
// nor made again, whatever the cloud shows and whatever time the manager thinks it is.
func TestAHealthyNodeOutweighsWhatIsWrong(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		happen func(*env)
	}{
		"EmptyList": {"a permission was taken away, and the cloud shows no VM any more", func(w *env) {
			for _, r := range w.cloud.VMs() {
				w.cloud.Terminate(r.ID, "NotShown")
			}
		}},
		"ClockAhead":  {"the clock of the manager is an hour ahead", func(w *env) { w.pass(time.Hour) }},
		"ClockBehind": {"the clock of the manager is an hour behind", func(w *env) { w.pass(-time.Hour) }},
	}
	for name, tc := range cases {
		for _, restarts := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newEnv(t, interceptor.Funcs{})
				w.running("m")
				tc.happen(w)
				if restarts {
					w.restart()
				}
				for range 5 {
					if _, err := w.reconcile("m"); err != nil {
						t.Fatal(err)
					}
					w.pass(5 * time.Minute)
				}
				if made, _ := w.vms(); made != 1 || w.phase("m") != machinev1.MachineRunning {
					t.Errorf("%d VMs made, phase %q: %s", made, w.phase("m"), tc.reason)
				}
			})
		}
	}
}
