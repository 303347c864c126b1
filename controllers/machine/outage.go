package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// While many nodes of a zone or a pool are unhealthy together, none of their
// machines is replaced and no unreachable node is drained:
//
//	        alone                        health timeout
//	Unknown ───────────────────────────────────────────────▶ Failed
//	   │ ▲                                                     ▲
//	   │ │ each quarter of a health timeout: the timeout       │ the cloud reports
//	   ▼ │ starts again, so that it is whole after the outage  │ that the VM is gone
//	 outage ───────────────────────────────────────────────────┘
//
// The start of the timeout is the time of the phase, which survives restarts and
// which MCM waits for too. A machine that has not joined has no such timeout: its
// annotation OutageObserved records when an outage last protected it.

// classZone is the zone that the class of m names, empty if it names none.
func (c *Controller) classZone(ctx context.Context, m *machinev1.Machine) string {
	r, err := c.classes.Resolve(ctx, c.Client, m.Namespace, m.Spec.Class.Name)
	switch {
	case err != nil || r.Object == nil:
		return "" // then only the pool is known
	case r.Class.Zone != "":
		return r.Class.Zone
	case r.Object.NodeTemplate != nil:
		return r.Object.NodeTemplate.Zone
	}
	return ""
}

// findOutage asks the brake for an outage where the machine is.
func (c *Controller) findOutage(ctx context.Context, p *pass) (brake.Outage, brake.Query, error) {
	q := brake.Query{
		Machine: p.machine, Node: p.node, Health: p.seen.settings.health, ClassZone: c.classZone,
		NodeConditions: func(m *machinev1.Machine) []string {
			s, _ := settingsOf(m, c.Options)
			return s.nodeConditions
		},
	}
	found, err := c.Brake.Outage(ctx, q)
	return found, q, err
}

// applyOutageProtection returns what becomes of a machine in an outage: nothing,
// unless the cloud reports that its VM is gone. Without outage it returns v.
func (c *Controller) applyOutageProtection(ctx context.Context, p *pass, v decision) (decision, error) {
	if !atRisk(p, v) {
		c.Brake.Forget(p.machine.UID)
		return v, nil
	}
	since := unhealthySince(p)
	if c.Brake.IgnoreOutages || p.seen.now.Sub(since) > c.Brake.OutageLimit {
		return v, nil
	}
	found, q, err := c.findOutage(ctx, p)
	requeueAfter(p, q.Again())
	if err != nil {
		return v, err
	}
	if found == (brake.Outage{}) {
		return waitAfterOutage(p, v), nil
	}
	due := v.next != nil || !later(since, p.seen.settings.thawed).Add(p.seen.settings.health).After(p.seen.now)
	if due && c.vmGone(ctx, p, q.Again()) {
		if v.next == nil {
			v = healthTimedOut(p.machine, p.seen.settings) // however often its timeout started again
		}
		return v, nil
	}
	what := fmt.Sprintf("Node %s does not exist", p.nodeName)
	if p.node != nil {
		what = fmt.Sprintf("Node %s is unhealthy: %s", p.node.Name,
			unhealthyReason(p.node.Status.Conditions, p.seen.settings.nodeConditions))
	}
	// No numbers that change during an outage: each change would be a write.
	markProtected(p, found, fmt.Sprintf("%s; nodes %s became unhealthy within %s of each other, replacement paused for "+
		"up to %s unless the VM is gone", what, found.Where(), brake.Duration(q.Window()),
		brake.Duration(c.Brake.OutageLimit)))
	return decision{}, c.extendTimeout(ctx, p)
}

// extensionsPerTimeout is into how many parts a health timeout is divided, after each of which it starts again.
const extensionsPerTimeout = 4

// extendTimeout lets the timeout of a protected machine start again once a part
// of it has passed.
func (c *Controller) extendTimeout(ctx context.Context, p *pass) error {
	if p.seen.settings.health == 0 {
		return nil // there is no timeout that could start again
	}
	if !pending(p) {
		began := p.machine.Status.CurrentStatus.LastUpdateTime.Time
		p.did.restartHealthTimeout = p.seen.now.Sub(began) >= p.seen.settings.health/extensionsPerTimeout
		return nil
	}
	if p.seen.now.Sub(outageObserved(p.machine)) < p.seen.settings.health/extensionsPerTimeout {
		return nil
	}
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		machinev1.SetAnnotation(m, machinev1.OutageObservedAnnotation, p.seen.now.UTC().Format(time.RFC3339))
	})
}

// outageObserved is when an outage last protected a machine that has not joined;
// zero if none has.
func outageObserved(m *machinev1.Machine) time.Time {
	at, err := time.Parse(time.RFC3339, m.Annotations[machinev1.OutageObservedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// atRisk reports whether the machine may be replaced because of its node, now or soon.
func atRisk(p *pass, v decision) bool {
	switch p.machine.Status.CurrentStatus.Phase {
	case machinev1.MachineUnknown:
		return !p.seen.settings.neverFails && (v.next == nil || v.replaces)
	case machinev1.MachinePending:
		return v.next != nil && v.next.phase == machinev1.MachineFailed
	case machinev1.MachineInPlaceUpdateFailed:
		return v.replaces
	default:
		return false
	}
}

func pending(p *pass) bool {
	return p.machine.Status.CurrentStatus.Phase == machinev1.MachinePending
}

// unhealthySince is when the condition began that the machine may be replaced for.
func unhealthySince(p *pass) time.Time {
	m := p.machine
	if pending(p) {
		return m.CreationTimestamp.Add(p.seen.settings.creation)
	}
	since := m.Status.LastOperation.LastUpdateTime.Time
	if since.IsZero() {
		since = m.Status.CurrentStatus.LastUpdateTime.Time
	}
	return since
}

// waitAfterOutage gives a machine that an outage kept from joining a whole health
// timeout after the outage, as an Unknown one has.
func waitAfterOutage(p *pass, v decision) decision {
	if !pending(p) {
		return v
	}
	if wait := outageObserved(p.machine).Add(p.seen.settings.health).Sub(p.seen.now); wait > 0 {
		requeueAfter(p, wait)
		return decision{wait: wait}
	}
	return v
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// vmGone asks the cloud whether the machine's VM is gone or will not run again by
// itself. Then the machine is lost, outage or not. A cloud that does not answer
// proves nothing. It is asked once within again.
func (c *Controller) vmGone(ctx context.Context, p *pass, again time.Duration) bool {
	if c.Brake.IsGone(p.machine.UID, p.seen.now.Add(-again)) {
		return true
	}
	found, err := c.engine.Get(ctx, c.vm(p))
	gone := cloud.CodeOf(err) == cloud.NotFound
	if err != nil && !gone {
		return false // a failed lookup changes nothing
	}
	if err == nil {
		p.did.vm = &found
		gone = found.State == cloud.StateStopped || found.State == cloud.StateFailed || found.State == cloud.StateDeleting
	}
	if gone {
		c.Brake.MarkGone(p.machine.UID)
	} else {
		c.Brake.Forget(p.machine.UID)
	}
	return gone
}

// drainPausedByOutage reports whether the node is not to be drained yet: it is
// unreachable together with others, so no kubelet would act on evictions, and its
// pods may still run. The user can force the drain, and the drain timeout ends the pause.
func (c *Controller) drainPausedByOutage(ctx context.Context, p *pass, late bool) (bool, error) {
	if c.Brake.IgnoreOutages || late || forceDeletion(p.machine) || !unreachable(p.node) {
		return false, nil
	}
	found, q, err := c.findOutage(ctx, p)
	if err != nil || found == (brake.Outage{}) || c.vmGone(ctx, p, q.Again()) {
		return false, err
	}
	markProtected(p, found, fmt.Sprintf("Node %s is unreachable: nodes %s became unhealthy within %s of each other; "+
		"drain paused until the outage or the drain timeout is over", p.node.Name, found.Where(),
		brake.Duration(q.Window())))
	requeueAfter(p, q.Again())
	return true, nil
}

// markProtected records that an outage protects the machine, and why.
func markProtected(p *pass, found brake.Outage, why string) {
	p.did.outage = found
	p.did.waitsFor = &waiting{machinev1.ReasonOutage, why}
}

// protected reports whether an outage protects the machine in this pass.
func protected(p *pass) bool { return p.did.outage != (brake.Outage{}) }

// unreachable reports whether the node's kubelet has not reported for a while.
func unreachable(node *corev1.Node) bool {
	ready := nodeConditionOf(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

// trackOutage emits an Event on the pool when an outage begins to protect
// machines of it, and when it ends.
func (c *Controller) trackOutage(ctx context.Context, p *pass) {
	key := client.ObjectKeyFromObject(p.machine)
	if p.seen.frozen {
		return
	}
	if !protected(p) || p.did.finalizerRemoved {
		c.untrackOutage(key)
		return
	}
	object, first := c.Brake.Keep(ctx, p.machine)
	if first {
		c.Events.Event(object, corev1.EventTypeWarning, eventOutage, fmt.Sprintf(
			"%d nodes %s became unhealthy within %s; replacement and drain paused for up to %s, except where the VM is gone",
			p.did.outage.Nodes, p.did.outage.Where(), brake.Duration(brake.Query{Health: p.seen.settings.health}.Window()),
			brake.Duration(c.Brake.OutageLimit)))
	}
}

// untrackOutage notes that no outage protects the machine of that name.
func (c *Controller) untrackOutage(key types.NamespacedName) {
	if object, last := c.Brake.Release(key); last {
		c.Events.Event(object, corev1.EventTypeNormal, eventOutageOver,
			"Outage over: replacement and drain of machines of this pool resumed")
	}
}
