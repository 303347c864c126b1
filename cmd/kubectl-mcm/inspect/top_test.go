package inspect

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/fleet"
)

const metricsText = `# HELP workqueue_depth Current depth of workqueue
# TYPE workqueue_depth gauge
workqueue_depth{controller="machine",name="machine",priority="0"} 2
workqueue_depth{controller="machine",name="machine",priority="-100"} 1
`

const callsText = `mcm_cloud_api_driver_requests_failed_total{error_code="14",operation="create",provider="AWS"} 2
mcm_cloud_api_driver_requests_failed_total{error_code="14",operation="get",provider="AWS"} 5
mcm_cloud_api_driver_requests_failed_total{error_code="3",operation="get",provider="AWS"} 7
`

// TestTopMetrics: queues and throttled calls appear when metrics are named, by URL or by a path at the API
// server, and something else is not taken for metrics.
func TestTopMetrics(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/proxy/metrics":
			_, _ = io.WriteString(w, metricsText)
		case "/proxy/calls":
			_, _ = io.WriteString(w, callsText)
		case "/page":
			_, _ = io.WriteString(w, "<html>")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	api := fleet.API(t, fleet.Native()...).Build()
	for at, want := range map[string]string{
		server.URL + "/proxy/calls": "calls throttled or not answered   AWS       7",
		"/proxy/calls":              "queued objects                    machine   3",
		"/nothing":                  "404 Not Found",
		"/page":                     "these are no metrics of a manager",
	} {
		text, err := runAt(t, api, server.URL, "top", "--metrics-url", "/proxy/metrics", "--metrics-url", at)
		if err != nil {
			text += err.Error()
		}
		if !strings.Contains(text, want) || strings.Contains(text, "14") {
			t.Errorf("%s: %s, want %q", at, text, want)
		}
	}
	if text, err := runAt(t, api, "", "top"); err != nil || strings.Contains(text, "queued") {
		t.Errorf("queues without --metrics-url: %v\n%s", err, text)
	}
}

// runAt is run, with an API server at a URL.
func runAt(t *testing.T, api client.Reader, at string, args ...string) (string, error) {
	t.Helper()
	base, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	root := &cobra.Command{Use: "kubectl-mcm", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands(Deps{
		Connect:   func() (Clusters, error) { return Clusters{Control: api, Target: api, Namespace: "garden"}, nil },
		Now:       func() time.Time { return now },
		APIServer: func() (*http.Client, *url.URL, error) { return http.DefaultClient, base, nil },
	})...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestCompletion: a shell is offered what exists, of the kind that is begun, and nothing twice.
func TestCompletion(t *testing.T) {
	t.Parallel()
	api := fleet.API(t, append(fleet.Native(), fleet.ClusterAPI()...)...).Build()
	for args, want := range map[string][]string{
		"tree workers-": {
			"workers-abcde", "workers-abcde-1", "workers-abcde-2", "workers-abcde-3", "workers-old",
		},
		"tree workers-old workers-o": nil,
		"top ":                       {"blue", "blue-xyz", "workers", "workers-abcde", "workers-old"},
		"why mcd/":                   {"mcd/blue", "mcd/workers"},
		"why node/":                  {"node/node-workers-abcde-1", "node/node-workers-abcde-2"},
		"why pod/":                   nil,
		"timeline cluster/p":         {"cluster/prod"},
		"tree -o y":                  {"yaml"},
		"timeline -o ch":             {"chrome-trace"},
	} {
		text, err := run(t, api, append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(args, " ")...)...)
		got := strings.Split(strings.TrimSpace(text), "\n")
		got = slices.DeleteFunc(got, func(line string) bool {
			return strings.HasPrefix(line, ":") || strings.HasPrefix(line, "Completion ended")
		})
		begun := args[strings.LastIndex(args, " ")+1:]
		got = slices.DeleteFunc(got, func(word string) bool { return !strings.HasPrefix(word, begun) })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", args, got, err, want)
		}
	}
}
