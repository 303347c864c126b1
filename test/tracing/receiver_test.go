package tracing

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/internal/tracing"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

var update = flag.Bool("update", false, "write the example")

// example is the trace that the documentation shows.
const example = "../../docs/trace.json"

// receive starts the Collector's receiver for a protocol, and returns its address and what it
// has received.
func receive(t *testing.T, protocol string) (address string, got *consumertest.TracesSink) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(protocol, "/")
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	err = confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{key: map[string]any{"endpoint": address}},
	}).Unmarshal(config)
	if err != nil {
		t.Fatal(err)
	}
	got = &consumertest.TracesSink{}
	receiver, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), config, got)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := receiver.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return address, got
}

// export has a machine live its life and returns all of its trace that a collector has got, with
// the spans in the order in which they begin.
func export(t *testing.T, protocol string) ptrace.Traces {
	t.Helper()
	address, got := receive(t, protocol)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	if wanted, err := tracing.Wanted(os.Getenv); err != nil || !wanted {
		t.Fatalf("wanted %v, error %v", wanted, err)
	}
	exporter, err := tracing.NewExporter(t.Context(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	tracer, err := tracing.New(t.Context(), exporter, "cluster-api-provider-mcm", "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	live(t, tracer)
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return whole(t, got.AllTraces())
}

// whole puts the spans of all requests into the first one: how many there are is a matter of time.
func whole(t *testing.T, parts []ptrace.Traces) ptrace.Traces {
	t.Helper()
	if len(parts) == 0 {
		t.Fatal("the collector got nothing")
	}
	into := parts[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for _, part := range parts[1:] {
		for _, s := range part.ResourceSpans().At(0).ScopeSpans().All() {
			s.Spans().MoveAndAppendTo(into)
		}
	}
	return parts[0]
}

// spans are those of all scopes.
func spans(all ptrace.Traces) []ptrace.Span {
	var found []ptrace.Span
	for _, r := range all.ResourceSpans().All() {
		for _, s := range r.ScopeSpans().All() {
			for _, span := range s.Spans().All() {
				found = append(found, span)
			}
		}
	}
	return found
}

// TestTraceReachesACollector: by each protocol the receiver has one trace, whole, and nothing secret.
func TestTraceReachesACollector(t *testing.T) { //nolint:paralleltest // it sets environment variables
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			got := export(t, protocol)
			checkTree(t, spans(got))
			text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(got)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(canary)) {
				t.Errorf("the trace has a secret: %s", text)
			}
		})
	}
}

// checkTree checks which spans there are, and which one each is below.
func checkTree(t *testing.T, all []ptrace.Span) {
	t.Helper()
	byID := map[pcommon.SpanID]string{}
	for _, s := range all {
		byID[s.SpanID()] = s.Name()
		if s.TraceID() != pcommon.TraceID(naming.TraceID(owner)) {
			t.Errorf("span %s is in trace %s", s.Name(), s.TraceID())
		}
	}
	var got []string
	for _, s := range all {
		got = append(got, strings.TrimPrefix(byID[s.ParentSpanID()]+"/"+s.Name(), "/"))
	}
	slices.Sort(got)
	want := []string{
		"delete/delete VM", "delete/delete VM", "machine", "machine/boot", "machine/delete", "machine/detach",
		"machine/drain", "machine/join", "machine/make", "make/create VM", "make/create VM",
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
}

// TestExample: the trace that the documentation shows is what a collector gets. The calls' random IDs
// and times are replaced by fixed ones.
func TestExample(t *testing.T) { //nolint:paralleltest // it sets environment variables
	all := export(t, "http/protobuf")
	at := map[string]int{"create VM": 1, "delete VM": 3641}
	id := uint64(0)
	for _, s := range spans(all) {
		if begin, isCall := at[s.Name()]; isCall {
			id++
			s.SetSpanID(pcommon.SpanID(binary.BigEndian.AppendUint64(nil, id)))
			s.SetStartTimestamp(pcommon.NewTimestampFromTime(second(begin).Time))
			s.SetEndTimestamp(pcommon.NewTimestampFromTime(second(begin).Add(250 * time.Millisecond)))
			at[s.Name()] += 10
		}
	}
	for _, r := range all.ResourceSpans().All() {
		r.Resource().Attributes().RemoveIf(func(key string, _ pcommon.Value) bool {
			return key == "telemetry.sdk.version"
		})
		for _, s := range r.ScopeSpans().All() {
			s.Spans().Sort(func(a, b ptrace.Span) bool {
				return cmp.Or(cmp.Compare(a.StartTimestamp(), b.StartTimestamp()),
					cmp.Compare(b.EndTimestamp(), a.EndTimestamp())) < 0
			})
		}
	}
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(all)
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", " "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	if *update {
		if err := os.WriteFile(example, pretty.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(want, pretty.Bytes()) {
		t.Errorf("%s differs; write it with go test -update\n%s", example, pretty.Bytes())
	}
}
