package fresh

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// machine returns a Machine that is Running.
func machine(name string, changes ...func(*machinev1.Machine)) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"}}
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	for _, change := range changes {
		change(m)
	}
	return m
}

func failed(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineFailed }
func terminating(m *machinev1.Machine) {
	m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	m.ResourceVersion = "7"
}

func at(version string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.ResourceVersion = version }
}

type writes = Writes[*machinev1.Machine]

func TestComplete(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	written := machine("a", at("5"), failed)
	other := machine("a", at("3"))
	other.UID = "another"
	cases := map[string]struct {
		reason string
		write  func(*Writes[*machinev1.Machine])
		cached []*machinev1.Machine
		later  time.Duration
		// want are "name phase" of what is seen, left how many writes are remembered.
		want []string
		left int
	}{
		"Nothing": {
			reason: "Without writes the cache is right.", write: func(*Writes[*machinev1.Machine]) {},
			cached: []*machinev1.Machine{machine("b"), machine("a")}, want: []string{"a Running", "b Running"},
		},
		"Created": {reason: "A created machine is there before the cache shows it.", write: func(m *writes) {
			m.Created(written, now)
		}, want: []string{"a Failed"}, left: 1},
		"Seen": {reason: "Once the cache shows it, the cache is right.", write: func(m *writes) {
			m.Created(written, now)
		}, cached: []*machinev1.Machine{machine("a", at("6"))}, want: []string{"a Running"}},
		"TooLong": {reason: "A machine that never shows up is given up.", write: func(m *writes) {
			m.Created(written, now)
		}, later: WriteTimeout},
		"Patched": {reason: "A written machine is newer than an older cached one.", write: func(m *writes) {
			m.Updated(written, now)
		}, cached: []*machinev1.Machine{machine("a", at("4"))}, want: []string{"a Failed"}, left: 1},
		"CaughtUp": {reason: "An equal version is the cache's.", write: func(m *writes) {
			m.Updated(written, now)
		}, cached: []*machinev1.Machine{machine("a", at("5"))}, want: []string{"a Running"}},
		"Gone": {reason: "A written machine that the cache has no more is gone.", write: func(m *writes) {
			m.Updated(written, now)
		}},
		"Deleted": {reason: "A deleted machine is terminating before the cache shows it.", write: func(m *writes) {
			m.Deleted(written, now)
		}, cached: []*machinev1.Machine{machine("a", at("6"))}, want: []string{"a Terminating"}, left: 1},
		"DeletedToo": {reason: "Once the cache shows it, the cache is right.", write: func(m *writes) {
			m.Deleted(written, now)
		}, cached: []*machinev1.Machine{machine("a", terminating)}, want: []string{"a Terminating"}},
		"Forgotten": {reason: "A deletion that never shows up is tried again.", write: func(m *writes) {
			m.Deleted(written, now)
		}, cached: []*machinev1.Machine{machine("a", at("5"))}, later: WriteTimeout, want: []string{"a Running"}},
		"Successor": {reason: "Another machine of the same name is another machine.", write: func(m *writes) {
			m.Deleted(written, now)
		}, cached: []*machinev1.Machine{other}, want: []string{"a Running"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &writes{}
			tc.write(m)
			var got []string
			for _, machine := range m.Complete(tc.cached, now.Add(tc.later)) {
				p := string(machine.Status.CurrentStatus.Phase)
				if !machine.DeletionTimestamp.IsZero() {
					p = "Terminating"
				}
				got = append(got, machine.Name+" "+p)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if len(m.pending) != tc.left {
				t.Errorf("%s %d writes are remembered, want %d", tc.reason, len(m.pending), tc.left)
			}
		})
	}
}

func TestUntilExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := &writes{}
	if m.UntilExpiry(now) != 0 {
		t.Error("without writes nothing is waited for")
	}
	m.Created(machine("a"), now.Add(-time.Minute))
	m.Created(machine("b"), now)
	if got := m.UntilExpiry(now); got != WriteTimeout-time.Minute {
		t.Errorf("got %v, want until the first is given up", got)
	}
}

func TestDropDeleted(t *testing.T) {
	t.Parallel()
	w := &writes{}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen, gone, deleted := machine("seen"), machine("gone"), machine("created-and-deleted")
	w.Created(seen, now)
	w.Created(deleted, now)
	var left []string
	for _, m := range w.DropDeleted([]*machinev1.Machine{seen, gone, deleted}, []*machinev1.Machine{seen}) {
		left = append(left, m.Name)
	}
	// "gone" was in the cache once, which will show that it went.
	if diff := cmp.Diff([]string{"seen", "gone"}, left); diff != "" || len(w.pending) != 1 {
		t.Errorf("known machines (-want +got), %d writes left:\n%s", len(w.pending), diff)
	}
}
