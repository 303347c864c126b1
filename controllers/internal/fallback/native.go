package fallback

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// ClassesOfSet returns the names of the classes that new Machines of a MachineSet may have, that of its
// template first: one name if neither its MachineDeployment, nor, without one, the set itself
// names more.
func ClassesOfSet(ctx context.Context, c client.Reader, set *machinev1.MachineSet) ([]string, error) {
	first := set.Spec.Template.Spec.Class.Name
	var named metav1.Object = set
	if ref := metav1.GetControllerOf(set); ref != nil && ref.Kind == machinev1.MachineDeploymentKind {
		d := &machinev1.MachineDeployment{}
		err := c.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: ref.Name}, d, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		named = d
	}
	return append([]string{first}, machinev1.FallbackClasses(named, first)...), nil
}

// ClassesOfMachine is ClassesOfSet of the Machine's MachineSet; nil if it has none.
func ClassesOfMachine(ctx context.Context, c client.Reader, m *machinev1.Machine) ([]string, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil || ref.Kind != machinev1.MachineSetKind {
		return nil, nil
	}
	set := &machinev1.MachineSet{}
	err := c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, set, client.UnsafeDisableDeepCopy)
	if err != nil || set.UID != ref.UID {
		return nil, client.IgnoreNotFound(err)
	}
	return ClassesOfSet(ctx, c, set)
}
