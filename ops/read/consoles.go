package read

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// maxPools is how many pools' consoles are read: one request each.
const maxPools = 20

// consoles reads what is kept of the consoles of machines that did not join, of the pools that lack
// machines, or of all. A reader needs a right of its own for it.
func (s Source) consoles(ctx context.Context, f *explain.Facts) {
	var objects []*explain.Object
	most := maxPools
	switch {
	case s.AllConsoles:
		objects, most = f.Objects, len(f.Objects)
	case s.Consoles:
		objects = f.Unjoined()
	}
	var refused error
	for _, key := range consoleSecrets(f, objects, most) {
		failures, err := s.failures(ctx, key)
		if apierrors.IsForbidden(err) {
			refused = err // the right may be to the Secrets of other pools: RBAC names them
			continue
		}
		if err != nil {
			f.Unread = append(f.Unread, unreadConsoles(err))
			return
		}
		f.Consoles[key.String()] = failures
	}
	if refused != nil && slices.ContainsFunc(objects, waitsToJoin) {
		f.Unread = append(f.Unread, unreadConsoles(refused))
	}
}

// consoleSecrets are the Secrets with the consoles of the pools of objects, each once, and that many
// at most.
func consoleSecrets(f *explain.Facts, objects []*explain.Object, most int) []client.ObjectKey {
	var keys []client.ObjectKey
	for _, o := range objects {
		pool := f.Pool(o)
		if len(keys) == most {
			return keys
		}
		if pool == nil {
			continue
		}
		namespace, name := explain.ConsoleSecret(pool)
		if key := (client.ObjectKey{Namespace: namespace, Name: name}); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func unreadConsoles(err error) string {
	return fmt.Sprintf("consoles of machines that did not join: %v", err)
}

// waitsToJoin reports whether o is a machine whose VM exists and whose node does not. Without
// one, consoles of machines before explain nothing, and a warning that they are unread would mislead.
func waitsToJoin(o *explain.Object) bool {
	return o.Kind == explain.KindMachine && o.ProviderID != "" && !o.Joined
}

// failures reads the Secret of a pool, if there is one.
func (s Source) failures(ctx context.Context, key client.ObjectKey) ([]console.Failure, error) {
	secret := &corev1.Secret{}
	err := s.Control.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) || err == nil && secret.Type != machinev1.ConsoleEvidenceType {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return console.Parse(secret.Data[console.EvidenceKey])
}
