package vm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// in gives the object's class these zones, and no others.
func (env *lifeEnv) in(zones ...string) {
	env.object.wish = ""
	c := &env.object.class.Class
	c.Zone, c.Zones, c.AnyZone = "", zones, false
}

// full makes the zone one without room.
func (env *lifeEnv) full(zones ...string) {
	env.cloud.Change(func(s *sim.Settings) {
		for i := range s.Zones {
			if slices.Contains(zones, s.Zones[i].Name) {
				s.Zones[i].Capacity = map[string]int{"small": 0}
			}
		}
	})
}

func TestZones(t *testing.T) {
	t.Parallel()
	all := []string{"sim-1a", "sim-1b", "sim-1c"}
	cases := map[string]struct {
		reason string
		given  func(*lifeEnv)
		steps  []string
		zone   string // of the VM
		fails  string
	}{
		"LeastUsed": {
			"A machine without a wish goes where the fewest are, and that is written before the VM is created.",
			func(env *lifeEnv) {
				env.in(all...)
				env.object.use = map[string]int{"sim-1a": 2, "sim-1b": 1, "sim-1c": 2, "": 7}
			},
			[]string{"zone sim-1b", "data", "intent", "vm"},
			"sim-1b", "",
		},
		"Recorded": {
			"What was chosen stays, whatever the others do.",
			func(env *lifeEnv) {
				env.in(all...)
				env.object.zone, env.object.use = "sim-1c", map[string]int{"sim-1c": 9}
			},
			[]string{"data", "intent", "vm"},
			"sim-1c", "",
		},
		"RecordedGone": {
			"A zone that the class has no more is chosen again.",
			func(env *lifeEnv) {
				env.in("sim-1a", "sim-1b")
				env.object.zone, env.object.use = "sim-1c", map[string]int{"sim-1b": 1}
			},
			[]string{"zone sim-1a", "data", "intent", "vm"},
			"sim-1a", "",
		},
		"NoRoom": {
			"A zone without room is left for the next one.",
			func(env *lifeEnv) {
				env.in(all...)
				env.object.zone, env.object.use = "sim-1a", map[string]int{"sim-1c": 1}
				env.full("sim-1a")
			},
			[]string{"data", "intent", "zone sim-1b", "data", "intent", "vm"},
			"sim-1b", "",
		},
		"NoRoomAnywhere": {
			"When no zone has room, that is said.",
			func(env *lifeEnv) { env.in("sim-1a", "sim-1b"); env.full("sim-1a", "sim-1b") },
			nil, "", "no capacity",
		},
		"Wish": {
			"A wish needs no choice.",
			func(env *lifeEnv) { env.in(all...); env.object.wish = "sim-1c" },
			[]string{"data", "intent", "vm"},
			"sim-1c", "",
		},
		"WishElsewhere": {
			"A wish that the class cannot honour is refused before anything is made.",
			func(env *lifeEnv) { env.in("sim-1a", "sim-1b"); env.object.wish = "sim-1c" },
			nil,
			"", `MachineClass c cannot place a VM in zone "sim-1c": it has sim-1a, sim-1b`,
		},
		"WishOfNone": {
			"A class without zones has none to choose from.",
			func(env *lifeEnv) { env.in(); env.object.wish = "sim-1c" },
			nil,
			"", "it names none",
		},
		"NotWritten": {
			"Without a record nothing is created.",
			func(env *lifeEnv) {
				env.in(all...)
				env.object.use = map[string]int{"sim-1a": 1, "sim-1b": 1}
				env.object.refuses = "zone sim-1c"
			},
			[]string{"zone sim-1c"},
			"", errRefused.Error(),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			tc.given(env)
			made, err := env.engine.Ensure(t.Context(), env.object.machine())
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Fatalf("%s\nerror %v, want %q", tc.reason, err, tc.fails)
			}
			if diff := cmp.Diff(tc.steps, env.object.steps); name != "NoRoomAnywhere" && diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
			if tc.zone != "" && made.Zone != tc.zone || err == nil && made.Zone == "" {
				t.Errorf("%s\nthe VM is in zone %q, want %q", tc.reason, made.Zone, tc.zone)
			}
			if vms := len(env.cloud.VMs()); err != nil && vms > 0 {
				t.Errorf("%s\n%d VMs after an error", tc.reason, vms)
			}
		})
	}
}

// TestZonesSpread creates machines faster than caches show them: they are spread all
// the same, and counted once in a while only.
func TestZonesSpread(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.in("sim-1a", "sim-1b", "sim-1c")
	class, got, counted := env.object.class, map[string]int{}, 0
	for i := range 30 {
		name := fmt.Sprint("m", i)
		m := &object{ref: cloud.Ref{Name: name, OwnerID: name, Created: start}, attempt: 1, class: class}
		made, err := env.engine.Ensure(t.Context(), m.machine())
		if err != nil {
			t.Fatal(err)
		}
		got[made.Zone]++
		counted += m.counted
	}
	if want := map[string]int{"sim-1a": 10, "sim-1b": 10, "sim-1c": 10}; !maps.Equal(got, want) {
		t.Errorf("machines by zone: %v, want %v", got, want)
	}
	if counted != 2 {
		t.Errorf("machines were read %d times, want once for zones and once for accounts in %v", counted, zoneUseAge)
	}
	env.Advance(zoneUseAge)
	env.object.use = map[string]int{"sim-1a": 10, "sim-1b": 3, "sim-1c": 10}
	if made := env.create(); made.Zone != "sim-1b" {
		t.Errorf("after %v the machine is in zone %s, want sim-1b, which has lost some", zoneUseAge, made.Zone)
	}
}

// TestZonesCannotBeCounted: the machine waits.
func TestZonesCannotBeCounted(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.in("sim-1a", "sim-1b")
	env.object.useErr = errRefused
	if _, err := env.engine.Ensure(t.Context(), env.object.machine()); !errors.Is(err, errRefused) {
		t.Errorf("error %v, want that of the list", err)
	}
}
