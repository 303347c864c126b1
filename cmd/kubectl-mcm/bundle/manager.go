package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

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
