package recovery

import (
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestTwoVMsOfOneMachine: of VMs with one name or owner id, only one that alone has a Node is
// recovered, or one that is left when a person has decided about the others.
func TestTwoVMsOfOneMachine(t *testing.T) {
	t.Parallel()
	second := func(o *machinev1.Orphan) {
		o.ID, o.ProviderID, o.NodeProviderID = "vm-x", "sim:///region/vm-x", "sim:///zone/vm-x"
	}
	cases := map[string]struct {
		reason string
		second func(*machinev1.Orphan)
		change func(*State)
		first  Verdict
		other  Verdict
	}{
		"OneHasANode": {reason: "It serves.", first: Recover, other: Blocked},
		"BothHaveNodes": {
			reason: "A person has to decide.", first: Blocked, other: Blocked,
			change: func(s *State) { s.addNode("node-x", "sim:///zone/vm-x") },
		},
		"NoneHasANode": {
			reason: "Nothing tells which one is the machine's.", first: Blocked, other: Blocked,
			change: func(s *State) { s.Nodes = s.Nodes[:1] },
		},
		"OwnerID": {
			reason: "One owner id is one machine, whatever the names are.", first: Blocked, other: Blocked,
			second: func(o *machinev1.Orphan) { o.Machine = "pool-bcdfg-other" },
			change: func(s *State) { s.Nodes = s.Nodes[:1] },
		},
		"Decided": {
			reason: "The other one is going to be removed.", first: Recover, other: Blocked,
			change: func(s *State) {
				s.addNode("node-x", "sim:///zone/vm-x")
				machinev1.SetAnnotation(&s.MachineClasses[0], machinev1.ApprovedOrphansAnnotation, "vm-x")
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := restored()
			s.lose(t, 1)
			changes := []func(*machinev1.Orphan){second}
			if tc.second != nil {
				changes = append(changes, tc.second)
			}
			s.lose(t, 1, changes...)
			if len(s.Nodes) > 2 {
				s.Nodes = s.Nodes[:2] // one of the machine that was not lost, one of vm-1
			}
			if tc.change != nil {
				tc.change(s)
			}
			p := Of(s, Options{})
			if len(p.VMs) != 2 || p.VMs[0].Verdict != tc.first || p.VMs[1].Verdict != tc.other {
				t.Errorf("%s: got %+v", tc.reason, p.VMs)
			}
		})
	}
}
