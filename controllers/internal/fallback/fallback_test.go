package fallback

import (
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var first = Offer{Namespace: "n", Class: "first"}

func newMemory() (*Memory, *testingclock.FakePassiveClock) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1e9, 0))
	return NewMemory(clock, time.Minute), clock
}

func TestOneMachineTriesAgain(t *testing.T) {
	t.Parallel()
	m, clock := newMemory()
	if !m.Begin(first, "a") || !m.Begin(first, "b") {
		t.Fatal("an offer that nothing is known of is for all")
	}
	m.Refused(first, "sold out")
	if m.MayTry(first, "a") {
		t.Fatal("it is exhausted")
	}
	clock.SetTime(clock.Now().Add(time.Minute))
	if !m.Begin(first, "a") || m.Begin(first, "b") || !m.MayTry(first, "a") {
		t.Fatal("after the wait, one machine may try, as often as it likes")
	}
	clock.SetTime(clock.Now().Add(probeTime))
	if !m.Begin(first, "b") {
		t.Fatal("a machine that does not answer is not waited for")
	}
	m.Made(first)
	if !m.MayTry(first, "c") {
		t.Fatal("it has room again")
	}
}

func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	m, clock := newMemory()
	var waits []time.Duration
	for range 8 {
		m.Refused(first, "sold out")
		m.Refused(first, "sold out") // by machines that asked at the same time
		_, until, _ := m.Shortage(first)
		waits = append(waits, until.Sub(clock.Now()))
		clock.SetTime(until)
	}
	want := []time.Duration{1, 2, 4, 6, 6, 6, 6, 6}
	for i := range want {
		if waits[i] != want[i]*time.Minute {
			t.Fatalf("waits %v, want %v minutes", waits, want)
		}
	}
}

func TestSoldOutInAllZones(t *testing.T) {
	t.Parallel()
	m, _ := newMemory()
	a, b := first, first
	a.Zone, b.Zone = "a", "b"
	m.Refused(a, "sold out")
	if soldOut, _ := m.SoldOut(first); !soldOut {
		t.Error("the only zone that machines ask for has no room")
	}
	m.Made(b)
	if soldOut, _ := m.SoldOut(first); soldOut {
		t.Error("another zone has room")
	}
}

func TestNilMemoryKnowsNothing(t *testing.T) {
	t.Parallel()
	var m *Memory
	m.Refused(first, "sold out")
	m.Made(first)
	_, _, short := m.Shortage(first)
	if soldOut, known := m.SoldOut(first); soldOut || known || !m.MayTry(first, "a") || !m.Begin(first, "a") || short {
		t.Error("a nil Memory has to admit all")
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	foreign := fixture.MachineClass("foreign", func(c *machinev1.MachineClass) { c.Provider = "other" })
	env := harness.New(t, harness.With(fixture.MachineClass("a"), fixture.MachineClass("b"), foreign))
	pool := Pool{Namespace: fixture.Namespace, Classes: []string{"a", "foreign", "gone", "b"}}
	all, err := Candidates(t.Context(), env.Client, ReadOnlyClass, pool)
	if err != nil {
		t.Fatal(err)
	}
	m, clock := newMemory()
	next := func() string { c, _ := m.Next(all, "machine", ""); return c.Name }
	if next() != "a" || m.Coming(all, "").Name != "a" || m.Coming(all, "b").Name != "b" {
		t.Errorf("got %q first", next())
	}
	m.Refused(all[0].Offer, "sold out")
	if next() != "b" || m.Coming(all, "").Name != "b" {
		t.Errorf("got %q while the first one is exhausted", next())
	}
	if c, ok := m.Next(all, "machine", "b"); ok {
		t.Errorf("got %q beside the present one", c.Name)
	}
	text := m.Describe(all, "b")
	for _, want := range []string{
		"a: sold out (tried again by one machine from 2001-09-09T01:47:40Z on)", "foreign: its provider",
		"gone: it does not exist",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("described as %q, want %q in it", text, want)
		}
	}
	m.Refused(all[3].Offer, "sold out")
	if next() != "" || m.Coming(all, "").Name != "a" {
		t.Errorf("got %q and %q while all are exhausted", next(), m.Coming(all, "").Name)
	}
	clock.SetTime(clock.Now().Add(time.Minute))
	if soldOut, _ := m.SoldOut(all[0].Offer); next() != "a" || !soldOut {
		t.Errorf("got %q when the first one is due to be tried again", next())
	}
	harness.Edit(env.Cluster, fixture.MachineClass("a"), fixture.ProviderSpec(map[string]any{"zone": "sim-1b"}))
	edited, err := Candidates(t.Context(), env.Client, ReadOnlyClass, pool)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, short := m.Shortage(edited[0].Offer); short {
		t.Error("a class that was edited is another offer")
	}
}

func TestClassesOfSet(t *testing.T) {
	t.Parallel()
	annotate := func(o client.Object, value string) {
		o.SetAnnotations(map[string]string{machinev1.FallbackClassesAnnotation: value})
	}
	set := fixture.MachineSet("set", "a", 1)
	env := harness.New(t, harness.With(set))
	annotate(set, " b,a,,c , b")
	got, err := ClassesOfSet(t.Context(), env.Client, set)
	if want := "a b c"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}
