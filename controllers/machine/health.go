package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
)

// checkHealth decides the phase of a Machine that has its VM, and carries out what
// becoming Running or Failed asks for.
func (c *Controller) checkHealth(ctx context.Context, p *pass) error {
	// 1. A VM that has just become complete.
	if p.did.created {
		p.did.transition = &transition{
			phase: machinev1.MachineAvailable, operation: machinev1.MachineOperationCreate,
			state: machinev1.MachineStateSuccessful, description: "Created machine on cloud provider",
		}
		if c.Target != nil {
			p.did.transition.phase, p.did.transition.state = machinev1.MachinePending, machinev1.MachineStateProcessing
			p.did.transition.description = "Creating machine on cloud provider"
			requeueAfter(p, p.seen.settings.creation-p.seen.now.Sub(p.machine.CreationTimestamp.Time))
		}
		return nil
	}
	if p.did.transition != nil || c.Target == nil || p.otherClaimant != "" {
		return nil // a node that two machines claim proves nothing about either
	}

	// 2. What its node says. A healthy node runs on a VM, whatever the cloud says.
	v := evaluateHealth(p.machine, p.node, p.seen.settings, p.seen.now)
	if p.did.createErr != nil && v.next == nil {
		return nil
	}
	p.did.createErr = nil
	requeueAfter(p, v.wait)

	// 3. An outage protects the machine.
	v, err := c.applyOutageProtection(ctx, p, v)
	switch {
	case err != nil || protected(p):
		return err
	case v.next == nil:
		return c.inspectSlowJoin(ctx, p)
	}

	// 4. An unhealthy machine is replaced when it is its turn.
	if v.replaces {
		turn, err := c.Brake.Replace(ctx, p.machine)
		switch {
		case err != nil:
			return fmt.Errorf("look for machines being replaced: %w", err)
		case turn.Allowed:
			p.did.transition = v.next
		default:
			p.did.waitsFor = &waiting{turn.Reason, turn.Message}
			requeueAfter(p, turn.Again)
		}
		return nil
	}

	// 5. What the other phases ask for.
	if err := c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		delete(m.Annotations, machinev1.OutageObservedAnnotation)
	}); err != nil {
		return err
	}
	switch v.next.joined {
	case corev1.ConditionTrue:
		if err := c.dropToken(ctx, p); err != nil && !apierrors.IsForbidden(err) {
			return err // one that we may not remove is left to its expiry
		}
	case corev1.ConditionFalse:
		c.keepConsole(ctx, p)
	}
	p.did.transition = v.next
	return nil
}

// slowJoin is how long a node usually takes at most to appear; from then on the
// cloud is asked, once a minute, what became of the VM.
const (
	slowJoin      = 3 * time.Minute
	slowJoinCheck = time.Minute
)

// inspectSlowJoin asks the cloud about the VM of a machine that takes long to join,
// so that its condition can show why.
func (c *Controller) inspectSlowJoin(ctx context.Context, p *pass) error {
	if p.machine.Status.CurrentStatus.Phase != machinev1.MachinePending {
		return nil
	}
	if justRegistered(p.node, p.seen.now) {
		requeueAfter(p, nodeGrace-p.seen.now.Sub(p.node.CreationTimestamp.Time)) // from then on it is reported
	}
	since := p.seen.now.Sub(p.machine.Status.CurrentStatus.LastUpdateTime.Time)
	if since < slowJoin {
		requeueAfter(p, slowJoin-since)
		return nil
	}
	requeueAfter(p, slowJoinCheck)
	if _, err := c.engine.Account(ctx, c.vm(p)); err != nil {
		return p.seen.classErr // what is wrong with the class is reported elsewhere
	}
	found, err := c.engine.Get(ctx, c.vm(p))
	if err != nil {
		p.did.waitsFor = &waiting{machinev1.ReasonWaitingForNode, "The VM cannot be seen: " + err.Error()}
		return nil //nolint:nilerr // a failed lookup changes nothing
	}
	p.did.vm = &found
	return nil
}

// nodeGrace is how long a registered node may be unhealthy before a machine
// that waits for it shows that: kubelets register first and get ready then, and
// each change of the condition would be a write.
const nodeGrace = 30 * time.Second

// justRegistered reports whether node is so young that being unhealthy is normal.
func justRegistered(node *corev1.Node, now time.Time) bool {
	return node != nil && now.Sub(node.CreationTimestamp.Time) < nodeGrace
}

// transition is a change of phase, operation, or both.
type transition struct {
	phase       machinev1.MachinePhase
	operation   machinev1.MachineOperationType
	state       machinev1.MachineState
	description string
	errorCode   string
	// joined is True if the machine joins with it, and False if it did not in time; else "".
	joined corev1.ConditionStatus
}

// decision is what follows from looking at a machine's node.
type decision struct {
	next *transition // nil: nothing changes
	wait time.Duration
	// replaces is set when next marks the machine as Failed so that it is
	// replaced, which waits for its turn.
	replaces bool
}

// evaluateHealth decides what becomes of a machine that has its VM: the health rules of
// MCM, as a pure function of what is seen. node is nil if there is none.
func evaluateHealth(m *machinev1.Machine, node *corev1.Node, s settings, now time.Time) decision {
	unhealthy, phase := nodeProblem(node, s), m.Status.CurrentStatus.Phase
	if phase == machinev1.MachineInPlaceUpdateSuccessful && node == nil {
		phase = machinev1.MachineRunning // no agent is left to end the update
	}
	switch phase {
	case "", machinev1.MachineTerminating:
		return decision{}
	case machinev1.MachinePending: // it waits for the node to join, for as long as a creation may take
		if unhealthy == "" && !criticalComponentsMissing(node) {
			return decision{next: &transition{
				phase: machinev1.MachineRunning, operation: machinev1.MachineOperationCreate,
				state: machinev1.MachineStateSuccessful, description: joinedText(m, now), joined: corev1.ConditionTrue,
			}}
		}
		if wait := s.creation - now.Sub(m.CreationTimestamp.Time); wait > 0 {
			return decision{wait: wait}
		}
		return decision{next: &transition{
			phase: machinev1.MachineFailed, operation: cmp.Or(m.Status.LastOperation.Type, machinev1.MachineOperationCreate),
			state:       machinev1.MachineStateFailed,
			description: fmt.Sprintf("Machine %s failed to join the cluster in %s", m.Name, s.creation),
			joined:      corev1.ConditionFalse,
		}}
	case machinev1.MachineRunning:
		// A node that was never seen is not gone: its first appearance may still be on its way.
		if unhealthy == "" || node == nil && len(joining.OfNode(m.Status.Conditions)) == 0 {
			return decision{}
		}
		return decision{next: &transition{
			phase: machinev1.MachineUnknown, operation: machinev1.MachineOperationHealthCheck,
			state:       machinev1.MachineStateProcessing,
			description: fmt.Sprintf("Machine %s is unhealthy - changing MachineState to Unknown: %s", m.Name, unhealthy),
		}}
	case machinev1.MachineUnknown: // it waits for the node to recover, for as long as a machine may be unhealthy
		if unhealthy != "" {
			return evaluateHealthTimeout(m, s, now)
		}
	case machinev1.MachineInPlaceUpdating, machinev1.MachineInPlaceUpdateFailed:
		return evaluateInPlace(m, node, s, now)
	case machinev1.MachineInPlaceUpdateSuccessful, machinev1.MachineAvailable, machinev1.MachineFailed,
		machinev1.MachineCrashLoopBackOff:
	}
	if unhealthy == "" {
		return healthy(m, now)
	}
	return decision{}
}

// healthy is what becomes of a machine whose node is healthy: it has joined if
// its creation had not ended well yet, else it is back.
func healthy(m *machinev1.Machine, now time.Time) decision {
	v := decision{next: &transition{
		phase: machinev1.MachineRunning, operation: machinev1.MachineOperationHealthCheck,
		state:       machinev1.MachineStateSuccessful,
		description: fmt.Sprintf("Machine %s successfully re-joined the cluster", m.Name),
	}}
	if op := m.Status.LastOperation; op.Type == machinev1.MachineOperationCreate &&
		op.State != machinev1.MachineStateSuccessful {
		v.next.operation, v.next.joined = machinev1.MachineOperationCreate, corev1.ConditionTrue
		v.next.description = joinedText(m, now)
	}
	return v
}

// joinedText is MCM's description of a machine whose node has joined.
func joinedText(m *machinev1.Machine, now time.Time) string {
	return fmt.Sprintf("Machine %s successfully joined the cluster in %s", m.Name,
		now.Sub(m.CreationTimestamp.Time).Round(time.Second))
}

// evaluateHealthTimeout fails a machine that was unhealthy for too long.
func evaluateHealthTimeout(m *machinev1.Machine, s settings, now time.Time) decision {
	if s.neverFails {
		return decision{}
	}
	since := m.Status.CurrentStatus.LastUpdateTime.Time
	if s.thawed.After(since) {
		since = s.thawed
	}
	if wait := s.health - now.Sub(since); wait > 0 {
		return decision{wait: wait}
	}
	return healthTimedOut(m, s)
}

// healthTimedOut is the decision about a machine that was unhealthy for too long.
func healthTimedOut(m *machinev1.Machine, s settings) decision {
	return decision{replaces: true, next: &transition{
		phase: machinev1.MachineFailed, operation: cmp.Or(m.Status.LastOperation.Type, machinev1.MachineOperationHealthCheck),
		state:       machinev1.MachineStateFailed,
		description: fmt.Sprintf("Machine %s was not healthy for %s", m.Name, s.health),
	}}
}

// evaluateInPlace follows the agent that updates the node: its result is a label.
func evaluateInPlace(m *machinev1.Machine, node *corev1.Node, s settings, now time.Time) decision {
	result := ""
	if node != nil {
		result = node.Labels[machinev1.UpdateResultLabel]
	}
	updating := m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdating
	inPlace := func(phase machinev1.MachinePhase, state machinev1.MachineState, description string) decision {
		return decision{next: &transition{
			phase: phase, operation: machinev1.MachineOperationInPlaceUpdate, state: state,
			description: description,
		}}
	}
	switch {
	case result == machinev1.UpdateSuccessful:
		return inPlace(machinev1.MachineInPlaceUpdateSuccessful, machinev1.MachineStateSuccessful,
			fmt.Sprintf("Machine %s successfully updated in place", m.Name))
	case result == machinev1.UpdateFailed && updating:
		return inPlace(machinev1.MachineInPlaceUpdateFailed, machinev1.MachineStateFailed,
			fmt.Sprintf("Machine %s could not be updated in place: %s", m.Name,
				node.Annotations[machinev1.UpdateFailedReasonAnnotation]))
	case !updating:
		return evaluateHealthTimeout(m, s, now)
	}
	if wait := s.inPlace - now.Sub(m.Status.CurrentStatus.LastUpdateTime.Time); wait > 0 {
		return decision{wait: wait}
	}
	return inPlace(machinev1.MachineInPlaceUpdateFailed, machinev1.MachineStateFailed,
		fmt.Sprintf("Machine %s failed to be updated in place in %s", m.Name, s.inPlace))
}

// nodeProblem is why the node is not healthy, empty if it is.
func nodeProblem(node *corev1.Node, s settings) string {
	if node == nil {
		return "the node does not exist"
	}
	return unhealthyReason(node.Status.Conditions, s.nodeConditions)
}

// unhealthyReason lists which of a node's conditions make it unhealthy, sorted;
// empty if none does. A node without conditions is unhealthy; so is one whose
// Ready is not True, or which reports one of types as anything but False.
func unhealthyReason(conditions []corev1.NodeCondition, types []string) string {
	if len(conditions) == 0 {
		return "the node reports no conditions"
	}
	var bad []string
	for _, c := range conditions {
		healthy := corev1.ConditionFalse
		switch {
		case c.Type == corev1.NodeReady:
			healthy = corev1.ConditionTrue
		case !slices.Contains(types, string(c.Type)):
			continue
		}
		if c.Status != healthy {
			bad = append(bad, fmt.Sprintf("%s is %s (%s)", c.Type, c.Status, c.Reason))
		}
	}
	slices.Sort(bad)
	return strings.Join(bad, ", ")
}

// criticalComponentsMissing reports whether node waits for its critical components.
func criticalComponentsMissing(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == machinev1.CriticalComponentsNotReadyTaint && t.Effect == corev1.TaintEffectNoSchedule
	})
}
