package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestDiagnostics: a real API server decides who gets the metrics, and the plain port has
// nothing but the health.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{
		"../config/crd", "../config/manager/namespace.yaml", "../config/rbac",
		"../config/provider/diagnostics_role.yaml", "../config/provider/metrics_reader_role.yaml",
	}})
	admin := adminClient(t, c)
	kubeconfig, err := c.KubeconfigFor(account)
	if err != nil {
		t.Fatal(err)
	}
	bind(t, admin, "diagnostics", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: account})
	port := freePort(t)
	r := start(t, "--control-kubeconfig="+kubeconfig, "--target-kubeconfig="+kubeconfig, "--namespace=",
		"--leader-elect-resource-namespace=machine-controller-manager",
		fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", port), "--insecure-diagnostics=false", "--profiling")
	r.awaitReady(t)
	bind(t, admin, "metrics-reader",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "reader"})
	cases := map[string]struct {
		reason, token, path string
		want                int
	}{
		"NoToken": {"A request without a token has no user.", "", "/metrics", http.StatusUnauthorized},
		"Invalid": {"A token that the API server does not know.", "made-up", "/metrics", http.StatusUnauthorized},
		"Other":   {"A user without the right.", tokenOf(t, admin, "other"), "/metrics", http.StatusForbidden},
		"Reader":  {"A user with the right.", tokenOf(t, admin, "reader"), "/metrics", http.StatusOK},
		"Path":    {"The right is to that path.", tokenOf(t, admin, "reader"), "/debug/pprof/", http.StatusForbidden},
		"Health":  {"Nothing is open there.", "", "/healthz", http.StatusUnauthorized},
	}
	for name, tc := range cases {
		for range 2 { // the second answer is a kept one
			if got := getSecurely(t, port, tc.path, tc.token); got != tc.want {
				t.Errorf("%s: %d, want %d: %s", name, got, tc.want, tc.reason)
			}
		}
	}
	for path, want := range map[string]int{
		"/metrics": http.StatusNotFound, "/configz": http.StatusNotFound, "/debug/pprof/": http.StatusNotFound,
		"/readyz": http.StatusOK, "/healthz": http.StatusOK,
	} {
		if status, _ := get(t.Context(), r.port, path); status != want {
			t.Errorf("plain port: %s is %d, want %d", path, status, want)
		}
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func bind(t *testing.T, admin client.Client, role string, to rbacv1.Subject) {
	t.Helper()
	b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: []rbacv1.Subject{to}}
	b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if err := admin.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// tokenOf returns a token of a ServiceAccount of namespace default, which is made if there
// is none.
func tokenOf(t *testing.T, admin client.Client, name string) string {
	t.Helper()
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := admin.Create(t.Context(), a.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(t.Context(), a, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// getSecurely is the status of a request over TLS, to a server with a self-signed certificate.
func getSecurely(t *testing.T, port int, path, token string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", port, path),
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}
