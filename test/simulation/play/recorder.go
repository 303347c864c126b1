package play

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// recorder notes Events in the trace.
type recorder struct {
	world     *World
	process   *process
	component string
}

// Event notes an Event.
func (r recorder) Event(o runtime.Object, kind, reason, message string) {
	name := ""
	if m, err := meta.Accessor(o); err == nil {
		name = m.GetName()
	}
	r.world.trace("%s tells of %s: %s %s %s", r.process.name, name, kind, reason, message)
}

// Eventf notes an Event.
func (r recorder) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	r.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf notes an Event.
func (r recorder) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Event(o, kind, reason, fmt.Sprintf(format, args...))
}
