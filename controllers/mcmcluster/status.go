package mcmcluster

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

// report returns the status that follows from s. It is pure. Of a paused object it only
// changes the condition Paused.
func report(s *scope) infrav1.MCMClusterStatus {
	status := *s.object.Status.DeepCopy()
	set := func(c metav1.Condition) {
		capi.SetCondition(&status.Conditions, c, s.object.Generation, s.now)
	}
	set(capi.PausedCondition(s.paused))
	if s.paused != "" || capi.Moving(s.object) {
		return status
	}
	ready := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonReady}
	switch {
	case !s.object.DeletionTimestamp.IsZero():
		deleting := deletingCondition(s)
		set(deleting)
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, infrav1.ReasonDeleting, deleting.Message
	case s.cluster == nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, infrav1.ReasonWaitingForCluster, waitsForCluster(
			s.named)
	default:
		if reason, missing := waits(s); missing != "" {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reason, missing
		} else {
			status.Initialization.Provisioned = new(true)
		}
		status.FailureDomains = s.domains.offered
		if len(s.object.Spec.FailureDomains) > 0 {
			set(s.domains.condition())
		} else {
			meta.RemoveStatusCondition(&status.Conditions, infrav1.FailureDomainsOfferedCondition)
		}
		s.access.report(&status.Conditions, s.cluster.Name, set)
	}
	set(ready)
	return status
}

func deletingCondition(s *scope) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonDeleting}
	if len(s.left) > 0 {
		c.Reason, c.Message = infrav1.ReasonWaitingForMachines, waitsFor(s.left)
	}
	return c
}

// waits says what has to be there before machines are created, with a reason; empty if
// nothing is missing.
func waits(s *scope) (reason, message string) {
	if missing := endpointMissing(s); missing != "" {
		return infrav1.ReasonWaitingForEndpoint, missing
	}
	return infrav1.ReasonClassNotKnown, zonesMissing(s)
}

// zonesMissing says why it is not known yet which zones machines of the Cluster's own control
// plane may choose; empty if it is, or if nothing waits for it. The first of these machines
// is created as soon as the object is provisioned, and never chooses again.
func zonesMissing(s *scope) string {
	provisioned := s.object.Status.Initialization.Provisioned
	if provisioned != nil && *provisioned || !ownControlPlane(s) ||
		!slices.ContainsFunc(s.object.Spec.FailureDomains, forControlPlane) ||
		slices.ContainsFunc(s.domains.offered, forControlPlane) {
		return ""
	}
	missing := s.domains.unknown
	if missing == "" && len(s.domains.free) > 0 {
		missing = "Cluster API has not yet made the Cluster the owner of MCMMachineTemplate " +
			strings.Join(s.domains.free, ", ") + ", which is waited for until it is " + adoptionTime.String() + " old"
	}
	if missing == "" {
		return ""
	}
	return fmt.Sprintf("No failure domain of the spec with controlPlane is offered, and the first machine of %s %s needs "+
		"one: %s (machines are created as soon as there is one)", s.cluster.Spec.ControlPlaneRef.Kind,
		s.cluster.Spec.ControlPlaneRef.Name, missing)
}

// forControlPlane reports whether machines of a control plane choose the failure domain.
func forControlPlane(d clusterv1.FailureDomain) bool { return d.ControlPlane != nil && *d.ControlPlane }

// ownControlPlane reports whether the Cluster's control plane consists of its machines.
func ownControlPlane(s *scope) bool {
	plane := s.cluster.Spec.ControlPlaneRef
	external := plane.APIGroup == controlplanev1.GroupVersion.Group && plane.Kind == "MCMExternalControlPlane"
	return plane.Kind != "" && !external
}

// endpointMissing says who has to set the control plane endpoint; empty if there is one,
// or if nothing waits for it. A control plane that is run elsewhere has its own.
func endpointMissing(s *scope) string {
	plane := s.cluster.Spec.ControlPlaneRef
	if plane.Kind == "" && s.cluster.Spec.Topology.IsDefined() {
		return fmt.Sprintf("Cluster %s has no controlPlaneRef yet, so it is not known whether it needs "+
			"spec.controlPlaneEndpoint; Cluster API's topology controller sets it (looked at again then)", s.cluster.Name)
	}
	if !ownControlPlane(s) || s.object.Spec.ControlPlaneEndpoint.IsValid() ||
		s.cluster.Spec.ControlPlaneEndpoint.IsValid() {
		return ""
	}
	return fmt.Sprintf("spec.controlPlaneEndpoint is not set: %s %s needs the address of its API servers before machines "+
		"are created; set host and port of the load balancer in front of them here, or have the control plane provider set "+
		"spec.controlPlaneEndpoint of Cluster %s (machines are created as soon as one is set)",
		plane.Kind, plane.Name, s.cluster.Name)
}

func waitsForCluster(named string) string {
	if named == "" {
		return "No Cluster owns this object; name it in the infrastructureRef of a Cluster"
	}
	return "Cluster " + named + " does not exist"
}
