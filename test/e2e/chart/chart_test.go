package chart

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespace is that of the Helm release, and differs from those of the manifests.
const namespace = "machines"

// TestChart: Helm installs what a release's manifests install, the manager of the
// image makes machines with the permissions that the chart gives it, and machines
// outlive an upgrade and an uninstallation.
func TestChart(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	r := released(t)
	loaded, err := loader.Load(r.chart)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Lint", func(t *testing.T) { checkLint(t, r.chart) })
	t.Run("Schema", func(t *testing.T) { checkSchema(t, loaded) })
	t.Run("Install", func(t *testing.T) { checkInstall(t, r, loaded) })
}

// values are those with the native API, and perhaps Cluster API.
func values(clusterAPI bool) map[string]any {
	return map[string]any{
		"native": map[string]any{"enabled": true},
		"clusterAPI": map[string]any{
			"enabled": clusterAPI, "selfHosted": map[string]any{"namespaces": []any{"default"}},
		},
	}
}

func checkLint(t *testing.T, packed string) {
	t.Helper()
	lint := action.NewLint()
	lint.Strict, lint.Namespace = true, namespace
	found := lint.Run([]string{packed}, values(true))
	for _, m := range found.Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
	for _, err := range found.Errors {
		t.Error(err)
	}
}

// checkSchema: a value of the wrong type or an unknown one is refused by its name.
func checkSchema(t *testing.T, loaded *helmchart.Chart) {
	t.Helper()
	for field, bad := range map[string]map[string]any{
		"replicas": {"native": map[string]any{"enabled": true, "replicas": "two"}},
		"nativ":    {"nativ": map[string]any{"enabled": true}},
		"digest":   {"image": map[string]any{"digest": "latest"}},
	} {
		install := action.NewInstall(&action.Configuration{})
		install.ReleaseName, install.Namespace, install.DryRun, install.ClientOnly = "capmcm", namespace, true, true
		if _, err := install.Run(loaded, bad); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// checkInstall installs both APIs, has the manager of the native one make a
// machine, upgrades, and uninstalls.
func checkInstall(t *testing.T, r release, loaded *helmchart.Chart) {
	t.Helper()
	binaries, err := stack.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The chart brings the CRDs.
	s, err := stack.Start(t.Context(), stack.Options{Binaries: binaries, CRDs: t.TempDir(), Cloud: []string{
		"--boot-time=300ms", "--delete-time=300ms",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Log(err)
		}
	})
	helm := configuration(t, s)
	install := action.NewInstall(helm)
	install.ReleaseName, install.Namespace, install.CreateNamespace = "capmcm", namespace, true
	if _, err := install.RunWithContext(t.Context(), loaded, values(true)); err != nil {
		t.Fatal(err)
	}
	cl := s.Client
	manager := startManager(t, r, s)
	machine := oneMachine(t, s)
	checkNoTokens(t, s)

	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace = namespace
	changed := values(false)
	changed["logLevel"] = 4
	if _, err := upgrade.RunWithContext(t.Context(), "capmcm", loaded, changed); err != nil {
		t.Fatal(err)
	}
	if args := arguments(t, cl); !strings.Contains(strings.Join(args, " "), "--v=4") {
		t.Errorf("arguments after the upgrade: %q", args)
	}
	if err := manager.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := action.NewUninstall(helm).Run("capmcm"); err != nil {
		t.Fatal(err)
	}
	kept := &machinev1.Machine{}
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(machine), kept); err != nil || kept.DeletionTimestamp != nil {
		t.Errorf("a machine after the chart is uninstalled: %v, %v", kept.DeletionTimestamp, err)
	}
	err = cl.Get(t.Context(), deployment(), &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the manager's Deployment after the chart is uninstalled: %v", err)
	}
}

// checkNoTokens: in the release's namespace, too, no manager creates a Secret that becomes the token of another
// account.
func checkNoTokens(t *testing.T, s *stack.Stack) {
	t.Helper()
	for account, in := range map[string]string{
		"machine-controller-manager":   metav1.NamespaceSystem,
		"capmcm-bootstrap-manager":     metav1.NamespaceDefault,
		"capmcm-control-plane-manager": metav1.NamespaceDefault,
	} {
		config, err := s.Cluster.ConfigFor("system:serviceaccount:" + namespace + ":" + account)
		if err != nil {
			t.Fatal(err)
		}
		as, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = stack.Until(t.Context(), time.Minute, func(ctx context.Context) error {
			err := as.Create(ctx, &corev1.Secret{
				Type: corev1.SecretTypeServiceAccountToken,
				ObjectMeta: metav1.ObjectMeta{
					Namespace: in, GenerateName: "token-", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
				},
			})
			if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
				return nil
			}
			return fmt.Errorf("%s creates what becomes a token: %w, want it refused by a policy", account, err)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// configuration is Helm's, against the stack's API server.
func configuration(t *testing.T, s *stack.Stack) *action.Configuration {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = s.Cluster.Kubeconfig()
	settings.SetNamespace(namespace)
	helm := &action.Configuration{}
	if err := helm.Init(settings.RESTClientGetter(), namespace, "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	return helm
}

// deployment names the native API's Deployment.
func deployment() client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: "machine-controller-manager"}
}

// arguments are those of the native API's Deployment.
func arguments(t *testing.T, cl client.Client) []string {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := cl.Get(t.Context(), deployment(), d); err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template.Spec.Containers[0].Args
}

// startManager starts the manager from the image's file system, with the arguments
// of its Deployment and the permissions of its ServiceAccount.
func startManager(t *testing.T, r release, s *stack.Stack) *process.Process {
	t.Helper()
	dir, port, other := t.TempDir(), process.PortForTest(t), process.PortForTest(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "machine-controller-manager",
	}}
	request := &authenticationv1.TokenRequest{}
	if err := s.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	config := s.Cluster.Config()
	const name = "chart"
	kubeconfig := filepath.Join(dir, "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: request.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// The pod's credentials and address are the container runtime's to give.
	args := append(arguments(t, s.Client), "--control-kubeconfig="+kubeconfig, "--target-kubeconfig="+kubeconfig,
		"--address=127.0.0.1", fmt.Sprintf("--port=%d", port), fmt.Sprintf("--machine-controller-port=%d", other),
		"--leader-elect-resource-namespace="+namespace)
	started := process.ForTest(t, dir, process.Command{
		Name: "manager", Program: filepath.Join(r.root, "machine-controller-manager"), Args: args,
	})
	started.RequireReady(t, "http://"+process.Loopback(port)+"/readyz")
	return started
}

// oneMachine creates a pool of one and waits until its machine runs.
func oneMachine(t *testing.T, s *stack.Stack) *machinev1.Machine {
	t.Helper()
	if err := s.CreateClass(t.Context(), "small", "small"); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Create(t.Context(), stack.Deployment("pool", "small", 1, "1", "0")); err != nil {
		t.Fatal(err)
	}
	var running *machinev1.Machine
	err := stack.Until(t.Context(), 2*time.Minute, func(ctx context.Context) error {
		all := &machinev1.MachineList{}
		if err := s.Client.List(ctx, all, client.InNamespace(stack.Namespace)); err != nil {
			return err
		}
		for i := range all.Items {
			if running = &all.Items[i]; running.Status.CurrentStatus.Phase == machinev1.MachineRunning {
				return nil
			}
		}
		return fmt.Errorf("no machine of %d is running", len(all.Items))
	})
	if err != nil {
		t.Fatal(err)
	}
	return running
}
