package machineset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// scale creates missing machines, or deletes those that are surplus, failed, or
// marked by a scaler. Failed machines count as replicas until they are deleted, so
// a reconcile that creates machines leaves their deletion to the next one.
func (c *Controller) scale(ctx context.Context, s *scope) error {
	s.replicasCompared = true
	s.requeueAtPreserveExpiry()
	missing := int(s.set.Spec.Replicas) - len(active(s.machines))
	if missing > 0 && brake.Create(s.set).Allowed {
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

// progressOf returns the conditions that tell what the set is waiting for.
func progressOf(s *scope, acted error) *machinev1.Progress {
	var conditions []metav1.Condition
	if s.set.Status.Progress != nil {
		conditions = s.set.Status.Progress.DeepCopy().Conditions
	}
	if len(s.problems) == 0 {
		meta.RemoveStatusCondition(&conditions, machinev1.ConditionSpecValid)
	} else {
		setProgressCondition(&conditions, s, machinev1.ConditionSpecValid, machinev1.ReasonInvalidSpec,
			message.Truncate(s.problemText(), message.Limit))
	}
	reason, text := replicasReadyReason(s, acted)
	setProgressCondition(&conditions, s, machinev1.ConditionReplicasReady, reason, text)
	return &machinev1.Progress{Conditions: conditions}
}

func setProgressCondition(conditions *[]metav1.Condition, s *scope, kind, reason, text string) {
	status := metav1.ConditionFalse
	if reason == machinev1.ReasonReplicasOK {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text,
		ObservedGeneration: s.set.Generation, LastTransitionTime: metav1.NewTime(s.now),
	})
}

// replicasReadyReason returns reason and message of ReplicasReady. It counts only
// what the status counts too, so that the message causes no further writes.
func replicasReadyReason(s *scope, acted error) (reason, text string) {
	switch {
	case s.heldMachine != "":
		return machinev1.ReasonHeld, heldMessage(s)
	case !s.set.DeletionTimestamp.IsZero():
		return machinev1.ReasonScalingDown, fmt.Sprintf("MachineSet is being deleted, %d machines are left", len(s.machines))
	case s.invalid():
		return machinev1.ReasonInvalidSpec, "Nothing is created or deleted until the spec is corrected"
	case s.scaleErr != nil && failureReason(s) != "":
		return failureReason(s), errorMessage(s.scaleErr)
	case acted != nil && !apierrors.IsConflict(acted):
		return machinev1.ReasonScalingUp, errorMessage(acted)
	}
	return compareReplicas(s)
}

// compareReplicas returns how the machines differ from what is wanted.
func compareReplicas(s *scope) (reason, text string) {
	wanted, existing, alive := int(s.set.Spec.Replicas), len(s.machines), len(active(s.machines))
	available, create := available(s.machines), brake.Create(s.set)
	switch {
	case alive < wanted && !create.Allowed:
		return create.Reason, fmt.Sprintf("%d of %d machines exist; %s", alive, wanted, create.Message)
	case s.withheld > 0:
		return machinev1.ReasonScalingDown, fmt.Sprintf("%d machines exist, %d are wanted; %d kept until "+
			"enough others of MachineDeployment %s are available", existing, wanted, s.withheld, s.deployment.Name)
	case existing > wanted:
		return machinev1.ReasonScalingDown, fmt.Sprintf("%d machines exist, %d are wanted", existing, wanted)
	case available < wanted:
		reason, detail := unavailableReason(s)
		return reason, fmt.Sprintf("%d of %d machines are available%s", available, wanted, detail)
	}
	return machinev1.ReasonReplicasOK, fmt.Sprintf("%d machines are available", available)
}

func available(machines []*machinev1.Machine) int {
	count := 0
	for _, m := range machines {
		if isAvailable(m) {
			count++
		}
	}
	return count
}

// unavailableReason returns why machines are not available, and what the message
// adds to their number.
func unavailableReason(s *scope) (reason, text string) {
	if slices.ContainsFunc(s.machines, outageProtected) {
		return machinev1.ReasonOutage, "; many nodes became unhealthy at the same time, and their machines are not " +
			"replaced until that is over"
	}
	return machinev1.ReasonScalingUp, firstFailure(s.machines)
}

// outageProtected reports whether the Machine's own status says that an outage
// prevents its replacement. The set reports that and decides nothing from it.
func outageProtected(m *machinev1.Machine) bool {
	if m.Status.Progress == nil || !m.DeletionTimestamp.IsZero() {
		return false
	}
	c := meta.FindStatusCondition(m.Status.Progress.Conditions, machinev1.ConditionNodeReady)
	return c != nil && c.Reason == machinev1.ReasonOutage
}

// firstFailure describes one failed machine, as an example.
func firstFailure(machines []*machinev1.Machine) string {
	failed := failedMachines(machines)
	if failed == nil {
		return ""
	}
	first := (*failed)[0]
	return message.Truncate(fmt.Sprintf("; %s: %s%s", first.Name, first.LastOperation.Description,
		consolesOf(machines, len(*failed))), message.Limit)
}

// consolesOf sums up what the conditions of failed machines say about consoles: the first cause,
// and how many machines have it.
func consolesOf(machines []*machinev1.Machine, failed int) string {
	cause, count := "", 0
	for _, m := range machines {
		if m.Status.Progress == nil || m.Status.LastOperation.State != machinev1.MachineStateFailed || preservedFailed(m) {
			continue
		}
		c := meta.FindStatusCondition(m.Status.Progress.Conditions, machinev1.ConditionNodeReady)
		if c == nil {
			continue
		}
		if _, said, found := strings.Cut(c.Message, evidence.Mark); found && (cause == "" || said == cause) {
			cause, count = said, count+1
		}
	}
	if cause == "" {
		return ""
	}
	return fmt.Sprintf("; %d of %d did not join: %s (console)", count, failed, cause)
}
