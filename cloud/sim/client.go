package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// answerMax is how many bytes an answer may have: a page of VMs is the largest.
const answerMax = 64 << 20

// client calls the API of a simulated cloud.
type client struct {
	endpoint  string
	who       Login
	transport http.RoundTripper
}

// request is one call of the API.
type request struct {
	op     string // for errors
	method string
	path   []string // below the region
	query  url.Values
	in     any // nil: no body
}

// call sends a request and decodes the answer into out. Its error is a
// *cloud.Error.
func (c client) call(ctx context.Context, region string, r request, out any) error {
	if err := ctx.Err(); err != nil {
		return cloud.Errorf(cloud.Unavailable, r.op, "NotSent", "request not sent: %w", err)
	}
	req, err := c.build(ctx, region, r)
	if err != nil {
		return cloud.Errorf(cloud.Invalid, r.op, "InvalidRequest", "%w", err)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return lost(ctx, r.op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return lost(ctx, r.op, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(r.op, resp, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return lost(ctx, r.op, err)
	}
	return nil
}

func (c client) build(ctx context.Context, region string, r request) (*http.Request, error) {
	path := []string{c.endpoint, "v1", "regions", url.PathEscape(region)}
	for _, element := range r.path {
		path = append(path, url.PathEscape(element))
	}
	at := strings.Join(path, "/")
	if len(r.query) > 0 {
		at += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.in != nil {
		text, err := json.Marshal(r.in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, at, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.SetBasicAuth(c.who.Account, c.who.Secret)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// lost is the error for an answer that did not arrive, or not whole. Whether
// the call had its effect is unknown.
func lost(ctx context.Context, op string, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from the cloud: %w", err)
}

// refusal is the error that the cloud answered.
func refusal(op string, resp *http.Response, text []byte) error {
	var wrapped struct {
		Error APIError `json:"error"`
	}
	if err := json.Unmarshal(text, &wrapped); err != nil || wrapped.Error.Code == "" {
		return &cloud.Error{
			Code: byStatus(resp.StatusCode), Op: op, Reason: fmt.Sprintf("HTTP%d", resp.StatusCode),
			RetryAfter: retryAfter(resp, 0),
			Err:        fmt.Errorf("the cloud answered HTTP status %d without an error code", resp.StatusCode),
		}
	}
	e := wrapped.Error
	return &cloud.Error{
		Code: react(e.Code, resp.StatusCode), Op: op, Reason: e.Code, RetryAfter: retryAfter(resp, e.RetryAfter),
		Offering: offering(e, resp.StatusCode), Err: errors.New(e.Message),
	}
}

// retryAfter is the cloud's hint: the exact one, else that of HTTP.
func retryAfter(resp *http.Response, exact Duration) time.Duration {
	if exact > 0 {
		return time.Duration(exact)
	}
	var seconds int
	if _, err := fmt.Sscanf(resp.Header.Get("Retry-After"), "%d", &seconds); err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// reactions is the error table: the code of each of the cloud's errors.
func reactions() map[string]cloud.Code {
	return map[string]cloud.Code{
		CodeInvalidParameter:     cloud.Invalid,
		CodeInvalidRegion:        cloud.Invalid,
		CodeInvalidZone:          cloud.Invalid,
		CodeInvalidInstanceType:  cloud.Invalid,
		CodeInvalidImage:         cloud.Invalid,
		CodeInvalidNetwork:       cloud.Invalid,
		CodeInvalidLoadBalancer:  cloud.Invalid,
		CodeUserDataTooLarge:     cloud.Invalid,
		CodeInvalidCredentials:   cloud.Denied,
		CodeAccessDenied:         cloud.Denied,
		CodeNotFound:             cloud.NotFound,
		CodeTokenMismatch:        cloud.TokenUsed,
		CodeTokenExpired:         cloud.TokenUsed,
		CodeIncorrectState:       cloud.Unavailable,
		CodeInsufficientCapacity: cloud.Exhausted,
		CodeQuotaExceeded:        cloud.Exhausted,
		CodeAddressesExhausted:   cloud.Exhausted,
		CodeRequestLimitExceeded: cloud.Throttled,
		CodeInternalError:        cloud.Unavailable,
		CodeServiceUnavailable:   cloud.Unavailable,
	}
}

// react returns the reaction to an error of the cloud.
func react(code string, status int) cloud.Code {
	if known, ok := reactions()[code]; ok {
		return known
	}
	return byStatus(status)
}

// byStatus returns the reaction to an answer without a code that is known, e.g.
// of a proxy on the way. A 404 of that kind says nothing about a VM.
func byStatus(status int) cloud.Code {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cloud.Denied
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status >= http.StatusInternalServerError:
		return cloud.Unavailable
	}
	return cloud.Unknown
}

// offering returns what is exhausted; nil if the error is of another kind, or
// names nothing.
func offering(e APIError, status int) *cloud.Offering {
	o := cloud.Offering{Region: e.Region, Zone: e.Zone, InstanceType: e.InstanceType, CapacityType: e.CapacityType}
	if react(e.Code, status) != cloud.Exhausted || o == (cloud.Offering{}) {
		return nil
	}
	return &o
}
