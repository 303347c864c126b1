package guests

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/guestcloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/qemu"
)

const (
	serviceIP = guestcloud.ServiceIP
	nowhere   = "10.0.0.9" // no route leads there

	validToken   = "valid1.0123456789abcdef"
	expiredToken = "expire.0123456789abcdef"
)

// controlPlane is what guests without a cloud try to join.
type controlPlane struct {
	*testing.T
	*cluster.Cluster
}

func startControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	root, err := cluster.Root()
	p := &controlPlane{T: t}
	p.must(err)
	p.Cluster = cluster.ForTest(t, cluster.Options{
		Controllers: cluster.Controllers("certificatesigningrequest-approving-controller",
			"certificatesigningrequest-signing-controller"),
		Manifests: []string{filepath.Join(root, "test", "guests", "testdata", "bootstrap-rbac.yaml")},
	})
	p.makeToken(validToken, time.Now().Add(24*time.Hour))
	p.makeToken(expiredToken, time.Now().Add(-time.Minute))
	return p
}

func (p *controlPlane) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// makeToken makes a bootstrap token that is valid until a time.
func (p *controlPlane) makeToken(token string, until time.Time) {
	p.Helper()
	admin, err := client.New(p.Config(), client.Options{})
	p.must(err)
	id, secret, _ := strings.Cut(token, ".")
	p.must(admin.Create(p.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "expiration": until.UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true",
		},
	}))
}

// answer has the API server answer at a listener.
func (p *controlPlane) answer(l net.Listener) {
	p.Helper()
	go guestcloud.Forward(p.Context(), l, guestcloud.To(p, p.URL()))
}

// join is boot data that joins with a token, but for what is replaced, with commands that run
// before.
func (p *controlPlane) join(server, token string, before ...string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "user-data.yaml"))
	p.must(err)
	data := strings.NewReplacer("CA-DATA", base64.StdEncoding.EncodeToString(p.CA()), "SERVER", server,
		"<<BOOTSTRAP_TOKEN>>", token, "<<MACHINE_NAME>>", "machine").Replace(string(text))
	data += "bootcmd:\n"
	for _, command := range append(before, "true") {
		data += fmt.Sprintf("- [sh, -c, %q]\n", command)
	}
	return data
}

// joins boots with join, at the API server and with a valid token.
func (p *controlPlane) joins(before ...string) qemu.Options {
	p.Helper()
	return boots(p.join("https://"+serviceIP, validToken, before...))
}

// boots boots with user data, in a volume of cloud-init's.
func boots(userData string) qemu.Options { return qemu.Options{Source: qemu.NoCloud([]byte(userData))} }

// with adds to the command line of the kernel.
func with(o qemu.Options, kernel string) qemu.Options {
	o.Kernel = kernel
	return o
}
