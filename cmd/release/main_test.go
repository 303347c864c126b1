package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// written makes a release and returns its folder.
func written(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	if err := run(t.Context(), options{root: filepath.Join("..", ".."), out: out, version: "v0.1.7"}); err != nil {
		t.Fatal(err)
	}
	return out
}

func objects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	all, err := cluster.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func of[T any](t *testing.T, all []*unstructured.Unstructured, kind string) []T {
	t.Helper()
	var found []T
	for _, o := range all {
		if o.GetKind() != kind {
			continue
		}
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
			t.Fatalf("%s %s: %v", kind, o.GetName(), err)
		}
		found = append(found, typed)
	}
	return found
}

// TestRelease: the files are where clusterctl looks for them, and are what its
// provider contract asks for.
func TestRelease(t *testing.T) {
	t.Parallel()
	out := written(t)
	want := map[string]struct {
		crds  int
		group controllers.APIGroup
	}{
		"infrastructure-capmcm/v0.1.7/infrastructure-components.yaml": {7, controllers.Infrastructure},
		"bootstrap-capmcm/v0.1.7/bootstrap-components.yaml":           {2, controllers.Bootstrap},
		"control-plane-capmcm/v0.1.7/control-plane-components.yaml":   {2, controllers.ControlPlane},
	}
	for file, w := range want {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			all := objects(t, filepath.Join(out, file))
			if _, err := os.Stat(filepath.Join(out, filepath.Dir(file), "metadata.yaml")); err != nil {
				t.Errorf("%v: clusterctl reads it beside the components", err)
			}
			checkCRDs(t, all, w.crds)
			checkDeployment(t, all, w.group)
			checkNamespaces(t, all)
		})
	}
}

func checkCRDs(t *testing.T, all []*unstructured.Unstructured, want int) {
	t.Helper()
	crds := of[apiextensionsv1.CustomResourceDefinition](t, all, "CustomResourceDefinition")
	if len(crds) != want {
		t.Errorf("%d CRDs, want %d", len(crds), want)
	}
	for _, crd := range crds {
		if crd.Spec.Group == "machine.sapcloud.io" {
			if crd.Spec.Names.Kind != "MachineClass" {
				t.Errorf("%s is in a provider's bundle: it would overwrite that of Machine Controller Manager", crd.Name)
			}
			continue
		}
		if crd.Labels["cluster.x-k8s.io/v1beta2"] != "v1alpha1" {
			t.Errorf("%s has no label that names the contract", crd.Name)
		}
	}
}

// checkDeployment: the Deployment runs all controllers of its group and no other.
func checkDeployment(t *testing.T, all []*unstructured.Unstructured, group controllers.APIGroup) {
	t.Helper()
	deployments := of[appsv1.Deployment](t, all, "Deployment")
	if len(deployments) != 1 {
		t.Fatalf("%d Deployments, want 1", len(deployments))
	}
	c := deployments[0].Spec.Template.Spec.Containers[0]
	if c.Name != "manager" {
		t.Errorf("the first container is %q: clusterctl changes the one named manager", c.Name)
	}
	if c.Image != imageName+":v0.1.7" {
		t.Errorf("image %s has not the release's tag", c.Image)
	}
	var want []string
	for _, known := range controllers.All() {
		if known.Group == group {
			want = append(want, known.Name)
		}
	}
	got, _ := strings.CutPrefix(c.Args[len(c.Args)-1], "--controllers=")
	if names := strings.Split(got, ","); !cmp.Equal(slices.Sorted(slices.Values(names)),
		slices.Sorted(slices.Values(want))) {
		t.Errorf("the bundle runs %v; the group has %v: see patches/controllers.yaml in its folder of config", names, want)
	}
}

// checkNamespaces: clusterctl moves everything to the namespace that it is asked
// for, so there is one, and nothing is anywhere else.
func checkNamespaces(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	name := ""
	for _, o := range all {
		if o.GetKind() == "Namespace" {
			if name != "" {
				t.Errorf("Namespaces %s and %s: clusterctl takes one", name, o.GetName())
			}
			name = o.GetName()
		}
	}
	for _, o := range all {
		if ns := o.GetNamespace(); ns != "" && ns != name {
			t.Errorf("%s %s is in namespace %s, not in %s", o.GetKind(), o.GetName(), ns, name)
		}
	}
}

// variable is what clusterctl fills in: a name with or without a default.
var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// TestNothingElseLooksLikeAVariable: clusterctl replaces whatever looks like one,
// in descriptions of CRDs too.
func TestNothingElseLooksLikeAVariable(t *testing.T) {
	t.Parallel()
	out := written(t)
	known := map[string]bool{
		"${MCM_LOG_LEVEL:=2}": true, "${MCM_CONCURRENT_SYNCS:=0}": true,
		"${MCM_INSECURE_DIAGNOSTICS:=false}": true, "${MCM_AMBIENT_CREDENTIALS:=false}": true,
		`${MCM_WATCH_FILTER:=""}`: true, `${MCM_WATCH_NAMESPACE:=""}`: true,
	}
	for _, b := range bundles() {
		text, err := os.ReadFile(filepath.Join(out, b.label, "v0.1.7", b.file))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range variable.FindAllString(string(text), -1) {
			if !known[found] || b.provider == "" {
				t.Errorf("%s has %s", b.file, found)
			}
		}
	}
	for _, file := range []string{
		"clusterclass-mcm.yaml", "clusterclass-mcm-workers.yaml", "addons-aws.yaml", "addons-openstack.yaml",
		"addons-vsphere.yaml",
	} {
		text, err := os.ReadFile(filepath.Join(out, infrastructure, "v0.1.7", file))
		if err != nil {
			t.Fatal(err)
		}
		if found := variable.Find(text); found != nil {
			t.Errorf("%s has %s: clusterctl fills in nothing there", file, found)
		}
	}
}

// variableWithDefault is a variable, with a default that may be another variable.
var variableWithDefault = regexp.MustCompile(`[^$]\$\{([A-Z0-9_]+)(?::=((?:[^{}]|\$\{[A-Z0-9_]+\})*))?\}`)

// variableRow is the row of a variable, with the column of its defaults.
var variableRow = regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)` \\|([^|]*)\\| \\S")

// TestVariablesAreDocumented: docs/guide.md, the pages of clouds and the templates know the same variables, with the
// same defaults.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]string{} // to the column of its defaults
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "clouds", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join("..", "..", "docs", "guide.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), "\n## Template variables\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, row := range variableRow.FindAllStringSubmatch(section, -1) {
			documented[row[1]] = row[2]
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "templates", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range variableWithDefault.FindAllStringSubmatch(string(text), -1) {
			used[v[1]] = true
			column, told := documented[v[1]]
			if !told || v[2] != "" && !strings.Contains(column, "`"+v[2]+"`") || v[2] == "" && strings.TrimSpace(column) != "" {
				t.Errorf("%s uses %s with default %q, the page says %q", filepath.Base(file), v[1], v[2], column)
			}
		}
	}
	for name := range documented {
		if !used[name] {
			t.Errorf("a page has %s, which no template uses", name)
		}
	}
}

// TestNodesAreFound: Cluster API finds a Node by the providerID that the cloud's
// controller manager writes, and that one finds the VM by the Node's name.
func TestNodesAreFound(t *testing.T) {
	t.Parallel()
	out := filepath.Join(written(t), infrastructure, "v0.1.7")
	const onAWS, hostName = "{{ ds.meta_data.local_hostname }}", "{{ v1.local_hostname }}"
	cases := map[string]struct {
		reason string
		name   string // that kubeadm registers the node with; empty is the host's
		times  int    // nodes that kubeadm registers
	}{
		"cluster-template-aws-workers-only.yaml":       {"user data of MCM", onAWS, 1},
		"cluster-template-azure-workers-only.yaml":     {"user data of MCM", "<<MACHINE_NAME>>", 1},
		"cluster-template-gcp-workers-only.yaml":       {"user data of MCM", "<<MACHINE_NAME>>", 1},
		"cluster-template-hetzner-workers-only.yaml":   {"user data of MCM", "<<MACHINE_NAME>>", 1},
		"cluster-template-kubevirt-workers-only.yaml":  {"user data of MCM", "<<MACHINE_NAME>>", 1},
		"cluster-template-openstack-workers-only.yaml": {"user data of MCM", "<<MACHINE_NAME>>", 1},
		"cluster-template-vsphere-autoscale.yaml":      {"user data of MCM", "<<MACHINE_NAME>>", 1},
		"cluster-template.yaml":                        {"first and further control plane nodes, and workers", "", 3},
		"cluster-template-aws.yaml":                    {"kubeadm, by the private DNS name", onAWS, 3},
		"cluster-template-azure.yaml":                  {"kubeadm, by the VM's name", hostName, 3},
		"cluster-template-gcp.yaml":                    {"kubeadm, by the instance's name", hostName, 3},
		"cluster-template-hetzner.yaml":                {"kubeadm, by the server's name", hostName, 3},
		"cluster-template-kubevirt.yaml":               {"kubeadm, by the VM's name", hostName, 3},
		"cluster-template-openstack.yaml":              {"kubeadm, by the server's name", hostName, 3},
		"cluster-template-vsphere.yaml":                {"kubeadm, by the VM's name", hostName, 3},
	}
	for file, tc := range cases {
		text, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		if tc.name != "" {
			name = `\n +name: ` + regexp.QuoteMeta(`"`+tc.name+`"`)
		}
		register := regexp.MustCompile(`nodeRegistration:` + name +
			`\n +kubeletExtraArgs:\n +- name: cloud-provider\n +value: external\n`)
		if found := register.FindAll(text, -1); len(found) != tc.times {
			t.Errorf("%s has %d registrations of that kind, want %d: %s", file, len(found), tc.times, tc.reason)
		}
	}
}

// TestNativeIsOptIn: what replaces Machine Controller Manager is in files that
// clusterctl does not read.
func TestNativeIsOptIn(t *testing.T) {
	t.Parallel()
	out := written(t)
	for file, want := range map[string]int{"native-components.yaml": 3, "native-standalone-components.yaml": 4} {
		crds := of[apiextensionsv1.CustomResourceDefinition](t, objects(t, filepath.Join(out, "native", "v0.1.7", file)),
			"CustomResourceDefinition")
		if len(crds) != want {
			t.Errorf("%s has %d CRDs, want %d", file, len(crds), want)
		}
	}
}

// TestRuntimeExtensionIsOptIn: what core takes only with a feature gate is in a
// file of its own, and what names other objects there names some that there are.
func TestRuntimeExtensionIsOptIn(t *testing.T) {
	t.Parallel()
	out := written(t)
	names := map[string]bool{}
	for _, b := range bundles() {
		for _, o := range objects(t, filepath.Join(out, b.label, "v0.1.7", b.file)) {
			names[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = true
			if o.GetKind() == "ExtensionConfig" && b.config != "runtime-extension" {
				t.Errorf("%s has an ExtensionConfig, which core refuses without its gate RuntimeSDK", b.file)
			}
		}
	}
	all := objects(t, filepath.Join(out, "runtime-extension-capmcm", "v0.1.7", "runtime-extension-components.yaml"))
	checkNamespaces(t, all)
	for _, o := range of[runtimev1.ExtensionConfig](t, all, "ExtensionConfig") {
		service := o.Spec.ClientConfig.Service
		if !names["Service "+service.Namespace+"/"+service.Name] {
			t.Errorf("the ExtensionConfig names Service %s/%s, which is not there", service.Namespace, service.Name)
		}
		if secret := o.Annotations[runtimev1.InjectCAFromSecretAnnotation]; !names["Certificate "+secret] {
			t.Errorf("the ExtensionConfig trusts Secret %s, which no Certificate makes", secret)
		}
	}
	for _, d := range of[appsv1.Deployment](t, all, "Deployment") {
		pod := d.Spec.Template.Spec
		if secret := pod.Volumes[0].Secret.SecretName; !names["Certificate "+d.Namespace+"/"+secret] {
			t.Errorf("the Deployment serves with Secret %s, which no Certificate makes", secret)
		}
		if pod.Containers[0].Name != "manager" || slices.ContainsFunc(pod.Containers[0].Args, func(a string) bool {
			return strings.HasPrefix(a, "--controllers")
		}) {
			t.Errorf("the container %s runs %v", pod.Containers[0].Name, pod.Containers[0].Args)
		}
	}
}

// TestDigestOfAnImageThatIsBuilt: it is not known before, and a reference has one.
func TestDigestOfAnImageThatIsBuilt(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), options{
		root: filepath.Join("..", ".."), out: t.TempDir(), version: "v0.1.7", artifacts: true,
		image: "registry.example/x@sha256:" + strings.Repeat("a", 64),
	})
	if err == nil || !strings.Contains(err.Error(), "-image") {
		t.Errorf("%v, want it to be refused", err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	const metadata = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 0, " +
		"minor: 1, contract: v1beta2}\n- {major: 0, minor: 2, contract: v1beta2}\n"
	cases := map[string]struct {
		metadata, asked, want, problem string
	}{
		"the newest series if none is asked for": {metadata: metadata, want: "v0.2.0"},
		"any patch of a series":                  {metadata: metadata, asked: "v0.1.12", want: "v0.1.12"},
		"a release candidate":                    {metadata: metadata, asked: "v0.2.0-rc.1", want: "v0.2.0-rc.1"},
		"clusterctl refuses other series":        {metadata: metadata, asked: "v0.3.0", problem: "no series"},
		"clusterctl wants a v":                   {metadata: metadata, asked: "0.1.0", problem: "does not begin with v"},
		"no version":                             {metadata: metadata, asked: "vnext", problem: "vnext"},
		"clusterctl decodes strictly":            {metadata: metadata + "more: true\n", problem: "more"},
		"no series":                              {metadata: "kind: Metadata\n", problem: "no series"},
	}
	for reason, c := range cases {
		got, err := choose([]byte(c.metadata), c.asked)
		if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: got %q, %v; want %q, error with %q", reason, got, err, c.want, c.problem)
		}
	}
}

// TestReleaseReplacesItsFolder: what an earlier run has left is in no release.
func TestReleaseReplacesItsFolder(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	stale := filepath.Join(out, infrastructure, "v0.1.7", "cluster-template-old.yaml")
	if err := os.MkdirAll(filepath.Dir(stale), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options{root: filepath.Join("..", ".."), out: out, version: "v0.1.7"}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", stale, err)
	}
}
