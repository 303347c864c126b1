package read

import (
	"cmp"
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

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
