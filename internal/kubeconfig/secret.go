package kubeconfig

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Entry is the entry of a Secret that has the kubeconfig of a Cluster.
// Source: Cluster API contract v1beta2, control plane, "Cluster kubeconfig management".
const Entry = "value"

// Suffix follows the name of a Cluster in the name of that Secret.
const Suffix = "-kubeconfig"

// OfCluster returns the connection in the Secret with the kubeconfig of a Cluster; none and no error
// if there is no Secret. The error is a *RefusedError, or that of r.
func OfCluster(ctx context.Context, r client.Reader, cluster client.ObjectKey) (Connection, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + Suffix}
	if err := r.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return Connection{}, nil
		}
		return Connection{}, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return ofSecret(secret)
}

// Refused returns why the kubeconfig of a Cluster is not used; nil if it is, if there is none, or if
// that cannot be read now.
func Refused(ctx context.Context, r client.Reader, cluster client.ObjectKey) *RefusedError {
	_, err := OfCluster(ctx, r, cluster)
	refusal, _ := errors.AsType[*RefusedError](err)
	return refusal
}

func ofSecret(secret *corev1.Secret) (Connection, error) {
	data := secret.Data[Entry]
	if len(data) == 0 {
		return Connection{}, &RefusedError{
			Secret: secret.Name, Cause: fmt.Sprintf("there is no entry %q", Entry), Remedy: "add one with the kubeconfig",
		}
	}
	out, err := Parse(data)
	if r, refused := errors.AsType[*RefusedError](err); refused {
		r.Secret = secret.Name
	}
	return out, err
}

// NewReader returns what Cluster API's connections read kubeconfigs through: a Secret has nothing but
// the connection in its kubeconfig, written anew, or is refused. Whatever else is asked for is an
// error, so that no Secret passes by.
func NewReader(secrets client.Reader) client.Reader { return reader{secrets} }

type reader struct{ secrets client.Reader }

// Get reads a Secret with a kubeconfig. The error names the Secret, the field and what to do.
func (r reader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	secret, ok := into.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("read %T %s for a connection: %w", into, key, errors.ErrUnsupported)
	}
	found := &corev1.Secret{}
	if err := r.secrets.Get(ctx, key, found, opts...); err != nil {
		return err
	}
	connection, err := ofSecret(found)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", key.Namespace, err)
	}
	clean, err := connection.Write(key.Name)
	if err != nil {
		return fmt.Errorf("write kubeconfig of Secret %s: %w", key, err)
	}
	found.Data = map[string][]byte{Entry: clean}
	found.DeepCopyInto(secret)
	return nil
}

// List is not needed by a connection.
func (r reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return fmt.Errorf("list %T for a connection: %w", list, errors.ErrUnsupported)
}
