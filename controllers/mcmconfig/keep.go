package mcmconfig

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/controllers/clustercache"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
)

// keep maintains data that exists. It does not create new data when the spec, the class
// or the user data change: that needs a rollout.
func (c *Controller) keep(ctx context.Context, s *scope) error {
	s.created = true
	if err := c.patchSecret(ctx, s, s.own); err != nil {
		return err
	}
	if s.machine == nil || s.attempt() == 0 {
		return nil
	}
	err := c.maintainToken(ctx, s)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return nil // the connection wakes this object
	}
	if apierrors.IsForbidden(err) && !s.joined() { // a node that has joined does not need its token
		s.forbidden()
		return nil
	}
	return err
}

// maintainToken extends the token in the data until the node has joined, and then deletes
// it.
func (c *Controller) maintainToken(ctx context.Context, s *scope) error {
	workload, err := c.Clusters.GetUncachedClient(ctx, s.clusterKey())
	if err != nil {
		return fmt.Errorf("connect to the workload cluster: %w", err)
	}
	request := c.request(s, s.attempt())
	if s.joined() {
		if err := token.DeleteOwned(ctx, token.Deps{Client: workload, Live: workload}, request); err != nil {
			return err
		}
		return c.patchSecret(ctx, s, func(secret *corev1.Secret) {
			delete(secret.Annotations, machinev1.CreateAttemptAnnotation)
		})
	}
	if !s.machine.DeletionTimestamp.IsZero() {
		return nil // the token is not needed any more
	}
	expires, err := token.Extend(ctx, workload, request, tokenLifetime/2)
	switch {
	case err != nil:
		return err
	case !expires.IsZero():
		s.wait = max(expires.Sub(s.now)-tokenLifetime/2, staleRetry)
		return nil
	case s.begun():
		s.refuse(bootstrapv1.ReasonBootstrapTokenExpired,
			"the bootstrap token in the boot data of the VM has expired before the node joined; delete Machine %q, or let a "+
				"MachineHealthCheck replace it", s.machine.Name)
		return nil
	}
	return c.renew(ctx, s)
}

// renew creates new data with another token. No VM is known to be created with the old
// one. If one is being created right now, the engine gets other bytes for the same
// idempotency token, looks for that VM, and begins the next attempt only if there is
// none.
func (c *Controller) renew(ctx context.Context, s *scope) error {
	made, ok, err := c.payload(ctx, s, s.attempt()+1)
	if err != nil || !ok {
		return err
	}
	ownerID := s.ownerID()
	s.wait = tokenLifetime / 2
	return c.patchSecret(ctx, s, func(secret *corev1.Secret) { made.into(secret, ownerID) })
}

func sameSecret(a, b *corev1.Secret) bool {
	return equality.Semantic.DeepEqual(a.ObjectMeta, b.ObjectMeta) && equality.Semantic.DeepEqual(a.Data, b.Data)
}
