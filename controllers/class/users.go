package class

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/usage"
)

// users finds the Machines that use a class. Before a class that is being deleted
// loses its finalizer, the API server confirms that there are none. A class that
// stays loses it on the word of the cache: the event of that update, or of the
// Machine, puts it back.
func users(d Deps) usage.Finder[machinev1.MachineList, *machinev1.MachineList] {
	return usage.Finder[machinev1.MachineList, *machinev1.MachineList]{
		Cached: d.Client, Live: d.Live, Kind: machinev1.MachineKind, Index: index.MachineByClass,
		Uses: func(o client.Object, class string) bool {
			m := o.(*machinev1.Machine)
			return m.Spec.Class.Kind == machinev1.MachineClassKind && slices.Contains(index.MachineClasses(m), class)
		},
		Confirm: func(class *machinev1.MachineClass) bool { return !class.DeletionTimestamp.IsZero() },
	}
}
