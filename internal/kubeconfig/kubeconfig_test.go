package kubeconfig_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

const (
	secure = `server: "https://api.example.com:6443", certificate-authority-data: YSBDQQ==`
	pair   = "client-certificate-data: YQ==, client-key-data: YQ=="
	token  = "token: s3cret"
)

// text is a kubeconfig with that cluster and user, beside others that would be refused.
func text(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- {name: prod, cluster: {%s}}
- {name: other, cluster: {server: "https://other.example.com", certificate-authority: /etc/ca.crt}}
users:
- {name: admin, user: {%s}}
- {name: other, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}
- {name: dev, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}}
contexts:
- {name: main, context: {cluster: prod, user: admin, namespace: x}}
- {name: other, context: {cluster: other, user: other}}
- {name: lost, context: {cluster: gone, user: admin}}
- {name: anonymous, context: {cluster: prod, user: gone}}
current-context: main
`, cluster, user)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ reason, text, want string }{
		"Exec": {
			"A program would run in the manager's pod.",
			text(secure, "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}"),
			"users[admin].user.exec: ",
		},
		"AuthProvider": {
			"A plugin may do the same.",
			text(secure, "auth-provider: {name: oidc}"), "users[admin].user.auth-provider: ",
		},
		"TokenFile": {
			"It may be the pod's own token.",
			text(secure, "tokenFile: t"), "users[admin].user.tokenFile: ",
		},
		"TokenFileBesideToken": {
			"client-go reads the file all the same, and uses what it has read.",
			text(secure, token+", tokenFile: t"), "users[admin].user.tokenFile: ",
		},
		"ClientCertificate": {
			"It is opened as soon as the kubeconfig is read; a pipe or device would never end.",
			text(secure, "client-certificate: ./c, client-key-data: YQ=="), "users[admin].user.client-certificate: ",
		},
		"ClientCertificateBesideData": {
			"A file is refused although it would be overridden.",
			text(secure, pair+", client-certificate: ./c"), "users[admin].user.client-certificate: ",
		},
		"ClientKey": {
			"The same holds for the key.",
			text(secure, "client-certificate-data: YQ==, client-key: /k"), "users[admin].user.client-key: ",
		},
		"KeyWithoutCertificate": {
			"Half a pair is nobody.",
			text(secure, "client-key-data: YQ=="), "users[admin].user.client-certificate-data: ",
		},
		"CertificateWithoutKey": {
			"Half a pair is nobody.",
			text(secure, "client-certificate-data: YQ=="), "users[admin].user.client-certificate-data: ",
		},
		"TokenAndPassword": {
			"client-go refuses two ways to prove who it is.",
			text(secure, token+", username: a, password: s3cret"), "users[admin].user.token: ",
		},
		"CAFile": {
			"Whether it is a certificate would be told by the manager.",
			text(`server: "https://a", certificate-authority: ca.crt`, token), "clusters[prod].cluster.certificate-authority: ",
		},
		"CAFileBesideData": {
			"A file is refused although it would be overridden.",
			text(secure+", certificate-authority: ca.crt", token), "clusters[prod].cluster.certificate-authority: ",
		},
		"InsecureWithCA": {
			"One of the two is a mistake.",
			text(secure+", insecure-skip-tls-verify: true", token), "clusters[prod].cluster.insecure-skip-tls-verify: ",
		},
		"Proxy": {
			"A proxy has an address.",
			text(secure+`, proxy-url: "s3cret"`, token), "clusters[prod].cluster.proxy-url: ",
		},
		"ProxyScheme": {
			"client-go knows three kinds.",
			text(secure+`, proxy-url: "ftp://u:s3cret@a"`, token), "clusters[prod].cluster.proxy-url: ",
		},
		"NoServer": {"There is nothing to connect to.", text("", token), "clusters[prod].cluster.server: "},
		"ServerScheme": {
			"No API server is a file.",
			text(`server: "file:///etc/passwd"`, token), "clusters[prod].cluster.server: ",
		},
		"ServerHost": {
			"An empty host is the manager's own.",
			text(`server: "https://:6443"`, token), "clusters[prod].cluster.server: ",
		},
		"NoContext": {
			"It would be another connection than is meant.",
			strings.Replace(text(secure, token), "current-context: main", "current-context: gone", 1),
			`current-context: there is no context "gone"`,
		},
		"NoCluster": {
			"The same holds for the cluster.",
			strings.Replace(text(secure, token), "current-context: main", "current-context: lost", 1),
			`contexts[lost].context.cluster: there is no cluster "gone"`,
		},
		"NoUser": {
			"The same holds for the user.",
			strings.Replace(text(secure, token), "current-context: main", "current-context: anonymous", 1),
			`contexts[anonymous].context.user: there is no user "gone"`,
		},
		"NotYAML": {"The parser's own error would quote it.", "s3cret: [", "is not a kubeconfig; "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kubeconfig.Parse([]byte(tc.text))
			if _, is := errors.AsType[*kubeconfig.RefusedError](err); !is || !strings.HasPrefix(err.Error(), tc.want) ||
				strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q… %s", err, tc.want, tc.reason)
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, cluster, user string
		host                  string
		unverified            string
	}{
		"Token":       {"Most have one.", secure, token, "https://api.example.com:6443", ""},
		"Certificate": {"Those of kubeadm have one.", secure, pair, "https://api.example.com:6443", ""},
		"Password":    {"Some proxies take one.", secure, "username: a, password: b", "https://api.example.com:6443", ""},
		"PublicCA": {
			"The system's certificate authorities count.",
			`server: "https://a/k8s/7"`, token, "https://a/k8s/7", "",
		},
		"Impersonation": {
			"The server of the same Secret decides about it.",
			secure, token + ", as: b, as-groups: [c], as-uid: d, as-user-extra: {e: [f]}", "https://api.example.com:6443", "",
		},
		"Proxy": {
			"It sees ciphertext only.",
			secure + `, proxy-url: "http://proxy:3128", tls-server-name: b`, token, "https://api.example.com:6443", "",
		},
		"SkipVerify": {
			"What is sent is from the same Secret.",
			`server: "https://a", insecure-skip-tls-verify: true`, token, "https://a", "insecure-skip-tls-verify is true",
		},
		"HTTP": {
			"Some tests and tunnels are without TLS.",
			`server: "http://a:8080"`, token, "http://a:8080", "server is not https",
		},
		"NoScheme": {
			"It is taken, with TLS where there is something for it.",
			`server: "10.0.0.1:6443", certificate-authority-data: YQ==`, token, "https://10.0.0.1:6443", "",
		},
		"NoSchemeNoTLS": {
			"And without it otherwise.",
			`server: "localhost:8080"`, token, "http://localhost:8080", "server is not https",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := text(tc.cluster, tc.user)
			got, err := kubeconfig.Parse([]byte(input))
			if err != nil {
				t.Fatalf("%v: %s", err, tc.reason)
			}
			written, err := got.Write("c1")
			if err != nil {
				t.Fatal(err)
			}
			is, err := clientcmd.RESTConfigFromKubeConfig(written)
			if err != nil || is.Host != tc.host || got.Unverified() != tc.unverified {
				t.Errorf("leads to %v (%v), unverified %q, want %s, %q: %s", is, err, got.Unverified(), tc.host, tc.unverified,
					tc.reason)
			}
			input = text(regexp.MustCompile(`server: "[^"]*"`).ReplaceAllString(tc.cluster, "server: "+tc.host), tc.user)
			was, err := clientcmd.RESTConfigFromKubeConfig([]byte(input))
			if err != nil {
				t.Fatal(err)
			}
			is.Proxy, was.Proxy = nil, nil // functions
			if !reflect.DeepEqual(is, was) {
				t.Errorf("it does not connect as the kubeconfig says:\n%s", cmp.Diff(was.String(), is.String()))
			}
			if strings.Contains(string(written), "other") || strings.Contains(string(written), "aws") {
				t.Errorf("other contexts are left:\n%s", written)
			}
		})
	}
}

// TestEveryFieldIsDecided: what a later client-go adds may name another file or program.
func TestEveryFieldIsDecided(t *testing.T) {
	t.Parallel()
	decided := map[reflect.Type][]string{
		reflect.TypeFor[clientcmdapi.Cluster](): {
			"LocationOfOrigin", "Server", "TLSServerName", "InsecureSkipTLSVerify", "CertificateAuthority",
			"CertificateAuthorityData", "ProxyURL", "DisableCompression", "Extensions",
		},
		reflect.TypeFor[clientcmdapi.AuthInfo](): {
			"LocationOfOrigin", "ClientCertificate", "ClientCertificateData", "ClientKey", "ClientKeyData", "Token", "TokenFile",
			"Impersonate", "ImpersonateUID", "ImpersonateGroups", "ImpersonateUserExtra", "Username", "Password",
			"AuthProvider", "Exec", "Extensions",
		},
	}
	for kind, want := range decided {
		var got []string
		for field := range kind.Fields() {
			got = append(got, field.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("decide about each new field of %s: refuse it, keep it, or drop it (-decided +there is):\n%s", kind, diff)
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	secret := func(name, entry, text string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name}, Data: map[string][]byte{entry: []byte(text)},
		}
	}
	c := fake.NewClientBuilder().WithObjects(
		secret("good-kubeconfig", "value", text(secure, token)),
		secret("bad-kubeconfig", "value", text(secure, "tokenFile: t")),
		secret("empty-kubeconfig", "kubeconfig", text(secure, token)),
	).Build()
	read := func(cluster string) (*corev1.Secret, error) {
		s := &corev1.Secret{}
		key := client.ObjectKey{Namespace: "tenant", Name: cluster + "-kubeconfig"}
		return s, kubeconfig.NewReader(c).Get(t.Context(), key, s)
	}
	s, err := read("good")
	if err != nil || s.Name != "good-kubeconfig" || strings.Contains(string(s.Data["value"]), "tokenFile") {
		t.Errorf("of a Secret the current context is left, got %s (%v)", s.Data["value"], err)
	}
	s, err = read("bad")
	if err == nil || len(s.Data) > 0 || !strings.HasPrefix(err.Error(),
		`namespace tenant: Secret "bad-kubeconfig": users[admin].user.tokenFile: `) {
		t.Errorf("the error names Secret and field, and there is no data: %v %v", err, s.Data)
	}
	if _, err = read("empty"); err == nil || !strings.Contains(err.Error(), `there is no entry "value"`) {
		t.Errorf("the entry is named: %v", err)
	}
	if _, err = read("none"); !apierrors.IsNotFound(err) {
		t.Errorf("%v, want that there is none", err)
	}
	r := kubeconfig.NewReader(c)
	err = r.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.ConfigMap{})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, want that connections read Secrets only", err)
	}
	if err := r.List(t.Context(), &clusterv1.ClusterList{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, want that connections list nothing", err)
	}
	if r := kubeconfig.Refused(t.Context(), c, client.ObjectKey{Namespace: "tenant", Name: "bad"}); r == nil {
		t.Error("a refused one has no reason")
	}
	for _, cluster := range []string{"good", "none"} {
		if r := kubeconfig.Refused(t.Context(), c, client.ObjectKey{Namespace: "tenant", Name: cluster}); r != nil {
			t.Errorf("%s: %v", cluster, r)
		}
	}
}
