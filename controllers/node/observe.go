package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// An observation is what the caches show about one Node.
type observation struct {
	name     string
	node     *corev1.Node        // nil if the cache shows none
	machines []machinev1.Machine // that name it, by namespace and name
}

// machine is the only Machine of the Node. There must be one.
func (o *observation) machine() *machinev1.Machine { return &o.machines[0] }

// claimants are the names of the Machines, for a person.
func (o *observation) claimants() string {
	var names []string
	for i := range o.machines {
		names = append(names, o.machines[i].Namespace+"/"+o.machines[i].Name)
	}
	return strings.Join(names, ", ")
}

func (c *Controller) observe(ctx context.Context, name string) (*observation, error) {
	o := &observation{name: name, node: &corev1.Node{}}
	err := c.Target.Client.Get(ctx, client.ObjectKey{Name: name}, o.node)
	if apierrors.IsNotFound(err) {
		o.node, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	o.machines, err = c.machinesOf(ctx, name)
	return o, err
}

// machinesOf returns the Machines that name a node, by namespace and name.
func (c *Controller) machinesOf(ctx context.Context, name string) ([]machinev1.Machine, error) {
	var list machinev1.MachineList
	if err := c.Client.List(ctx, &list, client.MatchingFields{index.MachineByNode: name}); err != nil {
		return nil, fmt.Errorf("listing the Machines of node %s: %w", name, err)
	}
	slices.SortFunc(list.Items, func(a, b machinev1.Machine) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list.Items, nil
}

// classOf returns the class of a Machine; nil if there is none.
func (c *Controller) classOf(ctx context.Context, m *machinev1.Machine) (*machinev1.MachineClass, error) {
	if m.Spec.Class.Name == "" {
		return nil, nil //nolint:nilnil // no class is a fact, not a failure
	}
	class := &machinev1.MachineClass{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Class.Name}, class)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineClass %s/%s: %w", m.Namespace, m.Spec.Class.Name, err)
	}
	return class, nil
}
