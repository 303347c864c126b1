package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outage"
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

const (
	// defaultOutageLimit is how long outages protect a machine unless the options say.
	defaultOutageLimit = 2 * time.Hour
	// shortestOutageCheck is how long it waits at least for the next look.
	shortestOutageCheck = 15 * time.Second
	// longestOutageCheck is how often at least an unhealthy machine looks for an outage.
	longestOutageCheck = time.Minute
	// checksPerTimeout is how often it does so within a health timeout, if that is short.
	checksPerTimeout = 4
)

// newDetector returns the detector of outages among the machines of c.
func newDetector(c *Controller) *outage.Detector {
	d := outage.Deps{
		Machines: c.Client, ClassZone: c.classZone,
		NodeConditions: func(m *machinev1.Machine) []string {
			s, _ := settingsOf(m, c.Options)
			return s.nodeConditions
		},
	}
	if c.Target != nil {
		d.Nodes = c.Target.Client
	}
	return outage.NewDetector(d)
}

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

// findOutage returns the outage where the machine is, if there is one.
func (c *Controller) findOutage(ctx context.Context, p *pass) (outage.Outage, error) {
	return c.outages.Find(ctx, outage.Query{
		Machine: p.machine, Node: p.node, Now: p.seen.now, Window: p.seen.settings.outageWindow(), Limit: c.outageLimit(),
		Recheck: p.seen.settings.outageCheck(),
	})
}

// applyOutageProtection returns what becomes of a machine in an outage: nothing,
// unless the cloud reports that its VM is gone. Without outage it returns v.
func (c *Controller) applyOutageProtection(ctx context.Context, p *pass, v decision) (decision, error) {
	if !atRisk(p, v) {
		c.outages.Forget(p.machine.UID)
		return v, nil
	}
	if c.Options.IgnoreOutages || c.protectionExpired(p) {
		return v, nil
	}
	requeueAfter(p, p.seen.settings.outageCheck())
	found, err := c.findOutage(ctx, p)
	if err != nil {
		return v, err
	}
	if found.Scope == outage.None {
		return waitAfterOutage(p, v), nil
	}
	if replacementDue(p, v) && c.vmGone(ctx, p) {
		return dueDecision(p, v), nil
	}
	markProtected(p, found, c.outageMessage(p, found))
	return decision{}, c.extendTimeout(ctx, p)
}

// extendTimeout lets the timeout of a protected machine start again once a part
// of it has passed.
func (c *Controller) extendTimeout(ctx context.Context, p *pass) error {
	if p.seen.settings.health == 0 {
		return nil // there is no timeout that could start again
	}
	if !pending(p) {
		began := p.machine.Status.CurrentStatus.LastUpdateTime.Time
		p.did.restartHealthTimeout = p.seen.now.Sub(began) >= p.seen.settings.health/checksPerTimeout
		return nil
	}
	if p.seen.now.Sub(outageObserved(p.machine)) < p.seen.settings.health/checksPerTimeout {
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

// protectionExpired reports whether outages have protected the machine for as
// long as they may.
func (c *Controller) protectionExpired(p *pass) bool {
	return p.seen.now.Sub(unhealthySince(p)) > c.outageLimit()
}

func (c *Controller) outageLimit() time.Duration {
	if c.Options.OutageLimit > 0 {
		return c.Options.OutageLimit
	}
	return defaultOutageLimit
}

// replacementDue reports whether MCM would replace the machine by now.
func replacementDue(p *pass, v decision) bool {
	return v.next != nil || !later(unhealthySince(p), p.seen.settings.thawed).Add(p.seen.settings.health).After(p.seen.now)
}

// dueDecision is the decision about a machine whose replacement is due, however
// often its timeout started again.
func dueDecision(p *pass, v decision) decision {
	if v.next != nil {
		return v
	}
	return healthTimedOut(p.machine, p.seen.settings)
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

// outageCheck is how often a machine with these settings looks for an outage
// while it is unhealthy.
func (s settings) outageCheck() time.Duration {
	return min(max(s.health/checksPerTimeout, shortestOutageCheck), longestOutageCheck)
}

// outageWindow is how far apart losses may be. One that had been replaced before
// the next came was lost alone.
func (s settings) outageWindow() time.Duration { return min(s.health, outage.Window) }

// vmGone asks the cloud whether the machine's VM is gone or will not run again by
// itself. Then the machine is lost, outage or not. A cloud that does not answer
// proves nothing.
func (c *Controller) vmGone(ctx context.Context, p *pass) bool {
	if c.outages.IsGone(p.machine.UID, p.seen.now.Add(-p.seen.settings.outageCheck())) {
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
		c.outages.MarkGone(p.machine.UID, p.seen.now)
	} else {
		c.outages.Forget(p.machine.UID)
	}
	return gone
}

// outageMessage says why the machine is not replaced. It holds no numbers that
// change during an outage: each change would be a write.
func (c *Controller) outageMessage(p *pass, found outage.Outage) string {
	what := fmt.Sprintf("Node %s does not exist", p.nodeName)
	if p.node != nil {
		what = fmt.Sprintf("Node %s is unhealthy: %s", p.node.Name,
			unhealthyReason(p.node.Status.Conditions, p.seen.settings.nodeConditions))
	}
	return fmt.Sprintf("%s; nodes %s became unhealthy within %s of each other, replacement paused for up to %s "+
		"unless the VM is gone", what, found.Where(), outage.Duration(p.seen.settings.outageWindow()),
		outage.Duration(c.outageLimit()))
}

// drainPausedByOutage reports whether the node is not to be drained yet: it is
// unreachable together with others, so no kubelet would act on evictions, and its
// pods may still run. The user can force the drain, and the drain timeout ends the pause.
func (c *Controller) drainPausedByOutage(ctx context.Context, p *pass, late bool) (bool, error) {
	if c.Options.IgnoreOutages || late || forceDeletion(p.machine) || !unreachable(p.node) {
		return false, nil
	}
	found, err := c.findOutage(ctx, p)
	if err != nil || found.Scope == outage.None || c.vmGone(ctx, p) {
		return false, err
	}
	markProtected(p, found, fmt.Sprintf("Node %s is unreachable: nodes %s became unhealthy within %s of each other; "+
		"drain paused until the outage or the drain timeout is over", p.node.Name, found.Where(),
		outage.Duration(p.seen.settings.outageWindow())))
	requeueAfter(p, p.seen.settings.outageCheck())
	return true, nil
}

// markProtected records that an outage protects the machine, and why.
func markProtected(p *pass, found outage.Outage, why string) {
	p.did.outage = found
	p.did.waitsFor = &waiting{machinev1.ReasonOutage, why}
}

// protected reports whether an outage protects the machine in this pass.
func protected(p *pass) bool { return p.did.outage.Scope != outage.None }

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
	object, first := c.tracker.Add(key, outage.PoolOf(p.machine), func() client.Object {
		return c.poolObject(ctx, p.machine)
	})
	if first {
		c.Events.Event(object, corev1.EventTypeWarning, eventOutage, fmt.Sprintf(
			"%d nodes %s became unhealthy within %s; replacement and drain paused for up to %s, except where the VM is gone",
			p.did.outage.Nodes, p.did.outage.Where(), outage.Duration(p.seen.settings.outageWindow()),
			outage.Duration(c.outageLimit())))
	}
}

// untrackOutage notes that no outage protects the machine of that name.
func (c *Controller) untrackOutage(key types.NamespacedName) {
	if object, last := c.tracker.Remove(key); last {
		c.Events.Event(object, corev1.EventTypeNormal, eventOutageOver,
			"Outage over: replacement and drain of machines of this pool resumed")
	}
}

// poolObject is the MachineDeployment of m, else its MachineSet, else m.
func (c *Controller) poolObject(ctx context.Context, m *machinev1.Machine) client.Object {
	set, deployment := &machinev1.MachineSet{}, &machinev1.MachineDeployment{}
	switch {
	case !c.ownerInto(ctx, m, machinev1.MachineSetKind, set):
		return m
	case !c.ownerInto(ctx, set, machinev1.MachineDeploymentKind, deployment):
		return set
	}
	return deployment
}

// ownerInto reads the controller of o if it is of that kind.
func (c *Controller) ownerInto(ctx context.Context, o client.Object, kind string, into client.Object) bool {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != kind {
		return false
	}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}, into)
	return err == nil && into.GetUID() == ref.UID
}
