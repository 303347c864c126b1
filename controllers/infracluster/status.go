package infracluster

import (
	"fmt"

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
		if missing := endpointMissing(f); missing != "" {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, infrav1.ReasonWaitingForEndpoint, missing
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

// endpointMissing says who has to set the control plane endpoint; empty if there is one,
// or if nothing waits for it. A control plane that is run elsewhere has its own.
func endpointMissing(f *facts) string {
	plane := f.cluster.Spec.ControlPlaneRef
	external := plane.APIGroup == controlplanev1.GroupVersion.Group && plane.Kind == "MCMExternalControlPlane"
	if plane.Kind == "" && f.cluster.Spec.Topology.IsDefined() {
		return fmt.Sprintf("Cluster %s has no controlPlaneRef yet, so it is not known whether it needs "+
			"spec.controlPlaneEndpoint; Cluster API's topology controller sets it (looked at again then)", f.cluster.Name)
	}
	if plane.Kind == "" || external || f.object.Spec.ControlPlaneEndpoint.IsValid() ||
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
