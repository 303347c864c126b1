package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A Group is a MachineDeployment as the autoscaler sees it.
type Group struct {
	Management dynamic.Interface // the cluster with the machines
	Workload   dynamic.Interface // the cluster with the nodes
	// API is the group and version of the machines; its group is CAPI_GROUP.
	API             schema.GroupVersion
	Namespace, Name string
}

func (g *Group) of(plural string) dynamic.ResourceInterface {
	return g.Management.Resource(g.API.WithResource(plural)).Namespace(g.Namespace)
}

// key is a name that the autoscaler derives from the API group.
func (g *Group) key(name string) string { return g.API.Group + "/" + name }

func (g *Group) deployment(ctx context.Context) (*unstructured.Unstructured, error) {
	return g.of("machinedeployments").Get(ctx, g.Name, metav1.GetOptions{})
}

// TargetSize is the size that the group is to have. The field has to be there,
// 0 included; and both bounds have to be annotated.
func (g *Group) TargetSize(ctx context.Context) (int64, error) {
	d, err := g.deployment(ctx)
	if err != nil {
		return 0, err
	}
	for _, bound := range []string{"cluster-api-autoscaler-node-group-min-size", "cluster-api-autoscaler-node-group-max-size"} {
		if _, ok := d.GetAnnotations()[g.key(bound)]; !ok {
			return 0, fmt.Errorf("%s is no node group: it lacks %s", g.Name, g.key(bound))
		}
	}
	size, found, err := unstructured.NestedInt64(d.Object, "spec", "replicas")
	if err == nil && !found {
		err = errors.New("unable to find replicas")
	}
	return size, err
}

// SetSize reads and patches the scale subresource.
func (g *Group) SetSize(ctx context.Context, size int) error {
	if _, err := g.of("machinedeployments").Get(ctx, g.Name, metav1.GetOptions{}, "scale"); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size)
	_, err := g.of("machinedeployments").Patch(ctx, g.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
	return err
}

// Machines are the members of the group: its selector finds them, and their
// owners lead to it.
func (g *Group) Machines(ctx context.Context) ([]unstructured.Unstructured, error) {
	d, err := g.deployment(ctx)
	if err != nil {
		return nil, err
	}
	text, _, err := unstructured.NestedMap(d.Object, "spec", "selector")
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(raw, &selector); err != nil {
		return nil, err
	}
	matches, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, err
	}
	list, err := g.of("machines").List(ctx, metav1.ListOptions{LabelSelector: matches.String()})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if err := g.owned(ctx, &list.Items[i]); err != nil {
			return nil, err
		}
	}
	return list.Items, nil
}

// owned follows the owners of a machine to the group.
func (g *Group) owned(ctx context.Context, m *unstructured.Unstructured) error {
	for _, set := range m.GetOwnerReferences() {
		if set.Kind != "MachineSet" {
			continue
		}
		s, err := g.of("machinesets").Get(ctx, set.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, owner := range s.GetOwnerReferences() {
			if owner.Kind == "MachineDeployment" && owner.Name == g.Name {
				return g.rolled(s)
			}
		}
	}
	return fmt.Errorf("the owners of machine %s do not lead to %s", m.GetName(), g.Name)
}

// rolled checks what tells the autoscaler of rollouts.
func (g *Group) rolled(set *unstructured.Unstructured) error {
	const name, revision = "cluster.x-k8s.io/deployment-name", "machinedeployment.clusters.x-k8s.io/revision"
	if set.GetLabels()[name] != g.Name || set.GetAnnotations()[revision] == "" {
		return fmt.Errorf("machine set %s lacks label %s or annotation %s: rollouts would not be seen", set.GetName(), name, revision)
	}
	return nil
}

// An Instance is a machine in the autoscaler's words.
type Instance struct{ Machine, ID, State string }

// States of an Instance.
const (
	Running  = "Running"
	Creating = "Creating"
	Deleting = "Deleting"
	Failed   = "CreatingWithError"
)

// Instances are the machines of the group, in the order of the autoscaler's
// questions: failed, deleting, without node, running.
func (g *Group) Instances(ctx context.Context) ([]Instance, error) {
	machines, err := g.Machines(ctx)
	if err != nil {
		return nil, err
	}
	var all []Instance
	for i := range machines {
		all = append(all, instanceOf(&machines[i]))
	}
	return all, nil
}

func instanceOf(m *unstructured.Unstructured) Instance {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	_, registered, _ := unstructured.NestedMap(m.Object, "status", "nodeRef")
	phase, _, _ := unstructured.NestedString(m.Object, "status", "phase")
	_, message, _ := unstructured.NestedString(m.Object, "status", "failureMessage")
	pending := "pending-machine-" + m.GetNamespace() + "_" + m.GetName()
	switch {
	case message && phase == "Failed" && !registered:
		return Instance{m.GetName(), "failed-" + m.GetName(), Failed}
	case m.GetDeletionTimestamp() != nil:
		return Instance{m.GetName(), id, Deleting}
	case !registered:
		return Instance{m.GetName(), pending, Creating}
	}
	return Instance{m.GetName(), id, Running}
}

// Unregistered are the running instances without a Node of exactly their id. The
// autoscaler removes their machines after max-node-provision-time.
func (g *Group) Unregistered(ctx context.Context) ([]string, error) {
	instances, err := g.Instances(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := g.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Spec.ProviderID] = true
	}
	var missing []string
	for _, i := range instances {
		if i.State == Running && !known[i.ID] {
			missing = append(missing, i.Machine+" "+i.ID)
		}
	}
	return missing, nil
}

// Nodes are the Nodes that say that they belong to machines of this kind.
func (g *Group) Nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := g.Workload.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, metav1.ListOptions{LabelSelector: labels.Everything().String()})
	if err != nil {
		return nil, err
	}
	var nodes []corev1.Node
	for i := range list.Items {
		var n corev1.Node
		if err := fromUnstructured(&list.Items[i], &n); err != nil {
			return nil, err
		}
		if n.Annotations[g.key("machine")] != "" && n.Annotations[g.key("cluster-namespace")] == g.Namespace {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

func fromUnstructured(u *unstructured.Unstructured, into any) error {
	text, err := json.Marshal(u.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// DeleteNode marks the machine of a node, and makes the group one smaller.
func (g *Group) DeleteNode(ctx context.Context, machine string) error {
	m, err := g.of("machines").Get(ctx, machine, metav1.GetOptions{})
	if err != nil {
		return err
	}
	annotations := maps.Clone(m.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[g.key("delete-machine")] = time.Now().String()
	m.SetAnnotations(annotations)
	if _, err := g.of("machines").Update(ctx, m, metav1.UpdateOptions{}); err != nil {
		return err
	}
	size, err := g.TargetSize(ctx)
	if err != nil {
		return err
	}
	return g.SetSize(ctx, int(size)-1)
}

// Template is what the autoscaler takes a node of an empty group for, by the
// annotations of the group: cpu and memory are required.
func (g *Group) Template(ctx context.Context) (map[string]string, error) {
	const prefix = "capacity.cluster-autoscaler.kubernetes.io/"
	d, err := g.deployment(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for key, value := range d.GetAnnotations() {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			found[name] = value
		}
	}
	if found["cpu"] == "" || found["memory"] == "" {
		return nil, fmt.Errorf("%s cannot begin at zero: its capacity is %v", g.Name, found)
	}
	return found, nil
}
