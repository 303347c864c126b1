package target

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
)

// PatchNode writes the differences between node and changed, the status aside, and
// leaves in changed what is stored then. node is the Node as it was read. It fails with
// Conflict where that Node is gone and another one has its name, since the decision was
// about the former. Labels, annotations and finalizers merge with those of others. The
// list of taints can only be written as a whole, so writing it also fails with Conflict
// where the Node has changed since it was read. Callers write only a Node that has
// changed: the patch is never empty.
func PatchNode(ctx context.Context, c client.Writer, node, changed *corev1.Node) error {
	var options []client.MergeFromOption
	if !equality.Semantic.DeepEqual(node.Spec.Taints, changed.Spec.Taints) {
		options = append(options, client.MergeFromWithOptimisticLock{})
	}
	err := c.Patch(ctx, changed, client.StrategicMergeFrom(anonymous(node), options...))
	fresh.NoteWrite(ctx, err)
	return former(node, err)
}

// PatchNodeStatus writes the differences between the status of node and of changed, as
// PatchNode does for the rest. Conditions merge by their type and capacity by
// resource, so those of the kubelet stay as they are.
func PatchNodeStatus(ctx context.Context, c client.StatusClient, node, changed *corev1.Node) error {
	err := c.Status().Patch(ctx, changed, client.StrategicMergeFrom(anonymous(node)))
	fresh.NoteWrite(ctx, err)
	return former(node, err)
}

// anonymous returns node without its UID: a patch against it contains the UID, which the
// API server compares with that of the stored Node.
func anonymous(node *corev1.Node) *corev1.Node {
	base := *node
	base.UID = ""
	return &base
}

// former returns Conflict for the API server's answer to a patch with the UID of another
// Node, which to the server is a change of an immutable field.
func former(node *corev1.Node, err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil {
		return err
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == "metadata.uid" {
			return apierrors.NewConflict(corev1.Resource("nodes"), node.Name, err)
		}
	}
	return err
}
