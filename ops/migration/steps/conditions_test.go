package steps

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

// TestNotReconciled: after an API server was killed, Cluster API's MachineSet controller wrote the
// conditions of a MachineSet, failed to write a Machine, and did not come back for minutes. It has
// taken the MachineSet over nevertheless, and the move goes on.
func TestNotReconciled(t *testing.T) {
	t.Parallel()
	of := func(kind string, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, ObservedGeneration: generation}
	}
	for name, c := range map[string]struct {
		observed   int64
		conditions []metav1.Condition
		waits      bool
	}{
		"only unpaused":               {conditions: []metav1.Condition{of(clusterv1.PausedCondition, 2)}, waits: true},
		"conditions of another spec":  {observed: 1, conditions: []metav1.Condition{of("ScalingUp", 1)}, waits: true},
		"a reconcile without error":   {observed: 2},
		"a reconcile that has failed": {observed: 1, conditions: []metav1.Condition{of("ScalingUp", 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			set.Status.ObservedGeneration, set.Status.Conditions = c.observed, c.conditions
			if why := notYet(&migration.PoolState{}, set); (why != "") != c.waits {
				t.Errorf("waits for %q", why)
			}
		})
	}
}
