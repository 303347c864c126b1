package hetznertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// refusal is an error as Hetzner answers it.
type refusal struct {
	status        int
	code, message string
}

func (e *refusal) Error() string { return e.code + ": " + e.message }

func refuse(status int, code, format string, args ...any) error {
	return &refusal{status, code, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return refuse(http.StatusBadRequest, "invalid_input", format, args...)
}

func missing(what string) error {
	return refuse(http.StatusNotFound, "not_found", "%s not found", what)
}

// call is one request with what the Cloud has made of it.
type call struct {
	route

	http *http.Request
	id   int64 // in the path
	body []byte
}

// ServeHTTP answers one request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c.sweep()
	w.Header().Set("Content-Type", "application/json")
	answer, err := c.serve(w, r, body)
	if e, ok := errors.AsType[*refusal](err); ok {
		w.WriteHeader(e.status)
		answer = map[string]any{"error": map[string]any{"code": e.code, "message": e.message, "details": nil}}
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // the caller may be gone
}

func (c *Cloud) serve(w http.ResponseWriter, r *http.Request, body []byte) (map[string]any, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == OtherToken && !slices.Contains(c.settings.Tokens, token) {
		return c.another().serve(w, r, body)
	}
	if !slices.Contains(c.settings.Tokens, token) {
		return nil, refuse(http.StatusUnauthorized, "unauthorized", "unable to authenticate")
	}
	if err := c.spend(w, token); err != nil {
		return nil, err
	}
	to, known := routed(r)
	if !known {
		return nil, c.strange(r, body, fmt.Errorf("the API has no %s %s", r.Method, r.URL.Path))
	}
	to.body = body
	if err := errors.Join(to.checkQuery(r.URL.Query()), to.checkRequest(body)); err != nil {
		return nil, c.strange(r, body, err)
	}
	answer, err := c.act(to)
	if err != nil || answer == nil {
		return nil, err
	}
	text, err := json.Marshal(answer)
	if err == nil {
		err = to.checkAnswer(text)
	}
	if err != nil {
		c.odd(fmt.Sprintf("%s %s: the double's own answer: %v", r.Method, r.URL.Path, err))
	}
	return answer, nil
}

// another is the project of OtherToken.
func (c *Cloud) another() *Cloud {
	if c.other == nil {
		s := c.settings
		s.Tokens = []string{OtherToken}
		c.other = New(s, c.clock, c.odd)
	}
	return c.other
}

// strange refuses a request that no client would send, and lets the test fail.
func (c *Cloud) strange(r *http.Request, body []byte, err error) error {
	c.odd(fmt.Sprintf("%s %s: %v\n%s", r.Method, r.URL, err, body))
	return invalid("%v", err)
}

// routed finds what a request is for. Its path begins with the version of the API.
func routed(r *http.Request) (call, bool) {
	path, _ := strings.CutPrefix(r.URL.Path, "/v1")
	parts := strings.Split(path, "/")
	found := call{http: r}
	const at = 2 // of an id in the path
	if len(parts) > at {
		id, err := strconv.ParseInt(parts[at], 10, 64)
		if err != nil {
			return found, false
		}
		found.id, parts[at] = id, "{id}"
	}
	path = strings.Join(parts, "/")
	for _, to := range routes() {
		if to.method == r.Method && to.path == path {
			found.route = to
			return found, true
		}
	}
	return found, false
}

// act lets a request happen.
func (c *Cloud) act(to call) (map[string]any, error) {
	action, known := map[string]func(*Cloud, call) (map[string]any, error){
		"POST /servers": (*Cloud).createServer, "GET /servers/{id}": (*Cloud).getServer,
		"PUT /servers/{id}": (*Cloud).updateServer, "DELETE /servers/{id}": (*Cloud).deleteServer,
		"POST /servers/{id}/actions/poweron": (*Cloud).startServer, "POST /servers/{id}/actions/reset": (*Cloud).startServer,
		"POST /servers/{id}/actions/attach_to_network": (*Cloud).attachServer,
		"POST /floating_ips":                           (*Cloud).createFloating,
		"DELETE /floating_ips/{id}":                    (*Cloud).deleteFloating,
		"POST /floating_ips/{id}/actions/assign":       (*Cloud).assignFloating,
		"POST /floating_ips/{id}/actions/unassign":     (*Cloud).unassignFloating,
	}[to.method+" "+to.path]
	if !known {
		return c.list(to)
	}
	return action(c, to)
}

const hour = 3600 // seconds

// refill gives back the calls that have come in since the last look.
func (c *Cloud) refill() {
	now := c.clock()
	if !c.asked.IsZero() {
		c.spent = max(0, c.spent-now.Sub(c.asked).Seconds()*float64(c.settings.Hourly)/hour)
	}
	c.asked = now
}

// spend takes a call from the bucket, if there is one.
func (c *Cloud) spend(w http.ResponseWriter, token string) error {
	if c.settings.Hourly == 0 {
		return nil
	}
	c.refill()
	now, most := c.asked, float64(c.settings.Hourly)
	w.Header().Set("RateLimit-Limit", strconv.Itoa(c.settings.Hourly))
	w.Header().Set("RateLimit-Reset", strconv.FormatInt(now.Unix()+int64(c.spent*hour/most), 10))
	if c.spent+1 > most {
		w.Header().Set("RateLimit-Remaining", "0")
		const quoted = 32 // characters of the token, which Hetzner's own answer names
		return refuse(http.StatusTooManyRequests, "rate_limit_exceeded",
			"limit of %d requests per hour reached for token '%s'", c.settings.Hourly, token[:min(quoted, len(token))])
	}
	c.spent++
	w.Header().Set("RateLimit-Remaining", strconv.Itoa(int(most-c.spent)))
	return nil
}
