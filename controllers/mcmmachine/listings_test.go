package mcmmachine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func TestOutageCostsNoCallPerMachine(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		w.running(name)
	}
	w.pass(time.Hour)
	w.cloud.AddFault(sim.Fault{Op: "*", Mode: sim.FaultThrottle})
	before := w.cloud.Calls("*")
	for range 10 {
		for _, name := range names {
			_, _ = w.reconcile(name)
		}
		w.pass(time.Second)
	}
	if got := w.cloud.Calls("*") - before; got != 1 {
		t.Errorf("%d calls in ten seconds of an outage, want one for the account", got)
	}
}

func TestManySickNodesShareALook(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		w.running(name)
	}
	w.pass(5 * time.Minute)
	before := w.cloud.Calls("*")
	for _, name := range names {
		w.nodeHealthy(name, metav1.ConditionFalse)
		if wait := w.run(name); wait > time.Minute {
			t.Errorf("%s comes back after %s although its Node is sick", name, wait)
		}
	}
	if got := w.cloud.Calls("*") - before; got != 1 {
		t.Errorf("%d calls, want one listing for all", got)
	}
}
