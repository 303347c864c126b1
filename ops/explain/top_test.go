package explain

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// happened is an Event about a Machine of the native API, some minutes ago.
func happened(machine *Object, name, kind string, minutes int) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: machine.APIVersion, Kind: KindMachine, Namespace: machine.Namespace, Name: name,
		},
		Type: kind, LastTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute)),
	}
}

// TestTop: joins are measured where a Node came after its machine, Events count for an hour and for
// machines of the pool alone, and what machines wait for is summed up.
func TestTop(t *testing.T) {
	t.Parallel()
	f := pool(machine(running), machine(running), machine(running), machine())
	set := f.Find(KindSet, "workers-abcde")[0]
	machines := f.machinesOf(set)
	for i, minutes := range []int{1, 2, -60} { // the last was there before its machine: it was taken over
		machines[i].Node = "node-" + machines[i].Name
		f.Nodes = append(f.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:              machines[i].Node,
			CreationTimestamp: metav1.NewTime(machines[i].Created.Add(time.Duration(minutes) * time.Minute)),
		}})
	}
	m := machines[0]
	f.Events = []corev1.Event{
		happened(m, m.Name, "Warning", 10), happened(m, m.Name, "Warning", 20),
		happened(m, set.Name+"-gone", "Normal", 30), happened(m, set.Name+"-lost", "Warning", 59),
		happened(m, set.Name+"-old", "Warning", 61), happened(m, set.Name+"-x-1", "Warning", 1),
		happened(m, "other-1", "Warning", 1),
	}
	f.index = nil // the Nodes are new
	top, missing := f.Top([]string{"workers", "nobody"}, nil)
	if diff := cmp.Diff([]string{"nobody"}, missing); diff != "" || len(top.Items) != 1 {
		t.Fatalf("%d pools, missing %s", len(top.Items), diff)
	}
	got := top.Items[0]
	if got.Failed != 2 || got.Gone != 2 {
		t.Errorf("%d failed and %d gone, want 2 and 2", got.Failed, got.Gone)
	}
	if diff := cmp.Diff([]*float64{new(60.0), new(120.0)}, []*float64{got.JoinP50, got.JoinP95}); diff != "" {
		t.Errorf("seconds to join (-want +got):\n%s", diff)
	}
	if len(got.Waiting) == 0 || got.Waiting[0].Machines == 0 || got.Waiting[0].Reason == "" {
		t.Errorf("waiting: %+v", got.Waiting)
	}
	if none, _ := f.Top(nil, labels.SelectorFromSet(labels.Set{"team": "nobody's"})); len(none.Items) != 0 {
		t.Errorf("the selector chose %+v", none.Items)
	}
}

// TestTrace: spans of a track do not overlap, lie within that of their object, and cover it.
func TestTrace(t *testing.T) {
	t.Parallel()
	f := pool(machine(running), machine())
	o := f.Find(KindDeployment, "workers")[0]
	m := f.machinesOf(o)[0]
	same := now.Add(-4 * time.Minute)
	f.Events = []corev1.Event{
		{InvolvedObject: corev1.ObjectReference{UID: m.UID}, Reason: "A", LastTimestamp: metav1.NewTime(same)},
		{InvolvedObject: corev1.ObjectReference{UID: m.UID}, Reason: "B", LastTimestamp: metav1.NewTime(same)},
		{InvolvedObject: corev1.ObjectReference{UID: m.UID}, Reason: "C", LastTimestamp: metav1.NewTime(now)},
	}
	timeline := f.Timeline(o)
	text, err := json.Marshal(TraceOf(&timeline))
	if err != nil {
		t.Fatal(err)
	}
	var got Trace
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	life, at, spans := map[int]TraceEvent{}, map[int]int64{}, 0
	for _, e := range got.Events {
		if e.Phase != traceComplete {
			continue
		}
		whole, known := life[e.Track]
		if !known {
			life[e.Track], at[e.Track] = e, e.Time
			continue
		}
		spans++
		if e.Time != at[e.Track] || e.Duration < shortestSpan || e.Time+e.Duration > whole.Time+whole.Duration {
			t.Errorf("%s of track %d: from %d for %d, want from %d, within %+v", e.Name, e.Track, e.Time, e.Duration,
				at[e.Track], whole)
		}
		at[e.Track] = e.Time + e.Duration
	}
	for track, whole := range life {
		if at[track] != whole.Time+whole.Duration {
			t.Errorf("track %d ends at %d, its last span at %d", track, whole.Time+whole.Duration, at[track])
		}
	}
	if spans != len(timeline.Entries) || len(life) < 2 {
		t.Errorf("%d spans on %d tracks for %d entries", spans, len(life), len(timeline.Entries))
	}
	if empty := TraceOf(&Timeline{}); len(empty.Events) != 1 {
		t.Errorf("a trace of nothing: %+v", empty)
	}
}
