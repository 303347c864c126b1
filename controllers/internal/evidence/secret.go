package evidence

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// tries is how often a write is tried that others of the same pool compete with.
const tries = 5

// errForeign is why a Secret is left as it is.
var errForeign = errors.New("a Secret of that name has another type; rename or delete it")

// Pool is the object that owns the evidence of its machines; the zero value is none.
type Pool metav1.OwnerReference

// PoolOf returns the pool with that owner reference. The evidence is collected with the pool, and
// moved with it by clusterctl; it never holds its deletion up.
func PoolOf(ref metav1.OwnerReference) Pool {
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	return Pool(ref)
}

// secretName is the name of the pool's Secret.
func (p Pool) secretName() string {
	return console.SecretName(schema.FromAPIVersionAndKind(p.APIVersion, p.Kind).Group, p.Kind, p.Name)
}

// stored is the evidence of a pool as it was read.
type stored struct {
	secret   *corev1.Secret // nil: there is none
	failures []console.Failure
}

// load reads the evidence of a pool.
func (k *Keeper) load(ctx context.Context, namespace string, p Pool) (stored, error) {
	if p.Name == "" {
		return stored{}, nil
	}
	secret := &corev1.Secret{}
	err := k.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.secretName()}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return stored{}, nil
	case err != nil:
		return stored{}, fmt.Errorf("read Secret %s: %w", p.secretName(), err)
	case secret.Type != machinev1.ConsoleEvidenceType:
		return stored{}, fmt.Errorf("read Secret %s: %w", secret.Name, errForeign)
	}
	failures, err := console.Parse(secret.Data[console.EvidenceKey])
	if err != nil {
		failures = nil // somebody edited it: it is rewritten
	}
	return stored{secret, failures}, nil
}

// store adds a failure to what is stored of a pool.
func (k *Keeper) store(ctx context.Context, namespace string, p Pool, was stored, f console.Failure) {
	for range tries {
		err := k.write(ctx, namespace, p, was, f)
		switch {
		case err == nil:
			return
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err):
			k.failed(ctx, namespace, err)
			return
		}
		if was, err = k.load(ctx, namespace, p); err != nil {
			k.failed(ctx, namespace, err)
			return
		}
	}
	k.failed(ctx, namespace, errors.New("others wrote the Secret at the same time"))
}

// write creates the Secret of a pool, or changes it under the version that was read.
func (k *Keeper) write(ctx context.Context, namespace string, p Pool, was stored, f console.Failure) error {
	data, err := console.Format(console.Add(was.failures, f))
	if err != nil {
		return err
	}
	secret := &corev1.Secret{Type: machinev1.ConsoleEvidenceType}
	secret.Namespace, secret.Name = namespace, p.secretName()
	if was.secret != nil {
		secret = was.secret.DeepCopy()
	}
	secret.OwnerReferences = []metav1.OwnerReference{metav1.OwnerReference(p)}
	secret.Data = map[string][]byte{console.EvidenceKey: data}
	if was.secret == nil {
		return k.Client.Create(ctx, secret)
	}
	return k.Client.Patch(ctx, secret, client.MergeFromWithOptions(was.secret, client.MergeFromWithOptimisticLock{}))
}
