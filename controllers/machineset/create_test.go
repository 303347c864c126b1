package machineset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var errBoom = errors.New("boom")

func isMachine(o client.Object) bool {
	_, ok := o.(*machinev1.Machine)
	return ok
}

func TestCreate(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(3, func(set *machinev1.MachineSet) {
		set.Annotations = map[string]string{machinev1.EffectiveCreationTimeoutAnnotation: "7m"}
		set.Spec.Template.Spec.ProviderID = "sim:///x"
		set.Spec.Template.Annotations = map[string]string{"note": "kept"}
	}))
	env.settle()
	names := naming.NewNames(env.set())
	machines := env.machines()
	if len(machines) != 3 {
		t.Fatalf("got %d machines, want 3", len(machines))
	}
	for i := range int64(3) {
		at := slices.IndexFunc(machines, func(m *machinev1.Machine) bool { return m.Name == names.Name(i) })
		if at < 0 {
			t.Fatalf("no machine has the name of ordinal %d", i)
		}
		m := machines[at]
		if m.Annotations[machinev1.OwnerIDAnnotation] != names.OwnerID(i) {
			t.Errorf("owner id of %s does not follow from its ordinal", m.Name)
		}
		if m.Annotations[machinev1.PriorityAnnotation] != "3" || m.Annotations["note"] != "kept" ||
			m.Annotations[machinev1.EffectiveCreationTimeoutAnnotation] != "7m" {
			t.Errorf("annotations of %s: %v", m.Name, m.Annotations)
		}
		if !slices.Equal(m.Finalizers, []string{machinev1.Finalizer}) || !metav1.IsControlledBy(m, env.set()) ||
			m.Spec.ProviderID != "" {
			t.Errorf("machine %s is not born as it should be: %+v", m.Name, m)
		}
	}
	all, count := env.told(machinev1.EventSuccessfulCreate)
	if count != 1 || len(all) != 1 || !strings.Contains(all[0], "Created Machines: set-") {
		t.Errorf("one Event tells of the batch, got %q", all)
	}
	if got := env.set().Annotations[machinev1.OrdinalsAnnotation]; got != "next=3" {
		t.Errorf("the reservation is not closed: %q", got)
	}
	want := map[string]int{"create": 3, "patch": 2, "status": 1, "list": 1}
	for verb, n := range want {
		if env.sent(verb) != n {
			t.Errorf("%d requests to %s, want %d: a batch costs the same however large it is", env.sent(verb), verb, n)
		}
	}
}

func TestCreateInBursts(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(230))
	if _, err := env.reconcile(); err != nil {
		t.Fatal(err)
	}
	if n := len(env.machines()); n != burstReplicas {
		t.Fatalf("one pass made %d machines, want %d", n, burstReplicas)
	}
	env.settle()
	if n := len(env.machines()); n != 230 {
		t.Fatalf("got %d machines, want 230", n)
	}
}

// Every write of a creation fails once, before or after its effect, with the
// process living on or dying, with the cache standing still or current. There
// is never one machine too many, and in the end there are as many as wanted.
func TestCreateExactlyOnce(t *testing.T) {
	t.Parallel()
	const wanted = 5
	for _, mode := range []string{"fails", "answer lost"} {
		for _, crash := range []bool{false, true} {
			for _, lagging := range []bool{false, true} {
				for at := 1; at <= wanted+3; at++ {
					env := newEnv(t, newSet(wanted))
					if lagging {
						env.lag(nil)
					}
					n := 0
					strike := func(harness.Request) error {
						if n++; n == at {
							return errBoom
						}
						return nil
					}
					if mode == "fails" {
						env.Fault = strike
					} else {
						env.Lost = strike
					}
					for i := range 6 {
						_, _ = env.reconcile()
						if made := len(env.machines()); made > wanted {
							t.Fatalf("%s, crash %v, lagging %v, write %d: %d machines", mode, crash, lagging, at, made)
						}
						if i == 0 && crash {
							env.restart()
						}
					}
					env.catchUp()
					env.settle()
					if made := len(env.machines()); made != wanted {
						t.Errorf("%s, crash %v, lagging %v, write %d: %d machines, want %d", mode, crash, lagging, at, made, wanted)
					}
					env.Advance(fence.Reach)
					env.settle()
					if strings.Contains(env.set().Annotations[machinev1.OrdinalsAnnotation], "open") {
						t.Errorf("%s, crash %v, lagging %v, write %d: the reservation stays open for ever", mode, crash, lagging, at)
					}
				}
			}
		}
	}
}

func TestCreateWithStaleMachines(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(4))
	env.settle()
	// A new process, whose cache knows the set as it is but none of its machines.
	env.lag(func(o client.Object) bool { return !isMachine(o) })
	env.restart()
	for range 3 {
		_, _ = env.reconcile()
	}
	if n := len(env.machines()); n != 4 {
		t.Errorf("got %d machines, want 4: they are counted on the API server", n)
	}
}

func TestFinishReservation(t *testing.T) {
	t.Parallel()
	names := naming.NewNames(newSet(0))
	ordinal := func(i int64) *machinev1.Machine {
		return newMember(names.Name(i), annotated(machinev1.OwnerIDAnnotation, names.OwnerID(i)))
	}
	cases := map[string]struct {
		reason   string
		age      time.Duration // since this process was elected
		exist    []int64
		replicas int32
		want     []int64
		record   string
	}{
		"Young": {
			reason: "What a process that died just now left undone is done under the same names.",
			age:    time.Second, exist: []int64{4, 5}, replicas: 4, want: []int64{4, 5, 6, 7},
			record: "next=8,open=4",
		},
		"Gap": {
			reason: "A machine that is missing below one that exists was created and is gone: another one is made.",
			age:    time.Second, exist: []int64{4, 6, 7}, replicas: 4, want: []int64{4, 6, 7, 8},
			record: "next=9,open=4",
		},
		"Old": {
			reason: "After a while nobody can tell whether the missing ones have existed, so they are given up.",
			age:    fence.Reach, exist: []int64{4, 5}, replicas: 4, want: []int64{4, 5, 8, 9}, record: "next=10",
		},
		"TooMany": {
			reason: "The rest of a reservation that nobody wants stays open: who made it may have asked for it.",
			age:    time.Second, exist: []int64{4}, replicas: 2, want: []int64{4, 5}, record: "next=8,open=4",
		},
		"NoneWanted": {
			reason: "A reservation of which nothing is wanted any more stays open until no request can be under way.",
			age:    time.Second, exist: []int64{4}, replicas: 1, want: []int64{4}, record: "next=8,open=4",
		},
		"NoneWantedForLong": {
			reason: "A reservation that nobody wants is closed without creating when no request can be under way.",
			age:    fence.Reach, exist: []int64{4}, replicas: 1, want: []int64{4}, record: "next=8",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			record := naming.Ordinals{Next: 8, Open: 4}
			objects := []client.Object{newSet(tc.replicas, func(set *machinev1.MachineSet) {
				set.Annotations = map[string]string{machinev1.OrdinalsAnnotation: record.String()}
			})}
			for _, i := range tc.exist {
				objects = append(objects, ordinal(i))
			}
			env := newEnv(t, objects...)
			env.c.Fence = fence.New(env.Clock, time.Hour)
			env.c.Fence.Acquired(env.Clock.Now().Add(-tc.age))
			env.settle()
			var want []string
			for _, i := range tc.want {
				want = append(want, names.Name(i))
			}
			if got := sets.New(env.alive()...); !got.Equal(sets.New(want...)) {
				t.Errorf("%s got %v, want %v", tc.reason, sets.List(got), want)
			}
			if got := env.set().Annotations[machinev1.OrdinalsAnnotation]; got != tc.record {
				t.Errorf("%s got record %q, want %q", tc.reason, got, tc.record)
			}
		})
	}
}

func TestCreateBesideStranger(t *testing.T) {
	t.Parallel()
	names := naming.NewNames(newSet(0))
	stranger := newMember(names.Name(1), func(m *machinev1.Machine) { m.OwnerReferences, m.Labels = nil, nil })
	env := newEnv(t, newSet(3), stranger)
	env.settle()
	set := env.set()
	ours := slices.DeleteFunc(env.machines(), func(m *machinev1.Machine) bool { return !metav1.IsControlledBy(m, set) })
	if len(ours) != 3 {
		t.Errorf("got %d machines of the set, want 3: a name that is taken is passed over", len(ours))
	}
}

func TestCreateWithDamagedRecord(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(2))
	env.settle()
	first := sets.New(env.alive()...)
	for _, damage := range []string{"", "next=", "open=5,next=3", "next=99999999999", "garbage"} {
		env.edit(func(set *machinev1.MachineSet) {
			set.Annotations[machinev1.OrdinalsAnnotation] = damage
			set.Spec.Replicas++
		})
		env.settle()
		if got := sets.New(env.alive()...); got.Len() != int(env.set().Spec.Replicas) || !got.IsSuperset(first) {
			t.Errorf("record %q: got %v, want %d machines", damage, got, env.set().Spec.Replicas)
		}
	}
}

func TestNewMachinesGetTheClassWithRoom(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1, func(set *machinev1.MachineSet) {
		set.Annotations = map[string]string{machinev1.FallbackClassesAnnotation: "large"}
	}), fixture.MachineClass("large", inNamespace),
		fixture.MachineClass(newSet(1).Spec.Template.Spec.Class.Name, inNamespace))
	memory := fallback.NewMemory(env.Clock, time.Minute)
	env.c.Fallback = memory
	all, err := fallback.Candidates(t.Context(), env.Client, fallback.ReadOnlyClass, fallback.Pool{
		Namespace: env.set().Namespace, Classes: []string{env.set().Spec.Template.Spec.Class.Name},
	})
	env.Must(err)
	memory.Refused(all[0].Offer, "sold out")
	env.settle()
	if m := env.machines()[0]; m.Spec.Class.Name != "large" {
		t.Errorf("the machine has class %s", m.Spec.Class.Name)
	}
	if got := env.set().Spec.Template.Spec.Class.Name; got == "large" {
		t.Errorf("the template has class %s", got)
	}
}

func inNamespace(c *machinev1.MachineClass) { c.Namespace = newSet(1).Namespace }
