package infracluster

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// report returns the status that follows from f. It is pure. Of a paused object it only
// changes the condition Paused.
func report(f *facts) infrav1.MCMClusterStatus {
	status := *f.object.Status.DeepCopy()
	set := func(c metav1.Condition) {
		capi.SetCondition(&status.Conditions, c, f.object.Generation, f.now)
	}
	set(capi.PausedCondition(f.paused))
	if f.paused != "" || capi.Moving(f.object) {
		return status
	}
	ready := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonReady}
	switch {
	case !f.object.DeletionTimestamp.IsZero():
		deleting := deletingCondition(f)
		set(deleting)
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, infrav1.ReasonDeleting, deleting.Message
	case f.cluster == nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, infrav1.ReasonWaitingForCluster, waitsForCluster(
			f.named)
	default:
		if reason, missing := waits(f); missing != "" {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reason, missing
		} else {
			status.Initialization.Provisioned = new(true)
		}
		status.FailureDomains = f.domains.offered
		if len(f.object.Spec.FailureDomains) > 0 {
			set(f.domains.condition())
		} else {
			meta.RemoveStatusCondition(&status.Conditions, infrav1.FailureDomainsOfferedCondition)
		}
	}
	set(ready)
	return status
}

func deletingCondition(f *facts) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonDeleting}
	if len(f.left) > 0 {
		c.Reason, c.Message = infrav1.ReasonWaitingForMachines, waitsFor(f.left)
	}
	return c
}

// waits says what has to be there before machines are created, with a reason; empty if
// nothing is missing.
func waits(f *facts) (reason, message string) {
	if missing := endpointMissing(f); missing != "" {
		return infrav1.ReasonWaitingForEndpoint, missing
	}
	return infrav1.ReasonClassNotKnown, zonesMissing(f)
}

// zonesMissing says why it is not known yet which zones machines of the Cluster's own control
// plane may choose; empty if it is, or if nothing waits for it. The first of these machines
// is created as soon as the object is provisioned, and never chooses again.
func zonesMissing(f *facts) string {
	provisioned := f.object.Status.Initialization.Provisioned
	if provisioned != nil && *provisioned || !ownControlPlane(f) ||
		!slices.ContainsFunc(f.object.Spec.FailureDomains, forControlPlane) ||
		slices.ContainsFunc(f.domains.offered, forControlPlane) {
		return ""
	}
	missing := f.domains.unknown
	if missing == "" && len(f.domains.free) > 0 {
		missing = "Cluster API has not yet made the Cluster the owner of MCMMachineTemplate " +
			strings.Join(f.domains.free, ", ") + ", which is waited for until it is " + adoptionTime.String() + " old"
	}
	if missing == "" {
		return ""
	}
	return fmt.Sprintf("No failure domain of the spec with controlPlane is offered, and the first machine of %s %s needs "+
		"one: %s (machines are created as soon as there is one)", f.cluster.Spec.ControlPlaneRef.Kind,
		f.cluster.Spec.ControlPlaneRef.Name, missing)
}

// forControlPlane reports whether machines of a control plane choose the failure domain.
func forControlPlane(d clusterv1.FailureDomain) bool { return d.ControlPlane != nil && *d.ControlPlane }

// ownControlPlane reports whether the Cluster's control plane consists of its machines.
func ownControlPlane(f *facts) bool {
	plane := f.cluster.Spec.ControlPlaneRef
	external := plane.APIGroup == controlplanev1.GroupVersion.Group && plane.Kind == "MCMExternalControlPlane"
	return plane.Kind != "" && !external
}

// endpointMissing says who has to set the control plane endpoint; empty if there is one,
// or if nothing waits for it. A control plane that is run elsewhere has its own.
func endpointMissing(f *facts) string {
	plane := f.cluster.Spec.ControlPlaneRef
	if plane.Kind == "" && f.cluster.Spec.Topology.IsDefined() {
		return fmt.Sprintf("Cluster %s has no controlPlaneRef yet, so it is not known whether it needs "+
			"spec.controlPlaneEndpoint; Cluster API's topology controller sets it (looked at again then)", f.cluster.Name)
	}
	if !ownControlPlane(f) || f.object.Spec.ControlPlaneEndpoint.IsValid() ||
		f.cluster.Spec.ControlPlaneEndpoint.IsValid() {
		return ""
	}
	return fmt.Sprintf("spec.controlPlaneEndpoint is not set: %s %s needs the address of its API servers before machines "+
		"are created; set host and port of the load balancer in front of them here, or have the control plane provider set "+
		"spec.controlPlaneEndpoint of Cluster %s (machines are created as soon as one is set)",
		plane.Kind, plane.Name, f.cluster.Name)
}

func waitsForCluster(named string) string {
	if named == "" {
		return "No Cluster owns this object; name it in the infrastructureRef of a Cluster"
	}
	return "Cluster " + named + " does not exist"
}
