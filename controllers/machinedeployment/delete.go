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

// deleteDeployment deletes the sets of a deployment that is being deleted, whatever its
// spec is, and lets it go when the last is gone. The sets take their machines
// with them.
func (s *scope) deleteDeployment(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(s.d, machinev1.Finalizer) {
		return nil
	}
	if slices.Contains(s.d.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil // the garbage collector takes our reference off the sets first
	}
	for _, o := range s.sets {
		if err := s.deleteSet(ctx, o.observed); err != nil {
			return err
		}
	}
	if len(s.sets) > 0 {
		return nil
	}
	left, err := s.hasLiveSets(ctx)
	if err != nil {
		return err
	}
	if left {
		s.requeue = staleCacheRetry
		return nil
	}
	controllerutil.RemoveFinalizer(s.desired, machinev1.Finalizer)
	return client.IgnoreNotFound(s.patchDeployment(ctx))
}

// hasLiveSets reports whether there is a set that our cache does not have yet: it
// would lose its owner.
func (s *scope) hasLiveSets(ctx context.Context) (bool, error) {
	owned, err := s.listLiveSets(ctx)
	return len(owned) > 0, err
}

// cleanUpHistory deletes the old sets that the revision history does not keep.
func (s *scope) cleanUpHistory(ctx context.Context) error {
	superfluous := rollout.BeyondHistoryLimit(s.oldMachineSets(), s.d.Spec.RevisionHistoryLimit)
	for _, o := range s.oldSets() {
		// The cache may know of a machine that the set has not counted yet.
		if len(o.machines) > 0 || !slices.Contains(superfluous, o.observed) {
			continue
		}
		if err := s.deleteSet(ctx, o.observed); err != nil {
			return err
		}
	}
	return nil
}

func (s *scope) deleteSet(ctx context.Context, set *machinev1.MachineSet) error {
	if !set.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := s.confirmNotHeld(ctx); err != nil {
		return err
	}
	err := s.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete machine set %s: %w", set.Name, err)
	}
	return nil
}
