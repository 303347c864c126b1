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
func progressOf(p *pass, acted error) *machinev1.Progress {
	var conditions []metav1.Condition
	if p.set.Status.Progress != nil {
		conditions = p.set.Status.Progress.DeepCopy().Conditions
	}
	if len(p.problems) == 0 {
		meta.RemoveStatusCondition(&conditions, machinev1.ConditionSpecValid)
	} else {
		setProgress(&conditions, p, machinev1.ConditionSpecValid, machinev1.ReasonInvalidSpec, shorten(p.complaint()))
	}
	reason, text := waitsFor(p, acted)
	setProgress(&conditions, p, machinev1.ConditionReplicasReady, reason, text)
	return &machinev1.Progress{Conditions: conditions}
}

func setProgress(conditions *[]metav1.Condition, p *pass, kind, reason, text string) {
	status := metav1.ConditionFalse
	if reason == machinev1.ReasonReplicasOK {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text,
		ObservedGeneration: p.set.Generation, LastTransitionTime: metav1.NewTime(p.now),
	})
}

// waitsFor is the reason and message of ReplicasReady. It only counts what the
// status counts too, so that it changes nothing more often than that.
func waitsFor(p *pass, acted error) (reason, text string) {
	switch {
	case p.held != "":
		return machinev1.ReasonHeld, heldText(p)
	case !p.set.DeletionTimestamp.IsZero():
		return machinev1.ReasonScalingDown, fmt.Sprintf("The set is being deleted, %d machines are left", len(p.machines))
	case p.invalid():
		return machinev1.ReasonInvalidSpec, "Nothing is created or deleted until the spec is corrected"
	case p.failure != nil && failureReason(p) != "":
		return failureReason(p), message(p.failure)
	case acted != nil && !apierrors.IsConflict(acted):
		return machinev1.ReasonScalingUp, message(acted)
	}
	return lacks(p)
}

// lacks says how the machines differ from what is wanted.
func lacks(p *pass) (reason, text string) {
	wanted, there, alive := int(p.set.Spec.Replicas), len(p.machines), len(active(p.machines))
	available := available(p.machines)
	switch {
	case alive < wanted && p.blocked():
		return heldBack(p, alive, wanted)
	case there > wanted:
		return machinev1.ReasonScalingDown, fmt.Sprintf("%d machines exist, %d are wanted", there, wanted)
	case available < wanted:
		reason, more := missing(p)
		return reason, fmt.Sprintf("%d of %d machines are available%s", available, wanted, more)
	}
	return machinev1.ReasonReplicasOK, fmt.Sprintf("%d machines are available", available)
}

// heldBack is why a set that lacks machines makes none.
func heldBack(p *pass, alive, wanted int) (reason, text string) {
	if freeze.IsFrozen(p.set) {
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
	return shorten(fmt.Sprintf("; %s: %s", first.Name, first.LastOperation.Description))
}
