package machine

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// visitRetry is when a hold is looked at again that another controller's pass
// keeps from being answered. Such a pass ends by itself within moments.
const visitRetry = 200 * time.Millisecond

// held reports whether m is left alone in this pass because somebody moves it to
// another door, and when to look again. What is remembered of its VM is dropped,
// as if this process had just started: others may change the VM meanwhile.
func (c *Controller) held(ctx context.Context, m *machinev1.Machine) (bool, reconcile.Result, error) {
	if machinev1.Held(m) {
		c.engine.Forget(machinev1.OwnerID(m))
		c.losses.forget(m.UID)
		c.leaveShelter(client.ObjectKeyFromObject(m))
		if !machinev1.HoldAnswered(m) && c.Visits.Busy(m.Labels[machinev1.NodeLabel]) {
			return true, reconcile.Result{RequeueAfter: visitRetry}, nil
		}
	}
	closed, err := c.gate.Answer(ctx, m, c.marks.Wrote)
	result, err := outcome.Of(0, err)
	return closed, result, err
}

// confirm is the first step of a deletion: it makes sure that the Machine is not
// held. A process that has just become the leader may have a cache from before a
// hold that another one answered.
func (c *Controller) confirm(ctx context.Context, f *facts) (bool, error) {
	return true, c.gate.Confirm(ctx, f.machine)
}
