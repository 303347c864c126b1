package cloudtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// errBroken is what a driver sees of a lost request or a lost answer, as the
// error of its transport.
var errBroken = fmt.Errorf("connection broken by the fault proxy: %w", io.ErrUnexpectedEOF)

// Proxy stands between a driver and its cloud: it records every call and does
// to it what the faults at work say. It is safe for concurrent use.
type Proxy struct {
	next     http.RoundTripper
	classify func(r *http.Request, body []byte) Call

	mu     sync.Mutex
	faults []*Injected
	calls  []*Call
	hidden []*hiding
}

// NewProxy returns a Proxy in front of next; nil is http.DefaultTransport.
// classify fills in Op, Mutates and Login of a request; nil says that all but
// GET, HEAD and OPTIONS mutates and that Op is "<method> <path>".
func NewProxy(next http.RoundTripper, classify func(r *http.Request, body []byte) Call) *Proxy {
	if next == nil {
		next = http.DefaultTransport
	}
	if classify == nil {
		classify = byMethod
	}
	return &Proxy{next: next, classify: classify}
}

// byMethod is what a REST API means by its methods.
func byMethod(r *http.Request, _ []byte) Call {
	reads := []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	return Call{Op: r.Method + " " + r.URL.Path, Mutates: !slices.Contains(reads, r.Method)}
}

// Inject puts f to work, after those that are there. The first that hits a call
// decides about it.
func (p *Proxy) Inject(f Fault) *Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := &Injected{proxy: p, fault: f}
	p.faults = append(p.faults, i)
	return i
}

// Refuses returns what lets the cloud answer the calls that match with r, until restore is called.
func (p *Proxy) Refuses(match func(Call) bool, r Reply) func(testing.TB) (restore func()) {
	return func(testing.TB) func() {
		return p.Inject(Fault{Kind: Answer, Match: match, Times: Forever, Reply: r}).Undo
	}
}

// Calls returns what passed since the last Forget, in the order of arrival.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := make([]Call, 0, len(p.calls))
	for _, c := range p.calls {
		calls = append(calls, *c)
	}
	return calls
}

// Forget empties the record of calls.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

// RoundTrip sends r on, as far as the faults let it.
func (p *Proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err // as any transport does
	}
	call, out, err := p.record(r)
	if err != nil {
		return nil, err
	}
	p.deliverBefore(*call)
	i := p.fault(call)
	if i == nil {
		return p.forward(call, out)
	}
	f := &i.fault
	if f.Met != nil {
		f.Met(*call)
	}
	switch f.Kind {
	case DropRequest:
		return nil, errBroken
	case Reset:
		return nil, fmt.Errorf("read: %w", syscall.ECONNRESET)
	case Late:
		p.hold(i, call, out)
		return nil, errBroken
	case Hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case Answer:
		return p.answer(call, out, f.Reply), nil
	case Delay:
		if err := wait(r, f.Delay); err != nil {
			return nil, err
		}
		return p.forward(call, out)
	case DropResponse, Truncate, Rewrite:
		return p.spoil(call, out, f)
	}
	return nil, fmt.Errorf("no such fault: %v", f.Kind)
}

// wait returns after d or when r is given up.
func wait(r *http.Request, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// record takes note of r and returns a copy of it that can be sent.
func (p *Proxy) record(r *http.Request) (*Call, *http.Request, error) {
	var body []byte
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, nil, fmt.Errorf("read request: %w", err)
		}
	}
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	call := p.classify(r, body)
	call.Method, call.URL, call.Header, call.Body = r.Method, r.URL.String(), r.Header.Clone(), body
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, &call)
	return &call, out, nil
}

// hold keeps a request for later.
func (p *Proxy) hold(i *Injected, c *Call, out *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i.late = append(i.late, lateCall{c, out.WithContext(context.WithoutCancel(out.Context()))})
}

// deliverBefore delivers the late requests for which c asks again: that is the worst
// moment.
func (p *Proxy) deliverBefore(c Call) {
	p.mu.Lock()
	faults := slices.Clone(p.faults)
	p.mu.Unlock()
	for _, i := range faults {
		i.deliver(func(late Call) bool { return c.Mutates && late.Op == c.Op })
	}
}

// fault returns the fault that hits c, or nil.
func (p *Proxy) fault(c *Call) *Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.faults {
		if i.hits(c) {
			return i
		}
	}
	return nil
}

// forward lets the cloud answer.
func (p *Proxy) forward(c *Call, out *http.Request) (*http.Response, error) {
	resp, body, err := p.send(out)
	if err != nil {
		return nil, err
	}
	status, body := p.hide(*c, resp.StatusCode, body)
	return p.reply(c, resp, status, body), nil
}

// spoil lets the cloud answer and does to the answer what f says.
func (p *Proxy) spoil(c *Call, out *http.Request, f *Fault) (*http.Response, error) {
	resp, body, err := p.send(out)
	if err != nil {
		return nil, err
	}
	status, body := p.hide(*c, resp.StatusCode, body)
	switch f.Kind {
	case DropResponse:
		return nil, errBroken
	case Rewrite:
		status, body = f.Rewrite(*c, status, body)
		return p.reply(c, resp, status, body), nil
	case Truncate, DropRequest, Reset, Answer, Delay, Hang, Late:
	}
	half := body[:len(body)/2]
	resp = p.reply(c, resp, status, half)
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(half), broken{}))
	return resp, nil
}

// broken is the end of a truncated body.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// send returns the cloud's answer, read to its end.
func (p *Proxy) send(out *http.Request) (*http.Response, []byte, error) {
	resp, err := p.next.RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, nil, fmt.Errorf("read answer: %w", err)
	}
	return resp, body, nil
}

// reply puts status and body into resp and takes note of them.
func (p *Proxy) reply(c *Call, resp *http.Response, status int, body []byte) *http.Response {
	p.mu.Lock()
	c.Status, c.Reply = status, body
	p.mu.Unlock()
	resp.StatusCode = status
	resp.Status = fmt.Sprintf("%d %s", status, http.StatusText(status))
	resp.ContentLength = int64(len(body))
	resp.TransferEncoding = nil
	resp.Header.Del("Transfer-Encoding")
	if c.Method != http.MethodHead {
		resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// answer returns r as the answer to out.
func (p *Proxy) answer(c *Call, out *http.Request, r Reply) *http.Response {
	resp := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: out}
	for k, v := range r.Header {
		resp.Header.Set(k, v)
	}
	return p.reply(c, resp, r.Status, []byte(r.Body))
}

// Serve lets the Proxy listen as a reverse proxy for target and returns its
// URL, e.g. http://127.0.0.1:34567, without a path. It ends with the test.
func (p *Proxy) Serve(t testing.TB, target *url.URL) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.RequestURI = ""
		out.URL.Scheme, out.URL.Host, out.Host = target.Scheme, target.Host, target.Host
		out.Header.Del("Connection")
		resp, err := p.RoundTrip(out) //nolint:bodyclose // the Proxy's answers are in memory
		if err != nil {
			hangUp(w, err)
		}
		pass(w, resp)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// hangUp ends the connection as err says. It does not return.
func hangUp(w http.ResponseWriter, err error) {
	if errors.Is(err, syscall.ECONNRESET) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // makes Close send a reset
			}
			_ = conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}

// pass gives resp to the caller, and breaks where it breaks.
func pass(w http.ResponseWriter, resp *http.Response) {
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// HandlerTransport answers requests by calling h, without any socket.
func HandlerTransport(h http.Handler) http.RoundTripper { return handlerTransport{h} }

type handlerTransport struct{ handler http.Handler }

// RoundTrip returns what the handler writes.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}
