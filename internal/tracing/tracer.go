package tracing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// spanMachine is the span of a machine's whole life, the parent of those of its phases.
const spanMachine = "machine"

// instrumentation names who makes the spans.
const instrumentation = "github.com/capmcm/cluster-api-provider-mcm/tracing"

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer

	mu     sync.Mutex
	traces map[machineKey]string // trace IDs of the machines that an Observer sees
}

// machineKey names an object of a machine.
type machineKey struct {
	kind string
	types.NamespacedName
}

// New returns a Tracer of a service of this name and version that exports through e. What the
// environment says of the service, the sampler and the limits wins. Shutdown ends it.
func New(ctx context.Context, e sdktrace.SpanExporter, service, version string) (*Tracer, error) {
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe the service for traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e), sdktrace.WithResource(about),
		sdktrace.WithIDGenerator(ids{}))
	return &Tracer{
		provider: provider, tracer: provider.Tracer(instrumentation, trace.WithInstrumentationVersion(version)),
		traces: map[machineKey]string{},
	}, nil
}

// Shutdown exports what is left, until ctx ends.
func (t *Tracer) Shutdown(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Call begins the span of a call to a cloud, in the trace of the machine with that owner ID: below the
// phase that the operation is for, else below the machine's life. An empty owner ID gives a trace of
// its own.
func (t *Tracer) Call(ctx context.Context, ownerID, operation string) (context.Context, trace.Span) {
	kind := trace.WithSpanKind(trace.SpanKindClient)
	if ownerID == "" {
		return t.tracer.Start(ctx, operation, kind, trace.WithNewRoot())
	}
	parent := t.machine(ctx, ownerID, time.Time{}).SpanContext()
	switch operation {
	case "create VM":
		parent = parent.WithSpanID(naming.SpanID(ownerID, explain.PhaseMake))
	case "delete VM", "deregister VM":
		parent = parent.WithSpanID(naming.SpanID(ownerID, explain.PhaseDelete))
	}
	return t.tracer.Start(trace.ContextWithSpanContext(ctx, parent), operation, kind)
}

// machine begins the span of a machine's life. It is exported only if it is ended, and tells
// before whether its trace is sampled: a decision about the trace ID, which is always the same.
func (t *Tracer) machine(ctx context.Context, ownerID string, created time.Time) trace.Span {
	_, span := t.tracer.Start(withIDs(ctx, ownerID, spanMachine), spanMachine, trace.WithTimestamp(created),
		trace.WithNewRoot())
	return span
}

// phase exports the span of a phase of o.
func (t *Tracer) phase(ctx context.Context, o *explain.Object, p explain.Phase) {
	parent := t.machine(ctx, o.OwnerID, o.Created).SpanContext()
	ctx = trace.ContextWithSpanContext(withIDs(ctx, o.OwnerID, p.Name), parent)
	_, span := t.tracer.Start(ctx, p.Name, trace.WithTimestamp(p.Start), trace.WithAttributes(attributesOf(o)...))
	if p.Failure != "" {
		span.SetStatus(codes.Error, p.Failure)
	}
	span.End(trace.WithTimestamp(p.End))
}

// life exports the span of the whole life of o, which ended at that time.
func (t *Tracer) life(ctx context.Context, o *explain.Object, end time.Time) {
	span := t.machine(ctx, o.OwnerID, o.Created)
	span.SetAttributes(attributesOf(o)...)
	span.End(trace.WithTimestamp(end))
}

// attributesOf name a machine. No text that somebody wrote is among them.
func attributesOf(o *explain.Object) []attribute.KeyValue {
	known := []attribute.KeyValue{
		attribute.String("mcm.machine.api", string(o.API)), attribute.String("mcm.machine.kind", o.Kind),
		attribute.String("mcm.machine.name", o.Name), attribute.String("mcm.machine.namespace", o.Namespace),
		attribute.String("mcm.machine.owner_id", o.OwnerID),
	}
	for _, more := range []struct{ key, value string }{
		{"mcm.machine.class", o.Class},
		{"mcm.machine.pool", o.Pool},
		{"mcm.machine.cluster", o.Cluster},
		{"mcm.machine.provider_id", o.ProviderID},
		{"k8s.node.name", o.Node},
	} {
		if more.value != "" {
			known = append(known, attribute.String(more.key, more.value))
		}
	}
	return known
}

// remember keeps the trace ID of a machine for what is logged about it; an empty one forgets it.
func (t *Tracer) remember(key machineKey, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == "" {
		delete(t.traces, key)
		return
	}
	t.traces[key] = id
}

// traceOf is the trace ID of a machine that is observed; empty: it is not.
func (t *Tracer) traceOf(key machineKey) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.traces[key]
}

// ids are the IDs that a context asks for, else random ones.
type ids struct{}

type idsKey struct{}

type fixedIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// withIDs asks for the IDs of a span in a machine's trace. The span's own context must not be used
// for others.
func withIDs(ctx context.Context, ownerID, span string) context.Context {
	return context.WithValue(ctx, idsKey{}, fixedIDs{naming.TraceID(ownerID), naming.SpanID(ownerID, span)})
}

// NewIDs returns the IDs of a trace and its first span.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if fixed, ok := ctx.Value(idsKey{}).(fixedIDs); ok {
		return fixed.trace, fixed.span
	}
	var id trace.TraceID
	for i := range id {
		id[i] = byte(rand.Uint32()) //nolint:gosec // unique is enough
	}
	return id, randomSpanID()
}

// NewSpanID returns the ID of another span.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if fixed, ok := ctx.Value(idsKey{}).(fixedIDs); ok {
		return fixed.span
	}
	return randomSpanID()
}

func randomSpanID() (id trace.SpanID) {
	for i := range id {
		id[i] = byte(rand.Uint32()) //nolint:gosec // unique is enough
	}
	return id
}
