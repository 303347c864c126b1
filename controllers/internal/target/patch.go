package target

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchNode writes what changed has other than node, the status aside, and
// leaves in changed what is stored then. node is the Node as it was read. It
// fails with Conflict where that Node is gone and another one has its name: such
// a Node must not get what was decided for the one before it. Labels,
// annotations and finalizers merge with those of others; the list of taints can
// only be written as a whole, so writing it fails with Conflict too where the
// Node has changed since it was read. It says nothing of what changed in between
// otherwise. A Node that is equal to changed is better not written: the patch is never empty.
func PatchNode(ctx context.Context, c client.Writer, node, changed *corev1.Node) error {
	var options []client.MergeFromOption
	if !equality.Semantic.DeepEqual(node.Spec.Taints, changed.Spec.Taints) {
		options = append(options, client.MergeFromWithOptimisticLock{})
	}
	return former(node, c.Patch(ctx, changed, client.StrategicMergeFrom(anonymous(node), options...)))
}

// PatchNodeStatus writes what the status of changed has other than that of node,
// as PatchNode writes the rest. Conditions merge by their type and capacity by
// resource, so those of the kubelet stay as they are.
func PatchNodeStatus(ctx context.Context, c client.StatusClient, node, changed *corev1.Node) error {
	return former(node, c.Status().Patch(ctx, changed, client.StrategicMergeFrom(anonymous(node))))
}

// anonymous is node without its UID: a patch that begins there names the UID,
// which the API server compares with that of the Node it is about to change.
func anonymous(node *corev1.Node) *corev1.Node {
	base := *node
	base.UID = ""
	return &base
}

// former makes a Conflict of what the API server says of a patch with the UID of
// another Node: to it that is a change of a field that does not change.
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
