package wrap_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

func TestTimeout(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return cloud.Errorf(cloud.Unavailable, "ask", "NoAnswer", "%w", ctx.Err())
	}
	cases := map[string]struct {
		reason  string
		get     func(ctx context.Context) error
		timeout time.Duration // of the caller; 0 is endless
		code    cloud.Code
		word    string
		is      error
		took    time.Duration
	}{
		"Answer": {"an answer in time is the answer", func(context.Context) error {
			return nil
		}, 0, cloud.Unknown, "", nil, 0},
		"Timeout": {
			"a hanging call ends after its time", hang, 0, cloud.Unavailable, "Timeout", context.DeadlineExceeded,
			3 * time.Second,
		},
		"Canceled": {
			"a caller that gives up first gets the driver's error", hang, time.Second, cloud.Unavailable,
			"NoAnswer", context.DeadlineExceeded, time.Second,
		},
		"Forgetful": {"the chain says why, even if the driver does not", func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("broken")
		}, 0, cloud.Unavailable, "Timeout", context.DeadlineExceeded, 3 * time.Second},
		"Definite": {"an answer that comes late is still one", func(ctx context.Context) error {
			<-ctx.Done()
			return cloud.Errorf(cloud.NotFound, "ask", "Gone", "no such VM")
		}, 0, cloud.NotFound, "Gone", nil, 3 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := wrap.Timeout(wrap.Timeouts{Get: 3 * time.Second})(info(), &account{
					get: func(ctx context.Context, _ cloud.Ref) (cloud.VM, error) { return cloud.VM{}, c.get(ctx) },
				})
				ctx := t.Context()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				start := time.Now()
				_, err := a.Get(ctx, cloud.Ref{})
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v; reason: %s", took, c.took, c.reason)
				}
				if c.word == "" {
					if err != nil {
						t.Errorf("got %v, want no error; reason: %s", err, c.reason)
					}
					return
				}
				e, _ := errors.AsType[*cloud.Error](err)
				if e == nil || e.Code != c.code || e.Reason != c.word || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("got %v, want %v, %s and %v in the chain; reason: %s", err, c.code, c.word, c.is, c.reason)
				}
			})
		})
	}
}

func TestTimeoutOfEachCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		a := wrap.Timeout(wrap.Timeouts{Create: time.Second, Delete: 2 * time.Second})(info(), &account{
			create: func(ctx context.Context, _ cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, hang(ctx) },
			delete: func(ctx context.Context, _ cloud.Ref) (cloud.Deletion, error) { return cloud.Deletion{}, hang(ctx) },
		})
		start := time.Now()
		_, err := a.Create(t.Context(), request("1"))
		if time.Since(start) != time.Second || cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("create: %v after %v, want Unavailable after 1s", err, time.Since(start))
		}
		start = time.Now()
		_, err = a.Delete(t.Context(), cloud.Ref{})
		if time.Since(start) != 2*time.Second || cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("delete: %v after %v, want Unavailable after 2s", err, time.Since(start))
		}
	})
}
