package manager

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/fence"
)

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
