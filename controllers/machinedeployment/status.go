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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// report writes the status if it differs, emits Events about problems of the spec,
// and requeues for the progress deadline.
func (s *scope) report(ctx context.Context) error {
	if !s.d.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(s.d, machinev1.Finalizer) {
		s.prunedProgress.Forget(s.d.UID)
		return nil // it no longer exists, or never was ours
	}
	status := s.status()
	s.emitProblemEvents(&status)
	if left, ok := rollout.Deadline(s.d, &status, s.now); ok && !s.invalid && !rollout.TimedOut(s.d, &status, s.now) {
		s.requeueAfter(left + time.Second) // times are stored in whole seconds
	}
	if apiequality.Semantic.DeepEqual(s.d.Status, status) || s.onlyPrunedDiffers(status) {
		return nil
	}
	return s.writeStatus(ctx, status)
}

// writeStatus patches the status, unless the deployment has changed since it was
// read: a late write of a former leader would undo a newer status for good,
// because a change of the status alone triggers no reconcile. It remembers the
// progress that the API server prunes.
func (s *scope) writeStatus(ctx context.Context, status machinev1.MachineDeploymentStatus) error {
	before, changed := s.d.DeepCopy(), s.d.DeepCopy()
	changed.Status = status
	if s.prunedProgress.Known() {
		before.Status.Progress, changed.Status.Progress = nil, nil
	}
	sent := changed.Status.Progress != nil &&
		!apiequality.Semantic.DeepEqual(before.Status.Progress, changed.Status.Progress)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Status().Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of MachineDeployment: %w", err)
	}
	if sent && changed.Status.Progress == nil {
		s.prunedProgress.Learn(ctx, machinev1.MachineDeploymentKind, "status.progress")
	}
	if s.prunedProgress.Known() {
		s.prunedProgress.Keep(s.d.UID, status.Progress)
	}
	return nil
}

// onlyPrunedDiffers reports whether status differs from the stored one only in
// progress, which this API server prunes. Then it is remembered, not written.
func (s *scope) onlyPrunedDiffers(status machinev1.MachineDeploymentStatus) bool {
	if !s.prunedProgress.Known() {
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

// requeueAfter asks for another reconcile in d, if none is due earlier.
func (s *scope) requeueAfter(d time.Duration) {
	if s.requeue == 0 || d < s.requeue {
		s.requeue = d
	}
}

// emitProblemEvents emits an Event for each problem when the problems have changed.
func (s *scope) emitProblemEvents(status *machinev1.MachineDeploymentStatus) {
	before := specValidCondition(&s.d.Status)
	after := specValidCondition(status)
	if after == nil || before != nil && before.Message == after.Message {
		return
	}
	for _, x := range s.problems {
		reason := machinev1.ReasonInvalidSpec
		if selectsAll(s.d) && x.Field == "spec.selector" {
			reason = machinev1.EventSelectingAll
		}
		s.emitWarning(reason, "%s", capitalize(textOf(x)))
	}
}

func specValidCondition(status *machinev1.MachineDeploymentStatus) *metav1.Condition {
	if status.Progress == nil {
		return nil
	}
	return meta.FindStatusCondition(status.Progress.Conditions, machinev1.ConditionSpecValid)
}

// complete reports whether the rollout is complete according to the status of the sets.
func (s *scope) complete() bool {
	status := s.counts()
	return rollout.Complete(s.d, &status)
}

// counts returns the sums of what the sets report.
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

// status returns the status that follows from the scope.
func (s *scope) status() machinev1.MachineDeploymentStatus {
	status := s.counts()
	status.Conditions = s.d.Status.Conditions
	if s.invalid && !selectsAll(s.d) {
		// An invalid spec was not acted upon.
		status.ObservedGeneration = s.d.Status.ObservedGeneration
	}
	if !s.invalid {
		s.observation().SetConditions(s.d, &status)
	}
	status.Progress = s.progress(&status)
	return status
}

// observation returns what MCM's conditions follow from.
func (s *scope) observation() rollout.Observation {
	o := rollout.Observation{
		Now: s.now, Bounds: s.bounds, Frozen: s.frozenCondition(), Started: s.rolloutEvent,
		Failure: s.replicaFailure(),
	}
	if s.newSet != nil {
		o.NewSet = s.newSet.observed.Name
	}
	return o
}

// replicaFailure returns the ReplicaFailure of a set, of the new set first; nil if
// none has one.
func (s *scope) replicaFailure() *machinev1.MachineSetCondition {
	sets := s.oldSets()
	if s.newSet != nil {
		sets = append([]*ownedSet{s.newSet}, sets...)
	}
	for _, o := range sets {
		for i := range o.observed.Status.Conditions {
			if c := &o.observed.Status.Conditions[i]; c.Type == machinev1.MachineSetReplicaFailure {
				return c
			}
		}
	}
	return nil
}

// progress returns the conditions that tell what the deployment is waiting for.
func (s *scope) progress(status *machinev1.MachineDeploymentStatus) *machinev1.Progress {
	var conditions []metav1.Condition
	if s.d.Status.Progress != nil {
		conditions = s.d.Status.Progress.DeepCopy().Conditions
	}
	meta.RemoveStatusCondition(&conditions, machinev1.ConditionSpecValid)
	if len(s.problems) > 0 {
		texts := make([]string, len(s.problems))
		for i, x := range s.problems {
			texts[i] = textOf(x)
		}
		former := specValidCondition(&s.d.Status)
		if former != nil {
			conditions = append(conditions, *former) // its transition time stays
		}
		s.setProgressCondition(&conditions, metav1.Condition{
			Type: machinev1.ConditionSpecValid, Status: metav1.ConditionFalse,
			Reason: machinev1.ReasonInvalidSpec, Message: capitalize(strings.Join(texts, "; ")),
		})
	}
	if !s.invalid {
		s.setProgressCondition(&conditions, s.replicasReady(status))
		s.reportProviderIDForm(&conditions)
		s.reportJoining(&conditions)
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

// replicasReady returns the condition with what the replicas wait for.
func (s *scope) replicasReady(status *machinev1.MachineDeploymentStatus) metav1.Condition {
	c := metav1.Condition{Type: machinev1.ConditionReplicasReady, Status: metav1.ConditionFalse}
	c.Message = fmt.Sprintf("%d of %d machines are updated, %d available, %d old ones are left",
		status.UpdatedReplicas, s.d.Spec.Replicas, status.AvailableReplicas, status.Replicas-status.UpdatedReplicas)
	c.Message += s.pausedText() + s.unansweredText()
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
		c.Message += "; no machines are created by " + strings.Join(names, ", ") + " while there are too many"
	case s.failing.Paused:
		c.Reason = machinev1.ReasonRolloutPaused
		c.Message += "; the rollout is paused: " + s.failingText()
	case min(status.AvailableReplicas, status.UpdatedReplicas) < s.d.Spec.Replicas || s.newSetUnavailable():
		c.Reason = s.unavailableReason()
		c.Message += s.surgeText() + firstFailure(status)
	default:
		c.Reason = machinev1.ReasonScalingDown
	}
	return c
}

// pausedText is what the message adds while the user has paused rollouts.
func (s *scope) pausedText() string {
	if !s.d.Spec.Paused {
		return ""
	}
	return "; rollouts are paused: set spec.paused to false to resume them"
}

// unansweredText is what the message adds while a request to scale a set may still take effect.
func (s *scope) unansweredText() string {
	if s.unanswered == "" {
		return ""
	}
	return fmt.Sprintf("; the API server did not answer the last request to scale machine set %s; the others are scaled "+
		"once its outcome is known (within %s)", s.unanswered, fence.Reach)
}

// surgeText is what the message adds while the cloud has no capacity for surge.
func (s *scope) surgeText() string {
	switch {
	case !s.capacityMissing:
		return ""
	case rollout.FallbackAllowed(s.d):
		return "; the cloud has no capacity for surge: old machines are deleted first, one at a time"
	}
	return fmt.Sprintf("; the cloud has no capacity for surge: free some, or set annotation %s to \"true\" to have one "+
		"old machine deleted first", machinev1.SurgeFallbackAnnotation)
}

// unavailableReason returns why machines are missing: a lack of capacity that is worked
// around, or an outage if a set reports one.
func (s *scope) unavailableReason() string {
	if s.capacityMissing && rollout.FallbackAllowed(s.d) {
		return machinev1.ReasonSurgeFallback
	}
	for _, o := range s.sets {
		if o.observed.Status.Progress == nil {
			continue
		}
		c := meta.FindStatusCondition(o.observed.Status.Progress.Conditions, machinev1.ConditionReplicasReady)
		if c != nil && c.Reason == machinev1.ReasonOutage {
			return machinev1.ReasonOutage
		}
	}
	return machinev1.ReasonScalingUp
}

// newSetUnavailable reports whether machines of the new set are not available yet.
func (s *scope) newSetUnavailable() bool {
	return s.newSet != nil && s.newSet.observed.Status.AvailableReplicas < s.newSet.observed.Spec.Replicas
}

// firstFailure describes one failed machine, as an example.
func firstFailure(status *machinev1.MachineDeploymentStatus) string {
	if len(status.FailedMachines) == 0 || status.FailedMachines[0].LastOperation.Description == "" {
		return ""
	}
	first := status.FailedMachines[0]
	const limit = 500
	return fmt.Sprintf("; %s: %s", first.Name, message.Truncate(first.LastOperation.Description, limit))
}

// capitalize starts a message with a capital, unless it starts with the path of a field.
func capitalize(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if text == "" || strings.Contains(first, ".") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
