package capi

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A provider is one Deployment of our bundles, which runs here as a process with
// the same ServiceAccount and flags.
type provider struct {
	namespace, account, deployment string
}

func providers() []provider {
	return []provider{
		{"capmcm-system", "capmcm-manager", "capmcm-controller-manager"},
		{"capmcm-bootstrap-system", "capmcm-bootstrap-manager", "capmcm-bootstrap-controller-manager"},
		{"capmcm-control-plane-system", "capmcm-control-plane-manager", "capmcm-control-plane-controller-manager"},
	}
}

// management is a management cluster: a control plane with Cluster API and our
// providers. It has a cloud of its own, for machines that join it.
type management struct {
	*stack.Stack
	cl        client.Client
	dir       string
	assets    assets
	env       []string // of the managers, beside that of the test
	core      *process.Process
	providers []*process.Process
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, clusterctlv1.AddToScheme,
		kcpv1.AddToScheme,
		machinev1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// controlPlane starts an API server with what Cluster API needs around it, and
// more controllers, and a cloud.
func controlPlane(t *testing.T, a assets, crds string, controllers ...string) *stack.Stack {
	t.Helper()
	s, err := stack.Start(t.Context(), stack.Options{
		Binaries: a.binaries, CRDs: crds, Audit: true,
		Controllers: cluster.Controllers(append(controllers,
			"clusterrole-aggregation-controller", "root-ca-certificate-publisher-controller", "disruption-controller")...),
		// There is no cloud controller manager, so Nodes are Cluster API's and ours to delete.
		Cloud: []string{"--boot-time=300ms", "--delete-time=300ms", "--pod-grace=500ms", "--delete-nodes=false"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs())
		}
		if err := s.Stop(); err != nil {
			t.Log(err)
		}
	})
	return s
}

// newManagement starts a management cluster with clusterctl init from our release,
// and more arguments of that.
func newManagement(t *testing.T, a assets, ctl clusterctl, more ...string) *management {
	t.Helper()
	m := &management{Stack: controlPlane(t, a, filepath.Join(a.capi, "cert-manager")), assets: a, dir: t.TempDir()}
	var err error
	if m.cl, err = client.New(m.Cluster.Config(), client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	ctl.must(t, nil, append([]string{
		"init", "--kubeconfig", m.Cluster.Kubeconfig(), "--core", "cluster-api:" + core, "--infrastructure", "capmcm",
		"--bootstrap", "capmcm", "--control-plane", "capmcm",
	}, more...)...)
	m.startCore(t, "MachinePool=false,ClusterTopology=true")
	return m
}

// selfHosted gives the control plane provider the permissions, which are opt-in, that a
// self-hosted Cluster of a namespace needs.
func (m *management) selfHosted(t *testing.T, namespace string) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "config", "self-hosted")
	if err := m.Cluster.ApplyDir(t.Context(), filepath.Join(dir, "cluster")); err != nil {
		t.Fatal(err)
	}
	all, err := cluster.Read(filepath.Join(dir, "namespace"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		o.SetNamespace(namespace)
	}
	if err := m.Cluster.Apply(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// startCore starts Cluster API's core manager, with feature gates.
func (m *management) startCore(t *testing.T, gates string) {
	t.Helper()
	m.core = m.startUpstream(t, "capi-manager", "capi-system", "capi-manager", gates)
}

// startUpstream starts a manager of Cluster API's with the permissions that it ships.
func (m *management) startUpstream(t *testing.T, program, namespace, account, gates string) *process.Process {
	t.Helper()
	webhooks, health, diagnostics := process.PortForTest(t), process.PortForTest(t), process.PortForTest(t)
	certs := filepath.Join(m.dir, program+"-webhooks")
	ca, err := serving(certs)
	if err != nil {
		t.Fatal(err)
	}
	p := process.ForTest(t, m.dir, process.Command{
		Name: program, Program: filepath.Join(m.assets.capi, program), Args: []string{
			"--kubeconfig=" + m.kubeconfigOf(t, namespace, account), "--leader-elect=false",
			"--webhook-cert-dir=" + certs, fmt.Sprintf("--webhook-port=%d", webhooks),
			"--health-addr=" + process.Loopback(health), "--diagnostics-address=" + process.Loopback(diagnostics),
			"--insecure-diagnostics=true", "--feature-gates=" + gates, "--v=2",
		}, Env: m.env,
	})
	// With RuntimeSDK core is not ready before its webhooks have answered once.
	p.RequireReady(t, "http://"+process.Loopback(health)+"/healthz")
	if err := (redirect{namespace, "https://" + process.Loopback(webhooks), ca}).all(t.Context(), m.cl); err != nil {
		t.Fatal(err)
	}
	p.RequireReady(t, "http://"+process.Loopback(health)+"/readyz")
	return p
}

// startProviders starts our manager once for each bundle, with the flags of its
// Deployment, and more.
func (m *management) startProviders(t *testing.T, more ...string) {
	t.Helper()
	for _, p := range providers() {
		port := process.PortForTest(t)
		args := append(append(m.flagsOf(t, p), more...), "--control-kubeconfig="+m.kubeconfigOf(t, p.namespace, p.account),
			"--address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--leader-elect-resource-namespace="+p.namespace)
		started := process.ForTest(t, m.dir, process.Command{
			Name: p.deployment, Program: m.assets.manager(), Args: args, Env: m.env,
		})
		started.RequireReady(t, "http://"+process.Loopback(port)+"/readyz")
		m.providers = append(m.providers, started)
	}
}

// flagsOf are the flags that a bundle's Deployment gives its container.
func (m *management) flagsOf(t *testing.T, p provider) []string {
	t.Helper()
	args, err := deploymentArgs(t.Context(), m.cl, p)
	if err != nil {
		t.Fatal(err)
	}
	return append(args, ownDiagnostics(t, args)...)
}

// ownDiagnostics gives a process another address than those of the other bundles, if it has
// diagnostics: they all run on this machine.
func ownDiagnostics(t *testing.T, args []string) []string {
	t.Helper()
	const flag = "--diagnostics-address="
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) }) {
		return nil
	}
	return []string{flag + process.Loopback(process.PortForTest(t))}
}

// kubeconfigOf writes a kubeconfig with a token of a ServiceAccount.
func (m *management) kubeconfigOf(t *testing.T, namespace, account string) string {
	t.Helper()
	token, err := tokenFor(t.Context(), m.cl, namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.dir, namespace+"-"+account+".kubeconfig")
	config := m.Cluster.Config()
	config.BearerToken = token
	if err := clientcmd.WriteToFile(kubeconfig(config), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokenFor(ctx context.Context, cl client.Client, namespace, account string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(
		int64(24 * time.Hour / time.Second))}}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	err := cl.SubResource("token").Create(ctx, sa, request)
	return request.Status.Token, err
}

func kubeconfig(config *rest.Config) clientcmdapi.Config {
	const name = "e2e"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   config.Host,
			CertificateAuthorityData: config.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}
