package permit

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// pool is a client with the machines a to f of a set of a deployment, all Unknown.
func pool(t *testing.T, deployment, set map[string]string) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := machinev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pool", UID: "d", Annotations: deployment,
	}}
	d.Spec.Replicas = 6
	s := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool-1", UID: "s", Annotations: set}}
	s.Spec.Replicas = 6
	if set == nil {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d,
			machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))}
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(d, s)
	for _, i := range index.Control() {
		b = b.WithIndex(i.Object, i.Field, i.Extract)
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{machinev1.NameLabel: "pool"},
		}}
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s,
			machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))}
		m.Status.CurrentStatus.Phase = machinev1.MachineUnknown
		b = b.WithObjects(m)
	}
	return b.Build()
}

// taken is how many of the machines of the pool get a permit at once.
func taken(t *testing.T, c client.Client, p *Permits) int {
	t.Helper()
	list := &machinev1.MachineList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		ok, busy, err := p.Take(t.Context(), &list.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			n++
		} else if busy != "a" {
			t.Errorf("waits for %q, want the name of the first", busy)
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
			p := New(c, clock, standard)
			if got := taken(t, c, p); got != tc.want {
				t.Errorf("%d machines got a permit, want %d: %s", got, tc.want, tc.reason)
			}
			clock.SetTime(clock.Now().Add(2 * permitAge))
			if got := taken(t, c, p); got != tc.want {
				t.Errorf("%d machines got a permit later, want %d: those whose phase never changed do not count", got, tc.want)
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
		if err := c.Update(t.Context(), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	p := New(c, testingclock.NewFakePassiveClock(time.Unix(0, 0)), Limit{})
	for i, want := range []bool{true, false, false} {
		if ok, _, err := p.TakeToDelete(t.Context(), &list.Items[i]); err != nil || ok != want {
			t.Errorf("machine %s: %v, %v, want %v", list.Items[i].Name, ok, err, want)
		}
	}
	if ok, busy, err := p.Take(t.Context(), &list.Items[4]); err != nil || ok || busy != "a" {
		t.Errorf("an unhealthy machine: %v, busy %q, %v, want it to wait for a", ok, busy, err)
	}
}
