package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// sync makes the Node as its Machine and class want it: with one write, and
// another one before it if the capacity changes. The note of what was applied
// comes last, so that a crash in between repeats work and loses none.
func (c *Controller) sync(ctx context.Context, o *observation) error {
	m := o.machine()
	class, err := c.classOf(ctx, m)
	if err != nil {
		return err
	}
	spare, err := c.spare(ctx, o)
	if err != nil {
		return err
	}
	wanted := func(node *corev1.Node) (*corev1.Node, []problem) {
		want, problems := desired(node, m, class)
		if spare {
			keepOff(want)
		}
		return want, problems
	}
	want, problems := wanted(o.node)
	if equality.Semantic.DeepEqual(want, o.node) {
		return nil
	}
	for _, p := range problems {
		c.Events.Event(m, corev1.EventTypeWarning, p.reason, p.text)
	}
	node := o.node
	if !equality.Semantic.DeepEqual(want.Status.Capacity, node.Status.Capacity) {
		if node, err = c.writeCapacity(ctx, node, want); err != nil {
			return c.refused(m, err)
		}
		want, _ = wanted(node)
	}
	return c.refused(m, c.write(ctx, node, want))
}

// writeCapacity writes the capacity alone, and returns the node as it is then.
func (c *Controller) writeCapacity(ctx context.Context, node, want *corev1.Node) (*corev1.Node, error) {
	changed := node.DeepCopy()
	changed.Status.Capacity = want.Status.Capacity
	if err := target.PatchNodeStatus(ctx, c.Target.Client, node, changed); err != nil {
		return nil, fmt.Errorf("writing the capacity of node %s: %w", node.Name, err)
	}
	c.marks.Wrote(changed)
	return changed, nil
}

// write writes all but the status.
func (c *Controller) write(ctx context.Context, node, want *corev1.Node) error {
	changed := want.DeepCopy()
	changed.Status = *node.Status.DeepCopy()
	if err := target.PatchNode(ctx, c.Target.Client, node, changed); err != nil {
		return fmt.Errorf("writing node %s: %w", node.Name, err)
	}
	c.marks.Wrote(changed)
	return nil
}

// refused says on the Machine that the API server does not accept its Node. A
// node that has gone in the meantime is no failure.
func (c *Controller) refused(m *machinev1.Machine, err error) error {
	if apierrors.IsInvalid(err) {
		c.Events.Eventf(m, corev1.EventTypeWarning, eventNodeRefused,
			"the node does not get what spec.nodeTemplate and the virtualCapacity of the class ask for: %v; correct the field "+
				"that is named there", err)
	}
	return client.IgnoreNotFound(err)
}
