package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outage"
)

// While nodes of a zone or a pool are lost together, none of their machines is
// replaced and no silent node is drained:
//
//	       lost alone                     health timeout
//	Unknown ───────────────────────────────────────────────▶ Failed
//	   │ ▲                                                     ▲
//	   │ │ each quarter of a health timeout: the timeout       │ the cloud says
//	   ▼ │ begins anew, so that it is whole when this is over  │ that the VM is gone
//	 outage ───────────────────────────────────────────────────┘
//
// That the timeout began anew stands where MCM keeps it too, in the time of the
// phase. It survives restarts, and MCM would wait for it as well.

const (
	// outageLimit is for how long an outage keeps a machine unless the options say.
	outageLimit = 2 * time.Hour
	// outageLook is how often a machine that is unhealthy looks around at least.
	outageLook = time.Minute
	// outageShare of the health timeout is between two looks, if that is shorter.
	outageShare = 4
)

// withstand returns what becomes of a machine in an outage: nothing, unless the
// cloud says that its VM is gone. Without outage it is the verdict.
func (c *Controller) withstand(ctx context.Context, f *facts, v verdict) (verdict, error) {
	if !atRisk(f, v) {
		c.losses.forget(f.machine.UID)
		return v, nil
	}
	if c.Options.IgnoreOutages || c.endured(f) {
		return v, nil
	}
	sooner(f, f.settings.outageLook())
	scope, err := c.losses.around(ctx, f)
	if err != nil {
		return v, err
	}
	if scope == outage.None {
		return recovering(f, v), nil
	}
	if due(f, v) {
		certain, err := c.certain(ctx, f)
		if err != nil {
			return v, err
		}
		if certain {
			return dueVerdict(f, v), nil
		}
	}
	shield(f, outageText(f, scope, c.losses.place(ctx, f.machine, f.node)))
	f.renew = f.now.Sub(f.machine.Status.CurrentStatus.LastUpdateTime.Time) >= f.settings.health/outageShare
	return verdict{}, nil
}

// atRisk reports whether the machine may be replaced because of its node, now or soon.
func atRisk(f *facts, v verdict) bool {
	switch f.machine.Status.CurrentStatus.Phase {
	case machinev1.MachineUnknown:
		return !f.settings.neverFails && (v.next == nil || v.replaces)
	case machinev1.MachinePending:
		return v.next != nil && v.next.phase == machinev1.MachineFailed
	case machinev1.MachineInPlaceUpdateFailed:
		return v.replaces
	default:
		return false
	}
}

func pending(f *facts) bool {
	return f.machine.Status.CurrentStatus.Phase == machinev1.MachinePending
}

// suffers is since when the machine is in the state that it may be replaced for.
func suffers(f *facts) time.Time {
	m := f.machine
	if pending(f) {
		return m.CreationTimestamp.Add(f.settings.creation)
	}
	since := m.Status.LastOperation.LastUpdateTime.Time
	if since.IsZero() {
		since = m.Status.CurrentStatus.LastUpdateTime.Time
	}
	return since
}

// endured reports whether outages have kept the machine for as long as they may.
func (c *Controller) endured(f *facts) bool {
	return f.now.Sub(suffers(f)) > c.outageLimit()
}

func (c *Controller) outageLimit() time.Duration {
	if c.Options.OutageLimit > 0 {
		return c.Options.OutageLimit
	}
	return outageLimit
}

// due reports whether MCM would replace the machine by now.
func due(f *facts, v verdict) bool {
	return v.next != nil || !later(suffers(f), f.settings.thawed).Add(f.settings.health).After(f.now)
}

// dueVerdict is the verdict on a machine that is due, however often its timeout
// began anew.
func dueVerdict(f *facts, v verdict) verdict {
	if v.next != nil {
		return v
	}
	return notHealthy(f.machine, f.settings)
}

// recovering lets a machine that was to be made in an outage have a health
// timeout after it, as one that was Unknown has.
func recovering(f *facts, v verdict) verdict {
	status := f.machine.Status
	if !pending(f) || !status.CurrentStatus.LastUpdateTime.After(status.LastOperation.LastUpdateTime.Time) {
		return v
	}
	if wait := f.settings.health - f.now.Sub(status.CurrentStatus.LastUpdateTime.Time); wait > 0 {
		sooner(f, wait)
		return verdict{wait: wait}
	}
	return v
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// outageLook is how often a machine with these settings looks for an outage while
// it is unhealthy.
func (s settings) outageLook() time.Duration {
	return min(max(s.health/outageShare, time.Second), outageLook)
}

// outageWindow is how far apart losses may be. One that had been replaced before
// the next came was lost alone.
func (s settings) outageWindow() time.Duration { return min(s.health, outage.Window) }

// certain asks the cloud whether the machine's VM is gone or will not run again by
// itself. Then it is lost, whatever else is wrong. A cloud that does not answer
// says nothing.
func (c *Controller) certain(ctx context.Context, f *facts) (bool, error) {
	if c.losses.isGone(f.machine.UID, f.now.Add(-f.settings.outageLook())) {
		return true, nil
	}
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return false, err
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // the class is told about elsewhere; here it only means that nobody can be asked
	}
	found, err := account.Get(ctx, c.ref(f.machine, resolved))
	gone := cloud.CodeOf(err) == cloud.NotFound
	if err != nil && !gone {
		return false, nil // a look that fails changes nothing
	}
	if err == nil {
		f.vm = &found
		gone = found.State == cloud.StateStopped || found.State == cloud.StateFailed || found.State == cloud.StateDeleting
	}
	if gone {
		c.losses.noteGone(f.machine.UID, f.now)
	} else {
		c.losses.forget(f.machine.UID)
	}
	return gone, nil
}

// outageText says what keeps the machine.
func outageText(f *facts, scope outage.Scope, p outage.Place) string {
	where := fmt.Sprintf("zone %s", p.Zone)
	if scope == outage.Pool {
		where = "the same pool"
	}
	what := fmt.Sprintf("Node %s is not there", f.nodeName)
	if f.node != nil {
		what = fmt.Sprintf("Node %s is unhealthy: %s", f.node.Name,
			unhealthyReason(f.node.Status.Conditions, f.settings.nodeConditions))
	}
	return fmt.Sprintf("%s. Nodes of %s were lost together, so the machine is not replaced unless its VM is gone", what,
		where)
}

// partitioned reports whether the node is not to be drained: it is silent together
// with others, so nobody would hear of the evictions, and its pods may be alive.
// The user can force it, and the drain timeout ends it.
func (c *Controller) partitioned(ctx context.Context, f *facts, late bool) (bool, error) {
	if c.Options.IgnoreOutages || late || forced(f.machine) || !silent(f.node) {
		return false, nil
	}
	scope, err := c.losses.around(ctx, f)
	if err != nil || scope == outage.None {
		return false, err
	}
	if certain, err := c.certain(ctx, f); err != nil || certain {
		return false, err
	}
	shield(f, fmt.Sprintf("Node %s was lost together with others of its zone or pool, so it is not drained until "+
		"that is over", f.node.Name))
	sooner(f, f.settings.outageLook())
	return true, nil
}

// shield notes that an outage keeps the machine, and why.
func shield(f *facts, why string) {
	f.outage = true
	f.waiting = &waiting{machinev1.ReasonOutage, why}
}

// silent reports whether nothing was heard of the node for a while.
func silent(node *corev1.Node) bool {
	ready := nodeConditionOf(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}
