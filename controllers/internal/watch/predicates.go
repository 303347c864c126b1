// Package watch has the event filters and lookups that several controllers need.
package watch

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Updates passes an update if changed reports so, and every other event. changed
// is called with the old and the new object.
func Updates[T client.Object](changed func(before, after T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		after, also := e.ObjectNew.(T)
		return ok && also && changed(before, after)
	}}
}

// ExceptStatus leaves out updates of the status and of metadata that no
// controller reads.
func ExceptStatus() predicate.Predicate { return Updates(BesidesStatus) }

// BesidesStatus reports whether an object has changed in its spec or in metadata
// that controllers read.
func BesidesStatus(before, after client.Object) bool {
	return before.GetUID() != after.GetUID() ||
		before.GetGeneration() != after.GetGeneration() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
}

// SpecOrDeletion leaves out updates that change neither the spec nor whether the
// object is being deleted.
func SpecOrDeletion() predicate.Predicate {
	return Updates(func(before, after client.Object) bool {
		return before.GetGeneration() != after.GetGeneration() ||
			!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
	})
}

// Versions leaves out updates that change nothing, as those of a resync. It is for
// Secrets, of which only the metadata is watched.
func Versions() predicate.Predicate {
	return Updates(func(before, after client.Object) bool {
		return before.GetUID() != after.GetUID() || before.GetResourceVersion() != after.GetResourceVersion()
	})
}

// SecretMetadata reads the metadata of a Secret, which a cache has of all of them. The rest
// of what it returns is empty.
func SecretMetadata(ctx context.Context, c client.Reader, key client.ObjectKey) (*corev1.Secret, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := c.Get(ctx, key, found); err != nil {
		return nil, err
	}
	return &corev1.Secret{ObjectMeta: found.ObjectMeta}, nil
}
