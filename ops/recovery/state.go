package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

// State is what a plan is made from: a namespace of the cluster with the objects, and the
// Nodes. Every list may be empty.
type State struct {
	Namespace string
	Listings  []Listing
	Classes   []machinev1.MachineClass
	Native    Native
	Cluster   ClusterAPI
	Nodes     []corev1.Node
}

// Native are the objects of the native API.
type Native struct {
	Deployments []machinev1.MachineDeployment
	Sets        []machinev1.MachineSet
	Machines    []machinev1.Machine
}

// ClusterAPI are the objects of Cluster API.
type ClusterAPI struct {
	Clusters    []clusterv1.Cluster
	MCMClusters []infrav1.MCMCluster
	Deployments []clusterv1.MachineDeployment
	Sets        []clusterv1.MachineSet
	Machines    []clusterv1.Machine
	MCMMachines []infrav1.MCMMachine
	Templates   []infrav1.MCMMachineTemplate
}

// Read reads the state of a namespace. control is the cluster with the objects, target that
// with the Nodes; both are to read from the API server. Kinds that are not served have no
// objects, nor have those of an API of which no VM is listed where they must not be read.
// It reads no Secret.
func Read(ctx context.Context, control, target client.Reader, namespace string) (*State, error) {
	s := &State{Namespace: namespace}
	r := reader{ctx, control, namespace}
	var classes machinev1.MachineClassList
	var nodes corev1.NodeList
	if err := r.list(&classes, true); err != nil {
		return nil, err
	}
	if err := target.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	s.Classes, s.Nodes = classes.Items, nodes.Items
	var err error
	if s.Listings, err = Listings(s.Classes); err != nil {
		return nil, err
	}
	return s, errors.Join(r.native(s), r.clusterAPI(s))
}

// reader lists the objects of a namespace.
type reader struct {
	ctx       context.Context //nolint:containedctx // of one call of Read
	client    client.Reader
	namespace string
}

func (r reader) native(s *State) error {
	needed := lists(s.Listings, migration.Native)
	var deployments machinev1.MachineDeploymentList
	var sets machinev1.MachineSetList
	var machines machinev1.MachineList
	for _, list := range []client.ObjectList{&deployments, &sets, &machines} {
		if err := r.list(list, needed); err != nil {
			return err
		}
	}
	s.Native = Native{deployments.Items, sets.Items, machines.Items}
	return nil
}

func (r reader) clusterAPI(s *State) error {
	needed := lists(s.Listings, migration.ClusterAPI)
	var clusters clusterv1.ClusterList
	var mcmClusters infrav1.MCMClusterList
	var deployments clusterv1.MachineDeploymentList
	var sets clusterv1.MachineSetList
	var machines clusterv1.MachineList
	var mcmMachines infrav1.MCMMachineList
	var templates infrav1.MCMMachineTemplateList
	for _, list := range []client.ObjectList{
		&clusters, &mcmClusters, &deployments, &sets, &machines, &mcmMachines, &templates,
	} {
		if err := r.list(list, needed); err != nil {
			return err
		}
	}
	s.Cluster = ClusterAPI{
		clusters.Items, mcmClusters.Items, deployments.Items, sets.Items, machines.Items, mcmMachines.Items, templates.Items,
	}
	return nil
}

// lists reports whether VMs of an API are listed.
func lists(listings []Listing, api migration.API) bool {
	return slices.ContainsFunc(listings, func(l Listing) bool { return l.api == api })
}

// list lists one kind; a kind that is not served has no objects, nor has one that must not be
// read where it is not needed.
func (r reader) list(list client.ObjectList, needed bool) error {
	err := r.client.List(r.ctx, list, client.InNamespace(r.namespace))
	if err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !needed {
		return nil
	}
	kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*"), "List")
	return fmt.Errorf("list %s in namespace %s: %w", kind, r.namespace, err)
}
