package dashboard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets the page load its own files and data, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

var errNotLoopback = errors.New("everybody who can connect sees the page, so that it is served on loopback addresses " +
	"only; use 127.0.0.1:PORT, and ssh -L or kubectl's own machine for other places")

// listen opens a port at a loopback address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !isLoopback(host) {
		return nil, errNotLoopback
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() { // what localhost is, a file decides
		_ = listener.Close()
		return nil, errNotLoopback
	}
	return listener, nil
}

// isLoopback reports whether a host is this machine by its name or address.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// guarded refuses what no page of ours sends. A name that an attacker's DNS resolves to this machine makes the
// browser take the attacker's page for ours: its Host header tells them apart. Sec-Fetch-Site tells requests of
// other sites.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case !isLoopback(hostOf(r.Host)):
			http.Error(w, "refuse request: its Host header names another machine; open the URL that "+
				"kubectl mcm dashboard has printed", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/api/") && site != "" && site != "same-origin" && site != "none":
			http.Error(w, "refuse request: it is of another site", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "refuse request: the dashboard only reads", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostOf is a Host header without its port and brackets.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
}
