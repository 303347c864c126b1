package metrics

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"
)

func TestTemplate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, path, want, resource string
		collection                   bool
	}{
		"CoreList": {"a list across namespaces", "/api/v1/pods", "/api/v1/pods", "pods", true},
		"Namespace": {
			"a namespace is an object like others", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/{name}",
			"namespaces", false,
		},
		"Namespaces": {"so is their list", "/api/v1/namespaces", "/api/v1/namespaces", "namespaces", true},
		"Namespaced": {
			"a list in a namespace", "/api/v1/namespaces/a/secrets", "/api/v1/namespaces/{namespace}/secrets",
			"secrets", true,
		},
		"Object": {
			"an object", "/apis/machine.sapcloud.io/v1alpha1/namespaces/a/machines/m",
			"/apis/machine.sapcloud.io/v1alpha1/namespaces/{namespace}/machines/{name}", "machines.machine.sapcloud.io", false,
		},
		"Subresource": {
			"a subresource", "/api/v1/namespaces/a/pods/p/eviction",
			"/api/v1/namespaces/{namespace}/pods/{name}/eviction", "pods", false,
		},
		"Group":  {"discovery of a group", "/apis/coordination.k8s.io/v1", "/apis/coordination.k8s.io/v1", "", false},
		"Health": {"anything else", "/healthz", "/healthz", "", false},
		"Root":   {"the root", "/", "/", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, resource, collection := template(tc.path)
			if got != tc.want || resource != tc.resource || collection != tc.collection {
				t.Errorf("%s: template(%q) = %q, %q, %v; want %q, %q, %v", tc.reason, tc.path, got, resource, collection, tc.want,
					tc.resource, tc.collection)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	r := NewRequests(clock.RealClock{})
	rt := r.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	}))
	for _, url := range []string{
		"https://api/api/v1/nodes?limit=500", "https://api/api/v1/nodes?watch=true&resourceVersion=42",
		"https://api/api/v1/nodes/n1",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, "lists and watches are counted per resource, other requests are not", r, `
# HELP mcm_reflector_last_resource_version Resource version that the last watch of a resource began at.
# TYPE mcm_reflector_last_resource_version gauge
mcm_reflector_last_resource_version{name="nodes"} 42
# HELP mcm_reflector_lists_total Lists of a resource.
# TYPE mcm_reflector_lists_total counter
mcm_reflector_lists_total{name="nodes"} 1
# HELP mcm_reflector_short_watches_total Watches that ended within a second.
# TYPE mcm_reflector_short_watches_total counter
mcm_reflector_short_watches_total{name="nodes"} 1
# HELP mcm_reflector_watches_total Watches of a resource.
# TYPE mcm_reflector_watches_total counter
mcm_reflector_watches_total{name="nodes"} 1
`, "mcm_reflector_lists_total", "mcm_reflector_watches_total", "mcm_reflector_short_watches_total",
		"mcm_reflector_last_resource_version")
	if n := testutil.CollectAndCount(r, "rest_client_request_latency_seconds"); n != 2 {
		t.Errorf("%d series of latency, want 2: a URL has no names", n)
	}
}
