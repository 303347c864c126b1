package tracing

import (
	"encoding/hex"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// Recorder returns r, which annotates the Events about machines with their trace IDs.
func Recorder(r record.EventRecorder) record.EventRecorder { return recorder{r} }

type recorder struct{ next record.EventRecorder }

// Event records an Event.
func (r recorder) Event(o runtime.Object, kind, reason, message string) {
	r.annotated(o, nil, kind, reason, message)
}

// Eventf records an Event with a message that is formatted.
func (r recorder) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	r.annotated(o, nil, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf records an Event with annotations.
func (r recorder) AnnotatedEventf(o runtime.Object, annotations map[string]string, kind, reason, format string,
	args ...any,
) {
	r.annotated(o, annotations, kind, reason, fmt.Sprintf(format, args...))
}

// annotated records an Event with the trace ID, if it is about a machine.
func (r recorder) annotated(o runtime.Object, annotations map[string]string, kind, reason, message string) {
	id := traceOf(o)
	if id == "" {
		r.next.AnnotatedEventf(o, annotations, kind, reason, "%s", message)
		return
	}
	all := map[string]string{machinev1.TraceIDAnnotation: id}
	maps.Copy(all, annotations)
	r.next.AnnotatedEventf(o, all, kind, reason, "%s", message)
}

// traceOf is the trace ID of a machine; empty for another object.
func traceOf(o runtime.Object) string {
	var owner string
	switch m := o.(type) {
	case *machinev1.Machine:
		owner = machinev1.OwnerID(m)
	case *infrav1.MCMMachine:
		owner = machinev1.OwnerID(m)
	}
	if owner == "" {
		return ""
	}
	id := naming.TraceID(owner)
	return hex.EncodeToString(id[:])
}
