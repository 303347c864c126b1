package machinedeployment

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// report writes the status if it differs, tells what is wrong with the spec, and
// notes when the progress deadline must be looked at.
func (s *scope) report(ctx context.Context) error {
	if !s.d.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(s.d, machinev1.Finalizer) {
		return nil // it is gone, or none of our business
	}
	status := s.status()
	s.emitProblemEvents(&status)
	if left, ok := rollout.Deadline(s.d, &status, s.now); ok && !s.invalid && !rollout.TimedOut(s.d, &status, s.now) {
		s.requeueAfter(left + time.Second) // a second more, because times are stored in whole ones
	}
	if apiequality.Semantic.DeepEqual(s.d.Status, status) || s.onlyPrunedDiffers(status) {
		return nil
	}
	return s.writeStatus(ctx, status)
}

// writeStatus writes the status, unless the deployment has changed since it was
// read, and remembers what of it the API server drops. What a predecessor had on
// the way would undo a newer status for good: nothing wakes a deployment whose
// status alone was changed.
func (s *scope) writeStatus(ctx context.Context, status machinev1.MachineDeploymentStatus) error {
	changed := s.d.DeepCopy()
	changed.Status = status
	patch := client.MergeFromWithOptions(s.d, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Status().Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of machine deployment: %w", err)
	}
	s.writtenStatuses.Wrote(changed)
	if status.Progress != nil && changed.Status.Progress == nil {
		s.prunedProgress.Keep(s.d.UID, status.Progress)
	} else {
		s.prunedProgress.Forget(s.d.UID)
	}
	return nil
}

// onlyPrunedDiffers reports whether status differs from the stored one in nothing but
// progress, which this API server drops. Then it is remembered, not written.
func (s *scope) onlyPrunedDiffers(status machinev1.MachineDeploymentStatus) bool {
	if _, drops := s.prunedProgress.Get(s.d.UID); !drops {
		return false
	}
	was, is := s.d.Status, status
	was.Progress, is.Progress = nil, nil
	if !apiequality.Semantic.DeepEqual(was, is) {
		return false
	}
	s.prunedProgress.Keep(s.d.UID, status.Progress)
	return true
}

// requeueAfter makes the next pass come after d at the latest.
func (s *scope) requeueAfter(d time.Duration) {
	if s.requeue == 0 || d < s.requeue {
		s.requeue = d
	}
}

// emitProblemEvents emits an Event for each problem that is new.
func (s *scope) emitProblemEvents(status *machinev1.MachineDeploymentStatus) {
	before := specValidCondition(&s.d.Status)
	after := specValidCondition(status)
	if after == nil || before != nil && before.Message == after.Message {
		return
	}
	for _, x := range s.problems {
		reason := machinev1.ReasonInvalidSpec
		if selectsAll(s.d) && strings.HasPrefix(x.text, "spec.selector") {
			reason = machinev1.EventSelectingAll
		}
		s.emitWarning(reason, "%s", capitalize(x.text))
	}
}

func specValidCondition(status *machinev1.MachineDeploymentStatus) *metav1.Condition {
	if status.Progress == nil {
		return nil
	}
	return meta.FindStatusCondition(status.Progress.Conditions, machinev1.ConditionSpecValid)
}

// complete says that the rollout is, judged by what the sets report.
func (s *scope) complete() bool {
	status := s.counts()
	return rollout.Complete(s.d, &status)
}

// counts sums up what the sets report.
func (s *scope) counts() machinev1.MachineDeploymentStatus {
	status := machinev1.MachineDeploymentStatus{
		ObservedGeneration: s.d.Generation,
		CollisionCount:     s.d.Status.CollisionCount,
	}
	asked := int32(0)
	for _, o := range s.sets {
		seen := &o.observed.Status
		asked += o.observed.Spec.Replicas
		status.Replicas += seen.Replicas
		status.ReadyReplicas += seen.ReadyReplicas
		status.AvailableReplicas += seen.AvailableReplicas
		status.PreservedFailedReplicas += seen.PreservedFailedReplicas
		if seen.FailedMachines != nil {
			for i := range *seen.FailedMachines {
				status.FailedMachines = append(status.FailedMachines, (*seen.FailedMachines)[i].DeepCopy())
			}
		}
	}
	if s.newSet != nil {
		status.UpdatedReplicas = s.newSet.observed.Status.Replicas
	}
	status.UnavailableReplicas = max(asked-status.AvailableReplicas, 0)
	if s.collisions != nil {
		status.CollisionCount = s.collisions
	}
	return status
}

// status is what the deployment reports. It depends on nothing but the pass.
func (s *scope) status() machinev1.MachineDeploymentStatus {
	status := s.counts()
	status.Conditions = s.d.Status.Conditions
	if s.invalid && !selectsAll(s.d) {
		// What is asked for now was not acted upon.
		status.ObservedGeneration = s.d.Status.ObservedGeneration
	}
	if !s.invalid {
		s.setAvailable(&status)
		s.setFrozen(&status)
	}
	if !s.invalid && s.d.DeletionTimestamp.IsZero() {
		s.setProgressing(&status)
		s.setReplicaFailure(&status)
	}
	status.Progress = s.progress(&status)
	return status
}

// progress are the conditions that say what the deployment waits for.
func (s *scope) progress(status *machinev1.MachineDeploymentStatus) *machinev1.Progress {
	var conditions []metav1.Condition
	if s.d.Status.Progress != nil {
		conditions = s.d.Status.Progress.DeepCopy().Conditions
	}
	meta.RemoveStatusCondition(&conditions, machinev1.ConditionSpecValid)
	if len(s.problems) > 0 {
		texts := make([]string, len(s.problems))
		for i, x := range s.problems {
			texts[i] = x.text
		}
		former := specValidCondition(&s.d.Status)
		if former != nil {
			conditions = append(conditions, *former) // keeps its transition time
		}
		s.setProgressCondition(&conditions, metav1.Condition{
			Type: machinev1.ConditionSpecValid, Status: metav1.ConditionFalse,
			Reason: machinev1.ReasonInvalidSpec, Message: capitalize(strings.Join(texts, "; ")),
		})
	}
	if !s.invalid {
		s.setProgressCondition(&conditions, s.replicasReady(status))
		s.reportProviderIDForm(&conditions)
	}
	if len(conditions) == 0 {
		return nil
	}
	return &machinev1.Progress{Conditions: conditions}
}

func (s *scope) setProgressCondition(conditions *[]metav1.Condition, c metav1.Condition) {
	c.ObservedGeneration = s.d.Generation
	c.LastTransitionTime = metav1.NewTime(s.now)
	if former := meta.FindStatusCondition(*conditions, c.Type); former != nil && former.Status == c.Status {
		c.LastTransitionTime = former.LastTransitionTime
	}
	meta.SetStatusCondition(conditions, c)
}

// replicasReady says what the replicas wait for.
func (s *scope) replicasReady(status *machinev1.MachineDeploymentStatus) metav1.Condition {
	c := metav1.Condition{Type: machinev1.ConditionReplicasReady, Status: metav1.ConditionFalse}
	c.Message = fmt.Sprintf("%d of %d machines are updated, %d available, %d old ones are left",
		status.UpdatedReplicas, s.d.Spec.Replicas, status.AvailableReplicas, status.Replicas-status.UpdatedReplicas)
	if s.d.Spec.Paused {
		c.Message += "; rollouts are paused, set spec.paused to false to go on"
	}
	switch names := s.frozenSets(); {
	case s.heldObject != "":
		c.Reason, c.Message = machinev1.ReasonHeld, s.heldMessage()
	case !s.d.DeletionTimestamp.IsZero():
		c.Reason = machinev1.ReasonScalingDown
		c.Message = fmt.Sprintf("%d machine sets with %d machines are being deleted", len(s.sets), status.Replicas)
	case rollout.Complete(s.d, status):
		c.Status, c.Reason = metav1.ConditionTrue, machinev1.ReasonReplicasOK
	case len(names) > 0:
		c.Reason = machinev1.ReasonFrozen
		c.Message += "; no machines are made by " + strings.Join(names, ", ") + " while there are too many"
	case status.AvailableReplicas < s.d.Spec.Replicas || status.UpdatedReplicas < s.d.Spec.Replicas || s.newSetUnavailable():
		c.Reason = s.unavailableReason()
		c.Message += firstFailure(status)
	default:
		c.Reason = machinev1.ReasonScalingDown
	}
	return c
}

// newSetUnavailable says that the current set has machines which are not available yet.
func (s *scope) newSetUnavailable() bool {
	return s.newSet != nil && s.newSet.observed.Status.AvailableReplicas < s.newSet.observed.Spec.Replicas
}

// firstFailure tells of one failed machine, as an example.
func firstFailure(status *machinev1.MachineDeploymentStatus) string {
	if len(status.FailedMachines) == 0 || status.FailedMachines[0].LastOperation.Description == "" {
		return ""
	}
	first := status.FailedMachines[0]
	const readable = 500
	text := first.LastOperation.Description
	if len(text) > readable {
		text = strings.ToValidUTF8(text[:readable], "") + "…"
	}
	return fmt.Sprintf("; %s: %s", first.Name, text)
}

// capitalize starts a message with a capital, unless it starts with a field.
func capitalize(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if text == "" || strings.Contains(first, ".") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
