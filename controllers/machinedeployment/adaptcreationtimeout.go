package machinedeployment

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
)

// adaptCreationTimeout gives machines more time to join while those of the deployment do
// not join in time, and less again when they do. A timeout that a user has set stays.
func (s *scope) adaptCreationTimeout(ctx context.Context) (bool, error) {
	if joining.Foreign(s.d) {
		return s.forgetGrowth(ctx)
	}
	before, policy := joining.StateOf(s.d), s.joiningPolicy()
	joins := before.Joins(policy, s.allMachines())
	after := before.Next(policy, joins, s.now)
	if wait := after.Wait(policy, after.Joins(policy, s.allMachines()), s.now); wait > 0 {
		s.requeueAfter(wait)
	}
	if after == before {
		return true, nil
	}
	if after.Timeout == 0 && before.Timeout != 0 {
		// First on the sets: removing an annotation from the deployment leaves it there.
		if err := s.removeCreationTimeout(ctx); err != nil {
			return false, err
		}
	}
	after.Annotate(s.desired)
	if err := s.patchDeployment(ctx); err != nil {
		return false, err
	}
	s.emitCreationTimeout(before.Effective(policy), after.Effective(policy), after.Grown(), joins.Example)
	return true, nil
}

// forgetGrowth removes what is recorded about a timeout that a user has replaced by a fixed
// one, so that no rollback restores a grown one in its place.
func (s *scope) forgetGrowth(ctx context.Context) (bool, error) {
	if !joining.Forget(s.desired) {
		return true, nil
	}
	if err := s.removeCreationTimeout(ctx); err != nil {
		return false, err
	}
	return true, s.patchDeployment(ctx)
}

// joiningPolicy is how the creation timeout of the deployment grows.
func (s *scope) joiningPolicy() joining.Policy {
	policy := s.Joining
	if c := s.d.Spec.Template.Spec.MachineConfiguration; c != nil && c.MachineCreationTimeout != nil {
		policy.Timeout = c.MachineCreationTimeout.Duration
	}
	return policy
}

func (s *scope) allMachines() []*machinev1.Machine {
	var all []*machinev1.Machine
	for _, o := range s.sets {
		all = append(all, o.machines...)
	}
	return all
}

// removeCreationTimeout removes the adapted timeout from the sets. The new one gets that of
// a user, if there is one.
func (s *scope) removeCreationTimeout(ctx context.Context) error {
	for _, o := range s.sets {
		delete(o.desired.Annotations, machinev1.EffectiveCreationTimeoutAnnotation)
		if o == s.newSet && joining.Foreign(s.d) {
			machinev1.SetAnnotation(o.desired, machinev1.EffectiveCreationTimeoutAnnotation,
				s.d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation])
		}
	}
	return s.patchSets(ctx)
}

// emitCreationTimeout emits an Event if the creation timeout has changed.
func (s *scope) emitCreationTimeout(before, after time.Duration, grown bool, failed string) {
	switch {
	case after > before && grown:
		s.emitWarning(machinev1.EventCreationTimeoutAdapted, "Machines do not join within %s, e.g. %s: new ones get %s; "+
			"find out what is slow or fails from the conditions of the Machines and the consoles of their VMs",
			before, failed, after)
	case after != before:
		s.emitNormal(machinev1.EventCreationTimeoutAdapted, "New Machines get %s to join instead of %s", after, before)
	}
}

// reportJoining sets the condition that exists while machines do not join in time.
func (s *scope) reportJoining(conditions *[]metav1.Condition) {
	state, policy := joining.StateOf(s.d), s.joiningPolicy()
	if joining.Foreign(s.d) || !state.Grown() {
		meta.RemoveStatusCondition(conditions, string(machinev1.MachineJoined))
		return
	}
	growth := fmt.Sprintf("it grows by %d%% after %d cycles in which machines fail to join", policy.GrowthPercent,
		policy.Cycles)
	if state.Effective(policy) >= policy.Longest() {
		growth = "it grows no further"
	}
	s.setProgressCondition(conditions, metav1.Condition{
		Type: string(machinev1.MachineJoined), Status: metav1.ConditionFalse, Reason: machinev1.ReasonFailedJoin,
		Message: fmt.Sprintf("Machines were replaced because they did not join in time; new ones have %s (%s); find out "+
			"what is slow or fails from the conditions of the Machines and the consoles of their VMs (%s is restored "+
			"when machines join, or when none fails for %s)",
			state.Effective(policy), growth, policy.Timeout, 2*policy.Longest()),
	})
}
