package machineset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func (env *env) machine(name string) *machinev1.Machine {
	env.Helper()
	m := harness.Get[machinev1.Machine](env.Cluster, client.ObjectKey{Namespace: namespace, Name: name})
	return m
}

func ownersOf(m *machinev1.Machine) []string {
	var owners []string
	for _, ref := range m.OwnerReferences {
		owners = append(owners, ref.Name)
	}
	return owners
}

func TestClaim(t *testing.T) {
	t.Parallel()
	foreign := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "note", UID: "note-uid"}
	other := metav1.OwnerReference{
		APIVersion: "machine.sapcloud.io/v1alpha1", Kind: "MachineSet", Name: "other",
		UID: "other-uid", Controller: new(true),
	}
	owners := func(refs ...metav1.OwnerReference) func(*machinev1.Machine) {
		return func(m *machinev1.Machine) { m.OwnerReferences = refs }
	}
	deleted := func(m *machinev1.Machine) { m.DeletionTimestamp = new(metav1.Now()) }
	ours := controllerRef(newSet(0))
	halfOurs := *ours.DeepCopy()
	halfOurs.Controller = nil
	cases := map[string]struct {
		reason  string
		set     *machinev1.MachineSet
		machine *machinev1.Machine
		want    []string
	}{
		"Orphan": {
			reason: "A machine without owner that matches is adopted.", set: newSet(1),
			machine: newMember("a", owners()), want: []string{"set"},
		},
		"Owned": {
			reason: "Other owners stay, and the controller comes first, where autoscalers look.", set: newSet(1),
			machine: newMember("a", owners(foreign)), want: []string{"set", "note"},
		},
		"Half": {
			reason: "An owner that does not control is made the controller.", set: newSet(1),
			machine: newMember("a", owners(halfOurs)), want: []string{"set"},
		},
		"Controlled": {
			reason: "A machine of another set stays there.", set: newSet(0),
			machine: newMember("a", owners(other)), want: []string{"other"},
		},
		"NoMatch": {
			reason: "A machine that does not match is left alone.", set: newSet(0),
			machine: newMember("a", owners(), labelled("pool", "b")),
		},
		"Deleted": {
			reason: "A machine that is being deleted is not adopted.", set: newSet(0),
			machine: newMember("a", owners(), deleted),
		},
		"Release": {
			reason: "A machine that does not match any more is let go, with its other owners.", set: newSet(0),
			machine: newMember("a", owners(ours, foreign), labelled("pool", "b")), want: []string{"note"},
		},
		"Going": {reason: "A set that is being deleted adopts nothing.", set: newSet(1, func(set *machinev1.MachineSet) {
			set.DeletionTimestamp, set.Finalizers = new(metav1.Now()), append(set.Finalizers, "someone/else")
		}), machine: newMember("a", owners())},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, tc.set, tc.machine)
			env.settle()
			m := env.machine("a")
			if diff := cmp.Diff(tc.want, ownersOf(m)); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if name != "Deleted" && !m.DeletionTimestamp.IsZero() {
				t.Errorf("%s it is being deleted", tc.reason)
			}
		})
	}
}

// An adopted machine counts at once, also while the cache shows it as an orphan.
func TestAdoptedMachineCounts(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a", func(m *machinev1.Machine) { m.OwnerReferences = nil }))
	env.lag(nil)
	for range 3 {
		_, _ = env.reconcile()
	}
	if len(env.machines()) != 1 || env.set().Status.Replicas != 1 {
		t.Errorf("%d machines, status counts %d", len(env.machines()), env.set().Status.Replicas)
	}
}

// The cache does not show yet that the set is being deleted: a machine that it
// adopted now would be deleted with it.
func TestNoAdoptionByDeletedSet(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a", func(m *machinev1.Machine) { m.OwnerReferences = nil }))
	env.lag(nil)
	env.Delete(env.set())
	if result, err := env.reconcile(); err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %v, %v", result, err)
	}
	if len(ownersOf(env.machine("a"))) != 0 {
		t.Error("the machine was adopted")
	}
}
