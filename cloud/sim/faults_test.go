package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		fault  sim.Fault
		want   []string // codes of three creations; empty is success
		vms    int
	}{
		"Before": {
			"nothing happens",
			sim.Fault{Op: sim.OpCreateVM, Count: 1},
			[]string{sim.CodeInternalError, "", ""},
			2,
		},
		"After": {
			"it happens all the same",
			sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultAfter, Count: 2},
			[]string{sim.CodeInternalError, sim.CodeInternalError, ""},
			3,
		},
		"Lost": {
			"it happens and nobody hears of it",
			sim.Fault{Op: "*", Mode: sim.FaultLost, Count: 1},
			[]string{"NoAnswer", "", ""},
			3,
		},
		"Drop": {
			"the call is lost",
			sim.Fault{Op: "*", Mode: sim.FaultDrop, Count: 1},
			[]string{"NoAnswer", "", ""},
			2,
		},
		"Throttle": {
			"too many calls",
			sim.Fault{Op: "*", Mode: sim.FaultThrottle, Skip: 1, Count: 1},
			[]string{"", sim.CodeRequestLimitExceeded, ""},
			2,
		},
		"Code": {
			"any error",
			sim.Fault{Op: "*", Code: sim.CodeAccessDenied},
			[]string{sim.CodeAccessDenied, sim.CodeAccessDenied, sim.CodeAccessDenied},
			0,
		},
		"OtherOp":    {"only that operation", sim.Fault{Op: sim.OpDeleteVM}, []string{"", "", ""}, 3},
		"OtherName":  {"only that machine", sim.Fault{Op: "*", Name: "vm-1"}, []string{"", sim.CodeInternalError, ""}, 2},
		"OtherZone":  {"only that zone", sim.Fault{Op: "*", Zone: "sim-1b"}, []string{"", "", ""}, 3},
		"OtherOwner": {"only that account", sim.Fault{Op: "*", Account: "else"}, []string{"", "", ""}, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnv(t, nil)
			undo := s.AddFault(c.fault)
			for i, want := range c.want {
				_, err := s.CreateVM(s.who, "sim-1", input(fmt.Sprintf("vm-%d", i)))
				got := ""
				if err != nil {
					got = codeOf(err)
				}
				if got != want {
					t.Errorf("%s: call %d: got %q, want %q", c.reason, i, got, want)
				}
			}
			if n := len(s.VMs()); n != c.vms {
				t.Errorf("%s: %d VMs, want %d", c.reason, n, c.vms)
			}
			undo()
			s.make(input("after"))
		})
	}
	t.Run("Boot", func(t *testing.T) {
		t.Parallel()
		s := newEnv(t, nil)
		s.AddFault(sim.Fault{Op: "*", Mode: sim.FaultBoot, Count: 1, Code: "NoDisk"})
		if vm := s.make(input("a")); vm.VM.State != sim.StateFailed || vm.VM.Reason != "NoDisk" {
			t.Errorf("a VM that does not boot is %+v", vm.VM)
		}
	})
	t.Run("Probability", func(t *testing.T) {
		t.Parallel()
		outcome := func() (failed []int) {
			s := newEnv(t, nil)
			s.AddFault(sim.Fault{Op: "*", Probability: 0.3})
			for i := range 200 {
				if _, err := s.CreateVM(s.who, "sim-1", input("a")); err != nil {
					failed = append(failed, i)
				}
			}
			return failed
		}
		first := outcome()
		if len(first) < 30 || len(first) > 90 || !slices.Equal(first, outcome()) {
			t.Errorf("%d of 200 calls fail, want about 60, and the same ones for the same seed", len(first))
		}
	})
}
