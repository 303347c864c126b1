package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// DeleteAttachments deletes every VolumeAttachment of the node, so that its volumes can
// be attached to other nodes although its kubelet does not report that they are
// unmounted. It does not wait for volumes to be detached. It returns the names of the
// attachments that could not be deleted, sorted; none if the node does not exist or
// has no volumes. It is meant for nodes that were drained by force.
func (d *Drainer) DeleteAttachments(ctx context.Context, node *corev1.Node) (remaining []string, err error) {
	if node == nil || len(node.Status.VolumesAttached) == 0 {
		return nil, nil
	}
	var all storagev1.VolumeAttachmentList
	if err := d.target.Client.List(ctx, &all, client.MatchingFields{index.AttachmentByNode: node.Name}); err != nil {
		return nil, fmt.Errorf("listing the attachments of node %s: %w", node.Name, err)
	}
	var failed []error
	for i := range all.Items {
		va := &all.Items[i]
		if va.DeletionTimestamp != nil {
			continue
		}
		if err := d.target.Client.Delete(ctx, va, client.Preconditions{UID: &va.UID}); err != nil &&
			!apierrors.IsNotFound(err) {
			remaining = append(remaining, va.Name)
			failed = append(failed, fmt.Errorf("deleting VolumeAttachment %s: %w", va.Name, err))
		}
	}
	slices.Sort(remaining)
	return remaining, errors.Join(failed...)
}
