package recovery

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// TestAssign: each VM gets a machine of the right set, or the plan says why not.
func TestAssign(t *testing.T) {
	t.Parallel()
	unnamed := func(o *machinev1.Orphan) { o.Machine, o.OwnerID = "by-hand", "other" }
	cases := map[string]struct {
		reason  string
		change  func(*State) // of the world
		orphan  func(*machinev1.Orphan)
		options Options
		set     string
		verdict Verdict
		blocked string // in the reason
		note    string
	}{
		"OwnerID": {
			reason: "The owner id follows from the set and the name.", set: "pool-bcdfg", verdict: Recover,
		},
		"Name": {
			reason: "Objects that were restored by other means have new UIDs, so only the names are left.",
			change: func(s *State) { renew(s, "another-uid") }, set: "pool-bcdfg", verdict: Recover,
		},
		"MadeByMCM": {
			reason: "VMs of Machine Controller Manager have no owner id.",
			orphan: func(o *machinev1.Orphan) { o.OwnerID = "" }, set: "pool-bcdfg", verdict: Recover,
		},
		"SetIsGone": {
			reason:  "The backup is from before a rollout: the machine joins the set that there is.",
			orphan:  func(o *machinev1.Orphan) { o.Machine, o.OwnerID = "pool-zzzzz-bcdfg", "other" },
			set:     "pool-bcdfg",
			verdict: Recover, note: "a rollout replaces it",
		},
		"Unnamed": {
			reason: "Nothing tells the set.", orphan: unnamed, verdict: Blocked, blocked: "tells no MachineSet",
		},
		"ChosenSet": {
			reason: "A person knows it.", orphan: unnamed, options: Options{Set: "pool-bcdfg"}, set: "pool-bcdfg",
			verdict: Recover,
		},
		"NoSuchSet": {
			reason: "A typing error recovers nothing.", orphan: unnamed, options: Options{Set: "pool-x"}, verdict: Blocked,
			blocked: "MachineSet pool-x does not exist",
		},
		"Alone": {
			reason: "A Machine without a set has its class only.", orphan: unnamed, options: Options{Class: class},
			verdict: Recover,
		},
		"NoSuchClass": {
			reason: "Without its class a VM can neither be seen nor deleted.", orphan: unnamed, options: Options{Class: "x"},
			verdict: Blocked, blocked: "MachineClass x does not exist",
		},
		"NoName": {
			reason: "A name is what a Machine has to have.", orphan: func(o *machinev1.Orphan) { o.Machine = "" },
			verdict: Blocked, blocked: "does not carry the name of a machine",
		},
		"OlderManager": {
			reason: "A Machine without providerID would create a second VM.",
			orphan: func(o *machinev1.Orphan) { o.ProviderID = "" }, verdict: Blocked, blocked: "providerID is not listed",
		},
		"ClassIsGone": {
			reason: "The class of the set was deleted.",
			change: func(s *State) { s.MachineClasses[0].Name = "renamed" }, set: "pool-bcdfg",
			verdict: Blocked, blocked: "MachineClass class of MachineSet pool-bcdfg does not exist",
		},
		"OtherAccount": {
			reason: "The credentials of the class do not reach the VM.",
			change: func(s *State) { s.Listings[0].Classes = []string{"default/other"} }, set: "pool-bcdfg",
			verdict: Blocked, blocked: "is not of the account",
		},
		"OlderTemplate": {
			reason: "The deployment replaces machines of older sets.", change: newerSet, set: "pool-bcdfg",
			verdict: Blocked, blocked: "rollout replaces the machine",
		},
		"OlderTemplateAccepted": {
			reason: "A person wants that.", change: newerSet, options: Options{AcceptRollout: true}, set: "pool-bcdfg",
			verdict: Recover, note: "rollout replaces the machine",
		},
		"OlderTemplatePaused": {
			reason: "A paused deployment replaces nothing.", set: "pool-bcdfg", verdict: Recover,
			change: func(s *State) {
				newerSet(s)
				s.Deployments[0].Spec.Paused = true
			},
		},
		"Migrated": {
			reason: "Two commands must not work on one pool.", set: "pool-bcdfg", verdict: Blocked, blocked: "is moved to",
			change: func(s *State) {
				machinev1.SetAnnotation(&s.Deployments[0], machinev1.MigrationHoldAnnotation, "m")
			},
		},
		"HasMachine": {
			reason: "The list is older than the Machine.", verdict: Recovered,
			change: func(s *State) {
				s.Machines = append(s.Machines, *machineOf(&s.Sets[0], 1))
			},
		},
		"MachineFindsIt": {
			reason: "A Machine with the owner id of the VM, and none yet, gets that VM.", verdict: Recovered,
			change: func(s *State) {
				m := machineOf(&s.Sets[0], 1)
				m.Spec.ProviderID = ""
				s.Machines = append(s.Machines, *m)
			},
		},
		"NameIsTaken": {
			reason: "Two VMs claim one Machine.", verdict: Blocked, blocked: "exists, with another VM",
			change: func(s *State) {
				m := machineOf(&s.Sets[0], 1)
				m.Spec.ProviderID = "sim:///region/vm-99"
				s.Machines = append(s.Machines, *m)
			},
		},
		"NodeOfAnotherVM": {
			reason: "A VM that was made after the restore has joined under the same name.", set: "pool-bcdfg",
			change:  func(s *State) { s.Nodes[1].Spec.ProviderID = "sim:///zone/vm-99" },
			verdict: Blocked, blocked: "providerID sim:///zone/vm-99, which is another VM",
		},
		"NodeOfAnotherMachine": {
			reason: "A Node belongs to one Machine.", set: "pool-bcdfg",
			change:  func(s *State) { s.Machines[0].Labels[machinev1.NodeLabel] = "node-1" },
			verdict: Blocked, blocked: "has the Node node-1",
		},
		"NodeGoing": {
			reason: "The Machine would go with its Node.", set: "pool-bcdfg",
			change:  func(s *State) { s.Nodes[1].DeletionTimestamp = new(metav1.Now()) },
			verdict: Blocked, blocked: "is being deleted",
		},
		"NoNode": {
			reason: "The VM has not joined yet.", set: "pool-bcdfg", change: func(s *State) { s.Nodes = s.Nodes[:1] },
			verdict: Recover, note: "it has no Node",
		},
		"NodeTemplate": {
			reason: "The node follows the template of the backup.", set: "pool-bcdfg", verdict: Recover,
			change: func(s *State) {
				s.Nodes[1].Annotations = map[string]string{
					machinev1.LastAppliedNodeTemplateAnnotation: `{"metadata":{"labels":{"a":"b"}}}`,
				}
			},
			note: "labels, annotations or taints of Node node-1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := restored()
			s.lose(t, 1, func(o *machinev1.Orphan) {
				if tc.orphan != nil {
					tc.orphan(o)
				}
			})
			if tc.change != nil {
				tc.change(s)
			}
			v := Of(s, tc.options).VMs[0]
			if v.Verdict != tc.verdict || v.Set != tc.set || !strings.Contains(v.Reason, tc.blocked) ||
				!strings.Contains(strings.Join(v.Notes, "\n"), tc.note) {
				t.Errorf("%s\nset %q, %s: %q, notes %q", tc.reason, v.Set, v.Verdict, v.Reason, v.Notes)
			}
			if (len(v.Objects) > 0) != (tc.verdict == Recover) || (v.Remedy != "") != (tc.verdict == Blocked) {
				t.Errorf("%d objects, remedy %q", len(v.Objects), v.Remedy)
			}
		})
	}
}

// renew gives the restored set another UID, and the Machines too.
func renew(s *State, uid types.UID) {
	s.Sets[0].UID = uid
	s.Machines[0].OwnerReferences[0].UID = uid
	for i := range s.Listings[0].Orphans {
		// Names follow from the UID, so what the set had given are foreign ones now.
		s.Listings[0].Orphans[i].Machine = "pool-bcdfg-22222"
	}
}

// newerSet adds a set with the current template of the deployment.
func newerSet(s *State) {
	s.Sets = append(s.Sets, *setOf(&s.Deployments[0], "pool-hjklm", "2", 0))
}

// TestMachine: the new Machine has all that its controllers know the VM by.
func TestMachine(t *testing.T) {
	t.Parallel()
	s := restored()
	s.Sets[0].Spec.Template.Annotations = map[string]string{"of": "template"}
	s.lose(t, 1)
	fixture.NodeCondition(corev1.NodeReady, corev1.ConditionTrue)(&s.Nodes[1])
	p := Of(s, Options{})
	m := p.VMs[0].Objects[0].(*machinev1.Machine)
	set := &s.Sets[0]
	names := naming.NewNames(set)
	if m.Name != names.Name(1) || machinev1.OwnerID(m) != names.OwnerID(1) || m.Spec.ProviderID != "sim:///region/vm-1" ||
		!metav1.IsControlledBy(m, set) || m.Labels[machinev1.NodeLabel] != "node-1" ||
		m.Finalizers[0] != machinev1.Finalizer ||
		m.Labels[machinev1.TemplateHashLabel] != set.Name || m.Annotations["of"] != "template" ||
		m.Annotations[machinev1.ZoneAnnotation] != "zone" || m.Annotations[machinev1.PriorityAnnotation] != "3" {
		t.Errorf("the Machine is %+v", m)
	}
	if st := m.Status; st.CurrentStatus.Phase != machinev1.MachineRunning || st.NodeRef.Name != "node-1" ||
		len(st.Conditions) == 0 {
		t.Errorf("its status is %+v", st)
	}
}

// TestMachineWithNodeForm: where the set wants the Node's form, the Machine has it at once.
func TestMachineWithNodeForm(t *testing.T) {
	t.Parallel()
	s := restored()
	machinev1.SetAnnotation(&s.Sets[0], machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	s.lose(t, 1)
	p := Of(s, Options{})
	m := p.VMs[0].Objects[0].(*machinev1.Machine)
	if m.Spec.ProviderID != "sim:///zone/vm-1" ||
		m.Annotations[machinev1.ProviderIDFormAnnotation] != machinev1.ProviderIDFormNode {
		t.Errorf("providerID %s, annotations %v", m.Spec.ProviderID, m.Annotations)
	}
}

// TestChosen: only VMs that a person names are recovered, by ID or name of the machine.
func TestChosen(t *testing.T) {
	t.Parallel()
	s := restored()
	for i := range int64(3) {
		s.lose(t, i+1)
	}
	o := Options{VMs: []string{"vm-1", naming.NewNames(&s.Sets[0]).Name(3), "vm-x"}}
	p := Of(s, o)
	if len(p.VMs) != 2 || p.VMs[0].ID != "vm-1" || p.VMs[1].ID != "vm-3" || p.Pools[0].Recovered != 2 {
		t.Errorf("the plan has %+v", p.VMs)
	}
	if unknown := p.Unknown(o); len(unknown) != 1 || unknown[0] != "vm-x" {
		t.Errorf("unknown are %v", unknown)
	}
}

// TestUnlisted: a plan says how many more there are.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	s := restored()
	s.lose(t, 1)
	s.Listings[0].Count = 7
	if p := Of(s, Options{}); p.Unlisted != 6 || p.VMs[0].API != migration.Native {
		t.Errorf("%d are not listed, want 6", p.Unlisted)
	}
}
