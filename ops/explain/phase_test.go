package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// minute is a time in the life of a machine that begins at minute 0.
func minute(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }

// life is that of a machine that began at minute 0.
func life(api API, kind string, edit ...func(*Life)) *Life {
	l := &Life{Object: &Object{Ref: Ref{Kind: kind}, API: api, Created: minute(0), OwnerID: "owner"}}
	for _, e := range edit {
		e(l)
	}
	return l
}

// holds is a condition of the object since a minute.
func holds(kind string, status metav1.ConditionStatus, reason string, since int) func(*Life) {
	return func(l *Life) {
		l.Object.Conditions = append(l.Object.Conditions,
			Condition{Type: kind, Status: status, Reason: reason, Since: minute(since)})
	}
}

func runs(since int, operation machinev1.MachineOperationType) func(*Life) {
	return func(l *Life) {
		l.Object.Phase, l.Object.PhaseSince = string(machinev1.MachineRunning), minute(since)
		l.Object.Operation.Type = string(operation)
	}
}

// The deletion is asked for in minute 10.
func deleted(l *Life) { l.Object.Deleting = new(minute(10)) }

// The object is gone in minute 15.
func gone(l *Life) { l.Gone = minute(15) }

func TestPhases(t *testing.T) {
	t.Parallel()
	registered := func(l *Life) { l.Registered = minute(3) }
	ready := holds(machinev1.ConditionVMReady, metav1.ConditionTrue, machinev1.ReasonVMRunning, 1)
	drained := holds(machinev1.ConditionDrained, metav1.ConditionTrue, machinev1.ReasonDrained, 12)
	provisioned := holds(infrav1.VMProvisionedCondition, metav1.ConditionTrue, "Provisioned", 1)
	owner := func(edit func(*Object)) func(*Life) {
		return func(l *Life) {
			l.Machine = &Object{Conditions: []Condition{{
				Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Since: minute(4),
			}}}
			edit(l.Machine)
		}
	}
	phase := func(name string, start, end int) Phase {
		return Phase{Name: name, Start: minute(start), End: minute(end)}
	}
	for name, tc := range map[string]struct {
		life   *Life
		want   []Phase
		reason string
	}{
		"new": {life(Native, KindMachine), nil, "nothing is over yet"},
		"joined": {
			life(Native, KindMachine, ready, registered, runs(4, machinev1.MachineOperationCreate)),
			[]Phase{phase(PhaseMake, 0, 1), phase(PhaseBoot, 1, 3), phase(PhaseJoin, 3, 4)},
			"the three come in order",
		},
		"no node to read": {
			life(Native, KindMachine, ready, runs(4, machinev1.MachineOperationCreate)),
			[]Phase{phase(PhaseMake, 0, 1), phase(PhaseJoin, 1, 4)},
			"the join contains the boot then",
		},
		"healthy again": {
			life(Native, KindMachine, ready, registered, runs(400, machinev1.MachineOperationHealthCheck)),
			[]Phase{phase(PhaseMake, 0, 1), phase(PhaseBoot, 1, 3)},
			"the end of a fault is no join",
		},
		"an older node": {
			life(Native, KindMachine, holds(machinev1.ConditionVMReady, metav1.ConditionTrue, "", 5), registered),
			[]Phase{phase(PhaseMake, 0, 5)},
			"a node cannot be registered before its VM is made",
		},
		"native deletion": {
			life(Native, KindMachine, ready, deleted, drained, gone, func(l *Life) { l.Detached = minute(13) }),
			[]Phase{
				phase(PhaseMake, 0, 1), phase(PhaseDrain, 10, 12), phase(PhaseDetach, 12, 13), phase(PhaseDelete, 13, 15),
			},
			"each phase of a deletion begins where the one before ends",
		},
		"no volumes": {
			life(Native, KindMachine, ready, deleted, drained, gone),
			[]Phase{phase(PhaseMake, 0, 1), phase(PhaseDrain, 10, 12), phase(PhaseDelete, 12, 15)},
			"nothing waited for volumes",
		},
		"never made": {
			life(Native, KindMachine, holds(machinev1.ConditionVMReady, metav1.ConditionFalse, "CapacityExhausted", 1),
				deleted),
			[]Phase{{PhaseMake, minute(0), minute(10), "CapacityExhausted"}},
			"its last reason is why it was given up",
		},
		"cluster api": {
			life(ClusterAPI, KindMCMMachine, provisioned, owner(func(*Object) {})),
			[]Phase{phase(PhaseMake, 0, 1), phase(PhaseJoin, 1, 4)},
			"the join contains the boot of a Machine that runs no more",
		},
		"cluster api joined": {
			life(ClusterAPI, KindMCMMachine, provisioned, owner(func(m *Object) {
				m.Phase, m.PhaseSince = string(clusterv1.MachinePhaseRunning), minute(3)
			})),
			[]Phase{phase(PhaseMake, 0, 1), phase(PhaseBoot, 1, 3), phase(PhaseJoin, 3, 4)},
			"a Machine is Running once its Node is there",
		},
		"cluster api without machine": {
			life(ClusterAPI, KindMCMMachine, provisioned), []Phase{phase(PhaseMake, 0, 1)}, "nothing tells of a node",
		},
		"cluster api deletion": {
			life(ClusterAPI, KindMCMMachine, provisioned, deleted, gone, owner(func(m *Object) {
				m.DrainBegan, m.DetachBegan = minute(6), minute(8)
			})),
			[]Phase{
				phase(PhaseMake, 0, 1), phase(PhaseJoin, 1, 4), phase(PhaseDrain, 6, 8), phase(PhaseDetach, 8, 10),
				phase(PhaseDelete, 10, 15),
			},
			"Cluster API records when it begins what, and deletes the MCMMachine after that",
		},
		"cluster api without volumes": {
			life(ClusterAPI, KindMCMMachine, provisioned, deleted, owner(func(m *Object) { m.DrainBegan = minute(6) })),
			[]Phase{phase(PhaseMake, 0, 1), phase(PhaseJoin, 1, 4), phase(PhaseDrain, 6, 10)},
			"the drain ends when the MCMMachine is deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.life.Phases()); diff != "" {
				t.Errorf("%s; -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// Only a machine has a trace, and on Cluster API it is that of its MCMMachine.
func TestTimelineNamesTheTrace(t *testing.T) {
	t.Parallel()
	f := pool(machine(running))
	mine := f.machinesOf(f.Find(KindSet, "workers-abcde")[0])[0]
	mine.OwnerID = "owner"
	if got := f.Timeline(mine).TraceID; got != "1d5178fd7253b2315462706a9d419c11" {
		t.Errorf("trace %q of a Machine", got)
	}
	if got := f.Timeline(f.Find(KindDeployment, "workers")[0]).TraceID; got != "" {
		t.Errorf("trace %q of a pool, want none", got)
	}
	m := &Object{Ref: Ref{Kind: KindMachine, Name: "m"}, API: ClusterAPI, UID: "m"}
	infra := &Object{Ref: Ref{Kind: KindMCMMachine, Name: "i"}, API: ClusterAPI, UID: "i", Owner: "m", OwnerID: "owner"}
	f = &Facts{Now: now, Objects: []*Object{m, infra}}
	for _, o := range f.Objects {
		if got := f.Timeline(o).TraceID; got != "1d5178fd7253b2315462706a9d419c11" {
			t.Errorf("trace %q of %s", got, o)
		}
	}
}
