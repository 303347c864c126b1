package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// builder is an API server with these objects. It adds a field that MCMConfigs do not have: that of an
// API server with another version of them.
func builder(t *testing.T, allowed func(schema.GroupVersionKind) error, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(objects...)
	return api.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			_ ...client.GetOption,
		) error {
			if !strings.Contains(key.Name, "-console-") {
				t.Errorf("%T %s is read; only lists are expected, and no Secret but those with consoles", o, key)
			}
			return c.Get(ctx, key, o)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			kind, err := apiutil.GVKForObject(l, scheme)
			if err != nil {
				return err
			}
			if kind.Kind == "SecretList" {
				t.Error("Secrets are listed")
			}
			if err := allowed(kind); err != nil {
				return err
			}
			if err := c.List(ctx, l, opts...); err != nil {
				return err
			}
			if u, ok := l.(*unstructured.UnstructuredList); ok && kind.Kind == "MCMConfigList" {
				for i := range u.Items {
					u.Items[i].Object["spec"] = map[string]any{"userData": secretly("mcmconfig")}
				}
			}
			return nil
		},
	}).Build()
}

func everything(schema.GroupVersionKind) error { return nil }

// server answers paths of an API server.
func server(t *testing.T, logs int) *url.URL {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/version":
			_, _ = io.WriteString(w, `{"gitVersion":"v1.36.3"}`)
		case r.URL.Path == "/apis":
			_, _ = io.WriteString(w, `{"groups":[{"name":"machine.sapcloud.io"},{"name":"shop.example"}]}`)
		case r.URL.Path == "/metrics":
			_, _ = io.WriteString(w, "workqueue_depth 3\n")
		case logs != http.StatusOK:
			w.WriteHeader(logs)
		case r.URL.Path == "/api/v1/namespaces/garden/pods/manager-1/log" && r.URL.Query().Get("container") == "manager":
			_, _ = io.WriteString(w, log())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// run runs the command, and returns what it prints on standard output, and on standard error.
func run(t *testing.T, api client.Reader, base *url.URL, args ...string) (out, list string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-mcm", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringP("output", "o", "table", "that of other commands")
	root.AddCommand(New(inspect.Deps{
		Connect: func() (inspect.Clusters, error) {
			return inspect.Clusters{Control: api, Target: api, Namespace: "garden"}, nil
		},
		Now:       func() time.Time { return now },
		APIServer: func() (*http.Client, *url.URL, error) { return http.DefaultClient, base, nil },
	}, "v9.9.9"))
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"support-bundle"}, args...))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// unpack returns the files of an archive.
func unpack(t *testing.T, archive string) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(strings.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}

// TestNoSecrets: none of the secrets that stand in any place is in the bundle, and the rest is.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	api := builder(t, everything, cluster(t)...)
	for _, args := range [][]string{{"-o", "-", "--metrics-url", "/metrics"}, {"-A", "-o", "-"}} {
		out, list, err := run(t, api, server(t, http.StatusOK), args...)
		if err != nil {
			t.Fatal(err)
		}
		files := unpack(t, out)
		for name, text := range files {
			for n, line := range strings.Split(text, "\n") {
				if strings.Contains(name+line, canary) || strings.Contains(decodedWords(line), canary) {
					t.Errorf("%s:%d: a secret: %s", name, n+1, line)
				}
			}
			if !strings.Contains(list, name) {
				t.Errorf("the list has no %s:\n%s", name, list)
			}
		}
		wanted(t, files)
	}
}

// decodedWords are the words of a line that are base64, decoded.
func decodedWords(line string) string {
	var all strings.Builder
	for _, word := range regexp.MustCompile(`[A-Za-z0-9+/]{12,}`).FindAllString(line, -1) {
		text, _ := base64.RawStdEncoding.DecodeString(word[:len(word)/4*4])
		all.Write(text)
	}
	return all.String()
}

// wanted are parts of the files that a reader needs.
func wanted(t *testing.T, files map[string]string) {
	t.Helper()
	for name, parts := range map[string][]string{
		"objects/garden/machines.machine.sapcloud.io.yaml": {"name: workers-1", "phase: CrashLoopBackOff", "note: kept"},
		"objects/garden/machineclasses.machine.sapcloud.io.yaml": {
			"instanceType: small", "name: workers-credentials", "temp_url_expires=1",
		},
		"objects/garden/mcmconfigs.bootstrap.cluster.x-k8s.io.yaml":              {"userData: '[redacted]'"},
		"objects/garden/kubeadmcontrolplanes.controlplane.cluster.x-k8s.io.yaml": {"path: /etc/a", "name: admin"},
		"objects/garden/events.yaml":                                             {"failed with token"},
		"nodes/nodes.yaml":                                                       {"name: node-1"},
		"nodes/garden/poddisruptionbudgets.policy.yaml":                          {"name: budget"},
		"tree.txt": {"CredentialsRefused"},
		"why/garden/machine.machine.sapcloud.io_workers-1.txt":      {"Concern:  Credentials"},
		"timeline/garden/machine.machine.sapcloud.io_workers-1.txt": {"Created"},
		"versions.yaml":                                        {"v9.9.9", "v1.36.3", "machine.sapcloud.io"},
		"managers/garden/deployments.apps.yaml":                {"region-of-it", "--v=2", "--kubeconfig-secret-name=kept"},
		"managers/machine-controller-manager/garden/pods.yaml": {"restartCount: 1"},
		"managers/garden/logs/manager-1_manager.log": {
			`"Created VM" machine="workers-1"`, "status 401", "abcdef.[redacted]", `"Last line"`,
		},
		"managers/garden/logs/manager-1_manager.previous.log": {`"Last line"`},
	} {
		for _, part := range parts {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s has no %q:\n%s", name, part, files[name])
			}
		}
	}
	for name, text := range files {
		for _, part := range []string{
			"1234567890", "AKIA", "0123456789abcdef", "managedFields", "last-applied", "image-of-a-pod", "name: shop",
			"shop.example",
		} {
			if strings.Contains(text, part) {
				t.Errorf("%s has %s", name, part)
			}
		}
	}
	if text, ok := files["errors.txt"]; ok {
		t.Errorf("errors: %s", text)
	}
}

// reader is what ClusterRole kubectl-mcm-reader allows.
func reader(t *testing.T) func(schema.GroupVersionKind) error {
	t.Helper()
	text, err := os.ReadFile("../../../config/rbac/reader_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	return func(kind schema.GroupVersionKind) error {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		if slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.APIGroups, kind.Group) && slices.Contains(r.Resources, plural.Resource)
		}) {
			return nil
		}
		return apierrors.NewForbidden(plural.GroupResource(), "", fmt.Errorf("no right to %s", plural.Resource))
	}
}

// TestReader: with the reader role the bundle has the objects and their explanations, and errors.txt names what else
// there would be.
func TestReader(t *testing.T) {
	t.Parallel()
	out, list, err := run(t, builder(t, reader(t), cluster(t)...), server(t, http.StatusForbidden), "-o", "-")
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out)
	for _, name := range []string{
		"objects/garden/machines.machine.sapcloud.io.yaml", "objects/garden/machineclasses.machine.sapcloud.io.yaml",
		"objects/garden/events.yaml", "nodes/nodes.yaml", "tree.txt", "versions.yaml",
		"why/garden/machine.machine.sapcloud.io_workers-1.txt",
	} {
		if files[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	for _, part := range []string{"deployments.apps: ", "no right to deployments", "poddisruptionbudgets.policy: "} {
		if !strings.Contains(files["errors.txt"], part) {
			t.Errorf("errors.txt has no %q:\n%s", part, files["errors.txt"])
		}
	}
	if !strings.Contains(list, "Warning: not read, see errors.txt") {
		t.Errorf("no warning:\n%s", list)
	}
}

// TestFailures: what cannot be read does not stop the rest; with nothing at all the command fails, and
// leaves the causes.
func TestFailures(t *testing.T) {
	t.Parallel()
	gone := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	out, _, err := run(t, builder(t, everything, cluster(t)...), gone, "-o", "-", "--metrics-url", "/metrics")
	text := unpack(t, out)["errors.txt"]
	for _, part := range []string{"/version: ", "manager-1_manager.log: ", "metrics-1.txt: "} {
		if err != nil || !strings.Contains(text, part) {
			t.Errorf("%v, errors.txt has no %q:\n%s", err, part, text)
		}
	}
	broken := func(schema.GroupVersionKind) error { return errors.New("connection refused") }
	out, _, err = run(t, builder(t, broken), gone, "-o", "-")
	if !errors.Is(err, errNothing) || !strings.Contains(unpack(t, out)["errors.txt"], "connection refused") {
		t.Errorf("error %v, want that nothing was read, and a bundle that says why", err)
	}
}

// TestFile: the archive is its owner's alone, also in place of a file that was not, and is named after the time.
func TestFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("named.tar.gz", []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	api, base := builder(t, everything, cluster(t)...), server(t, http.StatusOK)
	for _, c := range []struct {
		name string
		args []string
	}{{"kubectl-mcm-bundle-20260101T120000Z.tar.gz", nil}, {"named.tar.gz", []string{"-o", "named.tar.gz"}}} {
		out, _, err := run(t, api, base, c.args...)
		if err != nil || !strings.Contains(out, "Written: "+c.name) {
			t.Fatalf("%v: %s", err, out)
		}
		info, err := os.Stat(c.name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", c.name, info.Mode(), err)
		}
		text, err := os.ReadFile(c.name)
		if err != nil || len(unpack(t, string(text))) == 0 {
			t.Errorf("%s: no files, %v", c.name, err)
		}
	}
	_, _, err := run(t, api, base, "-o", filepath.Join("nowhere", "a"))
	if err == nil || !strings.Contains(err.Error(), "--output=") {
		t.Errorf("error %v, want that the file cannot be written", err)
	}
	if found, err := filepath.Glob(".kubectl*"); err != nil || len(found) > 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}

// TestConsolesAreRedacted: what was kept of a console is in the bundle, redacted once more.
func TestConsolesAreRedacted(t *testing.T) {
	t.Parallel()
	d := fixture.MachineDeployment("workers", "workers", 3, fixture.In[*machinev1.MachineDeployment]("garden"))
	data, err := console.Format([]console.Failure{{
		Machine: "workers-1", OwnerID: "o", ProviderID: "sim:///1", Read: now, Cause: console.UnknownCA,
		Text: "x509: certificate signed by unknown authority\nkubelet: --token " + secretly("console") + "\n",
	}})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Type: machinev1.ConsoleEvidenceType, Data: map[string][]byte{
		console.EvidenceKey: data, "other": []byte(secretly("other")),
	}}
	secret.Namespace, secret.Name = "garden", console.SecretName("machine.sapcloud.io", "MachineDeployment", "workers")
	out, _, err := run(t, builder(t, everything, d, secret), server(t, http.StatusOK), "-o", "-")
	if err != nil {
		t.Fatal(err)
	}
	shown := false
	for name, text := range unpack(t, out) {
		if strings.Contains(text, canary) {
			t.Errorf("%s has a secret: %s", name, text)
		}
		if strings.HasSuffix(name, "/1-workers-1.txt") {
			shown = strings.Contains(text, "TLS unknown CA\nx509: certificate")
		}
	}
	if !shown {
		t.Error("the console is missing")
	}
}
