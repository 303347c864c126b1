package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
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

// Listing is what a MachineClass lists of VMs without a machine.
type Listing struct {
	Class string `json:"class"` // name of the MachineClass
	machinev1.HeldOrphans
	api migration.API
}

// VM is one VM without a machine.
type VM struct {
	machinev1.Orphan
	API     migration.API
	Classes []string // MachineClasses of its account, as namespace/name; empty if not known
}

// Listings returns what MachineClasses list, in their order.
func Listings(classes []machinev1.MachineClass) ([]Listing, error) {
	out := []Listing{}
	for i := range classes {
		for _, key := range []struct {
			annotation string
			api        migration.API
		}{
			{machinev1.HeldOrphansAnnotation, migration.Native},
			{machinev1.HeldClusterAPIOrphansAnnotation, migration.ClusterAPI},
		} {
			text := classes[i].Annotations[key.annotation]
			if text == "" {
				continue
			}
			l := Listing{Class: classes[i].Name, api: key.api}
			if err := json.Unmarshal([]byte(text), &l.HeldOrphans); err != nil {
				return nil, fmt.Errorf("MachineClass %s: annotation %s: %w", l.Class, key.annotation, err)
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// vms returns the VMs of listings, each once.
func vms(listings []Listing) []VM {
	var out []VM
	seen := map[string]bool{}
	for _, l := range listings {
		for _, o := range l.Orphans {
			if !seen[o.ID] {
				seen[o.ID] = true
				out = append(out, VM{Orphan: o, API: l.api, Classes: l.Classes})
			}
		}
	}
	return out
}

// decided returns the annotation with which a person has decided about a VM: to have it
// removed, or to have it left alone; empty for none, and where it is chosen by its ID: that
// is the later decision.
func (r *planner) decided(vm *VM) string {
	if slices.Contains(r.options.VMs, vm.ID) {
		return ""
	}
	for _, key := range []string{machinev1.ApprovedOrphansAnnotation, machinev1.KeptOrphansAnnotation} {
		for i := range r.state.MachineClasses {
			if slices.Contains(machinev1.OrphanIDs(r.state.MachineClasses[i].Annotations[key]), vm.ID) {
				return key
			}
		}
	}
	return ""
}
