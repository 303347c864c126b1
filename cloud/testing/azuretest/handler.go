package azuretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// call is one request.
type call struct {
	*http.Request

	parts []string // of the path, in small letters but for names
	query url.Values
	body  map[string]any
	text  []byte
}

// ServeHTTP answers one request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q := &call{Request: r, parts: strings.Split(strings.Trim(r.URL.Path, "/"), "/"), query: r.URL.Query(), text: text}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	status, out, err := c.serve(w, q)
	if f, ok := errors.AsType[*failure](err); ok {
		status, out = f.status, map[string]any{"error": map[string]any{"code": f.code, "message": f.message}}
		if strings.HasSuffix(r.URL.Path, "/token") {
			out = map[string]any{"error": f.code, "error_description": f.message + "\r\nTrace ID: 1"}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("x-ms-request-id", fmt.Sprintf("request-%d", c.serial))
	if raw, ok := out.(string); ok {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, raw) // the caller may be gone
		return
	}
	w.WriteHeader(status)
	if out != nil {
		_ = json.NewEncoder(w).Encode(out) // the caller may be gone
	}
}

// violation passes on what of a request or an answer is not as the model has it.
func (c *Cloud) violation(q *call, what string, wrong []string) {
	if c.settings.Violation != nil {
		c.settings.Violation(fmt.Sprintf("%s %s: %s: %s\n%s", q.Method, q.URL, what, strings.Join(wrong, "; "), q.text))
	}
}

// serve checks who asks and what for, and lets it happen.
func (c *Cloud) serve(w http.ResponseWriter, q *call) (int, any, error) {
	switch {
	case strings.HasSuffix(q.URL.Path, "/oauth2/v2.0/token"):
		return c.logIn(q)
	case q.parts[0] == "console":
		return c.blob(q)
	case q.Header.Get("Authorization") != c.token():
		return 0, nil, &failure{http.StatusUnauthorized, "InvalidAuthenticationTokenTenant", "The access token is invalid."}
	}
	if len(q.text) > 0 {
		if err := json.Unmarshal(q.text, &q.body); err != nil {
			return 0, nil, bad("InvalidRequestContent", "The request content was invalid")
		}
	}
	status, out, err := c.route(w, q)
	if err == nil && status == 0 {
		c.violation(q, "no such call", nil)
		return 0, nil, &failure{http.StatusNotFound, "InvalidResourceType", "The resource type could not be found."}
	}
	return status, out, err
}

func (c *Cloud) token() string { return fmt.Sprintf("Bearer azuretest-token-%d", c.session) }

// logIn gives out a token for a secret, or for a token of another identity provider.
func (c *Cloud) logIn(q *call) (int, any, error) {
	form, err := url.ParseQuery(string(q.text))
	secret := form.Get("client_secret") + form.Get("client_assertion")
	assertion := form.Get("client_assertion_type")
	switch {
	case err != nil || form.Get("grant_type") != "client_credentials",
		!strings.HasSuffix(form.Get("scope"), "/.default"),
		form.Has("client_assertion") && assertion != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
		return 0, nil, bad("invalid_request", "AADSTS900144: The request body is wrong.")
	case q.parts[0] != Tenant || form.Get("client_id") != Client:
		return 0, nil, bad("unauthorized_client", "AADSTS700016: Application was not found in the directory.")
	case !slices.Contains(c.settings.Secrets, secret):
		return 0, nil, &failure{http.StatusUnauthorized, "invalid_client", "AADSTS7000215: Invalid client secret provided."}
	}
	return http.StatusOK, map[string]any{
		"token_type": "Bearer", "expires_in": 3599, "access_token": strings.TrimPrefix(c.token(), "Bearer "),
	}, nil
}

// The versions of the APIs of the types.
func versions() map[string]string {
	return map[string]string{
		"virtualmachines": "2025-04-01", "networkinterfaces": "2025-01-01", "disks": "2025-01-02", "skus": "2021-07-01",
		"locations": "2025-04-01", "resources": "2021-04-01", "tags": "2021-04-01", "offertypes": "2021-01-01",
	}
}

// target is what a request is about.
type target struct {
	kind    string   // element of the path that names the type, in small letters
	rest    []string // of the path
	grouped bool     // in the resource group
}

// target reads a path: /subscriptions/<id>/[resourceGroups/<group>/][providers/<provider>/]
// <type>[/<name>[/<action>]].
func (c *Cloud) target(p []string) (target, error) {
	const shortest = 3
	if len(p) < shortest || !strings.EqualFold(p[0], "subscriptions") {
		return target{}, nil
	}
	if p[1] != Subscription {
		return target{}, &failure{http.StatusNotFound, "SubscriptionNotFound", "The subscription could not be found."}
	}
	rest, grouped := p[2:], false
	if strings.EqualFold(rest[0], "resourceGroups") && len(rest) >= shortest {
		if grouped = true; !strings.EqualFold(rest[1], c.settings.Group) {
			return target{}, &failure{http.StatusNotFound, "ResourceGroupNotFound", "Resource group could not be found."}
		}
		rest = rest[2:]
	}
	if len(rest) >= shortest && strings.EqualFold(rest[0], "providers") {
		rest = rest[2:]
	}
	return target{strings.ToLower(rest[0]), rest[1:], grouped}, nil
}

// route lets what a request is about answer it; the status is 0 if nothing does.
func (c *Cloud) route(w http.ResponseWriter, q *call) (int, any, error) {
	if len(q.parts) > 1 && q.parts[1] == OtherSubscription {
		if c.other == nil {
			c.other = New(c.settings, c.now)
		}
		q.parts = append([]string{q.parts[0], Subscription}, q.parts[2:]...)
		return c.other.route(w, q)
	}
	t, err := c.target(q.parts)
	if err != nil || t.kind == "" {
		return 0, nil, err
	}
	types := map[string]string{"virtualmachines": TypeVM, "networkinterfaces": TypeNIC, "disks": TypeDisk}
	about := t.kind
	if n := len(t.rest); n > 1 && strings.EqualFold(t.rest[n-1], "default") {
		about = "tags"
	}
	if q.query.Get("api-version") != versions()[about] {
		c.violation(q, "the api-version is not "+versions()[about], nil)
		return 0, nil, bad("InvalidApiVersionParameter", "The api-version is invalid.")
	}
	switch about {
	case "tags":
		return c.tag(q, types[t.kind], t.rest[0])
	case "skus":
		return c.sizes(q)
	case "offertypes":
		return c.terms(q, t.rest)
	case "locations":
		return c.image(t.rest)
	case "resources":
		return c.search(q)
	}
	return c.typed(w, q, types[t.kind], t)
}

// typed answers a request about resources of one type.
func (c *Cloud) typed(w http.ResponseWriter, q *call, kind string, t target) (int, any, error) {
	switch {
	case len(t.rest) == 0:
		return c.list(q, kind, t.grouped)
	case len(t.rest) == 1:
		return c.one(w, q, kind, t.rest[0])
	case kind == TypeVM && q.Method == http.MethodPost:
		return c.act(q, t.rest[0], t.rest[1])
	}
	return 0, nil, nil
}

// answer checks an answer.
func (c *Cloud) answer(q *call, status int, shape string, out map[string]any) (int, any, error) {
	text, err := json.Marshal(out)
	if err != nil {
		return 0, nil, err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return 0, nil, err
	}
	if wrong := checkValue(shape, plain, false); len(wrong) > 0 {
		c.violation(q, "the answer "+string(text), wrong)
	}
	return status, plain, nil
}

// one answers a request about one resource.
func (c *Cloud) one(w http.ResponseWriter, q *call, kind, name string) (int, any, error) {
	r := c.find(kind, name)
	shown := r != nil && !c.hidden(r)
	switch {
	case q.Method == http.MethodGet && shown:
		return c.answer(q, http.StatusOK, shapeOf(kind), c.show(q, r, q.query.Get("$expand") == "instanceView"))
	case q.Method == http.MethodGet:
		return 0, nil, notFound(kind + "/" + name)
	case q.Method == http.MethodDelete && r == nil:
		return http.StatusNoContent, nil, nil
	case q.Method == http.MethodDelete:
		return c.remove(w, r)
	case q.Method == http.MethodPut:
		if wrong := checkValue(shapeOf(kind), any(q.body), true); len(wrong) > 0 {
			c.violation(q, "the request", wrong)
			return 0, nil, bad("InvalidRequestContent", strings.Join(wrong, "; "))
		}
		return c.put(w, q, kind, name, r)
	}
	return 0, nil, nil
}

func shapeOf(kind string) string {
	return map[string]string{TypeVM: "VirtualMachine", TypeNIC: "Interface", TypeDisk: "Disk"}[kind]
}
