package class

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// A part is what one of the class's Secrets has.
type part struct {
	SecretRef
	data cloud.Credentials
}

// readSecrets returns what is in the class's Secrets, secretRef's first, and a problem for each
// Secret that is not there. A Secret that both references name is returned once.
func readSecrets(ctx context.Context, c client.Reader, object *machinev1.MachineClass) ([]part, []cloud.Problem,
	error,
) {
	var parts []part
	var gone []cloud.Problem
	for _, ref := range secretRefs(object) {
		secret := &corev1.Secret{}
		err := c.Get(ctx, ref.Key, secret)
		switch {
		case apierrors.IsNotFound(err):
			gone = append(gone, cloud.Problem{
				Severity: cloud.BlocksCreate, Field: ref.Field,
				Message: fmt.Sprintf("there is no Secret %q; create it or name another one", ref.Key),
			})
		case err != nil:
			return nil, nil, fmt.Errorf("read Secret %s of %s of MachineClass %s: %w", ref.Key, ref.Field, object.Name, err)
		case len(parts) == 0 || parts[0].Key != ref.Key:
			parts = append(parts, part{ref, secret.Data})
		}
	}
	return parts, gone, nil
}

// merge returns the entries of all parts, those of the last one winning, as MCM does. Never nil.
func merge(parts []part) cloud.Credentials {
	creds := cloud.Credentials{}
	for _, p := range parts {
		maps.Copy(creds, p.data)
	}
	return creds
}

// A SecretRef is one reference of a class to a Secret.
type SecretRef struct {
	Field string // secretRef or credentialsSecretRef
	Key   client.ObjectKey
}

// secretRefs returns the Secrets that a class names, secretRef first. A
// reference without namespace means the class's; one without name means none.
func secretRefs(object *machinev1.MachineClass) []SecretRef {
	var refs []SecretRef
	for _, r := range []struct {
		field string
		ref   *corev1.SecretReference
	}{{"secretRef", object.SecretRef}, {"credentialsSecretRef", object.CredentialsSecretRef}} {
		if r.ref == nil || r.ref.Name == "" {
			continue
		}
		key := client.ObjectKey{Namespace: r.ref.Namespace, Name: r.ref.Name}
		if key.Namespace == "" {
			key.Namespace = object.Namespace
		}
		refs = append(refs, SecretRef{Field: r.field, Key: key})
	}
	return refs
}

// SecretKeys returns the Secrets that a class names.
func SecretKeys(object *machinev1.MachineClass) []client.ObjectKey {
	var keys []client.ObjectKey
	for _, ref := range secretRefs(object) {
		keys = append(keys, ref.Key)
	}
	return keys
}
