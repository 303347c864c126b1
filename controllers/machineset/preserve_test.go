package machineset

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func born(day int) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) {
		m.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC))
	}
}

func TestAutoPreservation(t *testing.T) {
	t.Parallel()
	failed, auto := phase(machinev1.MachineFailed), annotated(machinev1.PreserveAnnotation, machinev1.PreserveAuto)
	cases := map[string]struct {
		reason       string
		allowed      int
		machines     []*machinev1.Machine
		mark, unmark []string
	}{
		"None": {
			reason:   "Nothing is kept unless the set says so.",
			machines: []*machinev1.Machine{newMember("a", failed)},
		},
		"Newest": {
			reason: "The newest failed machines are kept.", allowed: 2,
			machines: []*machinev1.Machine{
				newMember("a", failed, born(1)), newMember("b", failed, born(3)),
				newMember("c", failed, born(2)), newMember("d"),
			}, mark: []string{"b", "c"},
		},
		"Full": {
			reason: "Those kept already count, in whatever phase.", allowed: 1,
			machines: []*machinev1.Machine{newMember("a", auto), newMember("b", failed)},
		},
		"Decided": {
			reason: "What a person has decided stays.", allowed: 2,
			machines: []*machinev1.Machine{
				newMember("a", failed, annotated(machinev1.PreserveAnnotation, "false")),
				newMember("b", failed, annotated(machinev1.PreserveAnnotation, "now")),
				newMember("c", failed, annotated(machinev1.PreserveAnnotation, "when-failed")),
			},
		},
		"Nonsense": {
			reason: "A value that means nothing decides nothing.", allowed: 1,
			machines: []*machinev1.Machine{newMember("a", failed, annotated(machinev1.PreserveAnnotation, "yes"))},
			mark:     []string{"a"},
		},
		"TooMany": {
			reason: "The oldest ones beyond the number are let go.", allowed: 1,
			machines: []*machinev1.Machine{
				newMember("a", failed, auto, born(3)), newMember("b", auto, born(1)),
				newMember("c", failed, auto, born(2)),
			}, unmark: []string{"b", "c"},
		},
		"Negative": {
			reason: "A negative number is none.", allowed: -3,
			machines: []*machinev1.Machine{newMember("a", failed), newMember("b", failed, auto)}, unmark: []string{"b"},
		},
		"Deleted": {
			reason: "A machine that is being deleted cannot be kept.", allowed: 1,
			machines: []*machinev1.Machine{terminatingMember("a"), newMember("b", phase(machinev1.MachineTerminating))},
		},
		"NodeDecides": {
			reason: "The Machine controller would remove the mark: the node's annotation counts.", allowed: 1,
			machines: []*machinev1.Machine{
				newMember("a", failed, annotated(machinev1.LastAppliedNodePreserveAnnotation, machinev1.PreserveWhenFailed)),
			},
		},
		"NotFailed": {
			reason: "Only failed machines are kept.", allowed: 1,
			machines: []*machinev1.Machine{newMember("a", phase(machinev1.MachineUnknown))},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mark, unmark := planAutoPreserve(tc.machines, (&scope{}).preservedByNode, tc.allowed)
			if diff := gocmp.Diff(tc.mark, namesIn(mark)); diff != "" {
				t.Errorf("%s marked:\n%s", tc.reason, diff)
			}
			if diff := gocmp.Diff(tc.unmark, namesIn(unmark)); diff != "" {
				t.Errorf("%s unmarked:\n%s", tc.reason, diff)
			}
		})
	}
}

func namesIn(machines []*machinev1.Machine) []string {
	var names []string
	for _, m := range machines {
		names = append(names, m.Name)
	}
	return names
}

// A machine that is marked in a pass is not deleted in the same pass, and none
// is marked in its place while the cache does not show the mark.
func TestAutoPreserve(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(2, func(set *machinev1.MachineSet) { set.Spec.AutoPreserveFailedMachineMax = 1 }),
		newMember("a", phase(machinev1.MachineFailed), born(2)), newMember("b", phase(machinev1.MachineFailed), born(1)))
	env.lag(nil)
	for range 3 {
		_, _ = env.reconcile()
	}
	if diff := gocmp.Diff([]string{"a"}, env.alive()); diff != "" {
		t.Error(diff)
	}
	env.catchUp()
	env.edit(func(set *machinev1.MachineSet) { set.Spec.Replicas = 1 })
	env.settle()
	status := env.set().Status
	if status.AutoPreserveFailedMachineCount != 1 {
		t.Errorf("status counts %d", status.AutoPreserveFailedMachineCount)
	}
	env.edit(func(set *machinev1.MachineSet) { set.Spec.AutoPreserveFailedMachineMax = 0 })
	env.settle()
	for _, m := range env.machines() {
		if m.Name == "a" && m.DeletionTimestamp.IsZero() {
			t.Error("a machine that is kept no longer is deleted")
		}
	}
}

// A failed machine that is kept takes the place of the one that a rollout waits for.
func TestNoAutoPreservationInARollout(t *testing.T) {
	t.Parallel()
	other := func(replicas int32) client.Object {
		return newSet(replicas, func(set *machinev1.MachineSet) {
			set.Name, set.UID, set.Labels = "other", "other-uid", map[string]string{"pool": "b"}
			set.Spec.Selector.MatchLabels = set.Labels
			set.Spec.Template.Labels, set.Spec.Template.Spec.Class.Name = set.Labels, "other"
			set.OwnerReferences = []metav1.OwnerReference{ofPool()}
		})
	}
	asks := annotated(machinev1.PreserveAnnotation, machinev1.PreserveWhenFailed)
	cases := map[string]struct {
		reason    string
		class     string // of the deployment's template; empty: the set's
		paused    bool
		others    []client.Object
		machine   func(*machinev1.Machine)
		preserved bool
	}{
		"Settled":      {reason: "Without a rollout it is kept.", preserved: true},
		"NewSet":       {reason: "Old machines are left.", others: []client.Object{other(1)}},
		"OldSet":       {reason: "This set is being replaced.", class: "other", others: []client.Object{other(1)}},
		"Begins":       {reason: "The new set does not exist yet.", class: "other"},
		"Done":         {reason: "Sets without machines are history.", others: []client.Object{other(0)}, preserved: true},
		"Paused":       {reason: "A paused deployment does not begin.", class: "other", paused: true, preserved: true},
		"AskedByAUser": {reason: "Who asks for it gets it.", class: "other", machine: asks, preserved: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := newSet(1, func(set *machinev1.MachineSet) {
				set.Spec.AutoPreserveFailedMachineMax = 1
				set.OwnerReferences = []metav1.OwnerReference{ofPool()}
			})
			d := newDeployment(1)
			d.Spec.Paused, d.Spec.Template = tc.paused, *set.Spec.Template.DeepCopy()
			d.Spec.Template.Spec.Class.Name = cmp.Or(tc.class, d.Spec.Template.Spec.Class.Name)
			member := newMember("a", phase(machinev1.MachineFailed))
			if tc.machine != nil {
				tc.machine(member)
			}
			env := newEnv(t, append([]client.Object{set, d, member}, tc.others...)...)
			env.settle()
			if kept := slices.Contains(env.alive(), "a"); kept != tc.preserved {
				t.Errorf("kept %v: %s", kept, tc.reason)
			}
		})
	}
}

func ofPool() metav1.OwnerReference {
	return *metav1.NewControllerRef(newDeployment(1), machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))
}
