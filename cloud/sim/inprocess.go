package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Transport answers requests from the Cloud itself, without a network, without
// goroutines and without latency.
func (c *Cloud) Transport() http.RoundTripper { return inProcess{Handler(c, nil)} }

// Driver returns a driver that calls this Cloud, whatever the endpoint of a
// class is, in process.
func (c *Cloud) Driver() *Driver { return NewDriver(c.Transport()) }

type inProcess struct{ handler http.Handler }

// errNoAnswer is what a caller sees of an answer that does not arrive.
var errNoAnswer = errors.New("the connection was closed before an answer arrived")

// RoundTrip serves the request. Where no answer must arrive it returns an error
// as a broken connection does.
func (p inProcess) RoundTrip(r *http.Request) (out *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		if caught != http.ErrAbortHandler { //nolint:errorlint // a value that was thrown, not an error that was returned
			panic(caught)
		}
		out, err = nil, errNoAnswer
		if ended := r.Context().Err(); ended != nil {
			err = fmt.Errorf("wait for the answer: %w", ended)
		}
	}()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &response{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(w, in)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// response keeps what a handler writes.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) { w.status = status }

func (w *response) Write(p []byte) (int, error) { return w.body.Write(p) }
