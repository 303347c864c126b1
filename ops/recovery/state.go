package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// State is what a plan is made from: a namespace of the cluster with the objects, and the
// Nodes. Every list may be empty.
type State struct {
	read.Objects

	Listings []Listing
}

// Kinds of each API that a recovery reads, besides classes.
var (
	nativeKinds  = []read.Kind{read.Deployments, read.Sets, read.Machines}
	clusterKinds = []read.Kind{
		read.Clusters, read.MCMClusters, read.ClusterDeployments, read.ClusterSets, read.ClusterMachines, read.MCMMachines,
		read.MachineTemplates,
	}
)

// Read reads the state of a namespace. control is the cluster with the objects, target that
// with the Nodes; both are to read from the API server. Kinds that are not served have no
// objects, nor have those of an API of which no VM is listed where they must not be read.
// It reads no Secret.
func Read(ctx context.Context, control, target client.Reader, namespace string) (*State, error) {
	all := slices.Concat([]read.Kind{read.Classes}, nativeKinds, clusterKinds)
	found, err := read.List(ctx, control, namespace, all...)
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	s := &State{Objects: *found}
	if s.Listings, err = Listings(s.MachineClasses); err != nil {
		return nil, err
	}
	needed := []read.Kind{read.Classes}
	for _, l := range s.Listings {
		if l.api == migration.Native {
			needed = append(needed, nativeKinds...)
		} else {
			needed = append(needed, clusterKinds...)
		}
	}
	return s, errors.Join(s.Require(needed...), s.ReadNodes(ctx, target))
}
