package plan

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

// TestReadingAFleetTakesAFewCalls however many machines and pools there are.
func TestReadingAFleetTakesAFewCalls(t *testing.T) {
	t.Parallel()
	calls := map[int]int{}
	for _, n := range []int{1, 8} {
		var states []*migration.PoolState
		for i := range n {
			states = append(states, pools.NativePool("pool-"+string(rune('a'+i)), 30))
		}
		c := pools.Served(t, states...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				opts ...client.GetOption,
			) error {
				calls[n]++
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				calls[n]++
				return c.List(ctx, list, opts...)
			},
		}).Build()
		fleet, err := migration.ReadFleet(t.Context(), migration.Readers{Control: c, Target: c}, pools.TestNamespace, "shoot")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range All(fleet, pools.ToCluster()) {
			if len(p.Blocked()) > 0 || len(p.Machines) != 30 {
				t.Errorf("%s: %d machines, blocked by %v", p.Pool, len(p.Machines), p.Blocked())
			}
		}
	}
	if calls[1] != calls[8] || calls[8] > 24 {
		t.Errorf("calls for one pool and for eight: %v, want the same few", calls)
	}
}

func BenchmarkPlanOfThousandMachines(b *testing.B) {
	c := pools.Served(b, pools.NativePool("pool", 1000)).Build()
	for b.Loop() {
		fleet, err := migration.ReadFleet(b.Context(), migration.Readers{Control: c, Target: c}, pools.TestNamespace, "shoot")
		if err != nil {
			b.Fatal(err)
		}
		if plans := All(fleet, pools.ToCluster()); len(plans[0].Machines) != 1000 || len(plans[0].Blocked()) > 0 {
			b.Fatalf("%d machines, blocked by %v", len(plans[0].Machines), plans[0].Blocked())
		}
	}
}
