package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// restored is a history in which etcd was restored, four Machines were not known any more,
// and the VM of one of them was removed.
func restored() *history {
	h := good()
	l := loss{at: at(900), limit: 3, vms: map[string]bool{}, approved: map[string]time.Time{}}
	for i := range 4 {
		id := fmt.Sprintf("vm-lost-%d", i)
		l.vms[id] = true
		h.vms = append(h.vms, vm{id: id, owner: id, name: id, made: at(960)})
	}
	removed := &h.vms[len(h.vms)-1]
	removed.deleting, removed.goneBy = at(950), stack.AccountID
	h.losses = []loss{l}
	return h
}

func TestNothingLostIsRemoved(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		plant  func(*history)
		want   int
	}{
		"Removed":   {"four are more than can be expected of orphans", func(*history) {}, 1},
		"Few":       {"orphans are removed up to the limit", func(h *history) { h.losses[0].limit = 4 }, 0},
		"Approved":  {"a person wanted that", func(h *history) { h.losses[0].approved["vm-lost-3"] = at(940) }, 0},
		"TooLate":   {"the person had not decided yet", func(h *history) { h.losses[0].approved["vm-lost-3"] = at(951) }, 1},
		"Reclaimed": {"the cloud took it", func(h *history) { h.vms[len(h.vms)-1].goneBy = "spot" }, 0},
		"Returned": {"its set has created its Machine again", func(h *history) {
			h.lives = append(h.lives, life{name: "n", owner: "vm-lost-3", made: at(910)})
		}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := restored()
			c.plant(h)
			if found := nothingLostIsRemoved(h); len(found) != c.want {
				t.Errorf("found %+v, want %d: %s", found, c.want, c.reason)
			}
		})
	}
}

// TestForgotten: a Machine that a restore did not know ended then, without a request.
func TestForgotten(t *testing.T) {
	t.Parallel()
	lives := forgotten([]life{
		{name: "lost", made: at(1), gone: true},
		{name: "deleted", made: at(1), ended: at(2), gone: true},
		{name: "stays", made: at(1)},
		{name: "later", made: at(20), gone: true},
	}, []loss{{at: at(10)}})
	for _, l := range lives {
		if lost := l.ender == restorer && l.ended.Equal(at(10)); lost != (l.name == "lost") {
			t.Errorf("Machine %s ended at %s by %q", l.name, l.ended, l.ender)
		}
	}
}
