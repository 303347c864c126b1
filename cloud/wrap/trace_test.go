package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// recorded returns what begins spans, and what has those that are over.
func recorded() (wrap.StartSpan, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	return func(ctx context.Context, owner, operation string) (context.Context, trace.Span) {
		return tracer.Start(ctx, operation, trace.WithAttributes(attribute.String("trace.of", owner)))
	}, recorder
}

// attributes are those of a span, "key=value".
func attributes(s sdktrace.ReadOnlySpan) []string {
	var all []string
	for _, kv := range s.Attributes() {
		all = append(all, string(kv.Key)+"="+kv.Value.String())
	}
	return all
}

func TestTraceSaysHowACallEnded(t *testing.T) {
	t.Parallel()
	throttled := cloud.Errorf(cloud.Throttled, "run", "RequestLimitExceeded", "slower")
	throttled.RetryAfter = 1500 * time.Millisecond
	for name, tc := range map[string]struct {
		vm     cloud.VM
		err    error
		want   []string
		failed bool
		reason string
	}{
		"made": {want: []string{"mcm.cloud.code=OK"}, reason: "the call has succeeded"},
		"not complete": {
			vm: cloud.VM{RetryAfter: 2 * time.Second}, want: []string{"mcm.cloud.code=OK", "mcm.cloud.retry_after_seconds=2"},
			reason: "the driver says when to call again",
		},
		"throttled": {
			err: throttled, failed: true, want: []string{
				"mcm.cloud.code=Throttled", "mcm.cloud.reason=RequestLimitExceeded", "mcm.cloud.retry_after_seconds=1.5",
			}, reason: "the cloud says when to call again",
		},
		"odd": {
			err: errors.New("x"), want: []string{"mcm.cloud.code=Unknown"}, failed: true, reason: "no code is Unknown",
		},
		"no such": {
			err: cloud.Errorf(cloud.NotFound, "get", "Gone", "x"), want: []string{"mcm.cloud.code=NotFound"},
			reason: "an answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start, spans := recorded()
			a := wrap.Trace(start)(info(), &account{
				create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return tc.vm, tc.err },
			})
			r := request("1")
			r.OwnerID = "owner"
			if _, err := a.Create(t.Context(), r); !errors.Is(err, tc.err) {
				t.Fatal(err)
			}
			span := spans.Ended()[0]
			got := attributes(span)
			for _, want := range append(tc.want, "trace.of=owner", "cloud.provider=fake", "mcm.cloud.operation=create VM",
				"mcm.cloud.attempt=1", "mcm.machine.name=m-1", "mcm.machine.owner_id=owner", "mcm.machine.class=c") {
				if !slices.Contains(got, want) {
					t.Errorf("%s: span has %q, want %s", tc.reason, got, want)
				}
			}
			if failed := span.Status().Code == codes.Error; failed != tc.failed {
				t.Errorf("%s: failed is %v, want %v", tc.reason, failed, tc.failed)
			}
		})
	}
}

// TestTraceCountsAttempts: calls of one operation on one VM are counted until one needs no other, and
// a deletion ends the counts of all operations.
func TestTraceCountsAttempts(t *testing.T) {
	t.Parallel()
	start, spans := recorded()
	var failure error
	var left cloud.Deletion
	a := wrap.Trace(start)(info(), &account{
		create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, failure },
		delete: func(context.Context, cloud.Ref) (cloud.Deletion, error) { return left, nil },
	})
	r := request("1")
	r.OwnerID = "owner"
	other := request("2")
	other.OwnerID = "other"
	create := func(r cloud.CreateRequest, err error) { failure = err; _, _ = a.Create(t.Context(), r) }
	remove := func(d cloud.Deletion) { left = d; _, _ = a.Delete(t.Context(), r.Ref) }
	full := cloud.Errorf(cloud.Exhausted, "run", "Full", "x")
	create(r, full)
	create(r, full)
	create(other, nil)
	create(r, nil)
	create(r, full)
	remove(cloud.Deletion{RetryAfter: time.Second})
	remove(cloud.Deletion{Done: true})
	create(r, nil)
	var got []string
	for _, s := range spans.Ended() {
		all := attributes(s)
		i := slices.IndexFunc(all, func(kv string) bool { return strings.HasPrefix(kv, "mcm.cloud.attempt=") })
		got = append(got, s.Name()+" "+strings.TrimPrefix(all[i], "mcm.cloud.attempt="))
	}
	want := []string{
		"create VM 1", "create VM 2", "create VM 1", "create VM 3", "create VM 1", "delete VM 1", "delete VM 2",
		"create VM 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTraceHasNoSecret: nothing of what an account is asked with, and no text of an error, is in a span.
func TestTraceHasNoSecret(t *testing.T) {
	t.Parallel()
	start, spans := recorded()
	failure := cloud.Errorf(cloud.Denied, "run", "Refused", "the key %s is wrong", secret)
	a := wrap.Trace(start)(info(secret), &account{
		create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) {
			return cloud.VM{Message: secret}, failure
		},
		tags: func(context.Context, cloud.Ref, []string) error { return failure },
		list: func(yield func(cloud.Resource, error) bool) { yield(cloud.Resource{}, failure) },
	})
	r := request("1")
	r.UserData, r.State, r.Tags, r.Annotations = []byte(boot), secret, map[string]string{"x": secret},
		map[string]string{"x": secret}
	_, _ = a.Create(t.Context(), r)
	_ = cloud.SetTags(t.Context(), a, r.Ref, nil)
	_, _ = listAll(t.Context(), a, r.Class)
	for _, s := range spans.Ended() {
		text := fmt.Sprint(s.Name(), s.Status(), attributes(s), s.Events())
		if strings.Contains(text, secret) || strings.Contains(text, token) {
			t.Errorf("span shows a secret: %s", text)
		}
	}
	if n := len(spans.Ended()); n != 3 {
		t.Errorf("%d spans, want 3", n)
	}
}

// callAll makes one call of each operation on a.
func callAll(t *testing.T, a cloud.Account) {
	t.Helper()
	r, ctx := request("1"), t.Context()
	_, _ = a.Create(ctx, r)
	_, _ = a.Get(ctx, r.Ref)
	_, _ = a.Delete(ctx, r.Ref)
	_, _ = a.Capacity(ctx, r.Class)
	_, _ = listAll(ctx, a, r.Class)
	_ = cloud.SetTags(ctx, a, r.Ref, nil)
	_ = cloud.RecordRetention(ctx, a, r.Class, nil)
	_ = cloud.Reboot(ctx, a, r.Ref)
	_, _ = cloud.Console(ctx, a, r.Ref)
	_ = cloud.RemoveBootData(ctx, a, r.Ref)
	_, _ = cloud.Register(ctx, a, r.Ref, nil)
	_, _ = cloud.Deregister(ctx, a, r.Ref, nil)
}

// TestEveryCallHasItsSpan: no operation is left out, and each has its answer.
func TestEveryCallHasItsSpan(t *testing.T) {
	t.Parallel()
	start, spans := recorded()
	below := &account{}
	callAll(t, wrap.Trace(start)(info(), below))
	var got []string
	for _, s := range spans.Ended() {
		got = append(got, s.Name())
	}
	want := []string{
		"create VM", "get VM", "delete VM", "look up capacity", "list resources", "set tags",
		"record retention", "reboot VM", "remove boot data", "register VM", "deregister VM",
	}
	if !slices.Equal(got, want) {
		t.Errorf("spans of %q, want %q", got, want)
	}
	for _, op := range []string{
		"create", "get", "delete", "capacity", "list", "tags", "retention", "register", "deregister",
	} {
		if below.made(op) != 1 {
			t.Errorf("%d calls of %s below, want 1", below.made(op), op)
		}
	}
}
