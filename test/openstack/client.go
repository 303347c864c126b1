package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// client calls the services as one user in one project.
type client struct {
	rig                     *Rig
	user, password, project string // names, in the default domain

	mu    sync.Mutex
	token string
	until time.Time
}

// bases are what paths of services begin with.
var bases = map[string]string{"keystone": "/v3", "glance": "/v2", "neutron": "/v2.0", "nova": "/v2.1", "placement": ""}

type object = map[string]any

// do makes a call to a service and decodes the answer into out, which may be nil.
// target is the name of the service with a path, as "nova/servers". An answer
// without success is an error.
func (c *client) do(ctx context.Context, method, target string, body, out any) error {
	service, path, _ := strings.Cut(target, "/")
	token, err := c.logIn(ctx)
	if err != nil {
		return err
	}
	header := http.Header{"X-Auth-Token": {token}}
	if service == "nova" {
		header.Set("X-OpenStack-Nova-API-Version", "2.79")
	}
	text, err := c.persist(ctx, method, c.rig.URL(service)+bases[service]+"/"+path, header, body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, target, err)
	}
	return nil
}

// persist sends a request again, for some minutes, while the service is unavailable:
// on a busy machine Keystone does not answer the others in time, which then do not
// act on a request.
func (c *client) persist(ctx context.Context, method, url string, header http.Header, body any) ([]byte, error) {
	const pause, attempts = time.Second, 300
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for attempt := 1; ; attempt++ {
		_, text, err := c.send(ctx, method, url, header, body)
		refusal, refused := errors.AsType[*refusalError](err)
		if !refused || refusal.status != http.StatusServiceUnavailable || attempt == attempts {
			return text, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// logIn returns a token.
func (c *client) logIn(ctx context.Context) (string, error) {
	const lasts = 30 * time.Minute
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && time.Now().Before(c.until) {
		return c.token, nil
	}
	domain := object{"id": "default"}
	answer, _, err := c.send(ctx, http.MethodPost, c.rig.URL("keystone")+"/v3/auth/tokens", http.Header{},
		object{"auth": object{
			"identity": object{"methods": []string{"password"}, "password": object{"user": object{
				"name":   c.user,
				"domain": domain, "password": c.password,
			}}},
			"scope": object{"project": object{"name": c.project, "domain": domain}},
		}})
	if err != nil {
		return "", err
	}
	c.token, c.until = answer.Get("X-Subject-Token"), time.Now().Add(lasts)
	return c.token, nil
}

// forget makes the next call log in again.
func (c *client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = ""
}

// send sends a request whose body is nil, bytes, a file, or encoded as JSON, and returns the
// header and the body of the answer.
func (c *client) send(ctx context.Context, method, url string, header http.Header, body any) (http.Header, []byte,
	error,
) {
	var in io.Reader = http.NoBody
	switch b := body.(type) {
	case nil:
	case []byte:
		in = bytes.NewReader(b)
		header.Set("Content-Type", "application/octet-stream")
	case *os.File: // of any size
		in = b
		header.Set("Content-Type", "application/octet-stream")
	default:
		text, err := json.Marshal(body)
		if err != nil {
			return nil, nil, err
		}
		in = bytes.NewReader(text)
		header.Set("Content-Type", "application/json")
	}
	request, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return nil, nil, err
	}
	request.Header = header
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, nil, &refusalError{
			status: resp.StatusCode, text: fmt.Sprintf("%s %s: %d: %s", method, url, resp.StatusCode, text),
		}
	}
	return resp.Header, text, nil
}

// refusalError is an answer without success.
type refusalError struct {
	status int
	text   string
}

// Error is the answer.
func (r *refusalError) Error() string { return r.text }

// made is an answer that describes one resource.
type made map[string]struct {
	ID string `json:"id"`
}

// create makes a resource and returns its id.
func (c *client) create(ctx context.Context, service, path, kind string, properties object) (string, error) {
	var out made
	err := c.do(ctx, http.MethodPost, service+path, object{kind: properties}, &out)
	return out[kind].ID, err
}
