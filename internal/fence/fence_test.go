package fence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const term = 10 * time.Second

func TestCheck(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		act    func(f *Fence)
		now    time.Duration // after noon
		open   bool
	}{
		"Never":    {"A standby has not acquired the lease.", func(*Fence) {}, 0, false},
		"Acquired": {"The leader may act.", func(f *Fence) { f.Acquired(noon) }, 0, true},
		"Last":     {"It may until the renew deadline.", func(f *Fence) { f.Acquired(noon) }, term - 1, true},
		"Lapsed":   {"Then a successor may soon lead.", func(f *Fence) { f.Acquired(noon) }, term, false},
		"Renewed": {"A renewal opens it again.", func(f *Fence) {
			f.Acquired(noon)
			f.Renewed(noon.Add(term))
		}, term + 1, true},
		"Released": {"A successor leads at once.", func(f *Fence) {
			f.Acquired(noon)
			f.Released()
		}, 1, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := New(clocktesting.NewFakePassiveClock(noon.Add(tc.now)), term)
			tc.act(f)
			if err := f.Check(); (err == nil) != tc.open || err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("Check() = %v, want open: %t. %s", err, tc.open, tc.reason)
			}
		})
	}
	if err := Always(clock.RealClock{}).Check(); err != nil {
		t.Errorf("without leader election nothing is refused, got %v", err)
	}
}

func TestFormerLeader(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		begin  func(c clock.PassiveClock) *Fence
		after  time.Duration
		want   time.Duration
	}{
		"Expired":  {"The former leader may have sent something just before.", expired, 0, Reach},
		"Half":     {"What it sent arrives within the reach.", expired, Reach / 2, Reach / 2},
		"Over":     {"Or never.", expired, Reach, 0},
		"Released": {"One that gave up its lease had an answer to each request.", released, 0, 0},
		"Again": {"Somebody else may have led in between.", func(c clock.PassiveClock) *Fence {
			f := released(c)
			f.Released()
			f.Acquired(noon)
			return f
		}, 0, Reach},
		"Unled": {"A process without leases cannot know what ran before it.", Always, 0, Reach},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := clocktesting.NewFakePassiveClock(noon)
			f := tc.begin(now)
			now.SetTime(noon.Add(tc.after))
			f.Renewed(now.Now())
			if got := f.FormerLeader(); got != tc.want {
				t.Errorf("FormerLeader() = %s, want %s. %s", got, tc.want, tc.reason)
			}
		})
	}
}

func expired(c clock.PassiveClock) *Fence {
	f := New(c, term)
	f.Acquired(noon)
	return f
}

func released(c clock.PassiveClock) *Fence {
	f := New(c, term)
	f.AcquiredReleased(noon)
	return f
}

// TestTransport: reads pass at any time, and nothing that changes something gets
// past a closed fence, whatever client library sends it.
func TestTransport(t *testing.T) {
	t.Parallel()
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method)
		_, _ = io.WriteString(w, "answer")
	}))
	t.Cleanup(server.Close)
	f := New(clocktesting.NewFakePassiveClock(noon), term)
	c := &http.Client{Transport: transport{f, server.Client().Transport}}
	send := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != "answer" {
			t.Errorf("%s: read %q, %v", method, text, err)
		}
		return nil
	}
	mutating := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	for _, method := range mutating {
		if err := send(method); !errors.Is(err, ErrClosed) {
			t.Errorf("%s while the fence is closed: %v", method, err)
		}
	}
	if err := send(http.MethodGet); err != nil || len(seen) != 1 {
		t.Errorf("GET while the fence is closed: %v, and the server has seen %v", err, seen)
	}
	f.Renewed(noon)
	for _, method := range mutating {
		if err := send(method); err != nil {
			t.Errorf("%s while the fence is open: %v", method, err)
		}
	}
	if got := strings.Join(seen[1:], " "); got != strings.Join(mutating, " ") {
		t.Errorf("the server has seen %s, want each once", got)
	}
}

// TestUnanswered: an answer that does not tell the outcome leaves it open.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	now := clocktesting.NewFakePassiveClock(noon)
	f := released(now)
	send := func(method string, next http.RoundTripper) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := (transport{f, next}).RoundTrip(r); err == nil {
			response.Body.Close()
		}
	}
	for _, known := range []int{http.StatusOK, http.StatusConflict, http.StatusInternalServerError} {
		status = known
		send(http.MethodPatch, server.Client().Transport)
	}
	send(http.MethodGet, broken{})
	if f.InFlight() != 0 {
		t.Error("not settled although each request that changes something was answered")
	}
	status = http.StatusGatewayTimeout
	send(http.MethodPatch, server.Client().Transport)
	if f.InFlight() == 0 {
		t.Error("settled although the API server may go on with a request that timed out")
	}
	now.SetTime(noon.Add(2 * Reach))
	f.Renewed(now.Now())
	if f.InFlight() != 0 {
		t.Error("not settled long after")
	}
	send(http.MethodPatch, broken{})
	if f.InFlight() != Reach || f.FormerLeader() != 0 {
		t.Error("settled although a connection broke before the answer")
	}
}

type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// TestRequestOutlivesStop: what a reconcile has begun is finished and recorded
// although the process is asked to stop.
func TestRequestOutlivesStop(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "answer")
	}))
	t.Cleanup(server.Close)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for method, want := range map[string]error{http.MethodPatch: nil, http.MethodGet: context.Canceled} {
		r, err := http.NewRequestWithContext(stopped, method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (transport{Always(clock.RealClock{}), server.Client().Transport}).RoundTrip(r)
		if !errors.Is(err, want) {
			t.Errorf("%s after the request to stop: %v, want %v", method, err, want)
		}
		if err == nil {
			response.Body.Close()
		}
	}
}

func TestDetach(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		parent func(ctx context.Context) (context.Context, context.CancelFunc)
		after  time.Duration
		ended  bool
	}{
		"Running":  {"A request may take as long as it takes.", context.WithCancel, time.Hour, false},
		"Stopping": {"A request to stop does not end it.", cancelled, finishTimeout - time.Second, false},
		"Stopped":  {"But it does not go on for ever.", cancelled, finishTimeout + time.Second, true},
		"Deadline": {"A deadline is respected.", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, 2 * time.Second, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := tc.parent(t.Context())
				defer cancel()
				ctx, done := detach(parent)
				defer done()
				time.Sleep(tc.after)
				synctest.Wait()
				if got := ctx.Err() != nil; got != tc.ended {
					t.Errorf("%s After %s the context is %v", tc.reason, tc.after, ctx.Err())
				}
			})
		})
	}
}

func cancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

// slow is an account whose calls end with their context.
type slow struct{ cloud.Account }

func (slow) Create(ctx context.Context, _ cloud.CreateRequest) (cloud.VM, error) {
	<-ctx.Done()
	return cloud.VM{}, context.Cause(ctx)
}

func (slow) Delete(context.Context, cloud.Ref) (cloud.Deletion, error) {
	return cloud.Deletion{Done: true}, nil
}

func (slow) SetTags(ctx context.Context, _ cloud.Ref, _ []string) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (slow) RemoveBootData(ctx context.Context, _ cloud.Ref) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (slow) Register(ctx context.Context, _ cloud.Ref, _ []string) (cloud.Registration, error) {
	<-ctx.Done()
	return cloud.Registration{}, context.Cause(ctx)
}

func (slow) Deregister(ctx context.Context, _ cloud.Ref, _ []string) (cloud.Registration, error) {
	<-ctx.Done()
	return cloud.Registration{}, context.Cause(ctx)
}

// TestMembers: load balancers are changed only while the fence is open.
func TestMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(clock.RealClock{}, term)
		a := f.Account(cloud.AccountInfo{}, slow{})
		for _, call := range []func(context.Context, cloud.Account, cloud.Ref, []string) (cloud.Registration, error){
			cloud.Register, cloud.Deregister,
		} {
			if _, err := call(t.Context(), a, cloud.Ref{}, nil); cloud.CodeOf(err) != cloud.Unavailable ||
				!errors.Is(err, ErrClosed) {
				t.Errorf("a call while the fence is closed: %v", err)
			}
			f.Renewed(time.Now())
			if _, err := call(t.Context(), a, cloud.Ref{}, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("a call while the lease lapses: %v", err)
			}
		}
	})
}

// TestAccount: a call to a cloud may consist of many requests, so that it ends
// when the fence closes, and goes on while the lease is renewed.
func TestAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(clock.RealClock{}, term)
		a := f.Account(cloud.AccountInfo{}, slow{})
		if _, err := a.Create(t.Context(), cloud.CreateRequest{}); cloud.CodeOf(err) != cloud.Unavailable ||
			!errors.Is(err, ErrClosed) {
			t.Errorf("create while the fence is closed: %v", err)
		}
		if _, err := a.Delete(t.Context(), cloud.Ref{}); !errors.Is(err, ErrClosed) {
			t.Errorf("delete while the fence is closed: %v", err)
		}
		if err := cloud.SetTags(t.Context(), a, cloud.Ref{}, nil); cloud.CodeOf(err) != cloud.Unavailable ||
			!errors.Is(err, ErrClosed) {
			t.Errorf("set tags while the fence is closed: %v", err)
		}
		if err := cloud.RecordRetention(t.Context(), a, cloud.Class{}, nil); cloud.CodeOf(err) != cloud.Unavailable ||
			!errors.Is(err, ErrClosed) {
			t.Errorf("record retention while the fence is closed: %v", err)
		}
		if err := cloud.RemoveBootData(t.Context(), a, cloud.Ref{}); cloud.CodeOf(err) != cloud.Unavailable ||
			!errors.Is(err, ErrClosed) {
			t.Errorf("remove boot data while the fence is closed: %v", err)
		}
		began := time.Now()
		f.Renewed(began)
		time.AfterFunc(term/2, func() { f.Renewed(time.Now()) })
		_, err := a.Create(t.Context(), cloud.CreateRequest{})
		if took := time.Since(began); !errors.Is(err, ErrClosed) || took != term+term/2 {
			t.Errorf("the call ended after %s with %v, want it to end when the renewed lease has lapsed", took, err)
		}
		f.Renewed(time.Now())
		if err := cloud.SetTags(t.Context(), a, cloud.Ref{}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("tags set while the lease lapses: %v", err)
		}
		f.Renewed(time.Now())
		if err := cloud.RemoveBootData(t.Context(), a, cloud.Ref{}); !errors.Is(err, ErrClosed) {
			t.Errorf("boot data removed while the lease lapses: %v", err)
		}
	})
}

// TestClient: connections to workload clusters have no hook for a transport.
func TestClient(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	f := New(clocktesting.NewFakePassiveClock(noon), term)
	c := f.client(fake.NewClientBuilder().WithObjects(node).WithStatusSubresource(node).Build())
	writes := map[string]func() error{
		"create": func() error {
			return c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}})
		},
		"update": func() error { return c.Update(t.Context(), node.DeepCopy()) },
		"patch": func() error {
			return c.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{}`)))
		},
		"status": func() error {
			return c.Status().Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{}`)))
		},
		"delete": func() error { return c.Delete(t.Context(), node.DeepCopy()) },
	}
	for name, write := range writes {
		if err := write(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s while the fence is closed: %v", name, err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{}); err != nil {
		t.Errorf("a read while the fence is closed: %v", err)
	}
	f.Renewed(noon)
	for _, name := range []string{"create", "patch", "status", "delete"} {
		if err := writes[name](); err != nil {
			t.Errorf("%s while the fence is open: %v", name, err)
		}
	}
}
