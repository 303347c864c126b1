package explain

import "time"

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
