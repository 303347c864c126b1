package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// TestSizes: a set that gets machines is large enough for all of them, its deployment grows
// with it, and nothing else changes.
func TestSizes(t *testing.T) {
	t.Parallel()
	hold := func(o metav1.Object, replicas int) {
		machinev1.SetAnnotation(o, machinev1.MigrationHoldAnnotation, fmt.Sprintf("%sx.%d", HoldPrefix, replicas))
	}
	cases := map[string]struct {
		reason     string
		lost       int64
		change     func(*State)
		set, owner *Change
	}{
		"Grows": {
			reason: "One machine of the backup and three recovered.", lost: 3, set: &Change{1, 4}, owner: &Change{1, 4},
		},
		"HasRoom": {
			reason: "The backup has the size, and not the machines.", lost: 2,
			change: func(s *State) { s.Sets[0].Spec.Replicas, s.Deployments[0].Spec.Replicas = 3, 3 },
		},
		"GoingDoesNotCount": {
			reason: "A machine that is being deleted needs no replica.", lost: 1,
			change: func(s *State) { s.Machines[0].DeletionTimestamp = new(metav1.Now()) },
		},
		"AdoptedCounts": {
			reason: "A machine without owner that the set would adopt needs one.", lost: 1,
			change: func(s *State) { s.Machines[0].OwnerReferences = nil }, set: &Change{1, 2}, owner: &Change{1, 2},
		},
		"DeploymentAhead": {
			reason: "The size of the deployment is the user's; what is recovered comes on top.", lost: 1,
			change: func(s *State) { s.Deployments[0].Spec.Replicas = 5 }, set: &Change{1, 2}, owner: &Change{5, 6},
		},
		"Interrupted": {
			reason: "An earlier run has created the machine and scaled the set, not the deployment.", lost: 1,
			change: func(s *State) {
				m := machineOf(&s.Sets[0], 1)
				hold(m, 0)
				s.Machines = append(s.Machines, *m)
				hold(&s.Sets[0], 1)
				hold(&s.Deployments[0], 1)
				s.Sets[0].Spec.Replicas = 2
			}, owner: &Change{1, 2},
		},
		"InterruptedLater": {
			reason: "An earlier run has scaled both: nothing is added twice.", lost: 1,
			change: func(s *State) {
				m := machineOf(&s.Sets[0], 1)
				hold(m, 0)
				s.Machines = append(s.Machines, *m)
				hold(&s.Sets[0], 1)
				hold(&s.Deployments[0], 1)
				s.Sets[0].Spec.Replicas, s.Deployments[0].Spec.Replicas = 2, 2
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := restored()
			for i := range tc.lost {
				s.lose(t, i+1)
			}
			if tc.change != nil {
				tc.change(s)
			}
			p := Of(s, Options{})
			if len(p.Pools) != 1 {
				t.Fatalf("%s: %d pools", tc.reason, len(p.Pools))
			}
			if diff := cmp.Diff([]*Change{tc.set, tc.owner},
				[]*Change{p.Pools[0].Replicas, p.Pools[0].DeploymentReplicas}); diff != "" {
				t.Errorf("%s\nset and deployment: %s", tc.reason, diff)
			}
		})
	}
}

// TestLostMachinesOfTheBackup: Machines whose VMs were deleted after the backup are named.
func TestLostMachinesOfTheBackup(t *testing.T) {
	t.Parallel()
	s := restored()
	s.lose(t, 1)
	s.Nodes = s.Nodes[1:]
	p := Of(s, Options{})
	if notes := strings.Join(p.Pools[0].Notes, "\n"); !strings.Contains(notes, s.Machines[0].Name) {
		t.Errorf("notes %q do not name Machine %s", notes, s.Machines[0].Name)
	}
}

// TestOrdinals: names that a set would use again although they are in use are skipped.
func TestOrdinals(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*testing.T, *State)
		next   int64 // 0: unchanged
	}{
		"Current": {reason: "The record knows all names.", change: func(*testing.T, *State) {}},
		"VM": {
			reason: "A VM has a name that comes later.", next: 4,
			change: func(t *testing.T, s *State) {
				t.Helper()
				s.lose(t, 3)
			},
		},
		"Node": {
			reason: "A Node has one; its VM is not listed, e.g. because it is kept.", next: 3,
			change: func(_ *testing.T, s *State) {
				s.addNode(naming.NewNames(&s.Sets[0]).Name(2), "sim:///zone/vm-2")
			},
		},
		"Machine": {
			reason: "A Machine has one, e.g. because its object was restored by hand.", next: 6,
			change: func(_ *testing.T, s *State) {
				s.Machines = append(s.Machines, *machineOf(&s.Sets[0], 5))
			},
		},
		"Moved": {
			reason: "A pool that is moved to the other API is left alone.",
			change: func(t *testing.T, s *State) {
				t.Helper()
				s.lose(t, 3)
				machinev1.SetAnnotation(&s.Sets[0], machinev1.MigrationHoldAnnotation, "m")
			},
		},
		"MadeByMCM": {
			reason: "Machine Controller Manager draws its names; they say nothing about ours.",
			change: func(_ *testing.T, s *State) {
				s.addNode(naming.NewNames(&s.Sets[0]).Name(1_000_000), "sim:///zone/vm-x")
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := restored()
			tc.change(t, s)
			p := Of(s, Options{})
			if tc.next == 0 {
				if slices.ContainsFunc(p.Pools, func(p PoolPlan) bool { return p.Ordinals != nil }) {
					t.Errorf("%s: %+v", tc.reason, p.Pools[0].Ordinals)
				}
				return
			}
			if want := (&Change{1, tc.next + spareOrdinals}); len(p.Pools) != 1 || !cmp.Equal(p.Pools[0].Ordinals, want) {
				t.Errorf("%s: got %+v, want %+v", tc.reason, p.Pools, want)
			}
		})
	}
}
