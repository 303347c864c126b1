package machine

import (
	"context"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// detachVolumes removes the volume attachments of a node whose pods were not waited
// for: nobody else would while the kubelet is silent.
func (c *Controller) detachVolumes(ctx context.Context, f *facts) (bool, error) {
	if f.node == nil || !ownsNode(f) {
		return true, nil
	}
	late := f.now.Sub(f.machine.DeletionTimestamp.Time) > f.settings.drain
	if !late && !c.forceDrain(f) {
		return true, nil
	}
	remaining, err := c.drainer.DeleteAttachments(ctx, f.node)
	if err != nil {
		return false, err
	}
	if len(remaining) == 0 {
		return true, nil
	}
	f.deletionWaitsFor = &waiting{machinev1.ReasonDetachingVolumes, fmt.Sprintf("%d volumes of Node %s are still attached",
		len(remaining), f.node.Name)}
	requeueAfter(f, shortRetry)
	return false, nil
}
