package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

func TestView(t *testing.T) {
	t.Parallel()
	machine := func(phase machinev1.MachinePhase, changes ...func(*machinev1.Machine)) *machinev1.Machine {
		m := &machinev1.Machine{}
		m.Status.CurrentStatus.Phase = phase
		for _, change := range changes {
			change(m)
		}
		return m
	}
	going := func(m *machinev1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: noon} }
	chosen := func(m *machinev1.Machine) { machinev1.SetAnnotation(m, machinev1.DeleteMachineAnnotation, "now") }
	second := func(m *machinev1.Machine) { machinev1.SetAnnotation(m, machinev1.PriorityAnnotation, "2") }
	running := machinev1.MachineRunning
	for name, tc := range map[string]struct {
		reason   string
		spec     int32
		status   machinev1.MachineSetStatus
		machines []*machinev1.Machine
		change   func(*machinev1.MachineSet)
		want     rollout.Set
	}{
		"Settled": {
			"All is there.", 2,
			machinev1.MachineSetStatus{Replicas: 2, AvailableReplicas: 2},
			[]*machinev1.Machine{machine(running), machine(machinev1.MachineAvailable)},
			nil,
			rollout.Set{Spec: 2, Replicas: 2, Live: 2, Available: 2},
		},
		"LateReport": {
			"A machine that goes counts as there and as not available, whatever the set still reports.", 1,
			machinev1.MachineSetStatus{Replicas: 2, AvailableReplicas: 2},
			[]*machinev1.Machine{machine(running, going), machine(running)},
			nil,
			rollout.Set{Spec: 1, Replicas: 2, Live: 1, Available: 1},
		},
		"NotReported": {
			"A machine is available when its set says so, too; it is not unhealthy before.", 1,
			machinev1.MachineSetStatus{Replicas: 1},
			[]*machinev1.Machine{machine(running)},
			nil,
			rollout.Set{Spec: 1, Replicas: 1, Live: 1, ProtectedUnavailable: 1},
		},
		"NotCachedYet": {
			"A healthy machine with a priority goes before those that the cache does not show yet.", 3,
			machinev1.MachineSetStatus{Replicas: 3, AvailableReplicas: 1},
			[]*machinev1.Machine{machine(running, second)},
			nil,
			rollout.Set{Spec: 3, Replicas: 3, Live: 1, Available: 1, ProtectedUnavailable: 2},
		},
		"NotMadeYet": {
			"What was asked for takes up room before it is there, beside what goes.", 3,
			machinev1.MachineSetStatus{Replicas: 1},
			[]*machinev1.Machine{machine(running, going)},
			nil,
			rollout.Set{Spec: 3, Replicas: 4},
		},
		"CacheBehind": {
			"What the set reports is there although the cache does not have it.", 0,
			machinev1.MachineSetStatus{Replicas: 3},
			nil,
			nil,
			rollout.Set{Replicas: 3},
		},
		"Deleting": {
			"A set that goes asks for nothing.", 3,
			machinev1.MachineSetStatus{Replicas: 1, AvailableReplicas: 1},
			[]*machinev1.Machine{machine(running)},
			func(set *machinev1.MachineSet) { set.DeletionTimestamp = &metav1.Time{Time: noon} },
			rollout.Set{Replicas: 1, Live: 1, Available: 1},
		},
		"Marked": {
			"Marks of both autoscalers count, those of machines that go do not.", 3,
			machinev1.MachineSetStatus{Replicas: 3},
			[]*machinev1.Machine{
				machine("", chosen), machine("", chosen, going),
				machine("", func(m *machinev1.Machine) { machinev1.SetAnnotation(m, machinev1.PriorityAnnotation, "1") }),
			},
			nil,
			rollout.Set{Spec: 3, Replicas: 4, Live: 2, Marked: 2},
		},
		"Annotations": {
			"What cannot be parsed is unknown.", 0,
			machinev1.MachineSetStatus{PreservedFailedReplicas: 1},
			nil,
			func(set *machinev1.MachineSet) {
				machinev1.SetAnnotation(set, machinev1.DesiredReplicasAnnotation, "7")
				machinev1.SetAnnotation(set, machinev1.MaxReplicasAnnotation, "x")
			},
			rollout.Set{Preserved: 1, Desired: new(7)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := &machinev1.MachineSet{Spec: machinev1.MachineSetSpec{Replicas: tc.spec}, Status: tc.status}
			if tc.change != nil {
				tc.change(set)
			}
			o := &ownedSet{observed: set, desired: set.DeepCopy(), machines: tc.machines}
			if diff := cmp.Diff(tc.want, o.view()); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}
