package evidence

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// PoolOfMachine returns the MachineDeployment of a native Machine, or else its MachineSet. A
// MachineSet that is gone, or is going, keeps nothing any more.
func PoolOfMachine(ctx context.Context, c client.Reader, m *machinev1.Machine) (Pool, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil || ref.Kind != machinev1.MachineSetKind {
		return Pool{}, nil
	}
	set := &machinev1.MachineSet{}
	err := c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, set)
	if err != nil || set.UID != ref.UID || !set.DeletionTimestamp.IsZero() {
		return Pool{}, client.IgnoreNotFound(err)
	}
	if deployment := metav1.GetControllerOf(set); deployment != nil {
		return PoolOf(*deployment), nil
	}
	return PoolOf(*ref), nil
}

// PoolOfCAPIMachine returns the MachineDeployment of a Machine of Cluster API, or else what the
// Machine belongs to: a MachineSet, or a control plane. All of them move with their Cluster. A
// MachineSet that is gone, or is going, keeps nothing any more.
func PoolOfCAPIMachine(ctx context.Context, c client.Reader, m *clusterv1.Machine) (Pool, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil {
		return Pool{}, nil
	}
	if ref.Kind != "MachineSet" {
		return PoolOf(*ref), nil
	}
	set := &clusterv1.MachineSet{}
	err := c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, set)
	if err != nil || set.UID != ref.UID || !set.DeletionTimestamp.IsZero() {
		return Pool{}, client.IgnoreNotFound(err)
	}
	if deployment := metav1.GetControllerOf(set); deployment != nil {
		return PoolOf(*deployment), nil
	}
	return PoolOf(*ref), nil
}
