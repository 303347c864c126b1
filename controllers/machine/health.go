package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// transition is a change of phase, operation, or both.
type transition struct {
	phase       machinev1.MachinePhase
	operation   machinev1.MachineOperationType
	state       machinev1.MachineState
	description string
	errorCode   string
}

// verdict is what follows from looking at a machine's node.
type verdict struct {
	next *transition // nil: nothing changes
	wait time.Duration
	// replaces is set when next marks the machine as Failed so that it is
	// replaced, which needs a permit.
	replaces bool
}

// judge says what becomes of a machine that has its VM: the health rules of
// MCM, as a pure function of what is seen. node is nil if there is none.
func judge(m *machinev1.Machine, node *corev1.Node, s settings, now time.Time) verdict {
	unhealthy := "the node does not exist"
	if node != nil {
		unhealthy = unhealthyReason(node.Status.Conditions, s.nodeConditions)
	}
	switch m.Status.CurrentStatus.Phase {
	case "", machinev1.MachineTerminating:
		return verdict{}
	case machinev1.MachinePending:
		return judgePending(m, node, unhealthy, s, now)
	case machinev1.MachineRunning:
		return judgeRunning(m, node, unhealthy)
	case machinev1.MachineUnknown:
		return judgeUnknown(m, unhealthy, s, now)
	case machinev1.MachineInPlaceUpdating, machinev1.MachineInPlaceUpdateFailed:
		return judgeInPlace(m, node, s, now)
	case machinev1.MachineAvailable, machinev1.MachineFailed, machinev1.MachineCrashLoopBackOff, machinev1.MachineInPlaceUpdateSuccessful:
		if unhealthy == "" {
			return joined(m)
		}
		return verdict{}
	}
	return verdict{}
}

// joined is what becomes of a machine whose node is healthy: it has joined if
// its creation had not ended well yet, else it is back.
func joined(m *machinev1.Machine) verdict {
	v := verdict{next: &transition{
		phase: machinev1.MachineRunning, operation: machinev1.MachineOperationHealthCheck,
		state:       machinev1.MachineStateSuccessful,
		description: fmt.Sprintf("Machine %s successfully re-joined the cluster", m.Name),
	}}
	if op := m.Status.LastOperation; op.Type == machinev1.MachineOperationCreate &&
		op.State != machinev1.MachineStateSuccessful {
		v.next.operation = machinev1.MachineOperationCreate
		v.next.description = fmt.Sprintf("Machine %s successfully joined the cluster", m.Name)
	}
	return v
}

// judgePending waits for the node to join, for as long as a creation may take.
func judgePending(m *machinev1.Machine, node *corev1.Node, unhealthy string, s settings, now time.Time) verdict {
	if unhealthy == "" && !criticalComponentsMissing(node) {
		return verdict{next: &transition{
			phase: machinev1.MachineRunning, operation: machinev1.MachineOperationCreate,
			state:       machinev1.MachineStateSuccessful,
			description: fmt.Sprintf("Machine %s successfully joined the cluster", m.Name),
		}}
	}
	if wait := s.creation - now.Sub(m.CreationTimestamp.Time); wait > 0 {
		return verdict{wait: wait}
	}
	op := m.Status.LastOperation.Type
	if op == "" {
		op = machinev1.MachineOperationCreate
	}
	return verdict{next: &transition{
		phase: machinev1.MachineFailed, operation: op, state: machinev1.MachineStateFailed,
		description: fmt.Sprintf("Machine %s failed to join the cluster in %s", m.Name, s.creation),
	}}
}

// judgeRunning notices a node that is unhealthy or gone. A node that was never
// seen is not gone: its first appearance may still be on its way.
func judgeRunning(m *machinev1.Machine, node *corev1.Node, unhealthy string) verdict {
	if unhealthy == "" || (node == nil && len(m.Status.Conditions) == 0) {
		return verdict{}
	}
	return verdict{next: &transition{
		phase: machinev1.MachineUnknown, operation: machinev1.MachineOperationHealthCheck,
		state:       machinev1.MachineStateProcessing,
		description: fmt.Sprintf("Machine %s is unhealthy - changing MachineState to Unknown: %s", m.Name, unhealthy),
	}}
}

// judgeUnknown waits for the node to recover, for as long as a machine may be unhealthy.
func judgeUnknown(m *machinev1.Machine, unhealthy string, s settings, now time.Time) verdict {
	if unhealthy == "" {
		return joined(m)
	}
	return judgeHealthTimeout(m, s, now)
}

// judgeHealthTimeout fails a machine that was unhealthy for too long.
func judgeHealthTimeout(m *machinev1.Machine, s settings, now time.Time) verdict {
	if s.neverFails {
		return verdict{}
	}
	since := m.Status.CurrentStatus.LastUpdateTime.Time
	if s.thawed.After(since) {
		since = s.thawed
	}
	if wait := s.health - now.Sub(since); wait > 0 {
		return verdict{wait: wait}
	}
	return notHealthy(m, s)
}

// notHealthy is the verdict on a machine that was unhealthy for too long.
func notHealthy(m *machinev1.Machine, s settings) verdict {
	op := m.Status.LastOperation.Type
	if op == "" {
		op = machinev1.MachineOperationHealthCheck
	}
	return verdict{replaces: true, next: &transition{
		phase: machinev1.MachineFailed, operation: op, state: machinev1.MachineStateFailed,
		description: fmt.Sprintf("Machine %s was not healthy for %s", m.Name, s.health),
	}}
}

// judgeInPlace follows the agent that updates the node: its result is a label.
func judgeInPlace(m *machinev1.Machine, node *corev1.Node, s settings, now time.Time) verdict {
	result := ""
	if node != nil {
		result = node.Labels[machinev1.UpdateResultLabel]
	}
	updating := m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdating
	inPlace := func(phase machinev1.MachinePhase, state machinev1.MachineState, description string) verdict {
		return verdict{next: &transition{
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
		return judgeHealthTimeout(m, s, now)
	}
	if wait := s.inPlace - now.Sub(m.Status.CurrentStatus.LastUpdateTime.Time); wait > 0 {
		return verdict{wait: wait}
	}
	return inPlace(machinev1.MachineInPlaceUpdateFailed, machinev1.MachineStateFailed,
		fmt.Sprintf("Machine %s failed to be updated in place in %s", m.Name, s.inPlace))
}

// unhealthyReason says which of a node's conditions make it unhealthy, sorted;
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
