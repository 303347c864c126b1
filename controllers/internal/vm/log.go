package vm

import (
	"context"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// logged is what of a VM's life this process has logged: each line once, however often
// the calls are repeated.
type logged struct {
	attempt     int    // the last one whose beginning was logged
	created     string // the providerID of the VM that was logged
	going, gone bool
}

// loggerOf is the logger of the context, for the VM of a machine.
func loggerOf(ctx context.Context, r cloud.Ref) logr.Logger {
	return log.FromContext(ctx).WithValues("machine", r.Name, "ownerID", r.OwnerID)
}

// swap sets a note on what was logged and returns what it was.
func (e *Engine) swap(ownerID string, note func(*logged)) (before logged) {
	e.update(ownerID, func(n *memory) {
		before = n.logged
		note(&n.logged)
	})
	return before
}

// logAttempt logs that an attempt begins.
func (e *Engine) logAttempt(ctx context.Context, w want) {
	r := w.Request.Ref
	before := e.swap(r.OwnerID, func(n *logged) { n.attempt = w.Attempt })
	if r.ProviderID == "" && before.attempt != w.Attempt {
		loggerOf(ctx, r).Info("Creating VM", "attempt", w.Attempt, "class", r.Class.Name, "region", r.Class.Region,
			"zone", w.Request.Zone)
	}
}

// logCreated logs a VM that was not known by its providerID before.
func (e *Engine) logCreated(ctx context.Context, w want, made cloud.VM) {
	r := w.Request.Ref
	before := e.swap(r.OwnerID, func(n *logged) { n.created = made.ProviderID })
	if r.ProviderID == "" && made.ProviderID != before.created {
		loggerOf(ctx, r).Info("Created VM", "providerID", made.ProviderID, "attempt", w.Attempt, "state", made.State.String(),
			"zone", made.Zone, "instanceType", made.InstanceType, "node", made.NodeName)
	}
}

// logGoing logs that the cloud has accepted a deletion.
func (e *Engine) logGoing(ctx context.Context, r cloud.Ref) {
	if before := e.swap(r.OwnerID, func(n *logged) { n.going = true }); !before.going {
		loggerOf(ctx, r).Info("Deleting VM", "providerID", r.ProviderID)
	}
}

// logGone logs that nothing is left of a VM.
func (e *Engine) logGone(ctx context.Context, r cloud.Ref) {
	if before := e.swap(r.OwnerID, func(n *logged) { n.gone = true }); !before.gone {
		loggerOf(ctx, r).Info("Deleted VM", "providerID", r.ProviderID)
	}
}
