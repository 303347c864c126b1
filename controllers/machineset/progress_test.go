package machineset

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestConsolesAreSummedUp: a fault of the whole pool is seen at the pool.
func TestConsolesAreSummedUp(t *testing.T) {
	t.Parallel()
	failed := func(message string) *machinev1.Machine {
		m := &machinev1.Machine{}
		m.Name = "a"
		m.Status.LastOperation = machinev1.LastOperation{State: machinev1.MachineStateFailed, Description: "failed to join"}
		m.Status.Progress = &machinev1.Progress{Conditions: []metav1.Condition{{
			Type: machinev1.ConditionNodeReady, Status: metav1.ConditionFalse, Message: message,
		}}}
		return m
	}
	const ca, swap = "Node a does not exist; console: TLS unknown CA", "Node a does not exist; console: swap is on"
	for name, c := range map[string]struct {
		reason   string
		machines []*machinev1.Machine
		want     string
	}{
		"All": {
			"One cause is that of the pool.",
			[]*machinev1.Machine{failed(ca), failed(ca), failed(ca)},
			"; a: failed to join; 3 of 3 did not join: TLS unknown CA (console)",
		},
		"Some": {
			"Others have another cause, or none that is known.",
			[]*machinev1.Machine{failed(ca), failed(swap), failed("x")},
			"; a: failed to join; 1 of 3 did not join: TLS unknown CA (console)",
		},
		"None": {"Nothing is known.", []*machinev1.Machine{failed("x"), {}}, "; a: failed to join"},
	} {
		if got := firstFailure(c.machines); got != c.want {
			t.Errorf("%s: got %q, want %q\nbecause: %s", name, got, c.want, c.reason)
		}
	}
}
