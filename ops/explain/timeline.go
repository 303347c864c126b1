package explain

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
