package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// keptSecrets bounds the Secrets that are kept in memory. Those of classes are read each
// time a machine is looked at, and are few; the others are read once or twice.
const keptSecrets = 256

// secretClient is a client that keeps the metadata of all Secrets, by a watch, and the
// content of a few. It reads a Secret from the API server when it is first asked for it and
// after each change, so that it shows no older version than a cache of whole Secrets would.
//
// The Secrets of other namespaces than its own do not exist for it, as they do not for MCM.
// Without that, a class that names one would be an error of the cache instead of a
// missing Secret.
type secretClient struct {
	client.Client               // reads Secrets from the API server
	metadata      client.Reader // a cache
	namespace     string        // empty is all
	kept          *lru.Cache    // *keptSecret by client.ObjectKey
}

// keptSecret is a Secret as it was read while the cache showed a version of it.
type keptSecret struct {
	secret *corev1.Secret
	shown  string // resource version
}

// newSecretClient returns the client of a manager of that namespace, for
// manager.Options.NewClient. Empty means all namespaces.
func newSecretClient(namespace string) client.NewClientFunc {
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		cached := *options.Cache
		cached.DisableFor = append(cached.DisableFor, &corev1.Secret{})
		options.Cache = &cached
		c, err := client.New(config, options)
		if err != nil {
			return nil, err
		}
		return &secretClient{Client: c, metadata: cached.Reader, namespace: namespace, kept: lru.New(keptSecrets)}, nil
	}
}

// Get reads an object; a Secret, or the metadata of one, as the type says.
func (c *secretClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	opts ...client.GetOption,
) error {
	switch o := obj.(type) {
	case *corev1.Secret:
		return c.secret(ctx, key, o, opts...)
	case *metav1.PartialObjectMetadata:
		if o.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret") {
			return c.secretMetadata(ctx, key, o, opts...)
		}
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// Create creates an object. A Secret is not read again until somebody changes it.
func (c *secretClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	err := c.Client.Create(ctx, obj, opts...)
	c.keepWritten(obj, err)
	return err
}

// Patch patches an object. A Secret is not read again until somebody changes it.
func (c *secretClient) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.PatchOption,
) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	c.keepWritten(obj, err)
	return err
}

// keepWritten keeps a Secret as the API server answered to a write. Consoles are large, and not
// read through this client.
func (c *secretClient) keepWritten(obj client.Object, err error) {
	if s, ok := obj.(*corev1.Secret); ok && err == nil && s.Type != machinev1.ConsoleEvidenceType {
		c.kept.Add(client.ObjectKeyFromObject(s), &keptSecret{secret: s.DeepCopy(), shown: s.ResourceVersion})
	}
}

func (c *secretClient) secretMetadata(ctx context.Context, key client.ObjectKey, into *metav1.PartialObjectMetadata,
	opts ...client.GetOption,
) error {
	if c.namespace != "" && key.Namespace != c.namespace {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.String())
	}
	return c.metadata.Get(ctx, key, into, opts...)
}

func (c *secretClient) secret(ctx context.Context, key client.ObjectKey, into *corev1.Secret,
	opts ...client.GetOption,
) error {
	shown := &metav1.PartialObjectMetadata{}
	shown.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := c.secretMetadata(ctx, key, shown)
	if err == nil {
		if found, ok := c.kept.Get(key); ok && found.(*keptSecret).shows(shown) {
			found.(*keptSecret).secret.DeepCopyInto(into)
			return nil
		}
		err = c.Client.Get(ctx, key, into, opts...)
	}
	if err != nil {
		c.kept.Remove(key)
		return err
	}
	c.kept.Add(key, &keptSecret{secret: into.DeepCopy(), shown: shown.ResourceVersion})
	return nil
}

// shows reports whether the cache has shown no change since the Secret was read.
func (k *keptSecret) shows(m *metav1.PartialObjectMetadata) bool {
	return k.secret.UID == m.UID && (k.shown == m.ResourceVersion || k.secret.ResourceVersion == m.ResourceVersion)
}
