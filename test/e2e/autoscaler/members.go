package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Names that do not follow the API group.
const (
	deploymentLabel    = "cluster.x-k8s.io/deployment-name"
	revisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"
)

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
				return g.told(s)
			}
		}
	}
	return fmt.Errorf("the owners of machine %s do not lead to %s", m.GetName(), g.Name)
}

// told checks what tells the autoscaler of rollouts.
func (g *Group) told(set *unstructured.Unstructured) error {
	if set.GetLabels()[deploymentLabel] != g.Name || set.GetAnnotations()[revisionAnnotation] == "" {
		return fmt.Errorf("machine set %s lacks label %s or annotation %s: rollouts would not be seen", set.GetName(),
			deploymentLabel, revisionAnnotation)
	}
	return nil
}

// RollingOut reports whether a set of an older revision still has machines. The
// autoscaler removes no node meanwhile.
func (g *Group) RollingOut(ctx context.Context) (bool, error) {
	list, err := g.of("machinesets").List(ctx, metav1.ListOptions{LabelSelector: deploymentLabel + "=" + g.Name})
	if err != nil {
		return false, err
	}
	newest, revisions := int64(0), make([]int64, len(list.Items))
	for i := range list.Items {
		if revisions[i], err = strconv.ParseInt(list.Items[i].GetAnnotations()[revisionAnnotation], 10, 64); err != nil {
			return false, fmt.Errorf("%s: %w", list.Items[i].GetName(), err)
		}
		newest = max(newest, revisions[i])
	}
	for i := range list.Items {
		wanted, _, _ := unstructured.NestedInt64(list.Items[i].Object, "spec", "replicas")
		there, _, _ := unstructured.NestedInt64(list.Items[i].Object, "status", "replicas")
		if revisions[i] != newest && wanted+there > 0 {
			return true, nil
		}
	}
	return false, nil
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
	_, message, _ := unstructured.NestedString(m.Object, "status", "failureMessage")
	name := m.GetNamespace() + "_" + m.GetName()
	switch {
	case message && registered:
		// Such an instance has no state, and an id that no Node has.
		return Instance{m.GetName(), "failed-machine-" + name, ""}
	case message:
		return Instance{m.GetName(), "failed-machine-" + name, Failed}
	case m.GetDeletionTimestamp() != nil:
		return Instance{m.GetName(), "deleting-machine-" + name, Deleting}
	case !registered:
		return Instance{m.GetName(), "pending-machine-" + name, Creating}
	}
	return Instance{m.GetName(), id, Running}
}

// Nodes are the Nodes that say that they belong to machines of this kind.
func (g *Group) Nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := g.Workload.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx,
		metav1.ListOptions{LabelSelector: labels.Everything().String()})
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
	for i := range nodes {
		known[nodes[i].Spec.ProviderID] = true
		if err := g.leads(ctx, &nodes[i]); err != nil {
			return nil, err
		}
	}
	var missing []string
	for _, i := range instances {
		if i.State == Running && !known[i.ID] {
			missing = append(missing, i.Machine+" "+i.ID)
		}
	}
	return missing, nil
}

// leads checks that the providerID of a Node leads to its machine and no other,
// although only what stands behind its last slash is compared.
func (g *Group) leads(ctx context.Context, n *corev1.Node) error {
	list, err := g.of("machines").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var found []string
	for i := range list.Items {
		id, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "providerID")
		if id != "" && path.Base(id) == path.Base(n.Spec.ProviderID) {
			found = append(found, list.Items[i].GetName())
		}
	}
	if want := n.Annotations[g.key("machine")]; len(found) != 1 || found[0] != want {
		return fmt.Errorf("providerID %s of node %s leads to machines %v, want %s", n.Spec.ProviderID, n.Name, found, want)
	}
	return nil
}
