package capi

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
)

// Labels and annotations of clusterctl.
const (
	// MoveLabel on an object makes clusterctl move it together with a Cluster.
	MoveLabel = clusterctlv1.ClusterctlMoveLabel
	// MoveHierarchyLabel on an object makes clusterctl move it together with a Cluster, and
	// what it owns.
	MoveHierarchyLabel = clusterctlv1.ClusterctlMoveHierarchyLabel
	// BlockMoveAnnotation on an object makes clusterctl wait before it moves the Cluster.
	BlockMoveAnnotation = clusterctlv1.BlockMoveAnnotation
	// DeleteForMoveAnnotation is on an object that clusterctl deletes because it has
	// moved it to another management cluster.
	DeleteForMoveAnnotation = clusterctlv1.DeleteForMoveAnnotation
)

// EnsureMoveLabel labels an object that a spec names, so that clusterctl moves it:
// nothing else ties it to the Cluster, and new machines need it in the next
// management cluster too. An object that is gone, or is being moved, needs nothing.
func EnsureMoveLabel(ctx context.Context, c client.Client, o client.Object) error {
	if _, labelled := o.GetLabels()[MoveLabel]; labelled || Moving(o) {
		return nil
	}
	changed := o.DeepCopyObject().(client.Object)
	machinev1.SetLabel(changed, MoveLabel, "")
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
	c.Message = message.Truncate(c.Message, message.Limit)
	meta.SetStatusCondition(conditions, c)
}
