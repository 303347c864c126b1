package machineset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// rolling is a deployment that keeps all of its replicas available.
func rolling(replicas int32, changes ...func(*machinev1.MachineDeployment)) *machinev1.MachineDeployment {
	d := newDeployment(replicas)
	d.Spec.Strategy.Type = machinev1.RollingUpdateStrategyType
	d.Spec.Template = newSet(0).Spec.Template
	d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(1))
	d.Spec.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(0))
	for _, change := range changes {
		change(d)
	}
	return d
}

// otherTemplate rolls the sets of a deployment out.
func otherTemplate(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = "new" }

// otherSet is a set of the same deployment, of that size, with n available machines.
func otherSet(size int32, n int) []client.Object {
	set := newSet(size, owned)
	set.Name, set.UID = "other", "other-uid"
	objects := []client.Object{set}
	for i := range n {
		member := newMember(fmt.Sprintf("o-%d", i))
		member.OwnerReferences = []metav1.OwnerReference{controllerRef(set)}
		objects = append(objects, member)
	}
	return objects
}

func TestKeepsAvailableMachines(t *testing.T) {
	t.Parallel()
	a, b := newMember("a"), newMember("b")
	cases := map[string]struct {
		reason  string
		objects []client.Object
		size    int32    // of the set
		others  int      // available machines of another set
		excess  bool     // which that set has beyond its size
		prio    string   // in the set's template
		want    []string // what is left after one pass
	}{
		"TakenBack": {
			reason:  "The set was sized for a number that the user has taken back since.",
			objects: []client.Object{rolling(2), a, b}, want: []string{"a", "b"},
		},
		"SurgeFallback": {
			reason: "A deployment that may delete an old machine before it has a new one keeps one less.",
			objects: []client.Object{rolling(2, func(d *machinev1.MachineDeployment) {
				machinev1.SetAnnotation(d, machinev1.SurgeFallbackAnnotation, "true")
			}), a, b}, want: []string{"b"},
		},
		"AsFarAsAllowed": {
			reason:  "What the deployment does not need goes.",
			objects: []client.Object{rolling(1), a, b}, want: []string{"b"},
		},
		"Unavailable": {
			reason:  "What is not available is not missed.",
			objects: []client.Object{rolling(1), a, newMember("b", phase(machinev1.MachinePending))}, want: []string{"a"},
		},
		"OtherSet": {
			reason:  "Machines of the deployment's other sets count.",
			objects: []client.Object{rolling(2), a, b}, others: 1, want: []string{"b", "o-0"},
		},
		"Chosen": {
			reason: "A user or a scaler who gives a machine a priority decides which one goes.",
			objects: []client.Object{
				rolling(2), newMember("a", annotated(machinev1.PriorityAnnotation, "1")), b,
				newMember("c", phase(machinev1.MachinePending)),
			},
			size: 2, want: []string{"b", "c"},
		},
		"ChosenAndTakenBack": {
			reason:  "A priority does not say that a machine goes after the user has scaled out again.",
			objects: []client.Object{rolling(2), newMember("a", annotated(machinev1.PriorityAnnotation, "1")), b},
			want:    []string{"a", "b"},
		},
		"ChosenAsFarAsAskedFor": {
			reason: "Of two that are chosen, one goes if the user has asked for one more since.",
			objects: []client.Object{
				rolling(2), newMember("a", annotated(machinev1.PriorityAnnotation, "1")),
				newMember("b", annotated(machinev1.PriorityAnnotation, "1")), newMember("c", phase(machinev1.MachinePending)),
			},
			size: 1, want: []string{"b", "c"},
		},
		"ChosenInTheNewSet": {
			reason: "While a rollout goes on, the surge is asked for, too.",
			objects: []client.Object{
				rolling(2), newMember("a", annotated(machinev1.PriorityAnnotation, "1")),
				newMember("b", phase(machinev1.MachinePending)),
			},
			size: 1, others: 1, want: []string{"a", "b", "o-0"},
		},
		"ChosenInARollout": {
			reason: "A rollout takes the machines of an old set away. What is not available goes instead.",
			objects: []client.Object{
				rolling(1, otherTemplate), newMember("a", annotated(machinev1.PriorityAnnotation, "1")),
				newMember("b", phase(machinev1.MachinePending)),
			},
			size: 1, want: []string{"a"},
		},
		"PreservedInARollout": {
			reason: "A failed machine that is under examination does not go in place of an available one.",
			objects: []client.Object{rolling(3, otherTemplate), a, b, newMember("p", phase(machinev1.MachineFailed),
				func(m *machinev1.Machine) {
					m.Status.CurrentStatus.PreserveExpiryTime = &metav1.Time{Time: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
				})},
			size: 2, want: []string{"a", "b", "p"},
		},
		"ChosenByAScalerInARollout": {
			reason: "A scaler has drained the machine that it lists.",
			objects: []client.Object{rolling(2, otherTemplate, func(d *machinev1.MachineDeployment) {
				d.Annotations = map[string]string{machinev1.TriggerDeletionAnnotation: "a~" + scalerTime}
			}), a, b},
			size: 1, want: []string{"b"},
		},
		"ChosenForAll": {
			reason: "A priority that the template gives to all machines chooses none.",
			objects: []client.Object{
				rolling(2), newMember("a", annotated(machinev1.PriorityAnnotation, "1")),
				newMember("b", annotated(machinev1.PriorityAnnotation, "1")),
			},
			prio: "1", want: []string{"a", "b"},
		},
		"MarkTakenBack": {
			reason: "The mark of a scaler that does not list the machine any more is void.",
			objects: []client.Object{rolling(2), newMember("a", annotated(machinev1.PriorityAnnotation, "1"),
				annotated(machinev1.MarkedForDeletionAnnotation, scalerTime)), b},
			want: []string{"a", "b"},
		},
		"MarkStands": {
			reason: "The mark of a scaler that lists the machine counts.",
			objects: []client.Object{
				rolling(2, func(d *machinev1.MachineDeployment) {
					d.Annotations = map[string]string{machinev1.TriggerDeletionAnnotation: "a~" + scalerTime}
				}), newMember("a", annotated(machinev1.PriorityAnnotation, "1"),
					annotated(machinev1.MarkedForDeletionAnnotation, scalerTime)), b,
			},
			want: []string{"b"},
		},
		"UpstreamMark": {
			reason: "Cluster API's mark of a machine to delete counts.",
			objects: []client.Object{
				rolling(2), newMember("a", annotated(machinev1.DeleteMachineAnnotation, "")), b,
				newMember("c", phase(machinev1.MachinePending)),
			},
			size: 2, want: []string{"b", "c"},
		},
		"Preserved": {
			reason: "Failed machines that are preserved are not missed, as in the condition Available: a rollout went on.",
			objects: []client.Object{rolling(3), a, b, newMember("p", phase(machinev1.MachineFailed),
				func(m *machinev1.Machine) {
					m.Status.CurrentStatus.PreserveExpiryTime = &metav1.Time{Time: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
				})},
			size: 2, others: 1, want: []string{"b", "o-0", "p"},
		},
		"OthersSurplus": {
			reason:  "What another set has beyond its size may be going at the same time.",
			objects: []client.Object{rolling(2), a, b}, others: 2, excess: true, want: []string{"a", "b", "o-0", "o-1"},
		},
		"Recreate": {
			reason: "A strategy without promise keeps none.",
			objects: []client.Object{rolling(2, func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy.Type = machinev1.RecreateStrategyType
			}), a, b},
		},
		"Invalid": {
			reason: "Nothing follows from a strategy that cannot be read.",
			objects: []client.Object{rolling(2, func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("much"))
			}), a, b},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := int32(tc.others)
			if tc.excess {
				size = 0
			}
			env := newEnv(t, slices.Concat(tc.objects, otherSet(size, tc.others), []client.Object{
				newSet(tc.size, owned, func(set *machinev1.MachineSet) {
					if tc.prio != "" {
						set.Spec.Template.Annotations = map[string]string{machinev1.PriorityAnnotation: tc.prio}
					}
				}),
			})...)
			if _, err := env.reconcile(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, env.alive()); diff != "" {
				t.Errorf("%s\nmachines (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestKeepsAvailableMachinesWithStaleCache: the cache of MachineDeployments may be behind
// that of MachineSets by any time, so the deployment is read from the API server. The
// set's condition says what it waits for.
func TestKeepsAvailableMachinesWithStaleCache(t *testing.T) {
	t.Parallel()
	env := newEnv(t, rolling(0), newMember("a"), newMember("b"), newSet(0, owned))
	env.lag(func(client.Object) bool { return true })
	d := harness.Get[machinev1.MachineDeployment](env.Cluster, client.ObjectKey{Namespace: namespace, Name: "pool"})
	d.Spec.Replicas = 2
	env.Must(env.Raw.Update(t.Context(), d))
	if _, err := env.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, env.alive()); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	ready := meta.FindStatusCondition(env.set().Status.Progress.Conditions, machinev1.ConditionReplicasReady)
	if ready == nil || !strings.Contains(ready.Message, "2 kept until enough others of MachineDeployment pool") {
		t.Errorf("condition %+v does not say why the machines are kept", ready)
	}
}

// Two sets that both have to shrink do not keep their machines because of each other for
// ever: after a while the one with the smaller name shrinks, and the other keeps its own.
func TestTieOfTwoSets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		other string // name of the other set
		want  []string
	}{
		"First":  {"zzz", []string{"o-0", "o-1"}},
		"Second": {"aaa", []string{"a", "b", "o-0", "o-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := otherSet(0, 2)
			for _, o := range others {
				if set, ok := o.(*machinev1.MachineSet); ok {
					set.Name = tc.other
				} else {
					o.SetOwnerReferences([]metav1.OwnerReference{controllerRef(others[0].(*machinev1.MachineSet))})
				}
			}
			env := newEnv(t, slices.Concat([]client.Object{
				rolling(2, otherTemplate), newMember("a"), newMember("b"), newSet(0, owned),
			}, others)...)
			if result, err := env.reconcile(); err != nil || result.RequeueAfter != tieBreak {
				t.Fatalf("%v, %v, want another look after %s", result, err, tieBreak)
			}
			env.Advance(tieBreak)
			if _, err := env.reconcile(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, env.alive()); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
		})
	}
}
