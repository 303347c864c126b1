package capi

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmexternalcontrolplane"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// providers are the folders of a release that clusterctl reads, and the
// components in each.
var providers = map[string]string{
	"infrastructure-capmcm": "infrastructure-components.yaml",
	"bootstrap-capmcm":      "bootstrap-components.yaml",
	"control-plane-capmcm":  "control-plane-components.yaml",
}

// release is what a release consists of.
type release struct{ folder string }

// TestClusterctl makes a release, as make release does, and holds its files to
// the contract of clusterctl, a rule after the other.
func TestClusterctl(t *testing.T) {
	t.Parallel()
	r := release{t.TempDir()}
	write := exec.CommandContext(t.Context(), "go", "run", "./cmd/release", "-out", r.folder)
	write.Dir = root
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rules := map[string]func(*testing.T, release){
		"ProviderRepositories":       providerRepositories,
		"MetadataYAML":               metadataYAML,
		"ComponentsTargetNs":         componentsTargetNamespace,
		"ControllersAndNamespace":    controllersAndWatchingNamespace,
		"ComponentsVariables":        componentsVariables,
		"ComponentsLabels":           componentsLabels,
		"ComponentsCRDs":             componentsCRDs,
		"NothingOfTheNativeAPI":      nothingOfTheNativeAPI,
		"NoExtensionConfig":          noExtensionConfig,
		"PermissionsToFinalizers":    permissionsToFinalizers,
		"PermissionsOfWorkloadUsers": permissionsOfWorkloadUsers,
		"TemplateNames":              templateNames,
		"TemplatesTargetNs":          templatesTargetNamespace,
		"TemplatesVariables":         templatesVariables,
		"TemplatesAreComplete":       templatesAreComplete,
		"TemplatesDecode":            templatesDecode,
		"TemplatesOfWorkers":         templatesOfWorkers,
		"TemplatesForAutoscaler":     templatesForAutoscaler,
		"TemplatesForHealthChecks":   templatesForHealthChecks,
		"ClusterClasses":             clusterClasses,
	}
	for name, check := range rules {
		t.Run(name, func(t *testing.T) { check(t, r) })
	}
}

// in is the folder of a provider's only version.
func (r release) in(t *testing.T, provider string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.folder, provider, "v*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("versions of %s: %v (%v)", provider, found, err)
	}
	return found[0]
}

func (r release) text(t *testing.T, provider, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.in(t, provider), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// components runs check for the objects of every provider.
func (r release) components(t *testing.T, check func(t *testing.T, provider string, all []*unstructured.Unstructured)) {
	t.Helper()
	for provider, file := range providers {
		all, err := cluster.Decode([]byte(r.text(t, provider, file)))
		if err != nil {
			t.Fatal(err)
		}
		check(t, provider, all)
	}
}

// of are the objects of a kind, decoded strictly.
func of[T any](t *testing.T, all []*unstructured.Unstructured, kind string) []T {
	t.Helper()
	var found []T
	for _, o := range all {
		if o.GetKind() != kind {
			continue
		}
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, o.GetName(), err)
		}
		found = append(found, typed)
	}
	return found
}

// A local repository is <provider>/<version>/ with components and metadata.
func providerRepositories(t *testing.T, r release) {
	t.Helper()
	for provider, file := range providers {
		if _, err := version.ParseSemantic(filepath.Base(r.in(t, provider))); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
		for _, name := range []string{file, "metadata.yaml"} {
			if r.text(t, provider, name) == "" {
				t.Errorf("%s has no %s", provider, name)
			}
		}
	}
}

// metadataYAML is decoded strictly by clusterctl since v1.11. The version has to be of a series,
// and the contract that of the CRDs.
func metadataYAML(t *testing.T, r release) {
	t.Helper()
	for provider := range providers {
		var m clusterctlv1.Metadata
		if err := yaml.UnmarshalStrict([]byte(r.text(t, provider, "metadata.yaml")), &m); err != nil {
			t.Fatal(err)
		}
		if m.APIVersion != clusterctlv1.GroupVersion.String() || m.Kind != "Metadata" {
			t.Errorf("%s is a %s %s", provider, m.APIVersion, m.Kind)
		}
		series := m.GetReleaseSeriesForVersion(version.MustParseSemantic(filepath.Base(r.in(t, provider))))
		if series == nil || "cluster.x-k8s.io/"+series.Contract != contractLabel {
			t.Errorf("%s: series %+v of the release does not agree with label %s of the CRDs", provider, series, contractLabel)
		}
	}
}

// componentsTargetNamespace: clusterctl renames the one Namespace and moves everything else there,
// ServiceAccounts in bindings too. A binding to another provider's ServiceAccount names it as a User,
// which has no namespace.
func componentsTargetNamespace(t *testing.T, r release) {
	t.Helper()
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		var names []string
		for _, o := range all {
			if o.GetKind() == "Namespace" {
				names = append(names, o.GetName())
			}
		}
		if len(names) != 1 {
			t.Fatalf("%s has Namespaces %v", provider, names)
		}
		for _, o := range all {
			if o.GetNamespace() != "" && o.GetNamespace() != names[0] {
				t.Errorf("%s: %s %s is in namespace %s", provider, o.GetKind(), o.GetName(), o.GetNamespace())
			}
		}
		for _, b := range slices.Concat(subjects(t, all, "RoleBinding"), subjects(t, all, "ClusterRoleBinding")) {
			want := ""
			if b.Kind == rbacv1.ServiceAccountKind {
				want = names[0]
			}
			if b.Namespace != want {
				t.Errorf("%s: a binding is for %s %s in namespace %q, want %q", provider, b.Kind, b.Name, b.Namespace, want)
			}
		}
		for _, d := range of[appsv1.Deployment](t, all, "Deployment") {
			text, err := yaml.Marshal(d.Spec.Template.Spec)
			if err != nil || strings.Contains(string(text), names[0]) {
				t.Errorf("%s: Deployment %s spells the namespace (%v), which clusterctl changes; use the downward API", provider,
					d.Name, err)
			}
		}
	})
}

func subjects(t *testing.T, all []*unstructured.Unstructured, kind string) []rbacv1.Subject {
	t.Helper()
	var found []rbacv1.Subject
	if kind == "RoleBinding" {
		for _, b := range of[rbacv1.RoleBinding](t, all, kind) {
			found = append(found, b.Subjects...)
		}
		return found
	}
	for _, b := range of[rbacv1.ClusterRoleBinding](t, all, kind) {
		found = append(found, b.Subjects...)
	}
	return found
}

// The container is called manager, watches all namespaces, and its image has a
// canonical name with a tag.
func controllersAndWatchingNamespace(t *testing.T, r release) {
	t.Helper()
	image := regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+/[a-z0-9/-]+:v[0-9]+\.[0-9]+\.[0-9]+`)
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		deployments := of[appsv1.Deployment](t, all, "Deployment")
		if len(deployments) != 1 {
			t.Fatalf("%s has %d Deployments", provider, len(deployments))
		}
		c := deployments[0].Spec.Template.Spec.Containers[0]
		if c.Name != "manager" || !image.MatchString(c.Image) || strings.Contains(c.Image, "@") {
			t.Errorf("%s: container %s of image %s", provider, c.Name, c.Image)
		}
		if !slices.Contains(c.Args, "--namespace=$(MCM_WATCH_NAMESPACE)") {
			t.Errorf("%s: arguments %v do not say that all namespaces are watched unless a variable does", provider, c.Args)
		}
	})
}

// variable is what clusterctl fills in. What has two dollars becomes one.
var variable = regexp.MustCompile(`\$?\$\{\s*([A-Za-z0-9_]+)\s*(?:(:?[=-])((?:[^{}]|\$\{\w+\})*))?\}`)

// Whatever looks like a variable is one, in descriptions of CRDs, too. All have
// defaults, and the provider's prefix.
func componentsVariables(t *testing.T, r release) {
	t.Helper()
	for provider, file := range providers {
		for _, v := range variable.FindAllStringSubmatch(r.text(t, provider, file), -1) {
			if !strings.HasPrefix(v[1], "MCM_") || v[2] == "" {
				t.Errorf("%s has %s", provider, v[0])
			}
		}
		if text := variable.ReplaceAllString(r.text(t, provider, file), ""); strings.Contains(text, "${") {
			t.Errorf("%s has a ${ that is no variable", provider)
		}
	}
}

func componentsLabels(t *testing.T, r release) {
	t.Helper()
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		for _, o := range all {
			if o.GetLabels()["cluster.x-k8s.io/provider"] != provider {
				t.Errorf("%s: %s %s has labels %v", provider, o.GetKind(), o.GetName(), o.GetLabels())
			}
		}
	})
}

// A release has the CRDs of config/crd, each in the bundle of its provider, with
// the names that clusterctl computes.
func componentsCRDs(t *testing.T, r release) {
	t.Helper()
	groups := map[string]string{
		"infrastructure-capmcm": "infrastructure.cluster.x-k8s.io", "bootstrap-capmcm": "bootstrap.cluster.x-k8s.io",
		"control-plane-capmcm": "controlplane.cluster.x-k8s.io",
	}
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		var shipped []string
		for _, c := range of[apiextensionsv1.CustomResourceDefinition](t, all, "CustomResourceDefinition") {
			if want := contract.CalculateCRDName(c.Spec.Group, c.Spec.Names.Kind); c.Name != want {
				t.Errorf("CRD %s, want %s", c.Name, want)
			}
			if c.Spec.Group != groups[provider] {
				continue
			}
			shipped = append(shipped, c.Spec.Names.Kind)
			if c.Labels[contractLabel] != crd(t, c.Spec.Names.Kind).Labels[contractLabel] {
				t.Errorf("CRD %s lost its label %s", c.Name, contractLabel)
			}
		}
		for kind, group := range kinds() {
			if group == groups[provider] != slices.Contains(shipped, kind) {
				t.Errorf("%s ships %v", provider, shipped)
			}
		}
	})
}

// nothingOfTheNativeAPI: clusterctl merges into what exists, and deletes what it has labelled: the
// native kinds of a seed are not its business. Classes are what this provider needs.
func nothingOfTheNativeAPI(t *testing.T, r release) {
	t.Helper()
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		for _, c := range of[apiextensionsv1.CustomResourceDefinition](t, all, "CustomResourceDefinition") {
			if c.Spec.Group == "machine.sapcloud.io" && c.Spec.Names.Kind != "MachineClass" {
				t.Errorf("%s ships %s", provider, c.Name)
			}
			for label := range c.Labels {
				mine := c.Spec.Names.Kind == "MCMRemediationTemplate" // which nothing else ties to a Cluster
				if strings.HasPrefix(label, "clusterctl.cluster.x-k8s.io/move") && !mine {
					t.Errorf("%s has label %s: all classes of a namespace would move, those of Machine Controller Manager, too",
						c.Name, label)
				}
			}
		}
	})
}

// Its webhook refuses it unless a feature gate of core is open.
func noExtensionConfig(t *testing.T, r release) {
	t.Helper()
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		for _, o := range all {
			if strings.HasSuffix(o.GroupVersionKind().Group, "runtime.cluster.x-k8s.io") ||
				strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
				t.Errorf("%s has %s %s", provider, o.GetKind(), o.GetName())
			}
		}
	})
}

// Finalizers of owners that block deletion: an API server that enforces owner
// permissions asks for the right to update them.
func permissionsToFinalizers(t *testing.T, r release) {
	t.Helper()
	wanted := map[string][]string{
		"bootstrap-capmcm": {"mcmconfigs/finalizers"}, "control-plane-capmcm": {"mcmexternalcontrolplanes/finalizers"},
	}
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		var may []string
		for _, role := range of[rbacv1.ClusterRole](t, all, "ClusterRole") {
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") ||
					slices.Contains(rule.APIGroups, "*") {
					t.Errorf("%s: ClusterRole %s has a wildcard: %v", provider, role.Name, rule)
				}
				if slices.Contains(rule.Verbs, "update") {
					may = append(may, rule.Resources...)
				}
			}
		}
		for _, resource := range wanted[provider] {
			if !slices.Contains(may, resource) {
				t.Errorf("%s may not update %s", provider, resource)
			}
		}
	})
}

// What core and this provider do in a workload cluster with a kubeconfig that is
// made here: drain, volumes, Nodes.
func permissionsOfWorkloadUsers(t *testing.T, r release) {
	t.Helper()
	wanted := map[string][]string{
		"nodes": {"get", "list", "watch", "patch", "update", "delete"}, "pods": {"get", "list", "watch"},
		"pods/eviction":     {"create"},
		"volumeattachments": {"list"}, "persistentvolumeclaims": {"get"}, "persistentvolumes": {"get"}, "daemonsets": {"get"},
	}
	shipped := false
	r.components(t, func(t *testing.T, provider string, all []*unstructured.Unstructured) {
		t.Helper()
		for _, role := range of[rbacv1.ClusterRole](t, all, "ClusterRole") {
			if role.Name != mcmexternalcontrolplane.DefaultRoles().Workload {
				continue
			}
			shipped = true
			for resource, verbs := range wanted {
				for _, verb := range verbs {
					if !slices.ContainsFunc(role.Rules, func(p rbacv1.PolicyRule) bool {
						return slices.Contains(p.Resources, resource) && slices.Contains(p.Verbs, verb)
					}) {
						t.Errorf("%s: ClusterRole %s may not %s %s", provider, role.Name, verb, resource)
					}
				}
			}
		}
	})
	if !shipped {
		t.Error("no provider ships the ClusterRole")
	}
}
