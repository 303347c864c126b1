package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Template is what the autoscaler takes a node of an empty group for.
type Template struct {
	Capacity corev1.ResourceList
	Labels   map[string]string
}

const capacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"

// Template is read from the infrastructure's template, if the group names one,
// and from annotations of the group, which win. cpu and memory are required.
func (g *Group) Template(ctx context.Context) (Template, error) {
	t := Template{Capacity: corev1.ResourceList{}, Labels: map[string]string{}}
	d, err := g.deployment(ctx)
	if err != nil {
		return t, err
	}
	if err := g.ofInfrastructure(ctx, d, &t); err != nil {
		return t, err
	}
	if err := t.annotated(d.GetAnnotations()); err != nil {
		return t, err
	}
	if t.Capacity.Cpu().IsZero() || t.Capacity.Memory().IsZero() {
		return t, fmt.Errorf("%s cannot begin at zero: its capacity is %v", g.Name, t.Capacity)
	}
	return t, nil
}

// ofInfrastructure follows spec.template.spec.infrastructureRef to a resource
// that is named like its kind with an s.
func (g *Group) ofInfrastructure(ctx context.Context, d *unstructured.Unstructured, t *Template) error {
	ref, found, err := unstructured.NestedStringMap(d.Object, "spec", "template", "spec", "infrastructureRef")
	if err != nil || !found {
		return err
	}
	version, err := g.versionOf(ref["apiGroup"], ref["kind"])
	if err != nil {
		return err
	}
	named := schema.GroupVersionResource{Group: ref["apiGroup"], Version: version, Resource: strings.ToLower(ref["kind"]) +
		"s"}
	infra, err := g.Management.Resource(named).Namespace(g.Namespace).Get(ctx, ref["name"], metav1.GetOptions{})
	if err != nil {
		return err
	}
	capacity, _, err := unstructured.NestedStringMap(infra.Object, "status", "capacity")
	if err != nil {
		return err
	}
	for name, text := range capacity {
		if t.Capacity[corev1.ResourceName(name)], err = resource.ParseQuantity(text); err != nil {
			return err
		}
	}
	info, _, err := unstructured.NestedStringMap(infra.Object, "status", "nodeInfo")
	t.Labels[corev1.LabelArchStable], t.Labels[corev1.LabelOSStable] = info["architecture"], info["operatingSystem"]
	return err
}

// versionOf is the first version of a group that serves a kind.
func (g *Group) versionOf(group, kind string) (string, error) {
	groups, err := g.Discovery.ServerGroups()
	if err != nil {
		return "", err
	}
	for _, one := range groups.Groups {
		if one.Name != group {
			continue
		}
		for _, v := range one.Versions {
			served, err := g.Discovery.ServerResourcesForGroupVersion(v.GroupVersion)
			if err != nil {
				return "", err
			}
			if slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
				return v.Version, nil
			}
		}
	}
	return "", fmt.Errorf("no version of %s serves %s", group, kind)
}

// annotated puts in what the group says itself.
func (t *Template) annotated(all map[string]string) error {
	t.Capacity[corev1.ResourcePods] = resource.MustParse("110") // whatever the infrastructure says
	for name, is := range map[string]corev1.ResourceName{
		"cpu": corev1.ResourceCPU, "memory": corev1.ResourceMemory, "ephemeral-disk": corev1.ResourceEphemeralStorage,
		"maxPods": corev1.ResourcePods, "gpu-count": corev1.ResourceName(all[capacityPrefix+"gpu-type"]),
	} {
		text, there := all[capacityPrefix+name]
		if !there || is == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("%s%s: %w", capacityPrefix, name, err)
		}
		t.Capacity[is] = quantity
	}
	for pair := range strings.SplitSeq(all[capacityPrefix+"labels"], ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			t.Labels[key] = value
		}
	}
	return nil
}

// Differs says what a node is not as the template promised; empty if all is.
func (t *Template) Differs(n *corev1.Node) string {
	for name, promised := range t.Capacity {
		if is, ok := n.Status.Allocatable[name]; !ok || is.Cmp(promised) < 0 {
			return fmt.Sprintf("node %s has %s of %s, the template promised %s", n.Name, is.String(), name, promised.String())
		}
	}
	for key, promised := range t.Labels {
		if is := n.Labels[key]; is != promised {
			return fmt.Sprintf("node %s has label %s=%s, the template promised %s", n.Name, key, is, promised)
		}
	}
	return ""
}
