// Package patch writes what differs between two versions of an object with one
// merge patch. The patch fails with a conflict where the object has changed since
// it was read: a list is replaced as a whole, and a decision may no longer hold.
package patch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object writes what after has other than before, the status aside, and leaves in
// after what is stored then. before is the object as it was read.
func Object(ctx context.Context, w client.Writer, before, after client.Object) error {
	return w.Patch(ctx, after, ifUnchanged(before))
}

// Metadata is Object for objects that differ in metadata alone; equal ones are
// not written. wrote reports whether there was anything to write.
func Metadata(ctx context.Context, w client.Writer, before, after client.Object) (wrote bool, err error) {
	if SameMetadata(before, after) {
		return false, nil
	}
	return true, Object(ctx, w, before, after)
}

// SameMetadata reports whether two versions of an object have the same
// finalizers, labels, annotations and owners.
func SameMetadata(a, b client.Object) bool {
	return equality.Semantic.DeepEqual(a.GetFinalizers(), b.GetFinalizers()) &&
		equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) &&
		equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// Status writes what the status of after has other than that of before.
func Status(ctx context.Context, w client.StatusClient, before, after client.Object) error {
	return w.Status().Patch(ctx, after, ifUnchanged(before))
}

func ifUnchanged(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
