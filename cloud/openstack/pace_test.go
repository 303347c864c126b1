package openstack_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rig "github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

// fast is a way to a cloud that has built a server when it says that it has begun
// to, so that it takes the same calls each time.
type fast struct{ p *rig.Project }

// RoundTrip sends a request on, and waits for the server that it asks for.
func (f fast) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/servers") ||
		resp.StatusCode != http.StatusAccepted {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var out struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, err
	}
	f.p.AwaitBuild(out.Server.ID)
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp, nil
}

// strict is a way to services that ask Keystone about the token of each call,
// where they would believe in it for minutes.
type strict struct{ p *rig.Project }

// RoundTrip sends a request on, unless Keystone does not know its token.
func (s strict) RoundTrip(r *http.Request) (*http.Response, error) {
	token := r.Header.Get("X-Auth-Token")
	if token == "" || s.p.Rig.Valid(r.Context(), token) {
		return http.DefaultTransport.RoundTrip(r)
	}
	body := `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires ` +
		`authentication."}}`
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// steppedClock is a clock that only moves when the test lets time pass, so that a
// slow machine does not use up the settle time. Nova has the time that it needs.
func steppedClock(p *rig.Project) (now func() time.Time, advance func(testing.TB, time.Duration)) {
	start := time.Now()
	var passed atomic.Int64
	now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	advance = func(t testing.TB, d time.Duration) {
		t.Helper()
		passed.Add(int64(d))
		p.Rest(t)
	}
	return now, advance
}
