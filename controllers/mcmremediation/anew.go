package mcmremediation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// unreportedLimit is how long an object stays whose Machine no MachineHealthCheck reports as
// unhealthy.
const unreportedLimit = 5 * time.Minute

// beginAnew deletes an object whose Machine is not reported as unhealthy for too long. While it
// exists, the MachineHealthCheck that has made it never writes that the Machine is unhealthy, and
// without that its owner does not replace it. So after clusterctl move, which loses the status of
// the Machine, or if Cluster API's manager ended between the creation and that write, both would
// wait for each other. The MachineHealthCheck makes another object for a Machine that is
// unhealthy; the cooldown counts from the last reboot, which the MCMMachine records. What a
// person has made stays.
func (c *Controller) beginAnew(ctx context.Context, p *pass) error {
	if p.object.Annotations[clusterv1.TemplateClonedFromNameAnnotation] == "" {
		return nil
	}
	until := p.object.CreationTimestamp.Add(unreportedLimit)
	if waiting(p) && waitsUntil(p).After(until) {
		until = waitsUntil(p)
	}
	if p.seen.now.Before(until) {
		p.did.requeue = until.Sub(p.seen.now)
		return nil
	}
	err := c.Client.Delete(ctx, p.object, client.Preconditions{
		UID: new(p.object.UID), ResourceVersion: new(p.object.ResourceVersion),
	})
	if err = client.IgnoreNotFound(err); apierrors.IsConflict(err) {
		p.did.requeue = time.Second
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete MCMRemediation %s: %w", p.object.Name, err)
	}
	p.did = outcomes{}
	c.Events.Event(p.object, corev1.EventTypeNormal, infrav1.ReasonWaitingForHealthCheck, fmt.Sprintf(
		"No MachineHealthCheck has reported the Machine as unhealthy for %v; this object is deleted, so that the "+
			"MachineHealthCheck makes another one if the Machine is unhealthy", unreportedLimit))
	return nil
}
