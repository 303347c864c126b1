package capi

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shellBlock is a block of commands of a page.
var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestTutorial runs the commands of the tutorial in docs/guide.md, as they stand there, all
// but the one that pushes images. No kubelet runs Deployments here: once they are
// made, the test starts their programs, with the flags and ServiceAccounts that they
// have, and a proxy finds what has the names of Services.
func TestTutorial(t *testing.T) {
	turn := queue.add(2)
	t.Parallel()
	turn.await(t)
	a := require(t)
	s := controlPlane(t, a, filepath.Join(a.capi, "cert-manager"))
	m := &management{Stack: s, assets: a, dir: t.TempDir()}
	var err error
	if m.cl, err = client.New(m.Cluster.Config(), client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	reader := tutorialReader(t, m)
	page, err := os.ReadFile(filepath.Join(a.root, "docs", "guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tutorial, _ := strings.Cut(string(page), "\n## Tutorial")
	tutorial, _, _ = strings.Cut(tutorial, "\n## ")
	blocks := shellBlock.FindAllStringSubmatch(tutorial, -1)
	if len(blocks) != 8 || !strings.Contains(blocks[0][1], "make release") {
		t.Fatalf("the tutorial has %d blocks of commands; this test knows 8, of which the first makes a release", len(blocks))
	}
	var said string
	for i, block := range blocks[1:] {
		if i == len(blocks)-2 {
			m.permissions(t) // the last block removes the providers, whose managers go on here
		}
		said += reader.run(t, block[1])
		if i == 0 {
			m.playDeployments(t)
		}
	}
	for _, want := range []string{
		"Cluster default/demo", "MCMExternalControlPlane default/demo", `there is no instance type "huge"`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing that was printed has %q:\n%s", want, said)
		}
	}
	if left, err := s.Cloud.Live(t.Context(), ""); err != nil || len(left) > 0 {
		t.Errorf("%d resources are left in the cloud: %v", len(left), err)
	}
}

// A reader follows a page in a folder and an environment of their own.
type reader struct {
	dir string
	env []string
}

// tutorialReader has what the page expects: the programs, a kubeconfig, and the
// release in out/release, with Cluster API's core, which would come from the internet.
func tutorialReader(t *testing.T, m *management) reader {
	t.Helper()
	dir := t.TempDir()
	release := m.assets
	release.repository = filepath.Join(dir, "out", "release")
	if err := release.release(t.Context(), oldRelease); err != nil {
		t.Fatal(err)
	}
	ctl := newClusterctl(t, release)
	programs := filepath.Join(dir, "programs")
	for from, to := range map[string]string{
		ctl.config:                             filepath.Join(release.repository, "clusterctl.yaml"),
		m.assets.clusterctl():                  filepath.Join(programs, "clusterctl"),
		m.Cluster.Kubectl():                    filepath.Join(programs, "kubectl"),
		filepath.Join(m.assets.root, "config"): filepath.Join(dir, "config"),
	} {
		_ = os.Remove(to)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	return reader{dir, []string{
		"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + m.Cluster.Kubeconfig(),
		"GOPROXY=off", "CLUSTERCTL_DISABLE_VERSIONCHECK=true",
	}}
}

// run runs a block of commands and returns what they print. What it exports is there
// in the next one.
func (r reader) run(t *testing.T, commands string) string {
	t.Helper()
	script := "set -euo pipefail\n[ ! -f exported ] || . ./exported\n" + commands + "\nexport -p > exported\n"
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = r.dir, r.env
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, commands, said)
	}
	return string(said)
}

// playDeployments starts what the Deployments run, and reports them as available.
func (m *management) playDeployments(t *testing.T) {
	t.Helper()
	port := process.PortForTest(t)
	proxy := serviceProxy(t, map[string]string{
		"simcloud.capmcm-simcloud.svc:80": process.Loopback(port),
		"kubernetes.default.svc:443":      strings.TrimPrefix(m.Cluster.URL(), "https://"),
	})
	m.env = []string{"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy}
	m.startCore(t, "MachinePool=false,ClusterTopology=true")
	m.startProviders(t)
	m.startSimcloud(t, port)
	var deployments appsv1.DeploymentList
	if err := m.cl.List(t.Context(), &deployments); err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) != 5 {
		t.Errorf("%d Deployments, want core's, our three and simcloud's", len(deployments.Items))
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "Played", LastUpdateTime: metav1.Now(),
			LastTransitionTime: metav1.Now(),
		}}
		if err := m.cl.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// startSimcloud starts the simulated cloud as its Deployment does, on a port.
func (m *management) startSimcloud(t *testing.T, port int) {
	t.Helper()
	const namespace, name = "capmcm-simcloud", "simcloud"
	var d appsv1.Deployment
	if err := m.cl.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	here := map[string]string{
		"--in-cluster":   "--kubeconfig=" + m.kubeconfigOf(t, namespace, pod.ServiceAccountName),
		"--listen=:8080": "--listen=" + process.Loopback(port),
	}
	var args []string
	for _, arg := range pod.Containers[0].Args {
		if other, differs := here[arg]; differs {
			arg = other
			delete(here, arg)
		}
		args = append(args, arg)
	}
	started := process.ForTest(t, m.dir, process.Command{
		Name: "tutorial-simcloud", Program: filepath.Join(m.assets.binaries, "simcloud"), Args: args, Env: m.env,
	})
	m.Cloud.Endpoint = "http://" + process.Loopback(port)
	started.RequireReady(t, m.Cloud.Endpoint+"/admin/calls")
}

// serviceProxy is an HTTP proxy that knows addresses of Services, and returns its URL.
func serviceProxy(t *testing.T, services map[string]string) string {
	t.Helper()
	at := func(address string) (string, error) {
		if to, known := services[address]; known {
			return to, nil
		}
		return "", fmt.Errorf("%s is no Service", address)
	}
	plain := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		to, err := at(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			to, err := at(r.Host)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			tunnel(w, r, to)
			return
		}
		r.RequestURI = ""
		answer, err := plain.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// tunnel connects a client with an address until one of them ends.
func tunnel(w http.ResponseWriter, r *http.Request, to string) {
	there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	ends := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	go ends(there, here)
	go ends(here, there)
}
