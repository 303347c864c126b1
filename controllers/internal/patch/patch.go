// Package patch writes what differs between two versions of an object with one
// merge patch. The patch fails with a conflict where the object has changed since
// it was read: a list is replaced as a whole, and a decision may no longer hold.
package patch

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object writes what after has other than before, the status aside, and leaves in
// after what is stored then. before is the object as it was read.
func Object(ctx context.Context, w client.Writer, before, after client.Object) error {
	return w.Patch(ctx, after, ifUnchanged(before))
}

// Change applies change to a copy of o and writes what differs, the status aside, if anything does.
// It returns o as it is stored then, or o itself.
func Change[T interface {
	client.Object
	DeepCopy() T
}](ctx context.Context, w client.Writer, o T, change func(T)) (T, error) {
	changed := o.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(o, changed) {
		return o, nil
	}
	if err := Object(ctx, w, o, changed); err != nil {
		return o, err
	}
	return changed, nil
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

// RemoveFinalizer removes a finalizer from an object in the API server, and changes
// nothing else. o may be stale, as long as the finalizer is where it was; o holds
// what is stored then. It does nothing to an object that is gone or has no such
// finalizer, and fails on another object of the same name.
func RemoveFinalizer(ctx context.Context, w client.Writer, o client.Object, finalizer string) error {
	at := slices.Index(o.GetFinalizers(), finalizer)
	if at < 0 {
		return nil
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", at)
	operations := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/uid","value":%q},`+
		`{"op":"test","path":%q,"value":%q},{"op":"remove","path":%q}]`, o.GetUID(), path, finalizer, path)
	err := w.Patch(ctx, o, client.RawPatch(types.JSONPatchType, operations))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}
