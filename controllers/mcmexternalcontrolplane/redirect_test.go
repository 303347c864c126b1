package mcmexternalcontrolplane_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func at(host string, port int32) func(*controlplanev1.MCMExternalControlPlane) {
	return func(cp *controlplanev1.MCMExternalControlPlane) {
		cp.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: port}
	}
}

// TestRedirected: who may write the endpoint need not be who may read the kubeconfig.
func TestRedirected(t *testing.T) {
	t.Parallel()
	const (
		server = `"https://api.example.com:6443/k8s/7", certificate-authority-data: YSBDQQ==`
		public = `"https://api.example.com:6443/k8s/7"`
	)
	cases := map[string]struct {
		reason  string
		cluster string
		host    string
		port    int32
		want    string // where the kubeconfig leads; empty: refused
		name    string // that the server has to have a certificate of
	}{
		"OtherHost": {
			"A certificate of that authority is not enough: kubelets have one, too.",
			server, "fd00::1", 443, "https://[fd00::1]:443/k8s/7", "api.example.com",
		},
		"OtherHostWithName": {
			"The author of the kubeconfig has said which name it is.",
			server + ", tls-server-name: inner", "lb.example.com", 443, "https://lb.example.com:443/k8s/7", "inner",
		},
		"OtherPort": {
			"Another port may be another person's.",
			server, "api.example.com", 443, "https://api.example.com:443/k8s/7", "api.example.com",
		},
		"FromAddress": {
			"Certificates name addresses, too.",
			`"https://10.0.0.1:6443", certificate-authority-data: YSBDQQ==`, "lb.example.com", 443,
			"https://lb.example.com:443", "10.0.0.1",
		},
		"SameAddress": {
			"It is where the kubeconfig leads anyway.",
			public, "api.example.com", 6443, "https://api.example.com:6443/k8s/7", "",
		},
		"SameAddressInOtherWords": {
			"Names have no case.",
			public, "API.Example.com", 6443, "https://API.Example.com:6443/k8s/7", "",
		},
		"SameDefaultPort": {
			"A URL need not have a port.",
			`"https://api.example.com"`, "api.example.com", 443, "https://api.example.com:443", "",
		},
		"SameAddressUnverified": {
			"The author of the kubeconfig has decided that.",
			public + ", insecure-skip-tls-verify: true", "api.example.com", 6443, "https://api.example.com:6443/k8s/7", "",
		},
		"PublicCA": {
			"Everybody gets a certificate for a host of their own.",
			public, "evil.example.org", 443, "", "",
		},
		"PublicCAWithName": {
			"Only an authority of its own makes the name worth something.",
			public + ", tls-server-name: inner", "evil.example.org", 443, "", "",
		},
		"PublicCAOtherPort": {
			"The same host is not the same person.",
			public, "api.example.com", 443, "", "",
		},
		"Unverified": {
			"Everybody can answer there.",
			public + ", insecure-skip-tls-verify: true", "evil.example.org", 443, "", "",
		},
		"PlainHTTP": {
			"Nothing is verified, whatever authority is named.",
			`"http://api.example.com", certificate-authority-data: YSBDQQ==`, "evil.example.org", 443, "", "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, theCluster(), controlPlane(at(tc.host, tc.port)),
				given(`"https://api.example.com:6443/k8s/7", certificate-authority-data: YSBDQQ==`, tc.cluster))
			w.reconcile()
			got := w.is(controlplanev1.KubeconfigReadyCondition)
			if tc.want == "" {
				if w.exists(&corev1.Secret{}, secretKey) ||
					!strings.HasPrefix(got, "False "+machinev1.ReasonInvalidSpec+": spec.controlPlaneEndpoint: ") ||
					!strings.Contains(got, "certificate-authority-data") {
					t.Errorf("%s KubeconfigReady = %q, and a Secret is made: %v", tc.reason, got, w.writes)
				}
				return
			}
			if !strings.HasPrefix(got, "True ") {
				t.Fatalf("%s KubeconfigReady = %q", tc.reason, got)
			}
			if c := w.config(); c.Host != tc.want || c.ServerName != tc.name || c.BearerToken != "s3cret" {
				t.Errorf("leads to %s as %q, want %s as %q: %s", c.Host, c.ServerName, tc.want, tc.name, tc.reason)
			}
		})
	}
}

// TestRedirectedToken sends requests with the kubeconfig that is made. The server at the endpoint has
// a certificate of the kubeconfig's authority, for example.com.
func TestRedirectedToken(t *testing.T) {
	t.Parallel()
	for original, want := range map[string]string{
		"example.com":     "Bearer s3cret", // the same API server at another address
		"api.example.org": "",              // another server whose certificate is of the same authority
	} {
		t.Run(original, func(t *testing.T) {
			t.Parallel()
			received := make(chan string, 1)
			server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				received <- r.Header.Get("Authorization")
			}))
			t.Cleanup(server.Close)
			host, portText, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			port, err := strconv.Atoi(portText)
			if err != nil {
				t.Fatal(err)
			}
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			w := newEnv(t, theCluster(), controlPlane(at(host, int32(port))), given("https://api.example.com:6443/k8s/7",
				fmt.Sprintf("https://%s:6443", original), "YSBDQQ==", base64.StdEncoding.EncodeToString(ca)))
			w.reconcile()
			connection, err := rest.HTTPClientFor(w.config())
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.config().Host, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := connection.Do(request)
			if err == nil {
				answer.Body.Close()
			}
			got := ""
			if err == nil {
				got = <-received
			}
			if got != want || len(received) > 0 {
				t.Errorf("the server received %q (%v), want %q", got, err, want)
			}
		})
	}
}

// TestRedirectedSelfHosted: without a certificate authority the identity that is made here would go to
// any server.
func TestRedirectedSelfHosted(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		config rest.Config
		name   string // of the certificate; empty: refused
	}{
		"CA": {
			"The API server is the same, at another address.",
			rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("a CA")}},
			"10.0.0.1",
		},
		"NoCA": {"Everybody gets a certificate for a host of their own.", rest.Config{Host: "https://10.0.0.1:6443"}, ""},
		"Unverified": {
			"Everybody can answer there.",
			rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
			"",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, theCluster(), kubeSystem("here"), controlPlane(selfHosted, at("lb.example.com", 443)))
			w.deps.Config = &tc.config
			w.reconcile()
			if tc.name != "" {
				if c := w.config(); c.Host != "https://lb.example.com:443" || c.ServerName != tc.name {
					t.Errorf("leads to %s as %q: %s", c.Host, c.ServerName, tc.reason)
				}
				return
			}
			if got := w.is(controlplanev1.KubeconfigReadyCondition); w.tokens > 0 || w.exists(&corev1.Secret{}, secretKey) ||
				!strings.HasPrefix(got, "False "+machinev1.ReasonInvalidSpec+": spec.controlPlaneEndpoint: ") {
				t.Errorf("%s KubeconfigReady = %q, %d tokens", tc.reason, got, w.tokens)
			}
		})
	}
}

// TestRedirectRefusedLater: what is refused changes nothing that there is, and holds up no deletion.
func TestRedirectRefusedLater(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(), given(", certificate-authority-data: YSBDQQ==", ""))
	w.reconcile()
	cp := &controlplanev1.MCMExternalControlPlane{}
	w.change(cp, key, func() { at("evil.example.org", 443)(cp) })
	w.reconcile()
	if got := w.is(controlplanev1.KubeconfigReadyCondition); !strings.HasPrefix(got, "False ") {
		t.Errorf("KubeconfigReady = %q", got)
	}
	if c := w.config(); c.Host != "https://api.example.com:6443/k8s/7" || c.BearerToken != "s3cret" {
		t.Errorf("the kubeconfig that there was has changed: %v", c)
	}
	w.get(cp, key)
	w.Must(w.Raw.Delete(w.Context(), cp))
	w.reconcile()
	if w.exists(&controlplanev1.MCMExternalControlPlane{}, key) {
		t.Error("the deletion waits for the kubeconfig")
	}
}
