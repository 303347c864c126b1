package driverkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// API is a cloud's JSON over HTTP. HTTP is required.
type API struct {
	HTTP      *http.Client
	UserAgent string
	Errors    Table

	// Refusal returns the cloud's code and text in the body of a refusal; both are empty
	// if the body is none of the cloud's. Without it no body is quoted.
	Refusal func(body []byte) (code, message string)
	// RequestID is the header of answers with the id of the request; empty for none.
	RequestID string

	Timeout time.Duration    // of one call, besides that of its context; 0 is a minute
	Max     int64            // bytes of an answer; 0 is 64 MiB
	Now     func() time.Time // nil is time.Now
}

// Call is one request.
type Call struct {
	Method, URL string
	Header      map[string]string
	Body        any // is sent as JSON; nil is no body
	Out         any // pointer that a success is decoded into; nil drops the answer

	OutHeader *http.Header // takes the header of a success; nil drops it
}

// Do makes a call, once. It blocks until the answer is read, the time is over or ctx ends.
// Any status but 2xx is an error by the table, and redirections are not followed, because
// credentials would go with them. Nil is success.
func (a API) Do(ctx context.Context, op string, c Call) *cloud.Error {
	if e := NotSent(ctx, op); e != nil {
		return e
	}
	request, err := c.request(ctx)
	if err != nil {
		return cloud.Errorf(cloud.Unknown, op, "BadRequest", "the request cannot be written: %w", Innermost(err))
	}
	if a.UserAgent != "" {
		request.Header.Set("User-Agent", a.UserAgent)
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(a.Timeout, time.Minute))
	defer cancel()
	client := *a.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(request.WithContext(limited))
	if err != nil {
		return NoAnswer(ctx, op, err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := a.read(answer)
	if err != nil {
		return NoAnswer(ctx, op, err)
	}
	if answer.StatusCode/100 != http.StatusOK/100 {
		return a.Errors.Error(op, a.refusal(answer, body, SessionRedactor(request.Header)))
	}
	return c.take(op, answer.Header, body)
}

// SessionRedactor masks what the headers of a request log in with: a cloud's answer may quote it, and
// the token of a session is in no Secret, so that only the request knows it.
func SessionRedactor(request http.Header) *cloud.Redactor {
	var secrets []string
	for _, key := range []string{"Authorization", "X-Auth-Token", "X-Subject-Token", "X-Amz-Security-Token", "Cookie"} {
		for _, value := range request.Values(key) {
			secrets = append(secrets, strings.TrimPrefix(value, "Bearer "))
		}
	}
	return cloud.NewRedactor(secrets, secrets)
}

// take hands out a success.
func (c Call) take(op string, header http.Header, body []byte) *cloud.Error {
	if c.OutHeader != nil {
		*c.OutHeader = header
	}
	if c.Out == nil {
		return nil
	}
	if err := json.Unmarshal(body, c.Out); err != nil {
		return BrokenAnswer(op, "the cloud's answer cannot be decoded")
	}
	return nil
}

// BrokenAnswer returns the error of a success that does not say what it has to. The cloud
// has carried the call out, perhaps.
func BrokenAnswer(op, text string) *cloud.Error {
	return cloud.Errorf(cloud.Unavailable, op, "BrokenAnswer", "%w", uncertain{errors.New(text)})
}

func (c Call) request(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	if c.Body != nil {
		text, err := json.Marshal(c.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, c.Method, c.URL, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if c.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for key, value := range c.Header {
		r.Header.Set(key, value)
	}
	return r, nil
}

// read reads the body of an answer that is not too long.
func (a API) read(answer *http.Response) ([]byte, error) {
	const usual = 64 << 20
	most := cmp.Or(a.Max, usual)
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return body, err
}

func (a API) refusal(answer *http.Response, body []byte, redactor *cloud.Redactor) Answer {
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	out := Answer{Status: answer.StatusCode, RetryAfter: RetryAfter(answer.Header, now())}
	if a.Refusal != nil {
		code, message := a.Refusal(body)
		out.Code, out.Message = redactor.Text(code), redactor.Text(message)
	}
	if a.RequestID != "" {
		out.RequestID = Brief(answer.Header.Get(a.RequestID))
	}
	return out
}
