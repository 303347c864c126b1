package cloudtest

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
)

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
