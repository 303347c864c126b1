package migration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// Node are what counts of a machine's node.
type Node struct {
	Object         *corev1.Node
	KubeletVersion string // of the kubelet
}

// NodesByMachine finds the node of each native machine: by the machine's label,
// else by the node's.
func (s *PoolState) NodesByMachine() map[string]*Node {
	byLabel := map[string]*corev1.Node{}
	for _, name := range objects.Keys(s.Nodes) {
		if machine := s.Nodes[name].Labels[machinev1.MachineNameLabel]; machine != "" {
			byLabel[machine] = s.Nodes[name]
		}
	}
	out := map[string]*Node{}
	for i := range s.Native.Machines {
		m := &s.Native.Machines[i]
		node := s.Nodes[m.Labels[machinev1.NodeLabel]]
		if node == nil && m.Labels[machinev1.NodeLabel] == "" {
			node = byLabel[m.Name]
		}
		if node != nil {
			out[m.Name] = &Node{Object: node, KubeletVersion: node.Status.NodeInfo.KubeletVersion}
		}
	}
	return out
}

// fewNodes is up to how many Nodes are read one by one.
const fewNodes = 20

// nodeReader reads Nodes one by one where these are few and their names are known,
// else all of them, once.
type nodeReader struct {
	client.Reader
	all map[string]*corev1.Node // nil: not read yet
}

func newNodeReader(target client.Reader) *nodeReader { return &nodeReader{Reader: target} }

func (r *nodeReader) of(ctx context.Context, s *PoolState) (map[string]*corev1.Node, error) {
	names, known := s.nodeNames()
	if r.all == nil && (!known || len(names) > fewNodes) {
		var list corev1.NodeList
		if err := r.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		r.all = map[string]*corev1.Node{}
		for i := range list.Items {
			r.all[list.Items[i].Name] = &list.Items[i]
		}
	}
	if r.all != nil {
		return s.pick(r.all, names), nil
	}
	found := map[string]*corev1.Node{}
	for _, name := range objects.Keys(names) {
		node := &corev1.Node{}
		err := r.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read node %s: %w", name, err)
		}
		if err == nil {
			found[name] = node
		}
	}
	return found, nil
}

// nodeNames are the names of the pool's nodes as far as they are written down, and
// whether that is all of them.
func (s *PoolState) nodeNames() (names map[string]bool, all bool) {
	names, all = map[string]bool{}, true
	note := func(name string) {
		if names[name] = true; name == "" {
			delete(names, name)
			all = false
		}
	}
	for i := range s.Native.Machines {
		note(s.Native.Machines[i].Labels[machinev1.NodeLabel])
	}
	for i := range s.ClusterAPI.Machines {
		if s.Native.Empty() || s.ClusterAPI.Machines[i].Status.NodeRef.Name != "" {
			note(s.ClusterAPI.Machines[i].Status.NodeRef.Name)
		}
	}
	return names, all
}

// pick returns the nodes with those names, those that say whose they are, and those
// whose providerID a Machine has.
func (s *PoolState) pick(all map[string]*corev1.Node, names map[string]bool) map[string]*corev1.Node {
	machines, ids := map[string]bool{}, map[string]bool{}
	for i := range s.Native.Machines {
		machines[s.Native.Machines[i].Name] = true
	}
	for i := range s.ClusterAPI.MCMMachines {
		machines[s.ClusterAPI.MCMMachines[i].Name] = true
		ids[s.ClusterAPI.MCMMachines[i].Spec.ProviderID] = true
	}
	delete(ids, "")
	found := map[string]*corev1.Node{}
	for name, node := range all {
		if names[name] || machines[node.Labels[machinev1.MachineNameLabel]] || ids[node.Spec.ProviderID] {
			found[name] = node
		}
	}
	return found
}
