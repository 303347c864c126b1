package token

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Extend extends the token of an attempt, for which Ensure has returned one, to
// r.Expiration if it expires in less than least, and returns when it expires. The token,
// and so the bootstrap data, does not change. The zero time means that the token is not
// valid any more. It costs one request, and another one to extend the token.
// Source: Cluster API's kubeadm bootstrap provider refreshes tokens like this
// until the node has joined.
func Extend(ctx context.Context, w client.Client, r Request, least time.Duration) (time.Time, error) {
	existing := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: namePrefix + id(r)}
	err := w.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) || err == nil && (!ours(existing, r) || !alive(existing, r.Now)) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read Secret %s of the bootstrap token: %w", key.Name, err)
	}
	expires, err := time.Parse(time.RFC3339, string(existing.Data[keyExpiration]))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // alive has read it already
	}
	if expires.Sub(r.Now) >= least {
		return expires, nil
	}
	changed := existing.DeepCopy()
	changed.Data[keyExpiration] = []byte(r.Expiration.UTC().Format(time.RFC3339))
	err = w.Patch(ctx, changed, client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("extend Secret %s of the bootstrap token: %w", key.Name, err)
	}
	return r.Expiration.Truncate(time.Second), nil
}
