package machineset

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// progressOf says what the set is waiting for.
func progressOf(s *scope, acted error) *machinev1.Progress {
	var conditions []metav1.Condition
	if s.set.Status.Progress != nil {
		conditions = s.set.Status.Progress.DeepCopy().Conditions
	}
	if len(s.problems) == 0 {
		meta.RemoveStatusCondition(&conditions, machinev1.ConditionSpecValid)
	} else {
		setProgressCondition(&conditions, s, machinev1.ConditionSpecValid, machinev1.ReasonInvalidSpec, truncate(s.problemText()))
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

// replicasReadyReason is the reason and message of ReplicasReady. It only counts what the
// status counts too, so that it changes nothing more often than that.
func replicasReadyReason(s *scope, acted error) (reason, text string) {
	switch {
	case s.heldMachine != "":
		return machinev1.ReasonHeld, heldMessage(s)
	case !s.set.DeletionTimestamp.IsZero():
		return machinev1.ReasonScalingDown, fmt.Sprintf("The set is being deleted, %d machines are left", len(s.machines))
	case s.invalid():
		return machinev1.ReasonInvalidSpec, "Nothing is created or deleted until the spec is corrected"
	case s.scaleErr != nil && failureReason(s) != "":
		return failureReason(s), errorMessage(s.scaleErr)
	case acted != nil && !apierrors.IsConflict(acted):
		return machinev1.ReasonScalingUp, errorMessage(acted)
	}
	return compareReplicas(s)
}

// compareReplicas says how the machines differ from what is wanted.
func compareReplicas(s *scope) (reason, text string) {
	wanted, there, alive := int(s.set.Spec.Replicas), len(s.machines), len(active(s.machines))
	available := available(s.machines)
	switch {
	case alive < wanted && s.createsBlocked():
		return createsBlockedReason(s, alive, wanted)
	case there > wanted:
		return machinev1.ReasonScalingDown, fmt.Sprintf("%d machines exist, %d are wanted", there, wanted)
	case available < wanted:
		reason, more := unavailableReason(s)
		return reason, fmt.Sprintf("%d of %d machines are available%s", available, wanted, more)
	}
	return machinev1.ReasonReplicasOK, fmt.Sprintf("%d machines are available", available)
}

// createsBlockedReason is why a set that lacks machines makes none.
func createsBlockedReason(s *scope, alive, wanted int) (reason, text string) {
	if freeze.IsFrozen(s.set) {
		return machinev1.ReasonFrozen, fmt.Sprintf("%d of %d machines exist, and none is created until the surplus is "+
			"gone; annotation %s lifts that", alive, wanted, machinev1.UnfreezeAnnotation)
	}
	return machinev1.ReasonScalingUp, fmt.Sprintf("%d of %d machines exist, and label %s keeps more from being created",
		alive, wanted, machinev1.ScaleUpDisabledLabel)
}

func available(machines []*machinev1.Machine) int {
	count := 0
	for _, m := range machines {
		switch rollout.PhaseOf(m) {
		case machinev1.MachineRunning, machinev1.MachineAvailable:
			count++
		default:
		}
	}
	return count
}

// firstFailure tells of one failed machine, as an example.
func firstFailure(machines []*machinev1.Machine) string {
	failed := failedMachines(machines)
	if failed == nil {
		return ""
	}
	first := (*failed)[0]
	return truncate(fmt.Sprintf("; %s: %s", first.Name, first.LastOperation.Description))
}
