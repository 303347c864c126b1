package inframachineclass

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/usage"
)

// users finds the MCMMachines that use a class. The API server confirms that
// there are none before the class loses its finalizer.
func users(d Deps) usage.Finder[infrav1.MCMMachineList, *infrav1.MCMMachineList] {
	return usage.Finder[infrav1.MCMMachineList, *infrav1.MCMMachineList]{
		Cached: d.Client, Live: d.Live, Kind: "MCMMachine", Index: index.MCMMachineByClass,
		Uses: func(o client.Object, class string) bool {
			return slices.Contains(index.ClassesOf(o.(*infrav1.MCMMachine)), class)
		},
		Confirm: inUse,
	}
}
