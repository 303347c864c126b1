package recovery

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
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
// objects. It reads no Secret.
func Read(ctx context.Context, control, target client.Reader, namespace string) (*State, error) {
	s := &State{Namespace: namespace}
	var classes machinev1.MachineClassList
	var deployments machinev1.MachineDeploymentList
	var sets machinev1.MachineSetList
	var machines machinev1.MachineList
	var clusters clusterv1.ClusterList
	var mcmClusters infrav1.MCMClusterList
	var clusterDeployments clusterv1.MachineDeploymentList
	var clusterSets clusterv1.MachineSetList
	var clusterMachines clusterv1.MachineList
	var mcmMachines infrav1.MCMMachineList
	var templates infrav1.MCMMachineTemplateList
	for _, list := range []client.ObjectList{
		&classes, &deployments, &sets, &machines, &clusters, &mcmClusters, &clusterDeployments, &clusterSets,
		&clusterMachines, &mcmMachines, &templates,
	} {
		if err := readList(ctx, control, list, namespace); err != nil {
			return nil, err
		}
	}
	var nodes corev1.NodeList
	if err := target.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	s.Classes, s.Nodes = classes.Items, nodes.Items
	s.Native = Native{deployments.Items, sets.Items, machines.Items}
	s.Cluster = ClusterAPI{
		clusters.Items, mcmClusters.Items, clusterDeployments.Items, clusterSets.Items, clusterMachines.Items,
		mcmMachines.Items, templates.Items,
	}
	var err error
	s.Listings, err = Listings(s.Classes)
	return s, err
}

// readList lists one kind; a kind that is not served has no objects.
func readList(ctx context.Context, c client.Reader, list client.ObjectList, namespace string) error {
	err := c.List(ctx, list, client.InNamespace(namespace))
	if err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*"), "List")
	return fmt.Errorf("list %s in namespace %s: %w", kind, namespace, err)
}
