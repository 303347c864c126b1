package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// attempt is a machine whose server is created by processes that come and go.
type attempt struct {
	t     *testing.T
	now   time.Time
	state string // last checkpoint
	posts int    // requests for a server
	reply result
	shown []map[string]any // servers that Nova lists
}

func (x *attempt) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(what any) (*http.Response, error) {
		text, err := json.Marshal(what)
		return reply(http.StatusOK, string(text)), err
	}
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && path == "/servers":
		x.posts++
		if !strings.Contains(x.state, `"token":"5eed"`) {
			x.t.Errorf("a server is requested with the checkpoint %q", x.state)
		}
		return x.reply.response()
	case path == "/servers/detail":
		return answer(map[string]any{"servers": x.shown})
	case strings.HasPrefix(path, "/servers/"):
		return answer(map[string]any{"server": x.shown[0]})
	case path == "/flavors/detail":
		return answer(map[string]any{"flavors": []any{map[string]any{"id": "f", "name": "small"}}})
	case path == "/ports":
		return answer(map[string]any{"ports": []any{}})
	}
	x.t.Errorf("unexpected request %s %s", r.Method, r.URL)
	return reply(http.StatusNotFound, ""), nil
}

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// result is what becomes of a request for a server: an answer, or an error.
type result struct {
	status int
	body   string
	err    error
}

func (y result) response() (*http.Response, error) {
	if y.err != nil {
		return nil, y.err
	}
	return reply(y.status, y.body), nil
}

// process returns an account as a new process has it.
func (x *attempt) process() *account {
	return loggedIn(x.t, x, func() time.Time { return x.now })
}

// create calls Create once.
func (x *attempt) create(a *account) (cloud.VM, *cloud.Error) {
	c := &config{ownership: []string{"k"}, Spec: spec{
		Region: "r", ImageID: "i", NetworkID: "n", FlavorName: "small", Tags: map[string]string{"k": "1"},
	}}
	r := cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m", OwnerID: "o", State: x.state, Class: cloud.Class{Spec: c}}, Token: "5eed",
		Checkpoint: func(_ context.Context, state string) error { x.state = state; return nil },
	}
	vm, err := a.Create(x.t.Context(), r)
	e, _ := errors.AsType[*cloud.Error](err)
	return vm, e
}

// TestUncertainRequestIsNotRepeated: a request whose outcome is unknown is repeated
// after the settle time only, by whichever process. One that was refused or never
// sent is repeated at once.
func TestUncertainRequestIsNotRepeated(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reply     result
		uncertain bool
	}{
		"connection lost":   {result{err: io.ErrUnexpectedEOF}, true},
		"server error":      {result{status: http.StatusBadGateway}, true},
		"timeout":           {result{status: http.StatusRequestTimeout}, true},
		"half an answer":    {result{status: http.StatusAccepted, body: `{"server": {"id": `}, true},
		"answer without id": {result{status: http.StatusAccepted, body: `{"server": {}}`}, true},
		"no connection":     {result{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, false},
		"refused":           {result{status: http.StatusForbidden, body: `{"forbidden": {"message": "quota"}}`}, false},
		"invalid":           {result{status: http.StatusBadRequest, body: `{"badRequest": {"message": "no"}}`}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &attempt{t: t, now: time.Now(), reply: c.reply}
			same := x.process()
			if _, err := x.create(same); err == nil {
				t.Fatal("Create succeeds")
			}
			_, err := x.create(same)
			if waits := err.Reason == "AnswerLost"; waits != c.uncertain || waits != (x.posts == 1) {
				t.Fatalf("called again: got %v after %d requests", err, x.posts)
			}
			if c.uncertain {
				x.waits(same)
			}
		})
	}
}

// TestFailedLoginIsNoRequest: a server that Nova refused to make for an ended token is
// requested again at once, also when Keystone does not answer the next login.
func TestFailedLoginIsNoRequest(t *testing.T) {
	t.Parallel()
	x := &attempt{t: t, now: time.Now(), reply: result{status: http.StatusUnauthorized}}
	a := x.process()
	logins := 0
	a.calls.Login = driverkit.NewLogin(driverkit.LoginOptions{}, func(ctx context.Context) (auth, error) {
		if logins++; logins == 2 {
			return auth{}, driverkit.NoAnswer(ctx, opLogin, io.ErrUnexpectedEOF)
		}
		return auth{token: "t", urls: map[service]string{nova: "http://nova/", neutron: "http://neutron/"}}, nil
	})
	if _, err := x.create(a); err.Code != cloud.Unavailable || x.posts != 1 {
		t.Fatalf("got %v after %d requests, want Unavailable after one", err, x.posts)
	}
	if _, err := x.create(a); err.Reason == "AnswerLost" || x.posts == 1 {
		t.Errorf("called again: got %v after %d requests, want another request", err, x.posts)
	}
}

// waits checks that neither process a nor a new one requests a server within the
// settle time, and that each does so afterwards.
func (x *attempt) waits(a *account) {
	x.t.Helper()
	for name, a := range map[string]*account{"the same process": a, "another process": x.process()} {
		begin, posts := x.now, x.posts
		for x.now.Sub(begin) < settleTime {
			_, err := x.create(a)
			if err == nil || err.Reason != "AnswerLost" || err.RetryAfter <= 0 || x.posts != posts {
				x.t.Fatalf("%s after %v: got %v and %d more requests, want AnswerLost", name, x.now.Sub(begin), err, x.posts-posts)
			}
			x.now = x.now.Add(err.RetryAfter)
		}
		if _, _ = x.create(a); x.posts != posts+1 {
			x.t.Fatalf("%s after the settle time: %d more requests, want 1", name, x.posts-posts)
		}
	}
}

// TestServerWithoutHostIsNotRecorded: until Nova has found a host, or said why there
// is none, Create returns no providerID, so that a server without one is replaced.
func TestServerWithoutHostIsNotRecorded(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	server := func(status, task, fault string, age time.Duration) map[string]any {
		at := now.Add(-age).Format(time.RFC3339)
		return map[string]any{
			"id": "00000000-0000-4000-8000-000000000001", "name": "m", "status": status, "created": at, "updated": at,
			"OS-EXT-STS:task_state": task, "fault": map[string]any{"message": fault},
			"metadata": map[string]string{"k": "1", ownerKey: "o", attemptKey: "5eed"},
		}
	}
	cases := map[string]struct {
		server   map[string]any
		recorded bool
		wait     time.Duration
	}{
		"scheduling":          {server("BUILD", "scheduling", "", time.Second), false, time.Second},
		"scheduling for long": {server("BUILD", "scheduling", "", time.Minute), false, waitForBuild},
		"spawning":            {server("BUILD", "spawning", "", time.Second), true, waitForBuild},
		"failed just now":     {server("ERROR", "", "", time.Second), false, time.Second},
		"active":              {server("ACTIVE", "", "", time.Second), true, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &attempt{t: t, now: now, shown: []map[string]any{c.server}}
			vm, err := x.create(x.process())
			if err != nil || (vm.ProviderID != "") != c.recorded || vm.RetryAfter != c.wait {
				t.Errorf("got %+v, %v", vm, err)
			}
		})
	}
}
