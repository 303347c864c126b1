package machineset

import (
	"context"
	"fmt"
	"slices"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// scale creates missing machines, or deletes those that are surplus, failed, or
// marked by a scaler. Failed machines count as replicas until they are deleted, so
// a reconcile that creates machines leaves their deletion to the next one.
func (c *Controller) scale(ctx context.Context, s *scope) error {
	s.replicasCompared = true
	s.requeueAtPreserveExpiry()
	missing := int(s.set.Spec.Replicas) - len(active(s.machines))
	if missing > 0 && !s.createsBlocked() {
		s.scaleErr = c.createMachines(ctx, s)
		return s.scaleErr
	}
	s.scaleErr = c.deleteUnwanted(ctx, s)
	s.rememberKept()
	if s.scaleErr != nil {
		return s.scaleErr
	}
	return c.closeReservation(ctx, s)
}

// createsBlocked reports whether no machine may be created now.
func (s *scope) createsBlocked() bool {
	_, disabled := s.set.Labels[machinev1.ScaleUpDisabledLabel]
	return disabled || freeze.IsFrozen(s.set)
}

// deleteUnwanted deletes surplus machines, failed ones that are not preserved, and
// those that a scaler has marked.
func (c *Controller) deleteUnwanted(ctx context.Context, s *scope) error {
	unwanted, err := c.findSurplus(ctx, s)
	if err != nil {
		return err
	}
	for _, m := range active(s.machines) {
		failed := shouldReplaceFailed(m, s.nodePreserves[m.Name], s.now) && !s.rolloutPaused(m)
		if failed || s.shouldDeleteMarked(m) {
			unwanted = append(unwanted, m)
		}
	}
	return c.deleteMachines(ctx, s, deduplicate(unwanted))
}

// rolloutPaused reports whether m failed to join, and is kept because the rollout to the set is
// paused: what takes its place would fail as well.
func (s *scope) rolloutPaused(m *machinev1.Machine) bool {
	return s.deployment != nil && rollout.PausedTo(s.deployment, s.set.Name) && joining.FailedToJoin(m)
}

// findSurplus returns the machines that exceed spec.replicas. It chooses them from
// an uncached read: a scaler marks a machine just before it reduces the replicas,
// and the caches may show these two changes in the other order.
func (c *Controller) findSurplus(ctx context.Context, s *scope) ([]*machinev1.Machine, error) {
	if surplusCount(s.set, s.machines) <= 0 {
		return nil, nil
	}
	if live, err := c.getLiveSet(ctx, s); err != nil {
		return nil, err
	} else if live.UID != s.set.UID || live.Spec.Replicas != s.set.Spec.Replicas {
		return nil, errCacheStale("the MachineSet has been scaled")
	}
	machines, err := c.listLiveMachines(ctx, s)
	if err != nil {
		return nil, err
	}
	count := surplusCount(s.set, machines)
	candidates := countedMachines(machines)
	if count <= 0 {
		return nil, nil
	}
	if asked := s.deletesInFlight(candidates); len(asked) > 0 {
		// Whatever their rank is now, the request is only repeated, if it is still to be.
		return c.keepAvailable(ctx, s, asked, min(count, len(asked)), machines)
	}
	ranking := rollout.Ranking{Now: s.now, Chosen: s.requestedDeletions()}
	if names, err := fallback.ClassesOfSet(ctx, c.Client, s.set); err != nil {
		return nil, err
	} else if len(names) > 1 {
		ranking.Class = names[0]
	}
	ranking.Sort(candidates)
	return c.keepAvailable(ctx, s, candidates, count, machines)
}

// requestedDeletions returns the names of the machines that a scaler lists for
// deletion in the MachineDeployment.
func (s *scope) requestedDeletions() map[string]bool {
	names := map[string]bool{}
	if s.deployment == nil {
		return names
	}
	requests, _ := rollout.ParseDeletionRequests(s.deployment.Annotations[machinev1.TriggerDeletionAnnotation], s.now)
	for _, request := range requests {
		names[request.Name] = true
	}
	return names
}

func surplusCount(set *machinev1.MachineSet, machines []*machinev1.Machine) int {
	return len(countedMachines(machines)) - int(set.Spec.Replicas)
}

// countedMachines returns the machines that spec.replicas must cover. A machine that
// was updated in place has just come from another set, and its replica follows.
func countedMachines(machines []*machinev1.Machine) []*machinev1.Machine {
	return slices.DeleteFunc(active(machines), func(m *machinev1.Machine) bool {
		return m.Labels[machinev1.UpdateResultLabel] == machinev1.UpdateSuccessful
	})
}

// shouldDeleteMarked reports whether a scaler wants this machine deleted, even if
// there is no surplus. The mark must not be newer than the scaler's last change of
// the replicas, and that change must have reached the set: otherwise the machine
// would be replaced first and the set scaled in afterwards.
func (s *scope) shouldDeleteMarked(m *machinev1.Machine) bool {
	if m.Annotations[machinev1.PriorityAnnotation] != machinev1.HighestPriority {
		return false
	}
	marked, isMarked := rollout.MarkedAt(m)
	changed, err := time.Parse(time.RFC3339, s.set.Annotations[machinev1.LastReplicaChangeByScalerAnnotation])
	return isMarked && err == nil && !marked.After(changed) && !s.scalingPending()
}

// scalingPending reports whether the MachineDeployment has been scaled and has not
// scaled the set yet.
func (s *scope) scalingPending() bool {
	desired, found := s.set.Annotations[machinev1.DesiredReplicasAnnotation]
	return found && s.deployment != nil && desired != fmt.Sprint(s.deployment.Spec.Replicas)
}

// deduplicate returns the machines without repetitions, in their order.
func deduplicate(machines []*machinev1.Machine) []*machinev1.Machine {
	seen := map[string]bool{}
	return slices.DeleteFunc(machines, func(m *machinev1.Machine) bool {
		was := seen[m.Name]
		seen[m.Name] = true
		return was
	})
}
