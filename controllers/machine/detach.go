package machine

import (
	"context"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// detachVolumes removes the volume attachments of a node whose pods were not waited
// for: no other component does while the kubelet does not answer.
func (c *Controller) detachVolumes(ctx context.Context, p *pass) (bool, error) {
	if p.node == nil || !ownsNode(p) {
		return true, nil
	}
	if forcedBy(p) == "" {
		return true, nil
	}
	remaining, err := c.drainer.DeleteAttachments(ctx, p.node)
	if err != nil {
		return false, err
	}
	if len(remaining) == 0 {
		return true, nil
	}
	p.did.deletionWaitsFor = &waiting{
		machinev1.ReasonDetachingVolumes,
		fmt.Sprintf("%d volumes of Node %s are still attached", len(remaining), p.node.Name),
	}
	requeueAfter(p, shortRetry)
	return false, nil
}
