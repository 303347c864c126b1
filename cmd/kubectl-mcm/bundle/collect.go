package bundle

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
