package driverkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// transport answers requests in place of a cloud.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func reply(status int, body string, header http.Header) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

func apiOf(t transport) driverkit.API {
	return driverkit.API{
		HTTP: &http.Client{Transport: t}, UserAgent: "kit", Errors: table, RequestID: "X-Request-Id", Max: 100,
		Timeout: time.Minute,
		Refusal: func(body []byte) (string, string) {
			var said struct{ Code, Message string }
			_ = json.Unmarshal(body, &said)
			return said.Code, said.Message
		},
	}
}

func TestAPISendsAndDecodes(t *testing.T) {
	t.Parallel()
	a := apiOf(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"a":1}` || r.Header.Get("Content-Type") != "application/json" || r.UserAgent() != "kit" ||
			r.Header.Get("Token") != "x" || r.Method != http.MethodPost {
			t.Errorf("got %s %s %v", r.Method, body, r.Header)
		}
		return reply(http.StatusAccepted, `{"b":2}`, http.Header{"X-Token": {"t"}}), nil
	})
	var out struct{ B int }
	var header http.Header
	e := a.Do(t.Context(), "op", driverkit.Call{
		Method: http.MethodPost, URL: "http://cloud.example/x", Header: map[string]string{"Token": "x"},
		Body: map[string]int{"a": 1}, Out: &out, OutHeader: &header,
	})
	if e != nil || out.B != 2 || header.Get("X-Token") != "t" {
		t.Errorf("got %+v, %v", out, e)
	}
}

func TestAPIRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status    int
		body      string
		header    http.Header
		want      cloud.Code
		text      string
		uncertain bool
	}{
		"Refused": {
			status: 409, body: `{"code":"Stock","message":"none"}`, header: http.Header{"Retry-After": {"7"}},
			want: cloud.Exhausted, text: "none",
		},
		"Redirected": {
			status: 307, header: http.Header{"Location": {"http://elsewhere.example/"}}, want: cloud.Unknown,
			text: "HTTP status 307",
		},
		"Failing":   {status: 503, body: "<html>secret</html>", want: cloud.Unavailable, text: "status 503", uncertain: true},
		"RequestID": {status: 418, header: http.Header{"X-Request-Id": {"r-7"}}, want: cloud.Unknown, text: "(request r-7)"},
		"NoJSON":    {status: 200, body: "<html>secret</html>", want: cloud.Unavailable, text: "decoded", uncertain: true},
		"Empty":     {status: 200, want: cloud.Unavailable, text: "decoded", uncertain: true},
		"TooLong":   {status: 200, body: strings.Repeat("x", 200), want: cloud.Unavailable, text: "longer", uncertain: true},
	} {
		requests := 0
		a := apiOf(func(*http.Request) (*http.Response, error) {
			requests++
			return reply(c.status, c.body, c.header), nil
		})
		var out struct{}
		e := a.Do(t.Context(), "op", driverkit.Call{Method: http.MethodGet, URL: "http://cloud.example/", Out: &out})
		if e == nil || e.Code != c.want || !strings.Contains(e.Error(), c.text) || strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: got %v, want %v with %q", name, e, c.want, c.text)
			continue
		}
		if driverkit.Uncertain(e) != c.uncertain || requests != 1 {
			t.Errorf("%s: uncertain %v after %d requests", name, driverkit.Uncertain(e), requests)
		}
		if c.header.Get("Retry-After") != "" && e.RetryAfter != 7*time.Second {
			t.Errorf("%s: retry after %v", name, e.RetryAfter)
		}
	}
}

// TestAPIMasksTheSession: an answer that quotes what the call logged in with shows none of it. The
// token of a session is in no Secret, so that nothing else can know it.
func TestAPIMasksTheSession(t *testing.T) {
	t.Parallel()
	const token = "ya29.Zk3v0Qm81LxWcPeT7sYbHn5JrAu2DgKf"
	for key, value := range map[string]string{
		"Authorization": "Bearer " + token, "x-auth-token": token, "X-Amz-Security-Token": token, "Cookie": token,
	} {
		a := apiOf(func(*http.Request) (*http.Response, error) {
			return reply(http.StatusForbidden, `{"code":"c","message":"token `+token[:20]+` is not valid"}`, nil), nil
		})
		e := a.Do(t.Context(), "op", driverkit.Call{
			Method: http.MethodGet, URL: "http://cloud.example/x", Header: map[string]string{key: value},
		})
		if e == nil || !strings.Contains(e.Error(), "token [redacted] is not valid") {
			t.Errorf("%s: got %v, want the text without the token", key, e)
		}
	}
}

func TestAPITimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := apiOf(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		began := time.Now()
		call := driverkit.Call{Method: http.MethodGet, URL: "http://cloud.example/"}
		if e := a.Do(t.Context(), "op", call); e == nil || e.Code != cloud.Unavailable || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v, want the end of the call after a minute", e, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if e := a.Do(ctx, "op", call); !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", e)
		}
	})
}

// logins counts logins; the last one is the token that the cloud takes.
type logins struct {
	mu   sync.Mutex
	made int
	took time.Duration
	fail error
}

func (l *logins) logIn(ctx context.Context) (int, error) {
	select {
	case <-time.After(l.took):
	case <-ctx.Done():
		return 0, cloud.Errorf(cloud.Unavailable, "log in", "NoAnswer", "no answer: %w", ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	return l.made, l.fail
}

func TestSessionLogsInAgainOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &logins{took: time.Second}
		var requests sync.Map
		s := driverkit.Session[int]{
			Login: driverkit.NewLogin(driverkit.LoginOptions{}, l.logIn),
			API: apiOf(func(r *http.Request) (*http.Response, error) {
				requests.Store(r, nil)
				if r.Header.Get("Token") != "2" {
					return reply(http.StatusUnauthorized, "", nil), nil
				}
				return reply(http.StatusOK, "", nil), nil
			}),
		}
		build := func(login int) driverkit.Call {
			return driverkit.Call{
				Method: http.MethodGet, URL: "http://cloud.example/",
				Header: map[string]string{"Token": string(rune('0' + login))},
			}
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if e := s.Do(t.Context(), "op", build); e != nil {
					t.Error(e)
				}
			})
		}
		wg.Wait()
		if l.made != 2 {
			t.Errorf("%d logins for 20 callers, want the first and one more", l.made)
		}
	})
}

// TestFailedLoginIsCertain: a call that was answered 401 was not carried out, so it stays
// certain when the login that follows fails.
func TestFailedLoginIsCertain(t *testing.T) {
	t.Parallel()
	logins := 0
	s := driverkit.Session[int]{
		API: apiOf(func(*http.Request) (*http.Response, error) { return reply(http.StatusUnauthorized, "", nil), nil }),
		Login: driverkit.NewLogin(driverkit.LoginOptions{}, func(ctx context.Context) (int, error) {
			if logins++; logins == 1 {
				return 1, nil
			}
			return 0, driverkit.NoAnswer(ctx, "log in", io.ErrUnexpectedEOF)
		}),
	}
	e := s.Do(t.Context(), "op", func(int) driverkit.Call {
		return driverkit.Call{Method: http.MethodPost, URL: "http://cloud.example/"}
	})
	if e == nil || e.Code != cloud.Unavailable || e.Op != "op" || driverkit.Uncertain(e) {
		t.Errorf("got %v, uncertain %v, want Unavailable and certain", e, driverkit.Uncertain(e))
	}
}

func TestSessionGivesUpOnASecond401(t *testing.T) {
	t.Parallel()
	l := &logins{}
	s := driverkit.Session[int]{
		Login: driverkit.NewLogin(driverkit.LoginOptions{}, l.logIn),
		API:   apiOf(func(*http.Request) (*http.Response, error) { return reply(http.StatusUnauthorized, "", nil), nil }),
	}
	e := s.Do(t.Context(), "op", func(int) driverkit.Call {
		return driverkit.Call{Method: http.MethodGet, URL: "http://cloud.example/"}
	})
	if e == nil || e.Code != cloud.Denied || l.made != 2 {
		t.Errorf("got %v after %d logins, want Denied after 2", e, l.made)
	}
}

func TestRefusedCredentialsAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	l := &logins{fail: cloud.Errorf(cloud.Denied, "log in", "Wrong", "wrong password")}
	o := driverkit.LoginOptions{Refusals: &cloud.Refusals{}, Fingerprint: "f", Now: func() time.Time { return now }}
	try := func(want string, logins int) {
		t.Helper()
		_, _, err := driverkit.NewLogin(o, l.logIn).Get(t.Context(), "op")
		if cloud.CodeOf(err) != cloud.Denied || !strings.Contains(err.Error(), want) || l.made != logins {
			t.Errorf("got %v after %d logins, want %q after %d", err, l.made, want, logins)
		}
	}
	try("wrong password", 1)
	try("a moment ago", 1)
	now = now.Add(cloud.RefusalTime)
	try("wrong password", 2)
}

func TestOnlyRefusedCredentialsAreRemembered(t *testing.T) {
	t.Parallel()
	wrong := cloud.Errorf(cloud.Denied, "log in", "Wrong", "wrong password")
	l := &logins{fail: cloud.Errorf(cloud.Denied, "log in", "Forbidden", "no permissions")}
	o := driverkit.LoginOptions{
		Refusals: &cloud.Refusals{}, Fingerprint: "f", Now: func() time.Time { return time.Unix(0, 0) },
		Refused: func(err error) bool { return errors.Is(err, wrong) },
	}
	for i, fail := range []error{l.fail, wrong, wrong} {
		l.fail = fail
		_, _, err := driverkit.NewLogin(o, l.logIn).Get(t.Context(), "op")
		if want := min(i+1, 2); cloud.CodeOf(err) != cloud.Denied || l.made != want {
			t.Errorf("got %v after %d logins, want Denied after %d", err, l.made, want)
		}
	}
}

// TestAPanicOfALoginReachesItsCallers, where somebody recovers from it.
func TestAPanicOfALoginReachesItsCallers(t *testing.T) {
	t.Parallel()
	defects := 1
	login := driverkit.NewLogin(driverkit.LoginOptions{}, func(context.Context) (int, error) {
		if defects--; defects == 0 {
			panic("a defect")
		}
		return 7, nil
	})
	func() {
		defer func() {
			if p := fmt.Sprint(recover()); !strings.Contains(p, "a defect") || !strings.Contains(p, "session_test.go") {
				t.Errorf("got %s, want the panic, and where it was", p)
			}
		}()
		_, _, _ = login.Get(t.Context(), "op")
	}()
	if value, _, err := login.Get(t.Context(), "op"); value != 7 || err != nil {
		t.Errorf("got %d, %v, want another login", value, err)
	}
}

func TestLoginOutlivesItsCallersAndEndsWithClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &logins{took: 10 * time.Second}
		login := driverkit.NewLogin(driverkit.LoginOptions{}, l.logIn)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := login.Get(ctx, "op"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		time.Sleep(10 * time.Second)
		if value, generation, err := login.Get(t.Context(), "op"); value != 1 || generation != 1 || err != nil {
			t.Errorf("got %d, %d, %v, want the login that went on", value, generation, err)
		}
		go func() { time.Sleep(time.Second); login.Close(); login.Close() }()
		if err := login.Renew(t.Context(), "op", 1); cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("closed during a login: got %v", err)
		}
		if _, _, err := login.Get(t.Context(), "op"); cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("after Close: got %v", err)
		}
	})
}
