package machineset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func at(version string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.ResourceVersion = version }
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	written := newMember("a", at("5"), phase(machinev1.MachineFailed))
	other := newMember("a", at("3"))
	other.UID = "another"
	cases := map[string]struct {
		reason string
		write  func(*memory)
		cached []*machinev1.Machine
		later  time.Duration
		// want are "name phase" of what is seen, left how many writes are remembered.
		want []string
		left int
	}{
		"Nothing": {
			reason: "Without writes the cache is right.", write: func(*memory) {},
			cached: []*machinev1.Machine{newMember("b"), newMember("a")}, want: []string{"a Running", "b Running"},
		},
		"Created": {reason: "A created machine is there before the cache shows it.", write: func(m *memory) {
			m.recordCreate(written, now)
		}, want: []string{"a Failed"}, left: 1},
		"Seen": {reason: "Once the cache shows it, the cache is right.", write: func(m *memory) {
			m.recordCreate(written, now)
		}, cached: []*machinev1.Machine{newMember("a", at("6"))}, want: []string{"a Running"}},
		"TooLong": {reason: "A machine that never shows up is given up.", write: func(m *memory) {
			m.recordCreate(written, now)
		}, later: expectationTimeout},
		"Patched": {reason: "A written machine is newer than an older cached one.", write: func(m *memory) {
			m.recordWrite(written, now)
		}, cached: []*machinev1.Machine{newMember("a", at("4"))}, want: []string{"a Failed"}, left: 1},
		"CaughtUp": {reason: "An equal version is the cache's.", write: func(m *memory) {
			m.recordWrite(written, now)
		}, cached: []*machinev1.Machine{newMember("a", at("5"))}, want: []string{"a Running"}},
		"Gone": {reason: "A written machine that the cache has no more is gone.", write: func(m *memory) {
			m.recordWrite(written, now)
		}},
		"Deleted": {reason: "A deleted machine is terminating before the cache shows it.", write: func(m *memory) {
			m.recordDelete(written, now)
		}, cached: []*machinev1.Machine{newMember("a", at("6"))}, want: []string{"a Terminating"}, left: 1},
		"DeletedToo": {reason: "Once the cache shows it, the cache is right.", write: func(m *memory) {
			m.recordDelete(written, now)
		}, cached: []*machinev1.Machine{terminatingMember("a")}, want: []string{"a Terminating"}},
		"Forgotten": {reason: "A deletion that never shows up is tried again.", write: func(m *memory) {
			m.recordDelete(written, now)
		}, cached: []*machinev1.Machine{newMember("a", at("5"))}, later: expectationTimeout, want: []string{"a Running"}},
		"Successor": {reason: "Another machine of the same name is another machine.", write: func(m *memory) {
			m.recordDelete(written, now)
		}, cached: []*machinev1.Machine{other}, want: []string{"a Running"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &memory{writes: map[string]write{}}
			tc.write(m)
			var got []string
			for _, machine := range m.overlay(tc.cached, now.Add(tc.later)) {
				p := string(machine.Status.CurrentStatus.Phase)
				if !machine.DeletionTimestamp.IsZero() {
					p = "Terminating"
				}
				got = append(got, machine.Name+" "+p)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if len(m.writes) != tc.left {
				t.Errorf("%s %d writes are remembered, want %d", tc.reason, len(m.writes), tc.left)
			}
		})
	}
}

func TestWaitFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := &memory{writes: map[string]write{}}
	if m.untilFirstExpiry(now) != 0 {
		t.Error("without writes nothing is waited for")
	}
	m.recordCreate(newMember("a"), now.Add(-time.Minute))
	m.recordCreate(newMember("b"), now)
	if got := m.untilFirstExpiry(now); got != expectationTimeout-time.Minute {
		t.Errorf("got %v, want until the first is given up", got)
	}
}

func TestMemoryOfASuccessor(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	first := env.c.memoryOf(newSet(1))
	if env.c.memoryOf(newSet(1)) != first {
		t.Error("a set is remembered")
	}
	second := newSet(1)
	second.UID = "second"
	if env.c.memoryOf(second) == first {
		t.Error("another set of the same name is not remembered")
	}
	if _, err := env.reconcile(); err != nil || len(env.c.memories) != 0 {
		t.Errorf("a set that is gone is forgotten: %v", err)
	}
}
