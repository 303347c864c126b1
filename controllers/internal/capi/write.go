package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Labels and annotations of clusterctl.
const (
	// MoveLabel on an object makes clusterctl move it together with a Cluster.
	MoveLabel = clusterctlv1.ClusterctlMoveLabel
	// BlockMoveAnnotation on an object makes clusterctl wait before it moves the Cluster.
	BlockMoveAnnotation = clusterctlv1.BlockMoveAnnotation
	// DeleteForMoveAnnotation is on an object that clusterctl deletes because it has
	// moved it to another management cluster.
	DeleteForMoveAnnotation = clusterctlv1.DeleteForMoveAnnotation
)

// AddFinalizer adds a finalizer to o, in memory.
func AddFinalizer(o metav1.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	}
}

// DropFinalizer removes a finalizer from an object in the API server, and changes
// nothing else. It does nothing to an object that is gone or has no such finalizer,
// and fails on another object of the same name.
func DropFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	at := slices.Index(o.GetFinalizers(), finalizer)
	if at < 0 {
		return nil
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", at)
	patch := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/uid","value":%q},`+
		`{"op":"test","path":%q,"value":%q},{"op":"remove","path":%q}]`, o.GetUID(), path, finalizer, path)
	if err := c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

// SetAnnotation sets an annotation of o in memory; an empty value removes it.
func SetAnnotation(o metav1.Object, key, value string) {
	all := o.GetAnnotations()
	if value == "" {
		delete(all, key)
		return
	}
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetAnnotations(all)
}

// SetLabel sets a label of o in memory.
func SetLabel(o metav1.Object, key, value string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetLabels(all)
}

// EnsureMoveLabel labels an object that a spec names, so that clusterctl moves it:
// nothing else ties it to the Cluster, and new machines need it in the next
// management cluster too. An object that is gone, or is being moved, needs nothing.
func EnsureMoveLabel(ctx context.Context, c client.Client, o client.Object) error {
	if _, labelled := o.GetLabels()[MoveLabel]; labelled || Moving(o) {
		return nil
	}
	changed := o.DeepCopyObject().(client.Object)
	SetLabel(changed, MoveLabel, "")
	if err := c.Patch(ctx, changed, client.MergeFrom(o)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label %T %s to be moved: %w", o, o.GetName(), err)
	}
	return nil
}

// SetCondition puts a condition into conditions, as observed at that generation of
// the object. Its transition time changes only with its status.
func SetCondition(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	c.Message = Clip(c.Message)
	meta.SetStatusCondition(conditions, c)
}

// Clip shortens a text to what a condition may hold.
func Clip(text string) string {
	const longest = 1000
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + fmt.Sprintf("… (%d bytes)", len(text))
}
