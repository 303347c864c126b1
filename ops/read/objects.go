package read

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Objects are what there is of both APIs in a namespace, or in all. Each list was read once,
// and has the objects of the kinds that a command has asked for.
type Objects struct {
	Namespace string // empty: all

	MachineClasses []machinev1.MachineClass
	Deployments    []machinev1.MachineDeployment
	Sets           []machinev1.MachineSet
	Machines       []machinev1.Machine

	Clusters           []clusterv1.Cluster
	ClusterDeployments []clusterv1.MachineDeployment
	ClusterSets        []clusterv1.MachineSet
	ClusterMachines    []clusterv1.Machine
	HealthChecks       []clusterv1.MachineHealthCheck
	MCMClusters        []infrav1.MCMCluster
	MCMMachines        []infrav1.MCMMachine
	MachineTemplates   []infrav1.MCMMachineTemplate
	MCMConfigs         []bootstrapv1.MCMConfig
	ConfigTemplates    []bootstrapv1.MCMConfigTemplate
	ControlPlanes      []controlplanev1.MCMExternalControlPlane

	Nodes []corev1.Node
	// Secrets of the namespace, and those that classes name, without content.
	Secrets map[client.ObjectKey]*metav1.PartialObjectMetadata
	// Leases are MCM's, as far as they exist.
	Leases []coordinationv1.Lease
	// Unserved are the kinds that the API server does not know, as CustomResourceDefinitions name them.
	Unserved []string
	// Refused are the errors of kinds that may not be listed.
	Refused map[Kind]error
}

// Kind is a kind that is listed, by its name for people.
type Kind string

// The kinds.
const (
	Classes            Kind = "MachineClasses"
	Deployments        Kind = "MachineDeployments"
	Sets               Kind = "MachineSets"
	Machines           Kind = "Machines"
	Clusters           Kind = "Clusters"
	ClusterDeployments Kind = "MachineDeployments of Cluster API"
	ClusterSets        Kind = "MachineSets of Cluster API"
	ClusterMachines    Kind = "Machines of Cluster API"
	HealthChecks       Kind = "MachineHealthChecks"
	MCMClusters        Kind = "MCMClusters"
	MCMMachines        Kind = "MCMMachines"
	MachineTemplates   Kind = "MCMMachineTemplates"
	MCMConfigs         Kind = "MCMConfigs"
	ConfigTemplates    Kind = "MCMConfigTemplates"
	ControlPlanes      Kind = "MCMExternalControlPlanes"
)

// explained are the kinds that an explanation is made from.
var explained = []Kind{
	Classes, Deployments, Sets, Machines, Clusters, ClusterDeployments, ClusterSets, ClusterMachines, MCMClusters,
	MCMMachines, MCMConfigs, ControlPlanes,
}

// objectsOf is how a kind is read.
type objectsOf struct {
	list client.ObjectList // empty
	crd  string            // name, with the group where both APIs have the kind
	into any               // points at the slice that gets the objects
}

func (o *Objects) lists() map[Kind]objectsOf {
	native, core := "."+machinev1.GroupVersion.Group, "."+clusterv1.GroupVersion.Group
	return map[Kind]objectsOf{
		Classes:            {&machinev1.MachineClassList{}, "MachineClass", &o.MachineClasses},
		Deployments:        {&machinev1.MachineDeploymentList{}, "MachineDeployment" + native, &o.Deployments},
		Sets:               {&machinev1.MachineSetList{}, "MachineSet" + native, &o.Sets},
		Machines:           {&machinev1.MachineList{}, "Machine" + native, &o.Machines},
		Clusters:           {&clusterv1.ClusterList{}, "Cluster", &o.Clusters},
		ClusterDeployments: {&clusterv1.MachineDeploymentList{}, "MachineDeployment" + core, &o.ClusterDeployments},
		ClusterSets:        {&clusterv1.MachineSetList{}, "MachineSet" + core, &o.ClusterSets},
		ClusterMachines:    {&clusterv1.MachineList{}, "Machine" + core, &o.ClusterMachines},
		HealthChecks:       {&clusterv1.MachineHealthCheckList{}, "MachineHealthCheck", &o.HealthChecks},
		MCMClusters:        {&infrav1.MCMClusterList{}, "MCMCluster", &o.MCMClusters},
		MCMMachines:        {&infrav1.MCMMachineList{}, "MCMMachine", &o.MCMMachines},
		MachineTemplates:   {&infrav1.MCMMachineTemplateList{}, "MCMMachineTemplate", &o.MachineTemplates},
		MCMConfigs:         {&bootstrapv1.MCMConfigList{}, "MCMConfig", &o.MCMConfigs},
		ConfigTemplates:    {&bootstrapv1.MCMConfigTemplateList{}, "MCMConfigTemplate", &o.ConfigTemplates},
		ControlPlanes: {
			&controlplanev1.MCMExternalControlPlaneList{}, "MCMExternalControlPlane", &o.ControlPlanes,
		},
	}
}

// List lists kinds of a namespace of the cluster with the objects; no name is all namespaces. What kinds
// there are none of costs a call each; how many objects there are of a kind hardly matters. A kind that is
// not served, or that may not be listed, has no objects, and is noted; every other failure is an error.
func List(ctx context.Context, c client.Reader, namespace string, kinds ...Kind) (*Objects, error) {
	o := &Objects{Namespace: namespace, Refused: map[Kind]error{}}
	lists := o.lists()
	for _, kind := range kinds {
		l := lists[kind]
		err := pages(ctx, c, l.list, l.into, client.InNamespace(namespace))
		switch {
		case err == nil:
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			o.Unserved = append(o.Unserved, l.crd)
		case apierrors.IsForbidden(err):
			o.Refused[kind] = err
		default:
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
	}
	return o, nil
}

// Require is an error if one of these kinds may not be listed, or if none are named, any.
func (o *Objects) Require(kinds ...Kind) error {
	if len(kinds) == 0 {
		kinds = slices.Sorted(maps.Keys(o.Refused))
	}
	for _, kind := range kinds {
		if err := o.Refused[kind]; err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
	}
	return nil
}

// pages reads a list page by page, and appends its items to the slice that into points at.
func pages(ctx context.Context, c client.Reader, list client.ObjectList, into any, opts ...client.ListOption) error {
	all := reflect.ValueOf(into).Elem()
	for next := ""; ; {
		page := list.DeepCopyObject().(client.ObjectList) // of its own: what is taken is not overwritten
		if err := c.List(ctx, page, append(opts, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return err
		}
		items, err := meta.GetItemsPtr(page)
		if err != nil {
			return err
		}
		all.Set(reflect.AppendSlice(all, reflect.ValueOf(items).Elem()))
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// ReadLeases reads the leases that MCM's processes and the native API work under.
func (o *Objects) ReadLeases(ctx context.Context, c client.Reader) error {
	for _, name := range []string{machinev1.LeaseMachineControllerManager, machinev1.LeaseMachineController} {
		lease := coordinationv1.Lease{}
		err := c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, &lease)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Lease %s/%s: %w", o.Namespace, name, err)
		}
		if err == nil {
			o.Leases = append(o.Leases, lease)
		}
	}
	return nil
}

// ReadSecrets reads the names of Secrets, and what stands on those of other
// namespaces that classes name. Their contents are not read.
func (o *Objects) ReadSecrets(ctx context.Context, c client.Reader) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.List(ctx, list, client.InNamespace(o.Namespace)); err != nil {
		return fmt.Errorf("list the names of the Secrets in namespace %s: %w", o.Namespace, err)
	}
	o.Secrets = map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	for i := range list.Items {
		o.Secrets[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}
	for i := range o.MachineClasses {
		for _, ref := range SecretsOf(&o.MachineClasses[i]) {
			if _, known := o.Secrets[ref.Key]; known || ref.Key.Namespace == o.Namespace {
				continue
			}
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			if err := c.Get(ctx, ref.Key, object); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("read Secret %s, which MachineClass %s names: %w", ref.Key, o.MachineClasses[i].Name, err)
			}
			o.Secrets[ref.Key] = object // without a name if there is none
		}
	}
	return nil
}

// SecretRef is a Secret that a class names, and in which field.
type SecretRef struct {
	Field string
	Key   client.ObjectKey
}

// SecretsOf returns the Secrets that a class names, in the order of its fields.
func SecretsOf(class *machinev1.MachineClass) []SecretRef {
	var out []SecretRef
	for _, ref := range []struct {
		field string
		ref   *corev1.SecretReference
	}{{"secretRef", class.SecretRef}, {"credentialsSecretRef", class.CredentialsSecretRef}} {
		if ref.ref != nil && ref.ref.Name != "" {
			key := client.ObjectKey{Namespace: cmp.Or(ref.ref.Namespace, class.Name), Name: ref.ref.Name}
			out = append(out, SecretRef{ref.field, key})
		}
	}
	return out
}
