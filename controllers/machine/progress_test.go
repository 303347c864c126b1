package machine

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestAFreezeThatIsOverIsNotToldAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{})
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(newMachine("m", w.clock.Now()))
	frozen := true
	w.controller.Frozen = func() bool { return frozen }
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionNodeReady); said == "" {
		t.Fatal("a freeze has to be told")
	}
	frozen = false
	w.pass(time.Second)
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionNodeReady); said != "" {
		t.Errorf("condition %q of a machine that has no node and is not frozen", said)
	}
}
