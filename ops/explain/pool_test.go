package explain

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func ownedBy(m metav1.Object, kind string, uid types.UID) {
	yes := true
	m.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: kind, UID: uid, Controller: &yes}})
}

// pool is a native deployment with one set, and the machines.
func pool(machines ...*machinev1.Machine) *Facts {
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "workers", UID: "uid-d"}}
	d.Spec.Replicas, d.Status.UpdatedReplicas = int32(len(machines)), int32(len(machines))
	s := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "workers-abcde", UID: "uid-s"}}
	s.Spec.Replicas = int32(len(machines))
	ownedBy(s, machinev1.MachineDeploymentKind, d.UID)
	f := &Facts{Now: now}
	for i, m := range machines {
		m.Name += string(rune('0' + i))
		m.UID += types.UID(rune('0' + i))
		ownedBy(m, machinev1.MachineSetKind, s.UID)
		f.Objects = append(f.Objects, OfMachine(m))
		if m.Status.CurrentStatus.Phase == machinev1.MachineRunning {
			s.Status.AvailableReplicas++
			d.Status.AvailableReplicas++
		}
	}
	f.Objects = append(f.Objects, OfMachineSet(s), OfMachineDeployment(d))
	return f
}

func running(m *machinev1.Machine) {
	withVM(m)
	in(machinev1.MachineRunning)(m)
	has(machinev1.ConditionNodeReady, metav1.ConditionTrue, machinev1.ReasonNodeHealthy, "healthy")(m)
}

func TestWhyPool(t *testing.T) {
	t.Parallel()
	const no = metav1.ConditionFalse
	pending := has(machinev1.ConditionVMReady, no, machinev1.ReasonVMPending, "pending")
	exhausted := has(machinev1.ConditionVMReady, no, machinev1.ReasonCapacityExhausted, "no more")
	refused := has(machinev1.ConditionVMReady, no, machinev1.ReasonCredentialsRefused, "refused")
	const d, m = "workers", "workers-abcde-x2f4d"
	type expected struct {
		change         func(*Object)
		reason, object string
		machines       []*machinev1.Machine
	}
	for name, tc := range map[string]expected{
		"healthy": {nil, "", "", []*machinev1.Machine{machine(running), machine(running)}},
		"a wait":  {nil, machinev1.ReasonVMPending, m + "1", []*machinev1.Machine{machine(running), machine(pending)}},
		"outside before progress": {
			nil, machinev1.ReasonCapacityExhausted, m + "1",
			[]*machinev1.Machine{machine(pending), machine(exhausted)},
		},
		"a person before all": {
			nil, machinev1.ReasonCredentialsRefused, m + "2",
			[]*machinev1.Machine{machine(exhausted), machine(pending), machine(refused)},
		},
		"tags of a healthy machine": {
			nil, cloud.ReasonTagsUnsupported, m + "0",
			[]*machinev1.Machine{machine(running, untagged)},
		},
		"a wait before tags": {
			nil, machinev1.ReasonVMPending, m + "1",
			[]*machinev1.Machine{machine(running, untagged), machine(pending)},
		},
		"tags hide no machine that is missing": {
			func(o *Object) { o.Desired = 2 }, machinev1.ReasonScalingUp, d,
			[]*machinev1.Machine{machine(running, untagged)},
		},
		"a status that is behind":  {func(o *Object) { o.Ready = 0 }, "", "", []*machinev1.Machine{machine(running)}},
		"no machine is there":      {func(o *Object) { o.Desired = 1 }, machinev1.ReasonScalingUp, d, nil},
		"the API server refuses":   {refusal, machinev1.ReasonFailedCreate, d, nil},
		"paused, and nothing else": {paused, machinev1.ReasonDeploymentPaused, d, []*machinev1.Machine{machine(running)}},
		"an old template":          {outdated, reasonNotRolledOut, d, []*machinev1.Machine{machine(running)}},
		"a rollout without progress": {
			stuck, machinev1.ReasonProgressDeadlineExceeded, d,
			[]*machinev1.Machine{machine(running)},
		},
		"frozen":                    {frozen, machinev1.ReasonOverShooting, d, []*machinev1.Machine{machine(running)}},
		"an outage is of the pool":  {outage, machinev1.ReasonOutage, d, []*machinev1.Machine{machine(pending)}},
		"a sum is not of the pool":  {sum, machinev1.ReasonVMPending, m + "0", []*machinev1.Machine{machine(pending)}},
		"held machines hold a pool": {held, machinev1.ReasonHeld, d, []*machinev1.Machine{machine(running)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := pool(tc.machines...)
			o := f.Find(KindDeployment, "workers")[0]
			if tc.change != nil {
				tc.change(o)
			}
			m := f.Why(o).Missing
			if m == nil || tc.reason == "" {
				if m != nil || tc.reason != "" {
					t.Fatalf("missing %+v, want %q", m, tc.reason)
				}
				return
			}
			if m.Reason != tc.reason || m.Object.Name != tc.object {
				t.Errorf("%s of %s, want %s of %s", m.Reason, m.Object.Name, tc.reason, tc.object)
			}
		})
	}
}

// untagged has a VM whose tags cannot be changed.
func untagged(m *machinev1.Machine) {
	has(machinev1.ConditionTagsUpdated, metav1.ConditionFalse, cloud.ReasonTagsUnsupported, "no tags")(m)
}

// TestBesideStopsNothing: what no other step waits for leaves the steps after it, and the pool, as they are.
func TestBesideStopsNothing(t *testing.T) {
	t.Parallel()
	const no = metav1.ConditionFalse
	unregistered := has(machinev1.ConditionLoadBalancerRegistered, no, machinev1.ReasonRegistering, "busy")
	f := pool(machine(running, unregistered, untagged), machine(running))
	states := map[string]StepState{}
	for _, s := range f.Why(f.Objects[0]).Steps {
		states[s.Name] = s.State
	}
	for name, want := range map[string]StepState{
		stepVM: StepDone, stepBalance: StepMissing, stepJoin: StepDone, stepHealth: StepDone, stepTags: StepMissing,
	} {
		if states[name] != want {
			t.Errorf("step %q is %q, want %q", name, states[name], want)
		}
	}
	d := f.Find(KindDeployment, "workers")[0]
	why := f.Why(d)
	if why.Missing == nil || !strings.HasPrefix(why.Missing.Message, "2 of 2 machines available; machine.") {
		t.Errorf("the pool lacks %+v, want both machines available and the load balancer", why.Missing)
	}
	if last := why.Steps[len(why.Steps)-1]; last.Name != stepRollout || last.State != StepDone {
		t.Errorf("last step %+v, want a rollout that is done", last)
	}
	tree, _ := f.Tree(TreeOptions{})
	if len(tree.Items) != 1 || tree.Items[0].Status != "Ready" || tree.Items[0].Missing == nil {
		t.Errorf("tree %+v, want a pool that is Ready and the reason", tree.Items)
	}
}

// TestOwnersInACircle: owner references that lead back to their object end no walk in an endless loop.
func TestOwnersInACircle(t *testing.T) {
	t.Parallel()
	f := pool(machine(running))
	set, d := f.Find(KindSet, "workers-abcde")[0], f.Find(KindDeployment, "workers")[0]
	d.Owner = set.UID
	self := OfMachine(machine(running))
	self.Name, self.UID, self.Owner = "self", "uid-self", "uid-self"
	f.Objects, f.index = append(f.Objects, self), nil
	tree, unknown := f.Tree(TreeOptions{All: true})
	if len(unknown) > 0 || len(tree.Items) != 2 {
		t.Errorf("%d trees, want that of the pool and that of the machine", len(tree.Items))
	}
	if f.below(f.Objects[0], []string{"none"}) || !f.below(f.Objects[0], []string{set.Name}) {
		t.Error("the machine is not below its set alone")
	}
	for _, o := range f.Objects {
		if f.Timeline(o).Object != o.Ref || f.Why(o).Object != o.Ref {
			t.Errorf("%s is not explained", o.Name)
		}
	}
}

func condition(o *Object, kind string, status metav1.ConditionStatus, reason string) {
	o.Conditions = append(o.Conditions, Condition{Type: kind, Status: status, Reason: reason})
}

func refusal(o *Object) {
	o.Desired = 1
	condition(o, string(machinev1.MachineDeploymentReplicaFailure), metav1.ConditionTrue, machinev1.ReasonFailedCreate)
}

func outdated(o *Object) { o.Updated = 0 }

func paused(o *Object) {
	condition(o, conditionPaused, metav1.ConditionTrue, machinev1.ReasonDeploymentPaused)
}

func stuck(o *Object) {
	outdated(o)
	condition(o, string(machinev1.MachineDeploymentProgressing), metav1.ConditionFalse,
		machinev1.ReasonProgressDeadlineExceeded)
}

func frozen(o *Object) {
	condition(o, conditionFrozen, metav1.ConditionTrue, machinev1.ReasonOverShooting)
}

func outage(o *Object) {
	condition(o, machinev1.ConditionReplicasReady, metav1.ConditionFalse, machinev1.ReasonOutage)
}

func sum(o *Object) {
	condition(o, machinev1.ConditionReplicasReady, metav1.ConditionFalse, machinev1.ReasonScalingUp)
}

func held(o *Object) {
	condition(o, machinev1.ConditionReplicasReady, metav1.ConditionFalse, machinev1.ReasonHeld)
}
