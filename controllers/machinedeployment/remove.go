package machinedeployment

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// remove deletes the sets of a deployment that is being deleted, whatever its
// spec is, and lets it go when the last is gone. The sets take their machines
// with them.
func (p *pass) remove(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(p.d, machinev1.Finalizer) {
		return nil
	}
	if slices.Contains(p.d.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil // the garbage collector takes our reference off the sets first
	}
	for _, o := range p.pools {
		if err := p.deleteSet(ctx, o.seen); err != nil {
			return err
		}
	}
	if len(p.pools) > 0 {
		return nil
	}
	left, err := p.leftBehind(ctx)
	if err != nil {
		return err
	}
	if left {
		p.wait = behindRetry
		return nil
	}
	controllerutil.RemoveFinalizer(p.want, machinev1.Finalizer)
	return client.IgnoreNotFound(p.saveDeployment(ctx))
}

// leftBehind reports whether there is a set that our cache does not have yet: it
// would lose its owner.
func (p *pass) leftBehind(ctx context.Context) (bool, error) {
	owned, err := p.ownedLive(ctx)
	return len(owned) > 0, err
}

// forget deletes the old sets that the revision history does not keep.
func (p *pass) forget(ctx context.Context) error {
	superfluous := rollout.Superfluous(p.oldSets(), p.d.Spec.RevisionHistoryLimit)
	for _, o := range p.old() {
		// The cache may know of a machine that the set has not counted yet.
		if len(o.machines) > 0 || !slices.Contains(superfluous, o.seen) {
			continue
		}
		if err := p.deleteSet(ctx, o.seen); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) deleteSet(ctx context.Context, set *machinev1.MachineSet) error {
	if !set.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := p.released(ctx); err != nil {
		return err
	}
	err := p.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete machine set %s: %w", set.Name, err)
	}
	return nil
}
