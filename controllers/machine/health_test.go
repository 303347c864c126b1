package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var testStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testSettings() settings {
	return settings{
		creation: 20 * time.Minute, health: 10 * time.Minute, drain: 2 * time.Hour, inPlace: 20 * time.Minute,
		preserve:       96 * time.Hour,
		nodeConditions: []string{"KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"},
	}
}

// machineIn returns a Machine with a VM that has been in phase for that long.
func machineIn(phase machinev1.MachinePhase, since time.Duration) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: "m", Namespace: "ns",
		CreationTimestamp: metav1.NewTime(testStart.Add(-since)),
	}}
	m.Spec.ProviderID = "sim:///r/i"
	m.Status.CurrentStatus = machinev1.CurrentStatus{Phase: phase, LastUpdateTime: metav1.NewTime(testStart.Add(-since))}
	return m
}

func readyNode(status corev1.ConditionStatus, more ...corev1.NodeCondition) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	n.Status.Conditions = append([]corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}, more...)
	return n
}

func TestJudge(t *testing.T) {
	t.Parallel()
	seen := func(m *machinev1.Machine) *machinev1.Machine {
		m.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return m
	}
	labelled := func(n *corev1.Node, value string) *corev1.Node {
		n.Labels = map[string]string{machinev1.UpdateResultLabel: value}
		return n
	}
	critical := readyNode(corev1.ConditionTrue)
	critical.Spec.Taints = []corev1.Taint{{
		Key:    machinev1.CriticalComponentsNotReadyTaint,
		Effect: corev1.TaintEffectNoSchedule,
	}}
	cases := map[string]struct {
		reason   string
		machine  *machinev1.Machine
		node     *corev1.Node
		never    bool
		want     machinev1.MachinePhase // "": no transition
		wait     time.Duration
		replaces bool
	}{
		"PendingWaits": {
			"A node may take as long as the creation timeout.",
			machineIn(machinev1.MachinePending, 5*time.Minute), nil, false, "", 15 * time.Minute, false,
		},
		"PendingJoins": {
			"A healthy node makes the machine Running.",
			machineIn(machinev1.MachinePending, time.Minute), readyNode(corev1.ConditionTrue), false, machinev1.MachineRunning,
			0, false,
		},
		"PendingNotReady": {
			"A node that is not ready has not joined.",
			machineIn(machinev1.MachinePending, time.Minute), readyNode(corev1.ConditionFalse), false, "", 19 * time.Minute,
			false,
		},
		"PendingCritical": {
			"The node waits for its critical components, only on the way from Pending.",
			machineIn(machinev1.MachinePending, time.Minute), critical, false, "", 19 * time.Minute, false,
		},
		"PendingTooLong": {
			"The creation timeout fails the machine.",
			machineIn(machinev1.MachinePending, 21*time.Minute), nil, false, machinev1.MachineFailed, 0, false,
		},
		"RunningNotReady": {
			"Ready=Unknown is unhealthy.", seen(machineIn(machinev1.MachineRunning, time.Hour)),
			readyNode(corev1.ConditionUnknown), false, machinev1.MachineUnknown, 0, false,
		},
		"RunningDeadlock": {
			"A listed condition must be False.", seen(machineIn(machinev1.MachineRunning, time.Hour)),
			readyNode(corev1.ConditionTrue, corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionUnknown}),
			false, machinev1.MachineUnknown, 0, false,
		},
		"RunningOtherCondition": {
			"A condition that is not listed says nothing.",
			seen(machineIn(machinev1.MachineRunning, time.Hour)), readyNode(corev1.ConditionTrue,
				corev1.NodeCondition{Type: "MemoryPressure", Status: corev1.ConditionTrue}), false, "", 0, false,
		},
		"RunningNodeGone": {
			"A node that was seen and is gone is unhealthy.",
			seen(machineIn(machinev1.MachineRunning, time.Hour)), nil, false, machinev1.MachineUnknown, 0, false,
		},
		"RunningNodeNeverSeen": {
			"A node that was never seen is not gone.", machineIn(machinev1.MachineRunning, time.Hour),
			nil, false, "", 0, false,
		},
		"UpdatedNodeGone": {
			"A node that is gone after its update is unhealthy, too.",
			seen(machineIn(machinev1.MachineInPlaceUpdateSuccessful, time.Hour)), nil, false, machinev1.MachineUnknown, 0, false,
		},
		"UnknownWaits": {
			"The health timeout runs from when the machine got Unknown.",
			machineIn(machinev1.MachineUnknown, 4*time.Minute), readyNode(corev1.ConditionFalse), false, "", 6 * time.Minute,
			false,
		},
		"UnknownRecovers": {
			"The taint of critical components does not hold up a recovery.",
			machineIn(machinev1.MachineUnknown, time.Minute), critical, false, machinev1.MachineRunning, 0, false,
		},
		"UnknownTooLong": {
			"The health timeout fails the machine, one at a time.",
			machineIn(machinev1.MachineUnknown, 11*time.Minute), nil, false, machinev1.MachineFailed, 0, true,
		},
		"UnknownNeverFails": {
			"disableHealthTimeout keeps it Unknown.",
			machineIn(machinev1.MachineUnknown, 11*time.Minute), nil, true, "", 0, false,
		},
		"FailedRecovers": {
			"A Failed machine whose node recovers is Running again.",
			machineIn(machinev1.MachineFailed, time.Hour), readyNode(corev1.ConditionTrue), false, machinev1.MachineRunning, 0,
			false,
		},
		"FailedStays": {
			"Else it waits to be replaced.", machineIn(machinev1.MachineFailed, time.Hour), nil, false,
			"", 0, false,
		},
		"UpdatingSucceeds": {
			"The agent's label ends the update.",
			machineIn(machinev1.MachineInPlaceUpdating, time.Minute), labelled(readyNode(corev1.ConditionFalse), "successful"),
			false, machinev1.MachineInPlaceUpdateSuccessful, 0, false,
		},
		"UpdatingFails": {
			"The agent's label ends the update.",
			machineIn(machinev1.MachineInPlaceUpdating, time.Minute), labelled(readyNode(corev1.ConditionTrue), "failed"), false,
			machinev1.MachineInPlaceUpdateFailed, 0, false,
		},
		"UpdatingNotReady": {
			"Health is not looked at while the node is updated.",
			machineIn(machinev1.MachineInPlaceUpdating, time.Minute), readyNode(corev1.ConditionFalse), false, "",
			19 * time.Minute, false,
		},
		"UpdatingTooLong": {
			"The in-place timeout ends the update.",
			machineIn(machinev1.MachineInPlaceUpdating, 21*time.Minute), readyNode(corev1.ConditionTrue), false,
			machinev1.MachineInPlaceUpdateFailed, 0, false,
		},
		"UpdateFailedTooLong": {
			"A failed update is replaced after the health timeout.",
			machineIn(machinev1.MachineInPlaceUpdateFailed, 11*time.Minute), readyNode(corev1.ConditionTrue), false,
			machinev1.MachineFailed, 0, true,
		},
		"UpdateFailedAndMended": {
			"A repaired update counts.", machineIn(machinev1.MachineInPlaceUpdateFailed, time.Minute),
			labelled(readyNode(corev1.ConditionTrue), "successful"), false, machinev1.MachineInPlaceUpdateSuccessful, 0, false,
		},
		"UpdateSucceededHealthy": {
			"A healthy updated node runs.",
			machineIn(machinev1.MachineInPlaceUpdateSuccessful, time.Minute), readyNode(corev1.ConditionTrue), false,
			machinev1.MachineRunning, 0, false,
		},
		"TerminatingStays": {
			"A machine that goes is not judged.", machineIn(machinev1.MachineTerminating, time.Hour),
			readyNode(corev1.ConditionTrue), false, "", 0, false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testSettings()
			s.neverFails = tc.never
			v := evaluateHealth(tc.machine, tc.node, s, testStart)
			got := machinev1.MachinePhase("")
			if v.next != nil {
				got = v.next.phase
			}
			if got != tc.want || v.wait != tc.wait || v.replaces != tc.replaces {
				t.Errorf("judge() = %q, wait %s, replaces %v; want %q, %s, %v: %s", got, v.wait, v.replaces, tc.want, tc.wait,
					tc.replaces, tc.reason)
			}
		})
	}
}
