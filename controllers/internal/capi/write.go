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

// Names of clusterctl's that objects carry.
const (
	// MoveLabel on an object makes clusterctl move it together with a Cluster.
	MoveLabel = clusterctlv1.ClusterctlMoveLabel
	// BlockMoveAnnotation on an object makes clusterctl wait with the move.
	BlockMoveAnnotation = clusterctlv1.BlockMoveAnnotation
	// DeleteForMoveAnnotation is on what clusterctl deletes because it lives on elsewhere.
	DeleteForMoveAnnotation = clusterctlv1.DeleteForMoveAnnotation
)

// AddFinalizer puts a finalizer onto o, in memory.
func AddFinalizer(o metav1.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	}
}

// DropFinalizer takes a finalizer off an object in the API server, and nothing
// else. An object that is gone, or has no such finalizer, is fine; another one
// of the same name keeps its own.
func DropFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	at := slices.Index(o.GetFinalizers(), finalizer)
	if at < 0 {
		return nil
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", at)
	patch := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/uid","value":%q},{"op":"test","path":%q,"value":%q},{"op":"remove","path":%q}]`,
		o.GetUID(), path, finalizer, path)
	if err := c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

// SetAnnotation sets an annotation of o in memory; an empty value takes it away.
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

// SetCondition puts a condition into conditions as seen at that generation of
// the object. Its time moves only with its status.
func SetCondition(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	c.Message = Clip(c.Message)
	meta.SetStatusCondition(conditions, c)
}

// Clip keeps a text short enough for a status.
func Clip(text string) string {
	const longest = 1000
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + fmt.Sprintf("… (%d bytes)", len(text))
}
