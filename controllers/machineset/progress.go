package machineset

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
)

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
	available := available(s.machines)
	switch {
	case alive < wanted && s.createsBlocked():
		return createsBlockedReason(s, alive, wanted)
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

// createsBlockedReason returns why a set that lacks machines creates none.
func createsBlockedReason(s *scope, alive, wanted int) (reason, text string) {
	if freeze.IsFrozen(s.set) {
		return machinev1.ReasonFrozen, fmt.Sprintf("%d of %d machines exist; none is created until the surplus is "+
			"deleted; annotation %s lifts that", alive, wanted, machinev1.UnfreezeAnnotation)
	}
	return machinev1.ReasonScalingUp, fmt.Sprintf("%d of %d machines exist; label %s prevents more from being created",
		alive, wanted, machinev1.ScaleUpDisabledLabel)
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
