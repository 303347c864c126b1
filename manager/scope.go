package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scopedClient is a client for whose cache the Secrets of other namespaces than
// its own do not exist, as they do not for MCM. Without it a class that names
// one would be an error of the cache instead of a missing Secret.
type scopedClient struct {
	client.Client
	namespace string // empty is all
}

// Get is the client's.
func (c scopedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	opts ...client.GetOption,
) error {
	if _, secret := obj.(*corev1.Secret); secret && c.namespace != "" && key.Namespace != c.namespace {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.String())
	}
	return c.Client.Get(ctx, key, obj, opts...)
}
