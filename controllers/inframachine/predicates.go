package inframachine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// objectChanged leaves out changes of the status alone, unless it was lost.
func objectChanged() predicate.Predicate {
	return watch.Updates(func(was, is *infrav1.MCMMachine) bool {
		return watch.BesidesStatus(was, is) || provisioned(was) && !provisioned(is)
	})
}

// machineChanged passes what an MCMMachine depends on of its Machine: of the
// status, which changes often, whether the Node is there and healthy.
func machineChanged() predicate.Predicate {
	return watch.Updates(func(was, is *clusterv1.Machine) bool {
		return was.Generation != is.Generation || !was.DeletionTimestamp.Equal(is.DeletionTimestamp) ||
			was.Status.NodeRef != is.Status.NodeRef || nodeHealth(was) != nodeHealth(is)
	})
}

func nodeHealth(m *clusterv1.Machine) metav1.ConditionStatus {
	if c := conditions.Get(m, clusterv1.MachineNodeHealthyCondition); c != nil {
		return c.Status
	}
	return ""
}

// infraClusterChanged passes the arrival of the durable id.
func infraClusterChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			const key = machinev1.OwnerIDAnnotation
			return e.ObjectOld.GetAnnotations()[key] != e.ObjectNew.GetAnnotations()[key]
		},
	}
}

// classChanged passes what can make a machine possible that was not.
func classChanged() predicate.Predicate {
	return watch.Updates(func(was, is *machinev1.MachineClass) bool {
		return was.Generation != is.Generation || !equality.Semantic.DeepEqual(was.Annotations, is.Annotations) ||
			!equality.Semantic.DeepEqual(was.Labels, is.Labels) || !was.DeletionTimestamp.Equal(is.DeletionTimestamp) ||
			slices.Contains(was.Finalizers, machinev1.InUseFinalizer) != slices.Contains(is.Finalizers, machinev1.InUseFinalizer)
	})
}

// claimChanged passes what decides whether a claim has an address.
func claimChanged() predicate.Predicate {
	return watch.Updates(func(was, is *ipamv1.IPAddressClaim) bool {
		return watch.BesidesStatus(was, is) || was.Status.AddressRef != is.Status.AddressRef ||
			!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions)
	})
}

// nodeChanged leaves out what a kubelet reports every few seconds.
func nodeChanged() predicate.Predicate {
	return watch.Updates(func(was, is *corev1.Node) bool {
		return watch.BesidesStatus(was, is) || was.Spec.ProviderID != is.Spec.ProviderID ||
			!equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints)
	})
}
