package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/internal/redact"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

const (
	pageSize     = 500
	listTimeout  = time.Minute // an API server that is silent does not stop the rest
	maxExplained = 300         // objects that are explained one by one
)

// collector reads, and keeps what it has read, redacted.
type collector struct {
	*options
	inspect.Clusters
	redact.Redactor

	now     time.Time
	files   map[string]string
	errors  []string
	objects int
}

// kinds are those of the namespaces that are asked for. What is not served is no error.
var kinds = []struct {
	group schema.GroupVersion
	kinds []string
}{
	{machinev1.GroupVersion, []string{"MachineClass", "MachineDeployment", "MachineSet", "Machine"}},
	{clusterv1.GroupVersion, []string{"Cluster", "MachineDeployment", "MachineSet", "Machine", "MachineHealthCheck"}},
	{infrav1.GroupVersion, []string{
		"MCMCluster", "MCMClusterTemplate", "MCMMachine", "MCMMachineTemplate", "MCMRemediation", "MCMRemediationTemplate",
	}},
	{bootstrapv1.GroupVersion, []string{"MCMConfig", "MCMConfigTemplate"}},
	{controlplanev1.GroupVersion, []string{"MCMExternalControlPlane", "MCMExternalControlPlaneTemplate"}},
	{schema.GroupVersion{Group: controlplanev1.GroupVersion.Group, Version: "v1beta2"}, []string{"KubeadmControlPlane"}},
	{schema.GroupVersion{Version: "v1"}, []string{"Event"}},
}

// all reads everything.
func (c *collector) all(ctx context.Context) {
	for _, group := range kinds {
		for _, kind := range group.kinds {
			c.keep(c.read(ctx, c.Control, group.group.WithKind(kind), c.Namespace), "objects")
		}
	}
	nodes := c.read(ctx, c.Target, schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "")
	for _, n := range nodes {
		unstructured.RemoveNestedField(n.Object, "status", "images") // many, and of no use here
	}
	c.keep(nodes, "nodes")
	budgets := schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}
	c.keep(c.read(ctx, c.Target, budgets, ""), "nodes") // of all namespaces: any of them can stop a drain
	c.explain(ctx)
	c.versions(ctx)
	c.managers(ctx)
	for i, at := range c.metricsURLs {
		c.fetch(ctx, fmt.Sprintf("metrics-%d.txt", i+1), at)
	}
	if len(c.errors) > 0 {
		c.add("errors.txt", strings.Join(c.errors, "\n")+"\n")
	}
	c.mask()
}

// mask removes what was found to be a secret in one place from all others.
func (c *collector) mask() {
	known := cloud.KnownRedactor(c.Secrets())
	for name, text := range c.files {
		c.files[name] = known.Text(text)
	}
}

// add keeps text, redacted.
func (c *collector) add(name, text string) { c.files[name] = c.Text(text) }

// failed tells what could not be read.
func (c *collector) failed(what string, err error) {
	c.errors = append(c.errors, fmt.Sprintf("%s: %v", what, err))
}

// read reads the objects of a kind. A failure goes into errors.txt.
func (c *collector) read(
	ctx context.Context, from client.Reader, kind schema.GroupVersionKind, namespace string,
) []unstructured.Unstructured {
	found, err := list(ctx, from, kind, namespace)
	if err != nil {
		c.failed(fileOf(kind), err)
	}
	return found
}

// list reads page by page. A kind that is not served has no objects.
func list(
	ctx context.Context, from client.Reader, kind schema.GroupVersionKind, namespace string,
) ([]unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var found []unstructured.Unstructured
	for next := ""; ; {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := from.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return found, err
		}
		found = append(found, page.Items...)
		if next = page.GetContinue(); next == "" {
			return found, nil
		}
	}
}

// fileOf is the name of a file with objects of a kind, as kubectl names the resource.
func fileOf(kind schema.GroupVersionKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.GroupResource().String()
}

// keep writes objects as YAML, one file a kind and namespace.
func (c *collector) keep(found []unstructured.Unstructured, folder string) {
	texts := map[string]*strings.Builder{}
	for i := range found {
		o := &found[i]
		name := folder + "/" + fileOf(o.GroupVersionKind()) + ".yaml"
		if o.GetNamespace() != "" {
			name = folder + "/" + safe(o.GetNamespace()) + "/" + fileOf(o.GroupVersionKind()) + ".yaml"
		}
		c.Object(o.Object)
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			c.failed(name, err)
			continue
		}
		if texts[name] == nil {
			texts[name] = &strings.Builder{}
		}
		fmt.Fprintf(texts[name], "---\n%s", text)
	}
	for name, text := range texts {
		c.files[name] = text.String() // redacted field by field
	}
	c.objects += len(found)
}

// safe is a part of a path. An API server that is not trusted does not choose another directory.
func safe(name string) string { return strings.NewReplacer("/", "_", "..", "_").Replace(name) }

// explain writes what tree prints, and why and timeline of what is not healthy.
func (c *collector) explain(ctx context.Context) {
	facts, err := read.Source{
		Control: c.Control, Target: c.Target, Namespace: c.Namespace, Now: c.now,
		Events: true, Joining: true, NoSecrets: true, Consoles: true,
	}.All(ctx)
	if err != nil {
		c.failed("tree, why and timeline", err)
		return
	}
	for _, text := range facts.Unread {
		c.errors = append(c.errors, "for tree, why and timeline: "+text)
	}
	c.consoles(facts)
	text := inspect.Text{Facts: facts, AllNamespaces: c.allNamespaces}
	c.print("tree.txt", text.Tree)
	unhealthy := slices.DeleteFunc(slices.Clone(facts.Objects), func(o *explain.Object) bool {
		return !slices.Contains(explained, o.Kind) || facts.Why(o).Missing == nil
	})
	if len(unhealthy) > maxExplained {
		c.errors = append(c.errors, fmt.Sprintf("why and timeline: %d objects are not healthy, and %d of them are here; "+
			"tree.txt has all", len(unhealthy), maxExplained))
		unhealthy = unhealthy[:maxExplained]
	}
	for _, o := range unhealthy {
		name := safe(o.Namespace) + "/" + safe(o.String()) + ".txt"
		c.print("why/"+name, func(out io.Writer) error { return text.Why(out, o) })
		c.print("timeline/"+name, func(out io.Writer) error { return text.Timeline(out, o) })
	}
}

// explained are the kinds of objects that are explained one by one, where they are not healthy.
var explained = []string{explain.KindCluster, explain.KindDeployment, explain.KindSet, explain.KindMachine}

// consoles writes what is kept of machines that did not join. It was redacted when it was kept, and
// is once more.
func (c *collector) consoles(facts *explain.Facts) {
	for secret, failures := range facts.Consoles {
		for i := range failures {
			f := &failures[i]
			v := f.Verdict()
			c.add(fmt.Sprintf("consoles/%s/%d-%s.txt", safe(secret), i+1, safe(f.Machine)), fmt.Sprintf(
				"# %s, read %s: %s\n%s", f.ProviderID, f.Read.Format(time.RFC3339), v.Summary, redact.Console(f.Text),
			))
		}
	}
}

// print keeps what a verb prints.
func (c *collector) print(name string, verb func(io.Writer) error) {
	var out strings.Builder
	if err := verb(&out); err != nil {
		c.failed(name, err)
	}
	c.add(name, out.String())
}

// fetch keeps what a URL or a path at the API server has.
func (c *collector) fetch(ctx context.Context, name, at string) {
	text, err := c.deps.Fetch(ctx, at)
	if err != nil {
		c.failed(name, err)
		return
	}
	c.add(name, string(text))
}

// logQuery limits what is read of the log of a container: its end.
const logQuery = "tailLines=5000&limitBytes=8388608"

// The manager's Deployments: that of the native API by its name or label, those of the providers by
// the label that clusterctl goes by.
const (
	managerName    = "machine-controller-manager"
	labelApp       = "app"
	labelProvider  = "cluster.x-k8s.io/provider"
	providerSuffix = "-capmcm"
)

// release is what versions.yaml has.
type release struct {
	KubectlMCM string            `json:"kubectlMCM"`
	APIServer  map[string]any    `json:"apiServer,omitempty"`
	Groups     []metav1.APIGroup `json:"groups,omitempty"` // that the API server serves
	CRDs       []crdVersions     `json:"crds,omitempty"`
}

type crdVersions struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Stored      []string          `json:"storedVersions,omitempty"`
}

// versions writes what is installed. Served versions are for everybody to read, CRDs are not.
func (c *collector) versions(ctx context.Context) {
	found := release{KubectlMCM: c.version}
	c.decode(ctx, "/version", &found.APIServer)
	var groups metav1.APIGroupList
	c.decode(ctx, "/apis", &groups)
	found.Groups = slices.DeleteFunc(groups.Groups, func(g metav1.APIGroup) bool { return !ours(g.Name) })
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	for _, o := range c.read(ctx, c.Control, crd, "") {
		if group, _, _ := unstructured.NestedString(o.Object, "spec", "group"); !ours(group) {
			continue
		}
		c.Object(o.Object)
		stored, _, _ := unstructured.NestedStringSlice(o.Object, "status", "storedVersions")
		found.CRDs = append(found.CRDs, crdVersions{o.GetName(), o.GetLabels(), o.GetAnnotations(), stored})
	}
	text, err := yaml.Marshal(found)
	if err != nil {
		c.failed("versions.yaml", err)
	}
	c.add("versions.yaml", string(text))
}

// ours reports whether a group is of one of the two APIs.
func ours(group string) bool {
	return group == "machine.sapcloud.io" || group == "cluster.x-k8s.io" || strings.HasSuffix(group, ".cluster.x-k8s.io")
}

// decode reads JSON from a path at the API server.
func (c *collector) decode(ctx context.Context, path string, into any) {
	text, err := c.deps.Fetch(ctx, path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		c.failed(path, err)
	}
}

// managers writes the manager's Deployments and Pods, with logs. Who may not list Deployments of all
// namespaces gets those of the namespace that is asked for.
func (c *collector) managers(ctx context.Context) {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	all, err := list(ctx, c.Control, kind, "")
	if err != nil && c.Namespace != "" {
		c.failed("deployments.apps of all namespaces", err)
		all, err = list(ctx, c.Control, kind, c.Namespace)
	}
	if err != nil {
		c.failed("deployments.apps", err)
	}
	all = slices.DeleteFunc(all, func(d unstructured.Unstructured) bool { return !isManager(&d) })
	for i := range all {
		c.pods(ctx, &all[i])
	}
	c.keep(all, "managers")
}

// isManager reports whether a Deployment is of this project.
func isManager(d *unstructured.Unstructured) bool {
	l := d.GetLabels()
	return d.GetName() == managerName || l[labelApp] == managerName || strings.HasSuffix(l[labelProvider], providerSuffix)
}

// pods writes the Pods of a Deployment and their logs.
func (c *collector) pods(ctx context.Context, d *unstructured.Unstructured) {
	wanted, _, _ := unstructured.NestedStringMap(d.Object, "spec", "selector", "matchLabels")
	if len(wanted) == 0 {
		return
	}
	all := c.read(ctx, c.Control, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, d.GetNamespace())
	all = slices.DeleteFunc(all, func(p unstructured.Unstructured) bool {
		return !labels.SelectorFromSet(wanted).Matches(labels.Set(p.GetLabels()))
	})
	for _, found := range all {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &pod); err != nil {
			c.failed("Pod "+found.GetName(), err)
			continue
		}
		for i := range pod.Status.ContainerStatuses {
			c.logs(ctx, &pod, &pod.Status.ContainerStatuses[i])
		}
	}
	c.keep(all, "managers/"+safe(d.GetName()))
}

// logs writes the logs of a container, and of its predecessor if it has one.
func (c *collector) logs(ctx context.Context, pod *corev1.Pod, s *corev1.ContainerStatus) {
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/log?%s&container=%s", pod.Namespace, pod.Name, logQuery,
		url.QueryEscape(s.Name))
	file := fmt.Sprintf("managers/%s/logs/%s_%s", safe(pod.Namespace), safe(pod.Name), safe(s.Name))
	c.fetch(ctx, file+".log", path)
	if s.RestartCount > 0 {
		c.fetch(ctx, file+".previous.log", path+"&previous=true")
	}
}
