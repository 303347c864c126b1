package machinedeployment

import (
	"context"
	"errors"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// rolls says that the strategy is RollingUpdate.
func (p *pass) rolls() bool {
	return p.d.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType
}

// roll replaces old machines bit by bit: each pass grows the new set and shrinks
// the old ones as far as surge and availability allow. One does not need the
// other's outcome: a machine that was just asked for is unavailable, so it earns
// no old one its removal.
func (p *pass) roll(ctx context.Context) error {
	ready, err := p.ensure(ctx, func() int {
		_, old := p.views()
		return rollout.NewReplicas(p.bounds, rollout.Set{}, old)
	})
	if err != nil || !ready {
		return err
	}
	// Before any machine goes, so that its pods do not move to one that goes next.
	tainted := p.markNodes(ctx)
	current, old := p.views()
	if size := rollout.NewReplicas(p.bounds, *current, old); size != current.Spec {
		p.resize(p.current, size)
		current.Spec = size
	}
	keep := rollout.OldReplicas(p.bounds, *current, old)
	for i, o := range p.old() {
		if keep[i] != old[i].Spec {
			p.resize(o, keep[i])
		}
		if len(o.live()) > 0 {
			annotate(o.want, machinev1.PreferNoScheduleKey, "True")
		}
	}
	return errors.Join(tainted, p.saveSets(ctx), p.settle(ctx))
}

// recreate removes all old machines, and makes new ones when the last is gone.
func (p *pass) recreate(ctx context.Context) error {
	annotated := p.markNodes(ctx)
	left := 0
	for _, o := range p.old() {
		if o.want.Spec.Replicas > 0 {
			p.resize(o, 0)
		}
		left += o.view().Replicas
	}
	if left > 0 {
		if p.current != nil {
			p.propagate()
		}
		return errors.Join(annotated, p.saveSets(ctx))
	}
	ready, err := p.ensure(ctx, func() int { return p.bounds.Replicas })
	if err != nil || !ready {
		return errors.Join(annotated, err)
	}
	if p.current.want.Spec.Replicas != p.d.Spec.Replicas {
		p.resize(p.current, p.bounds.Replicas)
	}
	return errors.Join(annotated, p.saveSets(ctx), p.settle(ctx))
}

// settle cleans up behind a complete rollout.
func (p *pass) settle(ctx context.Context) error {
	if !p.complete() {
		return nil
	}
	return p.forget(ctx)
}
