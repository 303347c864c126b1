package steps

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// holdOldSide puts the old side to rest, from the head down. Before the machines
// are held, what was begun with them comes to its end: the ones that are being
// made get their VM, the ones that are being deleted go.
func (e *Engine) holdOldSide(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	old := m.To.Other()
	if done, err := e.takeBounds(ctx, m, s); err != nil || !done {
		return "", err
	}
	tiers := s.Tiers(old)
	for _, tier := range tiers[:2] {
		if missing, err := e.pause(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return pausePending(old, missing), err
		}
	}
	if waiting := unsettled(s, old); waiting != "" {
		return e.finishBegun(ctx, s, old, waiting)
	}
	if missing, err := e.pause(ctx, m.Hold, slices.Concat(tiers[2:]...)); err != nil || len(missing) > 0 {
		return pausePending(old, missing), err
	}
	m.Generation = s.Generation(old)
	return "", e.enter(ctx, m, s, migration.PhaseCopying)
}

// going are the objects of tiers that are being deleted.
func going(tiers [][]client.Object) []client.Object {
	return slices.DeleteFunc(slices.Concat(tiers...), func(o client.Object) bool {
		return o.GetDeletionTimestamp().IsZero()
	})
}

// pausePending says whose answer is waited for.
func pausePending(d migration.API, missing []client.Object) string {
	if len(missing) == 0 {
		return ""
	}
	who := "the native API's controllers"
	if d == migration.ClusterAPI {
		who = "Cluster API's controllers and this provider's"
	}
	return fmt.Sprintf("%s have not acknowledged yet to leave %s alone; do they run?", who, objects.List(missing))
}

// finishBegun lets the machines that are not settled go on, if an earlier pass has
// held them: a user may have deleted one meanwhile.
func (e *Engine) finishBegun(ctx context.Context, s *migration.PoolState, d migration.API, waiting string) (string,
	error,
) {
	restless := going(s.Tiers(d)[2:])
	if d == migration.ClusterAPI {
		if err := e.stopRetaining(ctx, restless); err != nil {
			return "", err
		}
	}
	_, err := e.unpause(ctx, restless)
	return waiting, err
}
