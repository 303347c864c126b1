package cloudtest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// echo answers with what it gets, and counts.
type echo struct{ calls atomic.Int32 }

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.calls.Add(1)
	w.Header().Set("Seen", r.Method)
	_, _ = io.Copy(w, r.Body)
}

func TestProxyFaults(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		fault  cloudtest.Fault
		cloud  int32 // calls that reach the cloud
		status int   // 0: the caller gets an error
		body   string
	}{
		"None":         {"without a match nothing happens", cloudtest.Fault{Match: cloudtest.Op("x")}, 1, 200, "hello"},
		"Drop request": {"the cloud does not see it", cloudtest.Fault{Kind: cloudtest.DropRequest}, 0, 0, ""},
		"Drop response": {
			"the cloud sees it, the caller does not know",
			cloudtest.Fault{Kind: cloudtest.DropResponse},
			1, 0,
			"",
		},
		"Reset":    {"the connection is reset", cloudtest.Fault{Kind: cloudtest.Reset}, 0, 0, ""},
		"Truncate": {"half of the answer comes", cloudtest.Fault{Kind: cloudtest.Truncate}, 1, 0, "he"},
		"Answer": {"the answer is ours", cloudtest.Fault{
			Kind:  cloudtest.Answer,
			Reply: cloudtest.Reply{Status: 429, Body: "slow"},
		}, 0, 429, "slow"},
		"Delay": {
			"it takes longer",
			cloudtest.Fault{Kind: cloudtest.Delay, Delay: time.Millisecond},
			1, 200,
			"hello",
		},
		"Hang": {"the caller gives up", cloudtest.Fault{Kind: cloudtest.Hang}, 0, 0, ""},
		"Rewrite": {"the answer is changed", cloudtest.Fault{
			Kind: cloudtest.Rewrite,
			Rewrite: func(_ cloudtest.Call, status int, body []byte) (int, []byte) {
				return status + 1, append(body, '!')
			},
		}, 1, 201, "hello!"},
	}
	for name, c := range cases {
		for _, listen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/listen=%v", name, listen), func(t *testing.T) {
				server := &echo{}
				p := cloudtest.NewProxy(cloudtest.HandlerTransport(server), nil)
				client := &http.Client{Transport: p, Timeout: 200 * time.Millisecond}
				base := "http://cloud.example"
				if listen {
					base = p.Serve(t, &url.URL{Scheme: "http", Host: "cloud.example"})
					client.Transport = &http.Transport{DisableKeepAlives: true}
				}
				fault := p.Inject(c.fault)
				resp, err := client.Post(base+"/items", "text/plain", strings.NewReader("hello"))
				body, status := "", 0
				if err == nil {
					var b []byte
					b, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if body = string(b); err == nil {
						status = resp.StatusCode
					}
				}
				if status != c.status || body != c.body || server.calls.Load() != c.cloud {
					t.Errorf("got %d %q, %v, and %d calls of the cloud, want %d %q and %d; reason: %s",
						status, body, err, server.calls.Load(), c.status, c.body, c.cloud, c.reason)
				}
				if c.fault.Kind == cloudtest.Reset && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("got %v, want a reset", err)
				}
				if fired := fault.Fired(); (fired == 1) != (name != "None") {
					t.Errorf("fired %d times", fired)
				}
			})
		}
	}
}

func TestProxyNth(t *testing.T) {
	t.Parallel()
	server := &echo{}
	p := cloudtest.NewProxy(cloudtest.HandlerTransport(server), nil)
	client := &http.Client{Transport: p}
	fault := p.Inject(cloudtest.Fault{
		Kind: cloudtest.Answer, Match: cloudtest.Mutating, Nth: 2, Times: 2,
		Reply: cloudtest.Reply{Status: 500},
	})
	var got []int
	for _, method := range []string{"POST", "GET", "DELETE", "PUT", "POST"} {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://cloud.example/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got = append(got, resp.StatusCode)
	}
	if fmt.Sprint(got) != "[200 200 500 500 200]" || fault.Fired() != 2 {
		t.Errorf("got %v, %d hits: want the second and third call that mutates", got, fault.Fired())
	}
	calls := p.Calls()
	if len(calls) != 5 || calls[1].Op != "GET /x" || calls[1].Mutates || !calls[2].Mutates || calls[2].Status != 500 {
		t.Errorf("recorded %+v", calls)
	}
	fault.Undo()
	p.Forget()
	if len(p.Calls()) != 0 {
		t.Error("a call is remembered")
	}
}

func TestProxyHidesFreshObjects(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var lines []string
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			lines = append(lines, fmt.Sprintf("t%d", len(lines)))
			_, _ = io.WriteString(w, lines[len(lines)-1])
			return
		}
		_, _ = io.WriteString(w, strings.Join(lines, ","))
	})
	p := cloudtest.NewProxy(cloudtest.HandlerTransport(server), nil)
	client := &http.Client{Transport: p}
	ask := func(method string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://cloud.example/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	ask("POST")
	p.Hide(cloudtest.Hider{
		Made: func(c cloudtest.Call) []string { return []string{string(c.Reply)} },
		Without: func(_ cloudtest.Call, ids []string, status int, body []byte) (int, []byte) {
			for _, id := range ids {
				body = []byte(strings.ReplaceAll(string(body), ","+id, ""))
			}
			return status, body
		},
	}, func() time.Time { return now }, time.Minute)
	if made := ask("POST"); made != "t1" {
		t.Errorf("whoever makes it sees it: got %q", made)
	}
	if got := ask("GET"); got != "t0" {
		t.Errorf("got %q, want only the old one", got)
	}
	now = now.Add(time.Minute)
	if got := ask("GET"); got != "t0,t1" {
		t.Errorf("after a minute: got %q, want both", got)
	}
}
