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

// deleteDeployment deletes the sets of a deployment that is being deleted, even if
// its spec is invalid, and removes its finalizer when the last set is gone. The
// sets delete their machines.
func (s *scope) deleteDeployment(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(s.d, machinev1.Finalizer) {
		return nil
	}
	if slices.Contains(s.d.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil // the garbage collector removes our owner references first
	}
	for _, o := range s.sets {
		if err := s.deleteSet(ctx, o.observed); err != nil {
			return err
		}
	}
	if len(s.sets) > 0 {
		return nil
	}
	// A set that the cache does not show yet would lose its owner.
	live, err := s.listLiveSets(ctx)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		s.requeue = staleCacheRetry
		return nil
	}
	controllerutil.RemoveFinalizer(s.desired, machinev1.Finalizer)
	return client.IgnoreNotFound(s.patchDeployment(ctx))
}

// cleanUpIfComplete deletes superfluous old sets once the rollout is complete.
func (s *scope) cleanUpIfComplete(ctx context.Context) error {
	if !s.complete() {
		return nil
	}
	return s.cleanUpHistory(ctx)
}

// cleanUpHistory deletes the old sets beyond the revision history limit.
func (s *scope) cleanUpHistory(ctx context.Context) error {
	surplus := rollout.BeyondHistoryLimit(s.oldMachineSets(), s.d.Spec.RevisionHistoryLimit)
	for _, o := range s.oldSets() {
		// The cache may show a machine that the set has not counted yet.
		if len(o.machines) > 0 || !slices.Contains(surplus, o.observed) {
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
	err := s.Client.Delete(ctx, set, client.Preconditions{UID: &set.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MachineSet %s: %w", set.Name, err)
	}
	return nil
}
