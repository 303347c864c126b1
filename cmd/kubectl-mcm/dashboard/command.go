// Package dashboard has kubectl mcm dashboard: a page, for a browser on this machine, that shows what tree, top, why
// and timeline print. It only reads, with the permissions of config/rbac/reader_role.yaml.
package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// stdout stands for standard output in --output.
const stdout = "-"

// headerTimeout is how long a browser may take to send the head of a request.
const headerTimeout = 10 * time.Second

type options struct {
	deps          inspect.Deps
	address       string
	allNamespaces bool
	selector      string
	file          string
}

// New is the command.
func New(d inspect.Deps) *cobra.Command {
	o := &options{deps: d}
	cmd := &cobra.Command{
		Use: "dashboard", Short: "Show pools, machines and their timelines on a page for a browser on this machine",
		Long: `Serve a page on a loopback address, print its URL, and end on Ctrl-C. The page shows all pools of
both APIs with what they wait for; of a pool its sets, machines and nodes; of each object the
explanation of kubectl mcm why and its timeline as a chart. It refreshes itself while it is visible.

The page only reads, and needs no more than ClusterRole kubectl-mcm-reader: it reads no Secret, so
that why and console may know more about a machine that does not join. Everybody on this machine
who can connect to the address sees it.

With --output it writes the present state to one file instead, e.g. for the record of an incident.
What looks like a secret is replaced by [redacted] there.`,
		Example: `  # the pools of the namespace
  kubectl mcm dashboard -n garden

  # those of a team in all namespaces, at a port of one's own
  kubectl mcm dashboard -A -l team=a --address 127.0.0.1:8080

  # the present state, for the record
  kubectl mcm dashboard -n garden -o incident.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.address, "address", "127.0.0.1:0",
		"loopback address to serve the page at; port 0 is one that is free")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "read the objects of all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "label selector of the pools, e.g. team=a")
	flags.StringVarP(&o.file, "output", "o", "",
		"write the present state to this file, which ends in .html, and serve nothing; - is standard output")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	if o.file != "" && o.file != stdout && !strings.HasSuffix(o.file, ".html") {
		return fmt.Errorf("--output=%q: the file is a page; name one that ends in .html, or -", o.file)
	}
	s, err := o.source()
	if err != nil {
		return err
	}
	if o.file != "" {
		return o.write(cmd, s)
	}
	listener, err := listen(cmd.Context(), o.address)
	if err != nil {
		return fmt.Errorf("--address=%q: %w", o.address, err)
	}
	defer listener.Close()
	if found, err := s.current(cmd.Context()); found == nil {
		return err // there is nothing to show
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Dashboard: http://%s/ (Ctrl-C ends it)\n", listener.Addr())
	return serve(cmd.Context(), listener, newHandler(s))
}

// source connects to the clusters, once for all viewers.
func (o *options) source() (*source, error) {
	var selector labels.Selector
	if o.selector != "" {
		var err error
		if selector, err = labels.Parse(o.selector); err != nil {
			return nil, fmt.Errorf("--selector=%q: %w", o.selector, err)
		}
	}
	clusters, err := o.deps.Connect()
	if err != nil {
		return nil, err
	}
	if o.allNamespaces {
		clusters.Namespace = ""
	}
	return newSource(read.Source{
		Control: clusters.Control, Target: clusters.Target, Namespace: clusters.Namespace,
		Events: true, Joining: true, NoSecrets: true,
	}, selector, o.deps.Now), nil
}

// write writes the present state as one file that only its owner may read.
func (o *options) write(cmd *cobra.Command, s *source) error {
	found, err := s.current(cmd.Context())
	if found == nil {
		return err
	}
	page, err := staticPage(found)
	if err != nil {
		return err
	}
	if o.file == stdout {
		_, err := cmd.OutOrStdout().Write(page)
		return err
	}
	output.Warn(cmd.ErrOrStderr(), found.facts.Unread)
	if err := os.WriteFile(o.file, page, 0o600); err != nil {
		return fmt.Errorf("--output=%q: %w", o.file, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Written: %s. What looks like a secret is redacted; look through it before you give "+
		"it away.\n", o.file)
	return nil
}

// serve serves until ctx ends, which is no failure.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newHandler serves the page and its data.
func newHandler(s *source) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/{$}", asset("text/html; charset=utf-8", servedPage()))
	mux.Handle("/app.js", asset("text/javascript; charset=utf-8", script()))
	mux.Handle("/app.css", asset("text/css; charset=utf-8", style))
	mux.HandleFunc("/api/state", s.serveState)
	for path, question := range map[string]func(*snapshot, url.Values) (any, error){
		"/api/tree": (*snapshot).treeOf, "/api/top": (*snapshot).topOf, "/api/why": (*snapshot).why,
		"/api/timeline": (*snapshot).timeline,
	} {
		mux.Handle(path, s.answering(question))
	}
	return guarded(mux)
}

func asset(kind, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(text))
	})
}

// serveState answers what the page asks first. A reading that failed is in the answer, with the state before it.
func (s *source) serveState(w http.ResponseWriter, r *http.Request) {
	found, err := s.current(r.Context())
	if found == nil {
		unavailable(w, err)
		return
	}
	answer(w, found.about(err))
}

// answering answers a question about the newest state.
func (s *source) answering(question func(*snapshot, url.Values) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := s.current(r.Context())
		if found == nil {
			unavailable(w, err)
			return
		}
		found.using.Lock()
		defer found.using.Unlock()
		content, err := question(found, r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		answer(w, content)
	})
}

func unavailable(w http.ResponseWriter, err error) {
	http.Error(w, "read clusters: "+err.Error(), http.StatusServiceUnavailable)
}

func answer(w http.ResponseWriter, content any) {
	text, err := json.Marshal(content)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

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
