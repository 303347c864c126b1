package migration

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// Namespace are what there is of both APIs in one namespace: what pools are
// read from, and what they may collide with. Each list was read once.
type Namespace struct {
	Name string

	Deployments []machinev1.MachineDeployment
	Sets        []machinev1.MachineSet
	Machines    []machinev1.Machine
	Classes     map[string]*machinev1.MachineClass

	Clusters           []clusterv1.Cluster
	ControlPlanes      []controlplanev1.MCMExternalControlPlane
	ClusterDeployments []clusterv1.MachineDeployment
	ClusterSets        []clusterv1.MachineSet
	ClusterMachines    []clusterv1.Machine
	MCMMachines        []infrav1.MCMMachine
	MachineTemplates   []infrav1.MCMMachineTemplate
	ConfigTemplates    []bootstrapv1.MCMConfigTemplate
	HealthChecks       []clusterv1.MachineHealthCheck

	// Secrets of the namespace, and those that classes name, without content.
	Secrets map[client.ObjectKey]*metav1.PartialObjectMetadata
	// Leases are MCM's, as far as they exist.
	Leases []coordinationv1.Lease
	// Unserved are the kinds that the API server does not know.
	Unserved []string
}

// Apart reports whether two API servers are known to be those of two clusters: each has
// a namespace kube-system of its own. One that does not show it is not known.
func Apart(ctx context.Context, control, target client.Reader) (bool, error) {
	var ids []types.UID
	for _, c := range []client.Reader{control, target} {
		var system corev1.Namespace
		err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
		}
		ids = append(ids, system.UID)
	}
	return ids[0] != ids[1], nil
}

// ReadNamespace lists a namespace of the cluster with the objects. What kinds there are none of costs a call
// each; how many objects there are of a kind does not matter.
func ReadNamespace(ctx context.Context, c client.Reader, namespace string) (*Namespace, error) {
	s := &Namespace{
		Name: namespace, Classes: map[string]*machinev1.MachineClass{},
		Secrets: map[client.ObjectKey]*metav1.PartialObjectMetadata{},
	}
	var classes machinev1.MachineClassList
	var deployments machinev1.MachineDeploymentList
	var sets machinev1.MachineSetList
	var machines machinev1.MachineList
	var clusters clusterv1.ClusterList
	var controlPlanes controlplanev1.MCMExternalControlPlaneList
	var clusterDeployments clusterv1.MachineDeploymentList
	var clusterSets clusterv1.MachineSetList
	var clusterMachines clusterv1.MachineList
	var mcmMachines infrav1.MCMMachineList
	var machineTemplates infrav1.MCMMachineTemplateList
	var configTemplates bootstrapv1.MCMConfigTemplateList
	var healthChecks clusterv1.MachineHealthCheckList
	for _, list := range []client.ObjectList{
		&classes, &deployments, &sets, &machines, &clusters, &controlPlanes, &clusterDeployments, &clusterSets,
		&clusterMachines, &mcmMachines, &machineTemplates, &configTemplates, &healthChecks,
	} {
		err := c.List(ctx, list, client.InNamespace(namespace))
		switch {
		case unserved(err):
			s.Unserved = append(s.Unserved, listKind(list))
		case err != nil:
			return nil, fmt.Errorf("list %s of namespace %s: %w", listKind(list), namespace, err)
		}
	}
	for i := range classes.Items {
		s.Classes[classes.Items[i].Name] = &classes.Items[i]
	}
	s.Deployments, s.Sets, s.Machines = deployments.Items, sets.Items, machines.Items
	s.Clusters, s.ControlPlanes = clusters.Items, controlPlanes.Items
	s.ClusterDeployments, s.ClusterSets, s.ClusterMachines = clusterDeployments.Items, clusterSets.Items,
		clusterMachines.Items
	s.MCMMachines, s.MachineTemplates, s.ConfigTemplates = mcmMachines.Items, machineTemplates.Items, configTemplates.Items
	s.HealthChecks = healthChecks.Items
	if err := s.readLeases(ctx, c); err != nil {
		return nil, err
	}
	return s, s.readSecrets(ctx, c)
}

// readLeases reads the leases that MCM's processes and the native API work under.
func (s *Namespace) readLeases(ctx context.Context, c client.Reader) error {
	for _, name := range []string{machinev1.LeaseMachineControllerManager, machinev1.LeaseMachineController} {
		lease := coordinationv1.Lease{}
		err := c.Get(ctx, client.ObjectKey{Namespace: s.Name, Name: name}, &lease)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Lease %s/%s: %w", s.Name, name, err)
		}
		if err == nil {
			s.Leases = append(s.Leases, lease)
		}
	}
	return nil
}

// ForeignLeases are findings about leases that somebody else holds: two managers that do
// not know of each other must not work on the same machines.
func (s *Namespace) ForeignLeases(now time.Time) []Finding {
	var out []Finding
	for i := range s.Leases {
		l := &s.Leases[i]
		if HolderOf(l, now) != HolderForeign {
			continue
		}
		out = append(out, Finding{
			Level: Blocked, Object: objects.Name("Lease", l), Field: "spec.holderIdentity",
			Text: fmt.Sprintf("%s holds it, which is no manager of this project: Machine Controller Manager most likely",
				objects.Value(l.Spec.HolderIdentity)),
			Remedy: "take the fleet over by the native API first: kubectl mcm takeover check",
		})
	}
	return out
}

// readSecrets reads the names of Secrets, and what stands on those of other
// namespaces that classes name. Their contents are not read.
func (s *Namespace) readSecrets(ctx context.Context, c client.Reader) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.List(ctx, list, client.InNamespace(s.Name)); err != nil {
		return fmt.Errorf("list the names of the Secrets in namespace %s: %w", s.Name, err)
	}
	for i := range list.Items {
		s.Secrets[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}
	for _, name := range objects.Keys(s.Classes) {
		for _, ref := range SecretsOf(s.Classes[name]) {
			if _, known := s.Secrets[ref.Key]; known || ref.Key.Namespace == s.Name {
				continue
			}
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			if err := c.Get(ctx, ref.Key, object); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("read Secret %s, which MachineClass %s names: %w", ref.Key, name, err)
			}
			s.Secrets[ref.Key] = object // without a name if there is none
		}
	}
	return nil
}

// secretRef is a Secret that a class names, and in which field.
type secretRef struct {
	Field string
	Key   client.ObjectKey
}

// SecretsOf returns the Secrets that a class names, in the order of its fields.
func SecretsOf(class *machinev1.MachineClass) []secretRef {
	var out []secretRef
	for _, ref := range []struct {
		field string
		ref   *corev1.SecretReference
	}{{"secretRef", class.SecretRef}, {"credentialsSecretRef", class.CredentialsSecretRef}} {
		if ref.ref != nil && ref.ref.Name != "" {
			key := client.ObjectKey{Namespace: cmp.Or(ref.ref.Namespace, class.Name), Name: ref.ref.Name}
			out = append(out, secretRef{ref.field, key})
		}
	}
	return out
}

// unserved reports whether err is that the API server does not know a kind.
func unserved(err error) bool {
	return err != nil && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err))
}

// listKind is the kind of a list's elements, with the group where both APIs have
// that kind.
func listKind(list client.ObjectList) string {
	name := fmt.Sprintf("%T", list)
	kind := strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "List")
	switch list.(type) {
	case *machinev1.MachineList, *machinev1.MachineSetList, *machinev1.MachineDeploymentList:
		return kind + "." + machinev1.GroupVersion.Group
	case *clusterv1.MachineList, *clusterv1.MachineSetList, *clusterv1.MachineDeploymentList:
		return kind + "." + clusterv1.GroupVersion.Group
	}
	return kind
}
