package brake

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// pool is a client with the machines a to f of a set of a deployment, all Unknown.
func pool(t *testing.T, deployment, set map[string]string) client.WithWatch {
	t.Helper()
	d := fixture.MachineDeployment("pool", "small", 6)
	d.Annotations = deployment
	s := fixture.MachineSet("pool-1", "small", 6)
	s.Annotations = set
	if set == nil {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d,
			machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))}
	}
	objects := []client.Object{d, s}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		m := fixture.Machine(name, "small", fixture.Labels[*machinev1.Machine](machinev1.NameLabel, "pool"),
			fixture.OwnedBy[*machinev1.Machine](*metav1.NewControllerRef(s,
				machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))))
		m.Status.CurrentStatus.Phase = machinev1.MachineUnknown
		objects = append(objects, m)
	}
	return harness.New(t, harness.With(objects...), harness.Indexed(index.Control())).Raw
}

const waitsForA = "Machine a of the same pool is being replaced"

// machineOf returns the Machine of that name.
func machineOf(t *testing.T, c client.Client, name string) *machinev1.Machine {
	t.Helper()
	m := &machinev1.Machine{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: fixture.Namespace, Name: name}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// taken is how many of the machines of the pool get their turn at once.
func taken(t *testing.T, c client.Client, p *Brake) int {
	t.Helper()
	list := &machinev1.MachineList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		turn, err := p.Replace(t.Context(), &list.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		if turn.Allowed {
			n++
		} else if turn.Message != waitsForA {
			t.Errorf("waits because %q, want the name of the first", turn.Message)
		}
	}
	return n
}

func TestAsManyAsTheLimitAllows(t *testing.T) {
	t.Parallel()
	annotated := func(value string) map[string]string {
		return map[string]string{machinev1.MaxReplacementsAnnotation: value}
	}
	cases := map[string]struct {
		reason          string
		standard        string
		deployment, set map[string]string
		want            int
	}{
		"Default":    {"One at a time, as in MCM.", "", nil, nil, 1},
		"Flag":       {"The manager's flag counts for pools that set nothing.", "3", nil, nil, 3},
		"Number":     {"The deployment's own number counts before the flag.", "3", annotated("2"), nil, 2},
		"Percentage": {"Half of 6.", "", annotated("50%"), nil, 3},
		"RoundsDown": {"A quarter of 6 is 1.5, and a limit is a promise.", "", annotated("25%"), nil, 1},
		"AtLeastOne": {"1% of 6 is none, and nothing would ever be replaced.", "", annotated("1%"), nil, 1},
		"All":        {"Whoever wants all at once gets that.", "", annotated("100%"), nil, 6},
		"Invalid":    {"A value that cannot be read does not count.", "2", annotated("many"), nil, 2},
		"Zero":       {"Zero would never repair the pool.", "", annotated("0"), nil, 1},
		"Set":        {"A set without a deployment is a pool of its own.", "", annotated("5"), annotated("2"), 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := pool(t, tc.deployment, tc.set)
			standard, err := ParseLimit(tc.standard)
			if tc.standard != "" && err != nil {
				t.Fatal(err)
			}
			clock := testingclock.NewFakePassiveClock(time.Unix(0, 0))
			p := New(Deps{Client: c, Clock: clock, Limit: standard})
			if got := taken(t, c, p); got != tc.want {
				t.Errorf("%d machines got their turn, want %d: %s", got, tc.want, tc.reason)
			}
			clock.SetTime(clock.Now().Add(2 * turnAge))
			if got := taken(t, c, p); got != tc.want {
				t.Errorf("%d machines got their turn later, want %d: those whose phase never changed do not count", got, tc.want)
			}
		})
	}
}

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"1": true, "12": true, "1%": true, "100%": true,
		"": false, "0": false, "-1": false, "0%": false, "101%": false, "1.5": false, "%": false, "2 ": false,
		"99999999999": false,
	} {
		if _, err := ParseLimit(text); (err == nil) != valid {
			t.Errorf("%q: %v, want valid: %t", text, err, valid)
		}
	}
}

// A healthy machine that is to be deleted counts before the cache shows its deletion.
func TestPermitToDeleteCountsAtOnce(t *testing.T) {
	t.Parallel()
	c := pool(t, nil, nil)
	list := &machinev1.MachineList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].Status.CurrentStatus.Phase = machinev1.MachineRunning
		if err := c.Status().Update(t.Context(), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	p := New(Deps{Client: c, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))})
	for i, want := range []bool{true, false, false} {
		if turn, err := p.Delete(t.Context(), &list.Items[i]); err != nil || turn.Allowed != want {
			t.Errorf("machine %s: %v, %v, want %v", list.Items[i].Name, turn, err, want)
		}
	}
	if turn, err := p.Replace(t.Context(), &list.Items[4]); err != nil || turn.Allowed || turn.Message != waitsForA {
		t.Errorf("an unhealthy machine: %+v, %v, want it to wait for a", turn, err)
	}
}

// A machine that is gone has its successor only when the set has created that: until then it
// is still being replaced, however long the set takes.
func TestMissingSuccessorCounts(t *testing.T) {
	t.Parallel()
	for name, deployment := range map[string]bool{"Deployment": true, "SetAlone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var set map[string]string
			if !deployment {
				set = map[string]string{}
			}
			c := pool(t, nil, set)
			p := New(Deps{Client: c, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))})
			waiting := machineOf(t, c, "b")
			if err := c.Delete(t.Context(), machineOf(t, c, "a")); err != nil {
				t.Fatal(err)
			}
			const want = "MachineSet pool-1 of the same pool has fewer Machines than it wants"
			if turn, err := p.Replace(t.Context(), waiting); err != nil || turn.Allowed || turn.Message != want {
				t.Errorf("without a successor: %+v, %v, want %q", turn, err, want)
			}
		})
	}
}

// A set that wants no more Machines, or that creates none, must not keep its pool from being repaired.
func TestNoSuccessorIsAwaitedInVain(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*machinev1.MachineSet){
		"Scaled":          func(s *machinev1.MachineSet) { s.Spec.Replicas = 5 },
		"Frozen":          func(s *machinev1.MachineSet) { machinev1.SetLabel(s, machinev1.FreezeLabel, "True") },
		"ScaleUpDisabled": func(s *machinev1.MachineSet) { machinev1.SetLabel(s, machinev1.ScaleUpDisabledLabel, "") },
		"Refused": func(s *machinev1.MachineSet) {
			s.Status.Conditions = []machinev1.MachineSetCondition{{
				Type: machinev1.MachineSetReplicaFailure, Status: machinev1.ConditionTrue,
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := pool(t, nil, nil)
			waiting, set := machineOf(t, c, "b"), &machinev1.MachineSet{}
			must(t, c.Delete(t.Context(), machineOf(t, c, "a")))
			must(t, c.Get(t.Context(), client.ObjectKey{Namespace: waiting.Namespace, Name: "pool-1"}, set))
			edit(set)
			status := set.Status
			must(t, c.Update(t.Context(), set))
			set.Status = status
			must(t, c.Status().Update(t.Context(), set))
			p := New(Deps{Client: c, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))})
			if turn, err := p.Replace(t.Context(), waiting); err != nil || !turn.Allowed {
				t.Errorf("%+v, %v, want its turn", turn, err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
