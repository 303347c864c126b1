package machineset

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// report writes the status that follows from the scope, if it differs.
func (c *Controller) report(ctx context.Context, s *scope, acted error) error {
	if s.finalizerRemoved {
		return nil
	}
	if apierrors.IsConflict(s.scaleErr) {
		// A stale cache is neither a failure nor a success of the set.
		s.replicasCompared, s.scaleErr = false, nil
	}
	status := statusOf(s)
	if !c.pruned.Known() {
		status.Progress = progressOf(s, acted)
	}
	status.LastOperation.LastUpdateTime = s.set.Status.LastOperation.LastUpdateTime
	if equality.Semantic.DeepEqual(s.set.Status, status) {
		return nil
	}
	status.LastOperation.LastUpdateTime = metav1.NewTime(s.now)
	changed := s.set.DeepCopy()
	changed.Status = status
	if err := c.Client.Status().Patch(ctx, changed, client.MergeFrom(s.set)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status of MachineSet: %w", err))
	}
	c.rememberPruned(ctx, s.set.Status.Progress, status.Progress, changed.Status.Progress)
	return nil
}

// rememberPruned compares what a write sent with what is stored. MCM's CRD prunes our
// own field. Then it is left out; otherwise every reconcile would find it missing,
// write, and so trigger the next reconcile.
func (c *Controller) rememberPruned(ctx context.Context, before, wanted, stored *machinev1.Progress) {
	sent := wanted != nil && !equality.Semantic.DeepEqual(before, wanted)
	if sent && stored == nil {
		c.pruned.Learn(ctx, machinev1.MachineSetKind, "status.progress")
	}
}

// statusOf returns the status in MCM's terms.
func statusOf(s *scope) machinev1.MachineSetStatus {
	status := machinev1.MachineSetStatus{
		ObservedGeneration: s.set.Generation,
		Conditions:         conditionsOf(s),
		FailedMachines:     failedMachines(s.machines),
	}
	template := labels.SelectorFromSet(s.set.Spec.Template.Labels)
	for _, m := range s.machines {
		addIf(&status.Replicas, true)
		addIf(&status.FullyLabeledReplicas, template.Matches(labels.Set(m.Labels)))
		phase := rollout.PhaseOf(m)
		addIf(&status.ReadyReplicas, phase == machinev1.MachineRunning)
		addIf(&status.AvailableReplicas, phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable)
		addIf(&status.PreservedFailedReplicas, preservedFailed(m))
		addIf(&status.AutoPreserveFailedMachineCount, m.Annotations[machinev1.PreserveAnnotation] == machinev1.PreserveAuto)
	}
	return status
}

func addIf(count *int32, one bool) {
	if one {
		*count++
	}
}

func preservedFailed(m *machinev1.Machine) bool {
	return rollout.PhaseOf(m) == machinev1.MachineFailed && m.Status.CurrentStatus.PreserveExpiryTime != nil
}

// failedMachines summarizes the machines whose last operation failed, without
// preserved ones; nil if there are none.
func failedMachines(machines []*machinev1.Machine) *[]machinev1.MachineSummary {
	var failed []machinev1.MachineSummary
	for _, m := range machines {
		if m.Status.LastOperation.State != machinev1.MachineStateFailed || preservedFailed(m) {
			continue
		}
		summary := machinev1.MachineSummary{
			Name: m.Name, ProviderID: m.Spec.ProviderID,
			LastOperation: m.Status.LastOperation,
		}
		if ref := metav1.GetControllerOf(m); ref != nil {
			summary.OwnerRef = ref.Name
		}
		failed = append(failed, summary)
	}
	if failed == nil {
		return nil
	}
	return &failed
}

// conditionsOf returns the conditions in MCM's terms: each exists only while it is true.
func conditionsOf(s *scope) []machinev1.MachineSetCondition {
	conditions := slices.Clone(s.set.Status.Conditions)
	if s.replicasCompared || s.scaleErr != nil {
		conditions = setCondition(conditions, machinev1.MachineSetReplicaFailure, s.scaleErr != nil,
			machinev1.MachineSetCondition{
				Reason:  failureReason(s),
				Message: errorMessage(s.scaleErr),
			}, s)
	}
	return setCondition(conditions, machinev1.MachineSetFrozen, brake.IsFrozen(s.set), machinev1.MachineSetCondition{
		Reason: machinev1.ReasonOverShooting,
		Message: fmt.Sprintf("The number of machines backing MachineSet: %s is %d >= %d which is the Max-ScaleUp-Limit",
			s.set.Name, s.overshoot, s.bounds.Freeze),
	}, s)
}

// setCondition returns the conditions with one added or removed. An existing one
// keeps its message: the cause at the beginning is what matters.
func setCondition(all []machinev1.MachineSetCondition, kind machinev1.MachineSetConditionType, holds bool,
	c machinev1.MachineSetCondition, s *scope,
) []machinev1.MachineSetCondition {
	sameType := func(c machinev1.MachineSetCondition) bool { return c.Type == kind }
	if !holds {
		return slices.DeleteFunc(all, sameType)
	}
	if slices.ContainsFunc(all, sameType) {
		return all
	}
	c.Type, c.Status, c.LastTransitionTime = kind, machinev1.ConditionTrue, metav1.NewTime(s.now)
	return append(all, c)
}

func failureReason(s *scope) string {
	switch count := len(s.machines); {
	case count < int(s.set.Spec.Replicas):
		return machinev1.ReasonFailedCreate
	case count > int(s.set.Spec.Replicas):
		return machinev1.ReasonFailedDelete
	}
	return ""
}

func errorMessage(err error) string {
	if err == nil {
		return ""
	}
	return message.Truncate(err.Error(), message.Limit)
}
