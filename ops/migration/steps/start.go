package steps

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// startNewSide makes sure that the other side rests, hands over what only one side
// can have, and starts the new one from the machines up. A controller that may be
// asked to delete a machine must be able to: a VM that it leaves becomes an orphan.
func (e *Engine) startNewSide(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	for _, tier := range s.Tiers(m.To.Other()) {
		if missing, err := e.pause(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return pausePending(m.To.Other(), missing), err
		}
	}
	if waiting, err := e.startTiers(ctx, m, s); err != nil || waiting != "" {
		return waiting, err
	}
	if m.To == migration.ClusterAPI {
		if err := e.writeHealthCheck(ctx, m, s); err != nil {
			return "", err
		}
	}
	if err := e.giveBounds(ctx, m, s); err != nil {
		return "", err
	}
	return "", e.enter(ctx, m, s, migration.PhaseMoved)
}

// startTiers starts the new side from the machines up, and hands over once they work.
func (e *Engine) startTiers(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	tiers := s.Tiers(m.To)
	slices.Reverse(tiers)
	for i, tier := range tiers {
		if waiting, err := e.startTier(ctx, m, s, tier); err != nil || waiting != "" {
			return waiting, err
		}
		if i > 0 {
			continue
		}
		if waiting, err := e.handOver(ctx, m, s); err != nil || waiting != "" {
			return waiting, err
		}
	}
	return "", nil
}

// startTier starts objects and waits until they work.
func (e *Engine) startTier(ctx context.Context, m *move, s *migration.PoolState, tier []client.Object) (string, error) {
	if wrote, err := e.catchUp(ctx, m, s, tier); err != nil || wrote {
		return "its last change on the old side is copied", err
	}
	missing, err := e.unpause(ctx, tier)
	if err != nil || len(missing) > 0 {
		return fmt.Sprintf("the controllers of %s have not begun with %s yet; do they run?", m.To.Title(),
			objects.List(missing)), err
	}
	for _, o := range tier {
		if why := notYet(s, o); why != "" {
			return objects.Title(o) + " " + why, nil
		}
	}
	return "", nil
}

// catchUp copies the number of machines that a user has asked the old head for
// between its last copy and the moment when that ceased to be the truth, before the
// new head, which is of this tier, is started.
func (e *Engine) catchUp(ctx context.Context, m *move, s *migration.PoolState, tier []client.Object) (wrote bool,
	err error,
) {
	from, head := s.Head(m.To.Other()), s.Head(m.To)
	if m.Generation == 0 || from == nil || head == nil || from.GetGeneration() == m.Generation ||
		!slices.Contains(tier, head) || !pauseRequested(head) {
		return false, nil
	}
	wanted := objects.Replicas(from)
	if wanted == nil {
		return false, nil
	}
	if !ptr.Equal(wanted, objects.Replicas(head)) {
		changed := head.DeepCopyObject().(client.Object)
		objects.SetReplicas(changed, *wanted)
		if err := e.patch(ctx, head, changed); err != nil {
			return true, err
		}
	}
	m.Generation = from.GetGeneration()
	return true, e.save(ctx, m)
}
