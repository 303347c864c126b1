package evidence

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// PoolOfMachine returns the MachineDeployment of a native Machine, or else its MachineSet.
func PoolOfMachine(ctx context.Context, c client.Reader, m *machinev1.Machine) (Pool, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil || ref.Kind != machinev1.MachineSetKind {
		return Pool{}, nil
	}
	return poolOfSet(ctx, c, ref, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, &machinev1.MachineSet{})
}

// PoolOfCAPIMachine returns the MachineDeployment of a Machine of Cluster API, or else what the
// Machine belongs to: a MachineSet, or a control plane. All of them move with their Cluster.
func PoolOfCAPIMachine(ctx context.Context, c client.Reader, m *clusterv1.Machine) (Pool, error) {
	switch ref := metav1.GetControllerOf(m); {
	case ref == nil:
		return Pool{}, nil
	case ref.Kind != "MachineSet":
		return PoolOf(*ref), nil
	default:
		return poolOfSet(ctx, c, ref, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, &clusterv1.MachineSet{})
	}
}

// poolOfSet returns the MachineDeployment of the MachineSet that ref names, or else the set, which it reads.
// One that is gone, or is going, keeps nothing any more.
func poolOfSet(ctx context.Context, c client.Reader, ref *metav1.OwnerReference, key client.ObjectKey,
	set client.Object,
) (Pool, error) {
	err := c.Get(ctx, key, set)
	if err != nil || set.GetUID() != ref.UID || !set.GetDeletionTimestamp().IsZero() {
		return Pool{}, client.IgnoreNotFound(err)
	}
	if deployment := metav1.GetControllerOf(set); deployment != nil {
		return PoolOf(*deployment), nil
	}
	return PoolOf(*ref), nil
}
