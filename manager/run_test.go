package manager

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/internal/tracing"
)

// collected is a collector of the traces of several processes.
type collected struct {
	mu      sync.Mutex
	spans   []sdktrace.ReadOnlySpan
	tracers []*tracing.Tracer
}

// tracer is that of another process.
func (c *collected) tracer(t *testing.T) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(t.Context(), c, "test", "1")
	if err != nil {
		t.Fatal(err)
	}
	c.tracers = append(c.tracers, tracer)
	return tracer
}

// ExportSpans keeps spans.
func (c *collected) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	return nil
}

// Shutdown does nothing.
func (c *collected) Shutdown(context.Context) error { return nil }

// check ends the tracers, and checks that the trace of each machine is whole: calls and phases of
// its first leader, and of the next one.
func (c *collected) check(t *testing.T, machines []machinev1.Machine) {
	t.Helper()
	for _, tracer := range c.tracers {
		if err := tracer.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	got := map[string]map[string]bool{}
	for _, s := range c.spans {
		id := s.SpanContext().TraceID().String()
		if got[id] == nil {
			got[id] = map[string]bool{}
		}
		got[id][s.Name()] = true
		if s.EndTime().Before(s.StartTime()) {
			t.Errorf("span %s ends at %s before it begins at %s", s.Name(), s.EndTime(), s.StartTime())
		}
	}
	for i := range machines {
		id := naming.TraceID(machinev1.OwnerID(&machines[i]))
		spans := got[hex.EncodeToString(id[:])]
		for _, want := range []string{
			"make", "create VM", "boot", "join", "drain", "delete VM", "delete", "machine",
		} {
			if !spans[want] {
				t.Errorf("the trace of %s lacks the span %s: %v", machines[i].Name, want, spans)
			}
		}
	}
}

// checkEventsHaveTraces checks that Events about machines name their traces.
func checkEventsHaveTraces(t *testing.T, admin client.Client, machines []machinev1.Machine) {
	t.Helper()
	for i := range machines {
		id := naming.TraceID(machinev1.OwnerID(&machines[i]))
		eventually(t, time.Minute, func(ctx context.Context) string {
			events := &corev1.EventList{}
			if err := admin.List(ctx, events, client.InNamespace("work")); err != nil {
				return err.Error()
			}
			for j := range events.Items {
				e := &events.Items[j]
				if e.InvolvedObject.UID == machines[i].UID &&
					e.Annotations[machinev1.TraceIDAnnotation] == hex.EncodeToString(id[:]) {
					return ""
				}
			}
			return "no Event about " + machines[i].Name + " names its trace"
		})
	}
}

// refusing is an account that has no capacity.
type refusing struct{ slowAccount }

func (refusing) Create(context.Context, cloud.CreateRequest) (cloud.VM, error) {
	return cloud.VM{}, cloud.Errorf(cloud.Exhausted, "run", "Full", "no capacity")
}

// layers are what accounts are wrapped in.
func layers(t *testing.T, o *Options) []cloud.Middleware {
	t.Helper()
	all, err := around(prometheus.NewRegistry(), fence.Always(clock.RealClock{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNothingIsTracedByDefault: without the environment variables nothing is put around a call, a
// logger or a recorder of Events.
func TestNothingIsTracedByDefault(t *testing.T) {
	t.Parallel()
	o := NewOptions("test", "1")
	stop, err := o.startTracing(t.Context(), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if o.tracer != nil || o.spans() != nil {
		t.Error("there is a tracer")
	}
}

// TestTracesAreExported: with an endpoint in the environment, calls to clouds get there, and stop waits
// for the last ones.
func TestTracesAreExported(t *testing.T) {
	var got atomic.Value
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got.Store(r.URL.Path + " " + string(body))
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	plain := NewOptions("test", "1")
	o := NewOptions("test", "1")
	stop, err := o.startTracing(t.Context(), func(key string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}[key]
	})
	if err != nil {
		t.Fatal(err)
	}
	if off, on := len(layers(t, plain)), len(layers(t, o)); on != off+1 {
		t.Errorf("%d layers with traces, %d without", on, off)
	}
	var a cloud.Account = refusing{}
	for _, wrap := range layers(t, o) {
		a = wrap(cloud.AccountInfo{}, a)
	}
	if _, err := a.Create(t.Context(), cloud.CreateRequest{Ref: cloud.Ref{OwnerID: "owner"}}); err == nil {
		t.Error("the error of the call is lost")
	}
	stop()
	text, _ := got.Load().(string)
	for _, want := range []string{"/v1/traces ", "create VM", "Exhausted", "Full", "service.name", "test"} {
		if !strings.Contains(text, want) {
			t.Errorf("the collector got %q, want %s in it", text, want)
		}
	}
	if _, plain := o.recorders(record.NewBroadcaster(), nil)("x").(record.EventRecorderLogger); plain {
		t.Error("Events get no trace ID")
	}
}

// TestTracesThatCannotBeExported: a manager does not start without the traces that it is asked for.
func TestTracesThatCannotBeExported(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
	} {
		stop, err := NewOptions("test", "1").startTracing(t.Context(), func(asked string) string {
			env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", key: value}
			return env[asked]
		})
		stop()
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: error %v, want one that names it", key, value, err)
		}
	}
}
