package machinedeployment

import (
	"context"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// scale distributes changed replicas over the sets, without making a new one.
// The update of a paused deployment stands still, so that scaling may not rely
// on it.
func (p *pass) scale(ctx context.Context) error {
	if p.current != nil {
		p.propagate()
		if p.d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType {
			p.count()
		}
	}
	p.distribute()
	if err := p.saveSets(ctx); err != nil {
		return err
	}
	if p.d.Spec.Paused && p.d.Spec.RollbackTo == nil {
		return p.forget(ctx)
	}
	return nil
}

// distribute gives each set its share of the replicas.
func (p *pass) distribute() {
	views := make([]rollout.Set, len(p.pools))
	current := -1
	for i, o := range p.pools {
		views[i] = o.view()
		if o == p.current {
			current = i
		}
	}
	proportional := p.d.Spec.Paused || p.rolls()
	for i, size := range rollout.Scaled(p.bounds, views, current, proportional) {
		// Also where the size stays: the annotation says that it was considered. MCM
		// leaves it out in an update in place, which then never goes on.
		if views[i].Active() || size > 0 {
			p.resize(p.pools[i], size)
		}
	}
}
