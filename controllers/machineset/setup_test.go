package machineset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func namesOfRequests(requests []reconcile.Request) []string {
	var names []string
	for _, r := range requests {
		names = append(names, r.Name)
	}
	return names
}

func TestSetsOfMachine(t *testing.T) {
	t.Parallel()
	second := newSet(1)
	second.Name, second.UID = "twin", "twin-uid"
	broken := newSet(1, func(set *machinev1.MachineSet) { set.Spec.Selector = nil })
	broken.Name, broken.UID = "broken", "broken-uid"
	env := newEnv(t, newSet(1), second, broken)
	orphan := func(m *machinev1.Machine) { m.OwnerReferences = nil }
	cases := map[string]struct {
		reason  string
		machine *machinev1.Machine
		want    []string
	}{
		"Owned": {reason: "A machine concerns its set.", machine: newMember("a"), want: []string{"set"}},
		"Orphan": {
			reason: "An orphan concerns all sets that match.", machine: newMember("a", orphan),
			want: []string{"set", "twin"},
		},
		"Bare": {
			reason:  "A machine without labels concerns nobody.",
			machine: newMember("a", orphan, func(m *machinev1.Machine) { m.Labels = nil }),
		},
		"Stranger": {
			reason:  "A machine of another kind of owner concerns nobody.",
			machine: newMember("a", func(m *machinev1.Machine) { m.OwnerReferences[0].Kind = "Other" }),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, namesOfRequests(env.c.setsOfMachine(t.Context(), tc.machine))); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSetsOfDeployment(t *testing.T) {
	t.Parallel()
	other := newSet(1)
	other.Name, other.UID = "other", "other-uid"
	env := newEnv(t, newSet(1, owned), other)
	if diff := cmp.Diff([]string{"set"}, namesOfRequests(env.c.setsOfDeployment(t.Context(),
		newDeployment(1)))); diff != "" {
		t.Error(diff)
	}
}

func TestMachineChanged(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*machinev1.Machine)
		want   bool
	}{
		"Nothing": {reason: "A resync is nothing.", change: func(*machinev1.Machine) {}},
		"Conditions": {reason: "What the node reports changes often.", change: func(m *machinev1.Machine) {
			m.Status.Conditions = []corev1.NodeCondition{{Type: "Ready"}}
		}},
		"Progress": {reason: "What a machine waits for is not the set's business.", change: func(m *machinev1.Machine) {
			m.Status.Progress = &machinev1.Progress{Conditions: []metav1.Condition{{Type: "X"}}}
		}},
		"Operation": {reason: "A step that did not fail is not in the set's status.", change: func(m *machinev1.Machine) {
			m.Status.LastOperation.Description = "step"
		}},
		"Failure": {reason: "A failure is.", change: func(m *machinev1.Machine) {
			m.Status.LastOperation.State = machinev1.MachineStateFailed
		}, want: true},
		"Phase":  {reason: "The phase is counted.", change: phase(machinev1.MachineFailed), want: true},
		"Labels": {reason: "Labels decide who owns the machine.", change: labelled("pool", "b"), want: true},
		"Annotation": {
			reason: "Annotations decide which machine goes.", change: annotated(machinev1.PriorityAnnotation, "1"),
			want: true,
		},
		"Owner": {reason: "Owners may change.", change: func(m *machinev1.Machine) {
			m.OwnerReferences = nil
		}, want: true},
		"Deleted": {reason: "A terminating machine is replaced.", change: func(m *machinev1.Machine) {
			m.DeletionTimestamp = new(metav1.Now())
		}, want: true},
		"Spec": {reason: "The spec is kept in sync.", change: func(m *machinev1.Machine) {
			m.Generation++
		}, want: true},
		"Preserved": {reason: "A preserved machine is kept.", change: func(m *machinev1.Machine) {
			m.Status.CurrentStatus.PreserveExpiryTime = new(metav1.Now())
		}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := newMember("a")
			tc.change(after)
			if got := machineChanged().Update(event.UpdateEvent{ObjectOld: newMember("a"), ObjectNew: after}); got != tc.want {
				t.Errorf("%s got %v", tc.reason, got)
			}
		})
	}
}
