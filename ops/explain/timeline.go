package explain

import (
	"cmp"
	"encoding/hex"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// Timeline is what happened to an object and to what belongs to it, in order.
type Timeline struct {
	metav1.TypeMeta `json:",inline"`
	Object          Ref `json:"object"`
	// TraceID is that of the machine's life, in hexadecimal digits; empty for what is no machine.
	TraceID string   `json:"traceID,omitempty"`
	Entries []Entry  `json:"entries"`
	Unread  []string `json:"unread,omitempty"`
}

// Entry is one thing that happened.
type Entry struct {
	Time   metav1.Time `json:"time"`
	Object Ref         `json:"object"`
	// Source is who tells: status, event, node, or the time stamps of the object.
	Source string `json:"source"`
	// By is the component that has written an Event.
	By      string `json:"by,omitempty"`
	What    string `json:"what"`
	Message string `json:"message,omitempty"`
	Count   int32  `json:"count,omitempty"` // of an Event that came more than once
	// Seconds until the next entry; of the last one until now.
	Seconds float64 `json:"seconds"`
}

// The sources.
const (
	sourceObject = "object"
	sourceStatus = "status"
	sourceEvent  = "event"
	sourceNode   = "node"
)

// Timeline returns what is known about an object, the objects that it controls, and their Nodes.
// A condition is known by its last change only; Events are kept for an hour by most API servers.
func (f *Facts) Timeline(o *Object) Timeline {
	out := Timeline{
		TypeMeta: metav1.TypeMeta{APIVersion: Version, Kind: "Timeline"}, Object: o.Ref, Entries: []Entry{}, Unread: f.Unread,
	}
	objects := f.subtree(o)
	if m := f.traced(o); m != nil {
		out.TraceID = m.TraceID()
	}
	for _, part := range objects {
		out.Entries = append(out.Entries, objectEntries(part)...)
		if n := f.node(part); n != nil && part.Kind == KindMachine {
			out.Entries = append(out.Entries, nodeEntries(n)...)
		}
	}
	out.Entries = append(out.Entries, f.eventEntries(objects)...)
	slices.SortStableFunc(out.Entries, func(a, b Entry) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(first(a), first(b)), cmp.Compare(a.Object.Kind, b.Object.Kind),
			cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.What, b.What))
	})
	for i := range out.Entries {
		end := f.Now
		if i+1 < len(out.Entries) {
			end = out.Entries[i+1].Time.Time
		}
		out.Entries[i].Seconds = end.Sub(out.Entries[i].Time.Time).Seconds()
	}
	return out
}

// traced is the object that the trace of a machine's life is named after: a native Machine, or
// the MCMMachine of one of Cluster API; nil for what is no machine.
func (f *Facts) traced(o *Object) *Object {
	switch {
	case o.Kind == KindMCMMachine, o.Kind == KindMachine && o.API == Native:
		return o
	case o.Kind == KindMachine:
		return f.child(o, KindMCMMachine)
	}
	return nil
}

// first orders what happened in one second: an object begins to exist before it has a status.
func first(e Entry) int {
	if e.What == "Created" || e.What == "Registered" {
		return 0
	}
	return 1
}

// subtree is an object with all that it controls.
func (f *Facts) subtree(o *Object) []*Object {
	found := []*Object{o}
	for _, child := range sorted(f.children(o)) {
		found = append(found, f.subtree(child)...)
	}
	return found
}

// objectEntries are what the time stamps of an object and its status tell.
func objectEntries(o *Object) []Entry {
	var found []Entry
	note := func(t time.Time, source, what, message string) {
		if !t.IsZero() {
			found = append(found, Entry{Time: *at(t), Object: o.Ref, Source: source, What: what, Message: message})
		}
	}
	note(o.Created, sourceObject, "Created", "")
	if o.Deleting != nil {
		note(*o.Deleting, sourceObject, "DeletionRequested", "")
	}
	if o.Phase != "" {
		note(o.PhaseSince, sourceStatus, "Phase="+o.Phase, "")
	}
	for _, c := range o.Conditions {
		note(c.Since, sourceStatus, c.Type+"="+string(c.Status)+" "+c.Reason, c.Message)
	}
	return found
}

// nodeEntries are what a Node tells about itself.
func nodeEntries(n *corev1.Node) []Entry {
	ref := Ref{APIVersion: "v1", Kind: KindNode, Name: n.Name}
	found := []Entry{{Time: *at(n.CreationTimestamp.Time), Object: ref, Source: sourceNode, What: "Registered"}}
	for _, c := range n.Status.Conditions {
		if c.LastTransitionTime.IsZero() {
			continue
		}
		found = append(found, Entry{
			Time: *at(c.LastTransitionTime.Time), Object: ref, Source: sourceNode,
			What: string(c.Type) + "=" + string(c.Status) + " " + c.Reason, Message: c.Message,
		})
	}
	return found
}

// eventEntries are the Events about objects. One that came several times is where it came last.
func (f *Facts) eventEntries(objects []*Object) []Entry {
	var found []Entry
	for i := range f.Events {
		e := &f.Events[i]
		about := slices.IndexFunc(objects, func(o *Object) bool { return o.UID == e.InvolvedObject.UID })
		when := eventTime(e)
		if about < 0 || when.IsZero() {
			continue
		}
		found = append(found, Entry{
			Time: *at(when), Object: objects[about].Ref, Source: sourceEvent,
			By: cmp.Or(e.ReportingController, e.Source.Component), What: e.Reason, Message: e.Message, Count: repeated(e.Count),
		})
	}
	return found
}

// eventTime is when an Event came last: which of the fields has that depends on its writer.
func eventTime(e *corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

func repeated(n int32) int32 {
	if n > 1 {
		return n
	}
	return 0
}

// Trace is a timeline in the Trace Event Format, in the JSON form that Perfetto and Chrome open. Each
// object is a track. A span is from one thing that happened to the object until the next, below
// a span of its whole life.
type Trace struct {
	Unit   string       `json:"displayTimeUnit"`
	Events []TraceEvent `json:"traceEvents"`
}

// TraceEvent is an event of that format. Times are in microseconds.
type TraceEvent struct {
	Name     string            `json:"name"`
	Category string            `json:"cat,omitempty"`
	Phase    string            `json:"ph"`
	Time     int64             `json:"ts"`
	Duration int64             `json:"dur,omitempty"`
	Process  int               `json:"pid"`
	Track    int               `json:"tid"`
	Args     map[string]string `json:"args,omitempty"`
}

// The phases that are used.
const (
	traceComplete = "X"
	traceMetadata = "M"
)

// shortestSpan is seen when everything happens within a second, as the API server counts.
const shortestSpan = int64(1)

// TraceOf makes a trace of a timeline.
func TraceOf(t *Timeline) Trace {
	trace := Trace{Unit: "ms", Events: []TraceEvent{{
		Name: "process_name", Phase: traceMetadata, Process: 1, Args: map[string]string{"name": t.Object.String()},
	}}}
	if len(t.Entries) == 0 {
		return trace
	}
	last := t.Entries[len(t.Entries)-1]
	end := last.Time.UnixMicro() + int64(last.Seconds*float64(time.Second/time.Microsecond))
	for i, track := range tracks(t.Entries) {
		trace.Events = append(trace.Events, track.events(i+1, end)...)
	}
	return trace
}

// track is what happened to one object, in order.
type track []*Entry

// tracks are those of the objects, in the order in which they appear.
func tracks(entries []Entry) []track {
	var all []track
	places := map[Ref]int{}
	for i := range entries {
		place, known := places[entries[i].Object]
		if !known {
			place = len(all)
			places[entries[i].Object], all = place, append(all, nil)
		}
		all[place] = append(all[place], &entries[i])
	}
	return all
}

// events are the spans of a track, which ends with the timeline.
func (t track) events(number int, end int64) []TraceEvent {
	begin := t[0].Time.UnixMicro()
	end = max(end, t[len(t)-1].Time.UnixMicro()+shortestSpan*int64(len(t)))
	name := t[0].Object.Kind + "/" + t[0].Object.Name
	found := []TraceEvent{
		{Name: "thread_name", Phase: traceMetadata, Process: 1, Track: number, Args: map[string]string{"name": name}},
		{
			Name: name, Category: sourceObject, Phase: traceComplete, Time: begin, Duration: end - begin, Process: 1,
			Track: number,
		},
	}
	for i, e := range t {
		begin = max(begin, e.Time.UnixMicro())
		next := end
		if i+1 < len(t) {
			next = max(begin+shortestSpan, t[i+1].Time.UnixMicro())
		}
		found = append(found, TraceEvent{
			Name: e.What, Category: e.Source, Phase: traceComplete, Time: begin, Duration: next - begin, Process: 1,
			Track: number, Args: map[string]string{"message": e.Message, "by": e.By},
		})
		begin = next
	}
	return found
}

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
