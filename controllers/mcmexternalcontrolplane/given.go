package mcmexternalcontrolplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

// Entries of a Secret that may have a kubeconfig, the first one wins.
const (
	keyValue      = kubeconfig.Entry
	keyKubeconfig = "kubeconfig"
)

// access is a connection to an API server, and the annotations of its Secret.
type access struct {
	kubeconfig.Connection

	notes map[string]string // annotations of the Secret
}

// givenKubeconfig returns the kubeconfig in the Secret that the spec names, with the endpoint of the
// spec.
func (c *Controller) givenKubeconfig(ctx context.Context, s *scope, name string) (access, error) {
	const field = "spec.kubeconfigSecretRef.name"
	if name == s.secretKey().Name {
		return access{}, wrong(machinev1.ReasonInvalidSpec,
			"%s: %q is the name of the Secret that is made from it; give the kubeconfig in a Secret of another name", field,
			name)
	}
	secret := &corev1.Secret{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return access{}, wrong(machinev1.ReasonSecretNotFound,
			"%s: there is no Secret %q in namespace %q; create it or name another one", field, name, s.cp.Namespace)
	}
	if err != nil {
		return access{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	data := secret.Data[keyValue]
	if len(data) == 0 {
		data = secret.Data[keyKubeconfig]
	}
	if len(data) == 0 {
		return access{}, wrong(machinev1.ReasonInvalidSecret,
			"%s: Secret %q has no entry %q or %q; add one with the kubeconfig", field, name, keyValue, keyKubeconfig)
	}
	found, err := kubeconfig.Parse(data)
	if err != nil {
		return access{}, wrong(controlplanev1.ReasonKubeconfigRefused, "%s: Secret %q: %s", field, name, err)
	}
	if err := capi.EnsureMoveLabel(ctx, c.Client, secret); err != nil {
		return access{}, err
	}
	found.Cluster, err = redirect(found.Cluster, s.override())
	return access{Connection: found}, err
}
