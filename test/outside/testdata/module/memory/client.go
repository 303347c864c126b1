package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// Spec is the provider spec of both drivers.
type Spec struct {
	URL     string `json:"url"`
	Zone    string `json:"zone"`
	Type    string `json:"type"`
	Cluster string `json:"cluster"`
	Role    string `json:"role"`
}

// ParseSpec decodes a spec and returns what is wrong with it, sorted by field.
func ParseSpec(raw json.RawMessage) (*Spec, []cloud.Problem) {
	s := &Spec{}
	checks := driverkit.Decode(raw, s, lenient.Options{Hint: "url, zone, type, cluster and role"})
	checks.Require(cloud.BlocksAll, "url", s.URL, "name the cloud's address")
	checks.Require(cloud.BlocksAll, "cluster", s.Cluster, "name the cluster")
	checks.Require(cloud.BlocksCreate, "type", s.Type, "name a type")
	return s, checks.Problems.Report()
}

// APIError is an answer that is no success; Status is 0 if there was none.
type APIError struct {
	Status     int
	Code       string
	RetryAfter time.Duration
	Err        error
}

// Error is what the cloud answered.
func (e *APIError) Error() string {
	return fmt.Sprintf("the cloud answers %d %s: %v", e.Status, e.Code, e.Err)
}

// Unwrap returns the cause.
func (e *APIError) Unwrap() error { return e.Err }

// Client speaks to the cloud.
type Client struct {
	HTTP *http.Client
	URL  string
	Key  string
}

// Create makes a VM.
func (c Client) Create(ctx context.Context, vm VM) (out VM, err error) {
	return out, c.call(ctx, http.MethodPost, "", vm, &out)
}

// Show returns a VM.
func (c Client) Show(ctx context.Context, id string) (out VM, err error) {
	return out, c.call(ctx, http.MethodGet, "/"+url.PathEscape(id), nil, &out)
}

// Delete removes a VM.
func (c Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/"+url.PathEscape(id), nil, nil)
}

// List returns the VMs of a cluster and role; an empty name is any.
func (c Client) List(ctx context.Context, s *Spec, name string) (out []VM, err error) {
	q := url.Values{"cluster": {s.Cluster}, "role": {s.Role}}
	if name != "" {
		q.Set("name", name)
	}
	return out, c.call(ctx, http.MethodGet, "?"+q.Encode(), nil, &out)
}

func (c Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return &APIError{Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+"/vms"+path, bytes.NewReader(body))
	if err != nil {
		return &APIError{Err: err}
	}
	r.Header.Set("Key", c.Key)
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return &APIError{Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return &APIError{Err: err}
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		e := &APIError{Status: resp.StatusCode, Err: fmt.Errorf("%s %s", method, "/vms")}
		var said struct{ Code string }
		_ = json.Unmarshal(text, &said) // else there is no code
		e.Code = said.Code
		e.RetryAfter, _ = time.ParseDuration(resp.Header.Get("Retry-After") + "s")
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &APIError{Err: err}
	}
	return nil
}
