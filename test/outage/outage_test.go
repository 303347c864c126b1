// Package outage_test plays outages with all native controllers on virtual time.
package outage_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machine"
)

func options() machine.Options {
	return machine.Options{
		CreationTimeout: 20 * time.Minute, HealthTimeout: 10 * time.Minute, DrainTimeout: 2 * time.Hour,
		InPlaceUpdateTimeout: 20 * time.Minute,
		PreserveTimeout:      96 * time.Hour, PVDetachTimeout: 2 * time.Minute, PVReattachTimeout: 90 * time.Second,
		MaxEvictRetries: 360,
		NodeConditions:  []string{"KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"},
	}
}

// populated is an env with a hundred machines in each of three zones, in nine
// pools of ten and in five of two.
func populated(t *testing.T, o machine.Options) *env {
	t.Helper()
	w := newEnv(t, o)
	for i, zone := range zones() {
		for n := range 9 {
			w.pool(fmt.Sprintf("large-%d-%d", i, n), zone, 10)
		}
		for n := range 5 {
			w.pool(fmt.Sprintf("small-%d-%d", i, n), zone, 2)
		}
	}
	w.run(3 * time.Minute)
	if got := w.phases(); got[machinev1.MachineRunning] != 300 || len(got) != 1 {
		t.Fatalf("machines are %v, want 300 Running", got)
	}
	return w
}

const poolsOfZone = 14

func cut(zone string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return n.Labels[corev1.LabelTopologyZone] == zone }
}

// A zone with a third of 300 nodes is cut off for half an hour and healed.
// Nothing that runs is deleted, also by a manager that is restarted in the
// middle; without protection some of it is.
func TestZoneCutOff(t *testing.T) {
	t.Parallel()
	for name, ignore := range map[string]bool{"Protected": false, "Unprotected": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.IgnoreOutages = ignore
			w := populated(t, o)
			before := w.machines()
			w.silent = cut(zones()[0])
			w.run(14 * time.Minute)
			if kept := w.kept(); !ignore && kept != 100 {
				t.Errorf("the metric counts %d machines that are kept, want 100", kept)
			}
			w.start()
			w.run(16 * time.Minute)
			w.silent = func(*corev1.Node) bool { return false }
			w.run(time.Hour)
			t.Logf("%d machines were deleted, %d of them although their VM ran; events %v, %d writes", w.deleted,
				len(w.needless), w.events, w.writes)
			if ignore {
				if len(w.needless) == 0 {
					t.Error("nothing was deleted without protection: the test has no teeth")
				}
				return
			}
			if w.deleted != 0 {
				t.Errorf("%d machines were deleted, of these %v although their VM ran", w.deleted, w.needless)
			}
			w.same(before)
			if told, over := w.events["Outage"], w.events["OutageOver"]; told != 2*poolsOfZone || over != poolsOfZone {
				t.Errorf("%d Events of the outage and %d of its end, want one for each of %d pools and manager, and one for "+
					"each pool", told, over, poolsOfZone)
			}
			writes := w.writes
			w.run(2 * time.Hour)
			if w.writes != writes {
				t.Errorf("%d writes after all was well", w.writes-writes)
			}
		})
	}
}

// In the middle of an outage VMs end, and in another zone a node breaks. Both are
// replaced, and nothing else.
func TestOutageDoesNotHideCertainAndLoneLosses(t *testing.T) {
	t.Parallel()
	w := populated(t, options())
	before := w.machines()
	ended := map[string]bool{}
	for _, r := range w.vmsIn(zones()[0])[:7] {
		w.cloud.Terminate(r.ID, "HostBroken")
		ended[r.Name()] = true
	}
	lone := w.vmsIn(zones()[1])[0].Name()
	inZone := cut(zones()[0])
	w.silent = func(n *corev1.Node) bool { return inZone(n) && before[n.Name] != nil || n.Name == lone }
	w.run(30 * time.Minute)
	after := w.machines()
	for name := range before {
		m := after[name]
		switch {
		case ended[name] && m != nil && m.DeletionTimestamp.IsZero():
			t.Errorf("%s is %s: its VM is gone, which no outage hides", name, m.Status.CurrentStatus.Phase)
		case name == lone && m != nil:
			t.Errorf("%s is %s: it was lost alone", name, m.Status.CurrentStatus.Phase)
		case !ended[name] && name != lone && m == nil:
			t.Errorf("%s is gone, and was not lost for certain", name)
		}
	}
	if len(w.needless) != 1 || w.needless[0] != lone {
		t.Errorf("deleted although their VM ran: %v, want only the lone loss %s", w.needless, lone)
	}
	w.silent = func(n *corev1.Node) bool { return n.Name == lone }
	w.run(30 * time.Minute)
	if got := w.phases(); got[machinev1.MachineRunning] != 300 || len(got) != 1 {
		t.Errorf("machines are %v, want 300 Running", got)
	}
}

// A zone that never heals is repaired in the end, one machine of a pool at a time.
func TestOutageHasALimit(t *testing.T) {
	t.Parallel()
	o := options()
	o.OutageLimit = time.Hour
	w := newEnv(t, o)
	w.pool("a", zones()[0], 3)
	w.pool("b", zones()[0], 3)
	w.run(3 * time.Minute)
	before := w.machines()
	w.silent = func(n *corev1.Node) bool { return before[n.Name] != nil }
	w.run(59 * time.Minute)
	if w.deleted != 0 {
		t.Fatalf("%d machines were deleted before the limit", w.deleted)
	}
	most := 0
	for range 60 {
		w.run(time.Minute)
		going := map[string]int{}
		for _, m := range w.machines() {
			phase := m.Status.CurrentStatus.Phase
			if !m.DeletionTimestamp.IsZero() || phase == machinev1.MachineFailed || phase == machinev1.MachinePending {
				going[m.Labels[machinev1.NameLabel]]++
			}
		}
		most = max(most, going["a"], going["b"])
	}
	if got := w.phases(); got[machinev1.MachineRunning] != 6 || len(got) != 1 || len(w.needless) != 6 {
		t.Errorf("machines are %v, %d replaced; want 6 Running, all new", got, len(w.needless))
	}
	if most > 2 { // one that goes, and the one that takes its place
		t.Errorf("%d machines of a pool were being replaced at once", most)
	}
}

// same fails unless there are the same machines as before, all Running.
func (w *env) same(before map[string]*machinev1.Machine) {
	w.Helper()
	for name, m := range w.machines() {
		if was := before[name]; was == nil || was.UID != m.UID || m.Status.CurrentStatus.Phase != machinev1.MachineRunning {
			w.Errorf("machine %s is %s, or new", name, m.Status.CurrentStatus.Phase)
		}
		delete(before, name)
	}
	for name := range before {
		w.Errorf("machine %s is gone", name)
	}
}
