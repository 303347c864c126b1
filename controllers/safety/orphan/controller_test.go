package orphan

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func provider(id string) string { return sim.ProviderID("sim-1", id) }

func TestOrphansGoAndOthersStay(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	owned, second, orphan := w.makeVM("m-1", "o-1"), w.makeVM("m-1", "o-1"), w.makeVM("m-2", "o-2")
	oldOwned, oldOrphan, nameless := w.makeVM("m-3", ""), w.makeVM("m-4", ""), w.makeVM("", "")
	looseOwned, looseOrphan, looseOld := w.makeDisk("m-1", "o-1"), w.makeDisk("m-5", "o-5"), w.makeDisk("m-6", "")
	w.Create(machine("m-1", "o-1", provider(owned)))
	w.Create(machine("m-3", "", provider(oldOwned)))

	w.run("a")
	if got := len(w.left()); got != 9 {
		t.Fatalf("%d of 9 are left after one look", got)
	}
	w.pass("a", 3*time.Minute)
	want := map[string]bool{owned: true, oldOwned: true, nameless: true, looseOwned: true, looseOld: true}
	if diff := cmp.Diff(want, w.left()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	reported := strings.Join(w.Heard(), "\n")
	for _, id := range []string{second, orphan, oldOrphan, looseOrphan} {
		if strings.Count(reported, id) != 1 || !strings.Contains(reported, "OrphanRemoved") {
			t.Errorf("%s has to be reported once:\n%s", id, reported)
		}
	}
	if !strings.Contains(reported, "OrphanFound VM "+nameless) {
		t.Errorf("what nobody can judge has to be reported:\n%s", reported)
	}
	if vms, disks := testutil.ToFloat64(w.controller.metrics.removed.WithLabelValues("sim",
		"vm")), testutil.ToFloat64(w.controller.metrics.removed.WithLabelValues("sim", "disk")); vms != 3 || disks != 1 {
		t.Errorf("metrics count %v VMs and %v disks, want 3 and 1", vms, disks)
	}
}

func TestNobodyIsToldWithoutOrphans(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	w.Create(machine("m-1", "o-1", provider(w.makeVM("m-1", "o-1"))))
	w.pass("a", 2*time.Hour)
	if reported := w.Heard(); len(reported) > 0 {
		t.Errorf("reported %q", reported)
	}
	if calls := w.lists(); calls != 5 {
		t.Errorf("%d listings in two hours, want one at start and one per period", calls)
	}
}

// lists counts the listings that the cloud has answered.
func (w *env) lists() int { return w.cloud.Calls(sim.OpList) }

func TestStaleCacheKillsNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	w.stale = harness.New(t, harness.Indexed(Indexes())).Raw // shows no Machine at all
	w.restart(Options{})
	id := w.makeVM("m-1", "o-1")
	w.Create(machine("renamed", "o-1", provider(id)))
	w.pass("a", time.Hour)
	if !w.left()[id] {
		t.Error("the API server knows the owner")
	}
}

func TestOwnerThatReturnsClearsSuspicion(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	id := w.makeVM("m-1", "o-1")
	w.run("a")
	m := machine("m-1", "o-1", provider(id))
	w.Create(m)
	w.pass("a", time.Hour)
	w.Delete(m)
	w.controller.memory.requestScan(client.ObjectKey{Namespace: "default", Name: "a"}, w.Clock.Now())
	w.run("a")
	if !w.left()[id] {
		t.Error("looks with an owner in between do not add up")
	}
	w.pass("a", time.Hour)
	if w.left()[id] {
		t.Error("but new ones do")
	}
}

func TestProtectedMachines(t *testing.T) {
	t.Parallel()
	annotated := func(key string) func(*machinev1.Machine) {
		return func(m *machinev1.Machine) { m.Annotations[key] = "" }
	}
	for _, key := range []string{holdAnnotation, machinev1.MigrationHoldAnnotation, pausedAnnotation, moveAnnotation} {
		w := newEnv(t, Options{}, machineClass("a"))
		id := w.makeVM("m-1", "o-1")
		w.Create(machine("m-1", "elsewhere", provider("vm-other"), annotated(key)))
		w.pass("a", time.Hour)
		if !w.left()[id] {
			t.Errorf("annotation %s has to keep the VM", key)
		}
	}
}

func TestPartsOfStayingVMs(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	vm, disk := w.makeVM("m-1", "lost"), w.makeDisk("m-1", "lost")
	old, oldDisk := w.makeVM("m-2", ""), w.makeDisk("m-2", "o-2")
	w.Create(machine("m-1", "o-1", provider(vm)))
	w.Create(machine("m-2", "", provider(old)))
	w.pass("a", time.Hour)
	if diff := cmp.Diff(map[string]bool{vm: true, disk: true, old: true, oldDisk: true}, w.left()); diff != "" {
		t.Errorf("to remove a disk by owner id or name would take the VM (-want +got):\n%s", diff)
	}
}

func TestRemovalIsFinished(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"Gone": false, "MachineOfThatName": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, Options{}, machineClass("a"))
			vm, disk := w.makeVM("m-1", ""), w.makeDisk("m-1", "")
			if _, err := w.cloud.AttachDisk(demo, "sim-1", disk, vm); err != nil {
				t.Fatal(err)
			}
			w.pass("a", 61*time.Second)
			if left := w.left(); left[vm] {
				t.Fatalf("left: %v", left)
			}
			if again {
				w.Create(machine("m-1", "o-1", ""))
			}
			w.pass("a", 30*time.Second)
			if w.left()[disk] != again {
				t.Errorf("left %v: what a VM leaves behind goes after it, unless a machine has taken the name", w.left())
			}
			w.pass("a", time.Hour) // the next scan shows that the VM has gone
			removed := 0
			for _, e := range w.Heard() {
				if strings.Contains(e, eventRemoved) {
					removed++
				}
			}
			if removed != 1 {
				t.Errorf("reported %d times, want once", removed)
			}
		})
	}
}

func TestReportOnly(t *testing.T) {
	t.Parallel()
	reports := func(c *machinev1.MachineClass) { c.Annotations = map[string]string{reportAnnotation: ""} }
	cases := map[string]struct {
		options Options
		objects []client.Object
	}{
		"Flag":       {Options{ReportOnly: true}, []client.Object{machineClass("a")}},
		"Class":      {Options{}, []client.Object{machineClass("a", reports)}},
		"OtherClass": {Options{}, []client.Object{machineClass("a"), machineClass("b", reports)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.options, tc.objects...)
			id := w.makeVM("m-1", "o-1")
			w.run("a")
			if len(tc.objects) > 1 {
				w.run("b")
			}
			w.pass("a", 2*time.Hour)
			if reported := w.Heard(); !w.left()[id] || len(reported) != 1 || !strings.Contains(reported[0],
				"OrphanFound VM "+id) {
				t.Errorf("left %v, reported %q: report once, remove nothing", w.left(), reported)
			}
		})
	}
}

func TestClassesShareLooks(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"), machineClass("b"), machineClass("c"))
	for _, class := range []string{"a", "b", "c"} {
		if wait := w.run(class); wait != 30*time.Minute {
			t.Errorf("%s comes back after %v, want the period", class, wait)
		}
	}
	if got := w.lists(); got != 1 {
		t.Errorf("%d listings for three classes of one account, want 1", got)
	}
}

func TestOneFailureStopsNoOther(t *testing.T) {
	t.Parallel()
	revoked := func(c *machinev1.MachineClass) { c.SecretRef.Name = "revoked" }
	w := newEnv(t, Options{}, machineClass("a", revoked), machineClass("b"), keys("revoked", "wrong"))
	id := w.makeVM("m-1", "o-1")
	if wait := w.run("a"); wait < time.Minute || wait > 30*time.Minute {
		t.Errorf("a failing class comes back after %v", wait)
	}
	w.pass("a", 30*time.Minute)
	w.pass("b", 3*time.Minute)
	if w.left()[id] {
		t.Error("the failing account has held up the other")
	}
	failed := 0
	for _, e := range w.Heard() {
		if strings.Contains(e, eventScanFailed) {
			failed++
		}
		if strings.Contains(e, "wrong") {
			t.Errorf("a secret is reported: %s", e)
		}
	}
	if failed != 1 {
		t.Errorf("the failure is reported %d times, want once", failed)
	}
}

func TestIncompleteListingRemovesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	id := w.makeVM("m-1", "o-1")
	w.run("a")
	w.cloud.Change(func(s *sim.Settings) { s.Accounts[0].SecretKeys = nil })
	w.pass("a", 20*time.Minute)
	if !w.left()[id] {
		t.Error("removed after a look that failed")
	}
	w.cloud.Change(func(s *sim.Settings) { s.Accounts[0].SecretKeys = []string{"demo-secret"} })
	w.pass("a", time.Hour)
	if w.left()[id] {
		t.Error("not removed once looks succeed again")
	}
}

func TestRestartForgets(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	id := w.makeVM("m-1", "o-1")
	w.run("a")
	w.Clock.SetTime(now.Add(time.Hour))
	w.restart(Options{})
	w.run("a")
	if !w.left()[id] {
		t.Error("after a restart it takes two looks again")
	}
}

// TestListingsAreRecent: a scan may share a listing that is as old as the period. One that may remove needs its own.
func TestListingsAreRecent(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a"))
	var fresh []time.Duration
	w.controller.Fresh = func(ctx context.Context, notBefore time.Time) context.Context {
		fresh = append(fresh, notBefore.Sub(now))
		return ctx
	}
	w.pass("a", time.Hour)
	w.makeVM("m-1", "o-1")
	w.pass("a", 40*time.Minute)
	want := []time.Duration{
		-30 * time.Minute, 0, 30 * time.Minute, time.Hour, 91 * time.Minute, 91*time.Minute + 10*time.Second,
	}
	if diff := cmp.Diff(want, fresh); diff != "" {
		t.Errorf("how recent the listings are (-want +got):\n%s", diff)
	}
}

func TestUnusableClassComesBack(t *testing.T) {
	t.Parallel()
	w := newEnv(t, Options{}, machineClass("a", func(c *machinev1.MachineClass) { c.Provider = "nebula" }))
	if wait := w.run("a"); wait != 30*time.Minute {
		t.Errorf("wait %v", wait)
	}
}
