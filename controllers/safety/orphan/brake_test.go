package orphan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// fleet is a cloud with VMs of n machines, of which the API server knows those that known
// reports. It returns the IDs of the others.
func fleet(t *testing.T, w *env, n int, known func(i int) bool) (orphans []string) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("m-%d", i)
		id := w.makeVM(name, "owner-of-"+name)
		if known(i) {
			w.Create(machine(name, "owner-of-"+name, provider(id)))
		} else {
			orphans = append(orphans, id)
		}
	}
	return orphans
}

func (w *env) class(name string) *machinev1.MachineClass {
	w.Helper()
	return harness.Get[machinev1.MachineClass](w.Cluster, client.ObjectKey{Namespace: fixture.Namespace, Name: name})
}

// decide has a person write a decision about VMs to a class.
func (w *env) decide(class, key string, ids ...string) {
	w.Helper()
	c := w.class(class)
	harness.Edit(w.Cluster, c, func(c *machinev1.MachineClass) { machinev1.SetAnnotation(c, key, strings.Join(ids, ",")) })
	w.controller.memory.requestScan(client.ObjectKeyFromObject(c), w.Clock.Now())
}

// TestLimit: a few orphans are always removed, and more of a large account.
func TestLimit(t *testing.T) {
	t.Parallel()
	for vms, want := range map[int]int{0: 3, 1: 3, 39: 3, 40: 4, 1000: 100} {
		if got := brake.Expected(vms); got != want {
			t.Errorf("of %d VMs %d may be orphans, want %d", vms, got, want)
		}
	}
}

// TestRestoreFromBackup: the API server was restored from a backup in which a part of the
// Machines was missing. Their VMs look like orphans, and are healthy.
func TestRestoreFromBackup(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		vms, lost int
		stay      bool
	}{
		"Few":         {vms: 6, lost: 3},
		"MoreThanFew": {vms: 6, lost: 4, stay: true},
		"ATenth":      {vms: 50, lost: 5},
		"MoreThanIt":  {vms: 50, lost: 6, stay: true},
		"All":         {vms: 5, lost: 5, stay: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, Options{}, machineClass("a"))
			orphans := fleet(t, w, tc.vms, func(i int) bool { return i >= tc.lost })
			w.pass("a", 2*time.Hour)
			for _, id := range orphans {
				if w.left()[id] != tc.stay {
					t.Errorf("VM %s is left: %v, want %v", id, w.left()[id], tc.stay)
				}
			}
			if got := len(w.class("a").Annotations[machinev1.HeldOrphansAnnotation]) > 0; got != tc.stay {
				t.Errorf("the class lists held orphans: %v, want %v", got, tc.stay)
			}
		})
	}
}

// TestHeldOrphansAreReported: an Event, a metric and an annotation say what waits for a
// decision, each once, and the annotation goes when the machines come back.
func TestHeldOrphansAreReported(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"), machineClass("b"))
	orphans := fleet(t, w, 4, func(int) bool { return false })
	w.run("b")
	w.pass("a", 2*time.Hour)
	reported := strings.Join(w.Heard(), "\n")
	if n := strings.Count(reported, "OrphansHeld 4 of 4 VMs have no machine"); n != 1 {
		t.Errorf("reported %d times, want once:\n%s", n, reported)
	}
	if got := testutil.ToFloat64(w.controller.metrics.held.WithLabelValues("", "default", "a")); got != 4 {
		t.Errorf("the metric shows %v, want 4", got)
	}
	var held machinev1.HeldOrphans
	if err := json.Unmarshal([]byte(w.class("a").Annotations[machinev1.HeldOrphansAnnotation]), &held); err != nil {
		t.Fatal(err)
	}
	if held.VMs != 4 || held.Limit != 3 || held.Count != 4 || len(held.Orphans) != 4 || held.Orphans[0].Machine == "" {
		t.Errorf("the annotation says %+v", held)
	}
	for i, id := range orphans {
		name := fmt.Sprintf("m-%d", i)
		w.Create(machine(name, "owner-of-"+name, provider(id)))
	}
	w.pass("a", time.Hour)
	if text := w.class("a").Annotations[machinev1.HeldOrphansAnnotation]; text != "" {
		t.Errorf("the annotation stays: %s", text)
	}
	if got := testutil.CollectAndCount(w.controller.metrics.held); got != 0 {
		t.Errorf("%d series stay", got)
	}
}

// TestDecisions: what a person approves is removed, also after a restart and from another
// class of the account; what a person keeps stays. A decision about some says nothing of
// the others, however few they are: they were found together.
func TestDecisions(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"), machineClass("b"))
	orphans := fleet(t, w, 6, func(int) bool { return false })
	w.run("b")
	w.pass("a", time.Hour)
	w.decide("b", machinev1.ApprovedOrphansAnnotation, orphans[0])
	w.restart(Options{})
	w.run("b")
	w.pass("a", time.Hour)
	if left := w.left(); left[orphans[0]] || len(left) != 5 {
		t.Errorf("left %v: just %s was approved", left, orphans[0])
	}
	w.decide("a", machinev1.KeptOrphansAnnotation, orphans[1:4]...)
	w.restart(Options{})
	w.run("b")
	w.pass("a", time.Hour)
	if left := w.left(); len(left) != 5 {
		t.Errorf("left %v: two wait for a decision, and three are kept", left)
	}
	w.decide("b", machinev1.ApprovedOrphansAnnotation, orphans[4:]...)
	w.pass("a", time.Hour)
	if left := w.left(); !left[orphans[1]] || !left[orphans[2]] || !left[orphans[3]] || len(left) != 3 {
		t.Errorf("left %v: three are kept", left)
	}
	if text := w.class("a").Annotations[machinev1.HeldOrphansAnnotation]; text != "" {
		t.Errorf("nothing waits for a decision any more, and the class lists %s", text)
	}
}

// TestKeptOutlivesItsClass: classes come and go with rollouts, and kept VMs stay.
func TestKeptOutlivesItsClass(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"), machineClass("b"))
	orphans := fleet(t, w, 2, func(int) bool { return false })
	w.decide("a", machinev1.KeptOrphansAnnotation, orphans...)
	w.pass("b", time.Hour)
	w.Delete(w.class("a"))
	w.pass("b", time.Hour)
	if left := w.left(); len(left) != 2 {
		t.Errorf("left %v of two kept VMs", left)
	}
}

// TestKeptIsNotOverwritten: a person adds a VM to the list while the collector copies
// another one there from a stale cache.
func TestKeptIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"), machineClass("b"))
	orphans := fleet(t, w, 2, func(int) bool { return false })
	w.decide("a", machinev1.KeptOrphansAnnotation, orphans[0])
	stale := staleClasses{w.Raw, w.class("a"), w.class("b")}
	w.decide("b", machinev1.KeptOrphansAnnotation, orphans[1])
	w.controller.Client = stale
	w.run("b")
	if text := w.class("b").Annotations[machinev1.KeptOrphansAnnotation]; !strings.Contains(text, orphans[1]) {
		t.Errorf("class b keeps %q, and a person has added %s", text, orphans[1])
	}
}

// TestKeptJustBeforeARemoval: the cache does not show yet that a person keeps the VM.
func TestKeptJustBeforeARemoval(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"), machineClass("b"))
	orphans := fleet(t, w, 1, func(int) bool { return false })
	w.controller.Client = staleClasses{w.Raw, w.class("a"), w.class("b")}
	w.run("a")
	w.decide("a", machinev1.KeptOrphansAnnotation, orphans...)
	w.pass("a", time.Hour)
	if left := w.left(); len(left) != 1 {
		t.Errorf("left %v: %s is kept", left, orphans[0])
	}
}

// staleClasses reads the two classes as they were.
type staleClasses struct {
	client.Client
	a, b *machinev1.MachineClass
}

func (s staleClasses) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if class, ok := o.(*machinev1.MachineClass); ok {
		if key.Name == "a" {
			s.a.DeepCopyInto(class)
		} else {
			s.b.DeepCopyInto(class)
		}
		return nil
	}
	return s.Client.Get(ctx, key, o, opts...)
}

func (s staleClasses) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	if list, ok := l.(*machinev1.MachineClassList); ok {
		list.Items = []machinev1.MachineClass{*s.a, *s.b}
		return nil
	}
	return s.Client.List(ctx, l, opts...)
}

// TestSlowLoss: Machines that are lost a few at a time are too many, too, within a day.
func TestSlowLoss(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	fleet(t, w, 9, func(int) bool { return true })
	for i := range 6 {
		m := machine(fmt.Sprintf("m-%d", i), "", "")
		w.Delete(m)
		w.pass("a", time.Hour)
	}
	if left := w.left(); len(left) != 6 {
		t.Errorf("%d VMs are left, want 6: three were removed, and then the collector waits", len(left))
	}
}

// TestReportOnlyLists: where nothing is removed anyway, no decision is asked for. The VMs
// are listed, with all that their Machines can be made from again; and what was listed for
// that reason alone does not outlast the mode.
func TestReportOnlyLists(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{ReportOnly: true}, machineClass("a"), machineClass("b"))
	orphans := fleet(t, w, 2, func(int) bool { return false })
	w.run("b")
	w.pass("a", time.Hour)
	var held machinev1.HeldOrphans
	if err := json.Unmarshal([]byte(w.class("a").Annotations[machinev1.HeldOrphansAnnotation]), &held); err != nil {
		t.Fatal(err)
	}
	if !held.ReportOnly || held.Count != 2 || strings.Join(held.Classes, " ") != "default/a default/b" {
		t.Errorf("the annotation says %+v", held)
	}
	if o := held.Orphans[0]; o.OwnerID == "" || o.ProviderID != provider(o.ID) || o.NodeProviderID == "" || o.Zone == "" {
		t.Errorf("it lacks what a Machine is made from: %+v", o)
	}
	if got := testutil.CollectAndCount(w.controller.metrics.held); got != 0 {
		t.Errorf("%d series say that a person has to decide", got)
	}
	if text := strings.Join(w.Heard(), "\n"); strings.Contains(text, brake.EventOrphansHeld) {
		t.Errorf("reported: %s", text)
	}
	w.restart(Options{})
	w.run("b")
	w.pass("a", 2*time.Hour)
	if left := w.left(); left[orphans[0]] || left[orphans[1]] {
		t.Errorf("left %v: two orphans are removed by a collector that may", left)
	}
	if text := w.class("a").Annotations[machinev1.HeldOrphansAnnotation]; text != "" {
		t.Errorf("the list stays: %s", text)
	}
}

// TestReportOnlyListEnds when the machines come back.
func TestReportOnlyListEnds(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{ReportOnly: true}, machineClass("a"))
	orphans := fleet(t, w, 1, func(int) bool { return false })
	w.pass("a", time.Hour)
	if w.class("a").Annotations[machinev1.HeldOrphansAnnotation] == "" {
		t.Fatal("the orphan is not listed")
	}
	w.Create(machine("m-0", "owner-of-m-0", provider(orphans[0])))
	w.pass("a", time.Hour)
	if text := w.class("a").Annotations[machinev1.HeldOrphansAnnotation]; text != "" {
		t.Errorf("the list stays: %s", text)
	}
}

// TestListFits: the list has at most as many VMs as an annotation has room for.
func TestListFits(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]int{"": heldListed, strings.Repeat("x", 1<<10): 94} {
		all := make([]machinev1.Orphan, 300)
		for i := range all {
			all[i].Why = why
		}
		if got := len(listable(all)); got != want {
			t.Errorf("%d of 300 VMs with %d bytes each are listed, want %d", got, len(why), want)
		}
	}
}

// TestRemovalsWithoutAnAnswerCount: a removal whose answer was lost has happened all the
// same, and one that was refused and is tried again counts once.
func TestRemovalsWithoutAnAnswerCount(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		mode   string
		first  int // orphans of the first day
		stays  bool
		reason string
	}{
		"Lost": {
			mode: sim.FaultAfter, first: 3, stays: true,
			reason: "three were removed, and a fourth is more than can be expected",
		},
		"Refused": {
			mode: sim.FaultBefore, first: 2,
			reason: "two were removed at the second attempt, and a third may be",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, Options{}, machineClass("a"))
			fleet(t, w, tc.first+1, func(i int) bool { return i == tc.first })
			w.cloud.AddFault(sim.Fault{Op: sim.OpDeleteVM, Mode: tc.mode, Count: tc.first})
			w.pass("a", 2*time.Hour)
			if n := len(w.left()); n != 1 {
				t.Fatalf("%d VMs are left, want only the one with a machine", n)
			}
			late := w.makeVM("late", "owner-of-late")
			w.pass("a", 2*time.Hour)
			if w.left()[late] != tc.stays {
				t.Errorf("the late orphan is left: %v, want %v: %s", w.left()[late], tc.stays, tc.reason)
			}
		})
	}
}
