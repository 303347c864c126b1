package tracing

import (
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// keyTrace is the key of the trace ID in lines of the log.
const keyTrace = "traceID"

// Logger returns l, which adds the trace ID to all that is logged in a pass over a machine.
func (t *Tracer) Logger(l logr.Logger) logr.Logger {
	return logr.New(sink{l.GetSink(), t})
}

// sink is a sink that knows a pass over a machine by the values that controller-runtime gives to
// its logger: the kind, with the name of the object.
type sink struct {
	logr.LogSink
	tracer *Tracer
}

// Init does nothing: the sink below is in use.
func (s sink) Init(logr.RuntimeInfo) {}

// WithCallDepth returns a sink that leaves out more callers.
func (s sink) WithCallDepth(depth int) logr.LogSink {
	if below, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return sink{below.WithCallDepth(depth), s.tracer}
	}
	return s
}

// WithName returns a sink with another part of a name.
func (s sink) WithName(name string) logr.LogSink { return sink{s.LogSink.WithName(name), s.tracer} }

// WithValues returns a sink with these values, and the trace ID of a machine that they name.
func (s sink) WithValues(values ...any) logr.LogSink {
	for i := 0; i+1 < len(values); i += 2 {
		kind, named := values[i].(string)
		object, refers := values[i+1].(klog.ObjectRef)
		if !named || !refers {
			continue
		}
		key := machineKey{kind, types.NamespacedName{Namespace: object.Namespace, Name: object.Name}}
		if id := s.tracer.traceOf(key); id != "" {
			return sink{s.LogSink.WithValues(append(slices.Clip(values), keyTrace, id)...), s.tracer}
		}
	}
	return sink{s.LogSink.WithValues(values...), s.tracer}
}
