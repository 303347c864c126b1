package machinedeployment

import (
	"context"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
)

// pauseFailing pauses a rolling update whose new machines never join: old machines stay, and
// failed ones of the new set are kept instead of being replaced again and again. A
// creation timeout that can still grow does so first.
func (s *scope) pauseFailing(ctx context.Context) (bool, error) {
	before := joining.RolloutOf(s.d)
	s.failing = s.nextFailing(before)
	if s.failing == before {
		return true, nil
	}
	s.failing.Annotate(s.desired)
	if err := s.patchDeployment(ctx); err != nil {
		return false, err
	}
	if s.failing.Paused && !before.Paused {
		s.emitWarning(machinev1.ReasonRolloutPaused, "The rollout is paused: %s", s.failingText())
	}
	return true, nil
}

// nextFailing returns the record that follows from what the machines of the new set did;
// zero if there is nothing to pause.
func (s *scope) nextFailing(before joining.Rollout) joining.Rollout {
	policy, state := s.joiningPolicy(), joining.StateOf(s.d)
	grows := !policy.Off() && !joining.Foreign(s.d) && state.Effective(policy) < policy.Longest()
	if !s.PauseFailing || policy.Cycles <= 0 || grows || !s.rollingOut() {
		return joining.Rollout{}
	}
	after := before.Next(s.newSet.observed.Name, state.Effective(policy), policy.Cycles, s.newSet.machines)
	if after.Counted.IsZero() {
		return joining.Rollout{} // nothing to remember
	}
	return after
}

// rollingOut reports whether a rolling update is replacing machines of old sets.
func (s *scope) rollingOut() bool {
	if s.d.Spec.Strategy.Type != machinev1.RollingUpdateStrategyType || s.newSet == nil {
		return false
	}
	for _, o := range s.oldSets() {
		if len(o.machines) > 0 {
			return true
		}
	}
	return false
}

// failingText says why the rollout is paused, and how to continue.
func (s *scope) failingText() string {
	return fmt.Sprintf("no machine of MachineSet %s joined, in %d cycles of its creation timeout; correct the template "+
		"or roll back, or remove annotation %s to try again", s.failing.Set, s.failing.Cycles,
		machinev1.RolloutPausedAnnotation)
}
