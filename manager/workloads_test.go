package manager

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// recorder is an API server of somebody else, which keeps what it is sent as proof of identity.
type recorder struct {
	*httptest.Server

	mu       sync.Mutex
	requests int
	proofs   []string // values of the header Authorization
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests++
		if proof := req.Header.Get("Authorization"); proof != "" {
			r.proofs = append(r.proofs, proof)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(r.Close)
	return r
}

// ca is the certificate authority of the server, as a kubeconfig has it.
func (r *recorder) ca() string {
	return base64.StdEncoding.EncodeToString(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}))
}

// TestWorkloadKubeconfigGivesNothingAway connects with Cluster API's own connections to a server
// that a tenant has written into the kubeconfig Secret of a Cluster. The files are the manager's.
func TestWorkloadKubeconfigGivesNothingAway(t *testing.T) {
	t.Parallel()
	const podToken = "the token of the manager's pod"
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(podToken), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason  string
		cluster string // besides the server
		user    string
		proof   string // what the server may see; empty: it is not even called
	}{
		"TokenFile": {
			reason:  "A tenant asks for the pod's token.",
			cluster: "insecure-skip-tls-verify: true", user: "tokenFile: " + path,
		},
		"TokenFileBesideToken": {
			reason:  "The transport of client-go refreshes from the file, whatever the token is.",
			cluster: "insecure-skip-tls-verify: true", user: "token: own, tokenFile: " + path,
		},
		"TokenFileWithCA": {
			reason:  "A server that proves who it is gets no more than others.",
			cluster: "certificate-authority-data: CA", user: "tokenFile: " + path,
		},
		"Exec": {
			reason:  "A program would run in the manager's pod.",
			cluster: "insecure-skip-tls-verify: true",
			user:    "exec: {apiVersion: client.authentication.k8s.io/v1, command: cat, interactiveMode: Never}",
		},
		"ClientCertificateFile": {
			reason:  "The path would be read with the manager's permissions.",
			cluster: "insecure-skip-tls-verify: true", user: "client-certificate: " + path + ", client-key: " + path,
		},
		"CAFile": {
			reason:  "The same holds for the certificate authority.",
			cluster: "certificate-authority: " + path, user: "token: own",
		},
		"Token": {
			reason:  "What is in the Secret goes to the server of the same Secret.",
			cluster: "certificate-authority-data: CA", user: "token: own", proof: "Bearer own",
		},
		"SkipVerify": {
			reason:  "So it does without verification: all of it is from one Secret.",
			cluster: "insecure-skip-tls-verify: true", user: "token: own", proof: "Bearer own",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newRecorder(t)
			of := strings.Replace(tc.cluster, "CA", server.ca(), 1)
			text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x,
clusters: [{name: c, cluster: {server: %q, %s}}], users: [{name: u, user: {%s}}],
contexts: [{name: x, context: {cluster: c, user: u}}]}`, server.URL, of, tc.user)
			connectOnce(t, text)
			server.mu.Lock()
			defer server.mu.Unlock()
			if all := strings.Join(server.proofs, " "); strings.Contains(all, podToken) {
				t.Errorf("%s The server received %q", tc.reason, all)
			}
			if tc.proof == "" && server.requests > 0 {
				t.Errorf("%s The server was called %d times", tc.reason, server.requests)
			}
			if tc.proof != "" && (len(server.proofs) == 0 || server.proofs[0] != tc.proof) {
				t.Errorf("%s The server received %v, want %q", tc.reason, server.proofs, tc.proof)
			}
		})
	}
}

// connectOnce lets Cluster API's connections try once to connect to the Cluster with that kubeconfig.
func connectOnce(t *testing.T, kubeconfig string) {
	t.Helper()
	key := client.ObjectKey{Namespace: "tenant", Name: "prod"}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"},
		Data:       map[string][]byte{"value": []byte(kubeconfig)},
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, secret).Build()
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return c, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return c.RESTMapper(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	workloads, err := NewOptions("test", "1").connectWorkloads(t.Context(), mgr, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = workloads.(reconcile.Reconciler).Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		t.Fatal(err)
	}
}
