package mcmexternalcontrolplane

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// store writes the Secret with the kubeconfig, if it has changed.
func (c *Controller) store(ctx context.Context, s *scope, k access) error {
	data, err := k.Write(s.cluster.Name)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	before := s.secret
	if before == nil {
		before = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.secretKey().Namespace, Name: s.secretKey().Name},
			Type:       clusterv1.ClusterSecretType,
		}
	}
	changed := before.DeepCopy()
	if !bytes.Equal(changed.Data[keyValue], data) {
		changed.Data = map[string][]byte{keyValue: data}
	}
	s.own(changed)
	for _, key := range []string{controlplanev1.RenewTokenAnnotation, controlplanev1.TokenOfAnnotation} {
		machinev1.SetOrRemoveAnnotation(changed, key, k.notes[key])
	}
	if s.secret == nil {
		return c.createSecret(ctx, s, changed)
	}
	if sameSecret(before, changed) {
		return nil
	}
	if err := patch.Object(ctx, c.Client, before, changed); err != nil {
		return fmt.Errorf("write Secret %s: %w", changed.Name, err)
	}
	return nil
}

func (c *Controller) createSecret(ctx context.Context, s *scope, secret *corev1.Secret) error {
	err := c.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		s.wait = staleRetry // it is not in the cache yet
		return nil
	}
	if err != nil {
		return fmt.Errorf("create Secret %s: %w", secret.Name, err)
	}
	return nil
}

// own sets the label and the owner by which Cluster API finds, moves and deletes the
// Secret.
func (s *scope) own(secret *corev1.Secret) {
	machinev1.SetLabel(secret, clusterv1.ClusterNameLabel, s.cluster.Name)
	ref := *metav1.NewControllerRef(s.cp, controlplanev1.GroupVersion.WithKind(kind))
	for i, r := range secret.OwnerReferences {
		if r.Kind == kind && r.Name == s.cp.Name {
			secret.OwnerReferences[i] = ref
			return
		}
	}
	secret.OwnerReferences = append(secret.OwnerReferences, ref)
}

// fillEndpoint sets spec.controlPlaneEndpoint where it is empty. It never changes one.
func (c *Controller) fillEndpoint(ctx context.Context, s *scope, k access) error {
	endpoint := endpointOf(k.Cluster.Server)
	if !s.cp.Spec.ControlPlaneEndpoint.IsZero() || !endpoint.IsValid() {
		return nil
	}
	return c.patch(ctx, s, func(cp *controlplanev1.MCMExternalControlPlane) {
		cp.Spec.ControlPlaneEndpoint = endpoint
		machinev1.SetAnnotation(cp, controlplanev1.FilledEndpointAnnotation, endpoint.String())
	})
}

func sameSecret(a, b *corev1.Secret) bool {
	return maps.EqualFunc(a.Data, b.Data, bytes.Equal) && equality.Semantic.DeepEqual(a.ObjectMeta, b.ObjectMeta)
}
