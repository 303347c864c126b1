package explain

import (
	"encoding/hex"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// The phases of a machine's life, in order. They are the names of the spans in its trace.
const (
	PhaseMake   = "make"   // until the cloud has made the VM
	PhaseBoot   = "boot"   // until the node is registered
	PhaseJoin   = "join"   // until the node is healthy
	PhaseDrain  = "drain"  // until the pods have left the node of a machine that is deleted
	PhaseDetach = "detach" // until the volumes have left the node
	PhaseDelete = "delete" // until the VM, and what was made with it, is gone
)

// Phase is a part of a machine's life that is over.
type Phase struct {
	Name       string
	Start, End time.Time
	// Failure is the reason why the machine was given up in this phase; empty: it was not.
	Failure string
}

// Life is what is known of a machine's life.
type Life struct {
	Object     *Object   // a native Machine, or an MCMMachine
	Machine    *Object   // the Machine of Cluster API that the MCMMachine belongs to; nil: none, or not known
	Registered time.Time // when the Node of a native Machine was created; zero: not known
	Detached   time.Time // when its volumes were seen to have left the node; zero: there were none, or not seen
	Gone       time.Time // when the object was seen to be gone; zero: it is there
}

// TraceID returns the ID of the trace of a machine's life, in hexadecimal digits; empty
// without an owner ID.
func (o *Object) TraceID() string {
	if o.OwnerID == "" {
		return ""
	}
	id := naming.TraceID(o.OwnerID)
	return hex.EncodeToString(id[:])
}

// Detaching reports whether volumes are the last thing that the deletion of a native Machine was
// seen to wait for.
func (o *Object) Detaching() bool {
	c := o.condition(machinev1.ConditionDeleted)
	return o.Deleting != nil && c != nil && c.Status != metav1.ConditionTrue &&
		c.Reason == machinev1.ReasonDetachingVolumes
}

// Phases returns the phases that are over, in order. A phase whose end is not on record is part of
// the next one. A time that contradicts the order is left out: it is that of a later change, such
// as of a node that is healthy again.
func (l *Life) Phases() []Phase {
	made, failure := l.made()
	found := sequence(nil, l.Object.Created, l.Object.Deleting,
		Phase{Name: PhaseMake, End: made}, Phase{Name: PhaseBoot, End: l.registered()},
		Phase{Name: PhaseJoin, End: l.healthy()})
	if l.Object.Deleting == nil {
		return found
	}
	if made.IsZero() && l.Object.ProviderID == "" {
		found = append(found, Phase{PhaseMake, l.Object.Created, *l.Object.Deleting, failure})
	}
	return append(found, l.deletion()...)
}

// sequence adds phases of which each begins where the one before ends, the first at start. A limit
// that is not nil is the latest end.
func sequence(found []Phase, start time.Time, limit *time.Time, all ...Phase) []Phase {
	for _, p := range all {
		if p.End.IsZero() || p.End.Before(start) || limit != nil && p.End.After(*limit) {
			continue
		}
		p.Start, start = start, p.End
		found = append(found, p)
	}
	return found
}

// made is when the VM was complete; zero, and why it is not.
func (l *Life) made() (at time.Time, why string) {
	kind := machinev1.ConditionVMReady
	if l.Object.Kind == KindMCMMachine {
		kind = infrav1.VMProvisionedCondition
	}
	c := l.Object.condition(kind)
	switch {
	case c == nil:
		return time.Time{}, reasonNotObserved
	case c.Status == metav1.ConditionTrue:
		return c.Since, ""
	}
	return time.Time{}, c.Reason
}

// registered is when the node was registered: a Machine of Cluster API that runs has its Node.
func (l *Life) registered() time.Time {
	if m := l.Machine; m != nil && m.Phase == string(clusterv1.MachinePhaseRunning) {
		return m.PhaseSince
	}
	return l.Registered
}

// healthy is when the node was healthy for the first time; zero: it was not, or that is not on
// record any more.
func (l *Life) healthy() time.Time {
	if l.Object.Kind == KindMCMMachine {
		return sinceTrue(l.Machine.condition(clusterv1.MachineNodeReadyCondition))
	}
	// A health check that ended well begins a new phase, and is no join.
	if l.Object.Phase != string(machinev1.MachineRunning) ||
		l.Object.Operation.Type != string(machinev1.MachineOperationCreate) {
		return time.Time{}
	}
	return l.Object.PhaseSince
}

// deletion are the phases of a deletion. Cluster API drains before it deletes the MCMMachine.
func (l *Life) deletion() []Phase {
	asked := *l.Object.Deleting
	if l.Object.Kind != KindMCMMachine {
		return sequence(nil, asked, nil,
			Phase{Name: PhaseDrain, End: sinceTrue(l.Object.condition(machinev1.ConditionDrained))},
			Phase{Name: PhaseDetach, End: l.Detached}, Phase{Name: PhaseDelete, End: l.Gone})
	}
	var found []Phase
	if m := l.Machine; m != nil && !m.DrainBegan.IsZero() {
		drained := m.DetachBegan
		if drained.IsZero() {
			drained = asked
		}
		found = sequence(found, m.DrainBegan, nil, Phase{Name: PhaseDrain, End: drained})
	}
	if m := l.Machine; m != nil && !m.DetachBegan.IsZero() {
		found = sequence(found, m.DetachBegan, nil, Phase{Name: PhaseDetach, End: asked})
	}
	return sequence(found, asked, nil, Phase{Name: PhaseDelete, End: l.Gone})
}

// sinceTrue is when a condition became True; zero: it is not.
func sinceTrue(c *Condition) time.Time {
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.Since
}
