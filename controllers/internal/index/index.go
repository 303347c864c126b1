// Package index names the field indexes that controllers look things up with,
// so that no lookup scans a namespace.
package index

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// The indexes, for client.MatchingFields.
const (
	MachineByNode     = "index.node"             // Machine: label node
	MachineByClass    = "index.class"            // Machine: spec.class.name, and the class that it changes to
	MachineUnknown    = "index.unknown"          // Machine: Unknown, where its phase is that
	MachineByOwner    = "index.owner"            // Machine: UID of the controlling owner; "" for none
	MachineByPool     = "index.pool"             // Machine: label name
	DeploymentByClass = "index.deployment-class" // MachineDeployment: the class of its template, and its fallback classes
	SetByOwner        = "index.set-owner"        // MachineSet: UID of the controlling owner; "" for none
	ClassBySecret     = "index.secret"           // MachineClass: "<namespace>/<name>" of both Secrets
	PodByNode         = "index.pod-node"         // Pod: spec.nodeName
	NodeByProviderID  = "index.providerid"       // Node: spec.providerID
	NodeDeleting      = "index.deleting"         // Node: Deleting, where it is being deleted
	AttachmentByNode  = "index.va-node"          // VolumeAttachment: spec.nodeName
)

// An Index is one index: the kind it is on, its name and what it extracts.
type Index struct {
	Object  client.Object
	Field   string
	Extract client.IndexerFunc
}

// Control are the indexes of the control cluster, Classes among them.
func Control() []Index {
	return append([]Index{
		{&machinev1.Machine{}, MachineByNode, label(machinev1.NodeLabel)},
		{&machinev1.Machine{}, MachineByPool, label(machinev1.NameLabel)},
		{&machinev1.Machine{}, MachineByOwner, owner},
		{&machinev1.Machine{}, MachineUnknown, unknown},
		{&machinev1.Machine{}, MachineByClass, func(o client.Object) []string {
			return MachineClasses(o.(*machinev1.Machine))
		}},
		{&machinev1.MachineSet{}, SetByOwner, owner},
		{&machinev1.MachineDeployment{}, DeploymentByClass, func(o client.Object) []string {
			d := o.(*machinev1.MachineDeployment)
			first := d.Spec.Template.Spec.Class.Name
			return append(one(first), machinev1.FallbackClasses(d, first)...)
		}},
	}, Classes()...)
}

// MachineClasses are the names of the classes that m needs: its own, and the one that it changes
// to.
func MachineClasses(m *machinev1.Machine) []string {
	names := one(m.Spec.Class.Name)
	if next := m.Annotations[machinev1.NextClassAnnotation]; next != "" && next != m.Spec.Class.Name {
		names = append(names, next)
	}
	return names
}

// Classes are the indexes of MachineClasses, which several APIs use.
func Classes() []Index {
	return []Index{{&machinev1.MachineClass{}, ClassBySecret, func(o client.Object) []string {
		return Secrets(o.(*machinev1.MachineClass))
	}}}
}

// Setup registers indexes with the cache behind f.
func Setup(ctx context.Context, f client.FieldIndexer, indexes []Index) error {
	for _, i := range indexes {
		if err := f.IndexField(ctx, i.Object, i.Field, i.Extract); err != nil {
			return err
		}
	}
	return nil
}

// Secrets returns "<namespace>/<name>" of the Secrets of a class. A reference
// without namespace means the class's.
func Secrets(c *machinev1.MachineClass) []string {
	var keys []string
	for _, ref := range []*corev1.SecretReference{c.SecretRef, c.CredentialsSecretRef} {
		if ref == nil || ref.Name == "" {
			continue
		}
		namespace := ref.Namespace
		if namespace == "" {
			namespace = c.Namespace
		}
		keys = append(keys, namespace+"/"+ref.Name)
	}
	return keys
}

func label(key string) client.IndexerFunc {
	return func(o client.Object) []string { return one(o.GetLabels()[key]) }
}

func owner(o client.Object) []string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return []string{""}
}

func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// Target are the indexes of the target cluster, Nodes among them.
func Target() []Index {
	return append([]Index{
		{&corev1.Pod{}, PodByNode, func(o client.Object) []string { return one(o.(*corev1.Pod).Spec.NodeName) }},
		{&storagev1.VolumeAttachment{}, AttachmentByNode, func(o client.Object) []string {
			return one(o.(*storagev1.VolumeAttachment).Spec.NodeName)
		}},
		{&corev1.Node{}, NodeUnwell, unwell},
		{&corev1.Node{}, NodeDeleting, deleting},
	}, Nodes()...)
}

// Nodes are the indexes of Nodes, wherever they are.
func Nodes() []Index {
	return []Index{{&corev1.Node{}, NodeByProviderID, func(o client.Object) []string {
		return one(o.(*corev1.Node).Spec.ProviderID)
	}}}
}
