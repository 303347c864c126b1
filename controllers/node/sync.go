package node

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// sync applies template and class to the Node: with one write, and another one before
// it if the capacity changes. The record of what was applied is in the last write, so
// that a crash in between only repeats work.
func (c *Controller) sync(ctx context.Context, o *observation) error {
	m := o.machine()
	class, err := c.classOf(ctx, m)
	if err != nil {
		return err
	}
	rollout, err := c.inRollout(ctx, o)
	if err != nil {
		return err
	}
	wanted := func(node *corev1.Node) (*corev1.Node, []nodetemplate.Problem) {
		want, problems := desired(node, m, class)
		if rollout {
			disableScaleDown(want)
		}
		return want, problems
	}
	want, problems := wanted(o.node)
	if equality.Semantic.DeepEqual(want, o.node) {
		return nil
	}
	for _, p := range problems {
		reason := eventInvalidTemplate
		if p.Note {
			reason = eventInvalidAnnotation
		}
		c.Events.Event(m, corev1.EventTypeWarning, reason, p.Text)
	}
	node := o.node
	if !equality.Semantic.DeepEqual(want.Status.Capacity, node.Status.Capacity) {
		if node, err = c.writeCapacity(ctx, node, want); err != nil {
			return c.reportRefusal(m, err)
		}
		want, _ = wanted(node)
	}
	return c.reportRefusal(m, c.write(ctx, node, want))
}

// writeCapacity writes the capacity alone, and returns the node as it is then.
func (c *Controller) writeCapacity(ctx context.Context, node, want *corev1.Node) (*corev1.Node, error) {
	changed := node.DeepCopy()
	changed.Status.Capacity = want.Status.Capacity
	if err := target.PatchNodeStatus(ctx, c.Target.Client, node, changed); err != nil {
		return nil, fmt.Errorf("writing the capacity of node %s: %w", node.Name, err)
	}
	return changed, nil
}

// write writes all but the status.
func (c *Controller) write(ctx context.Context, node, want *corev1.Node) error {
	changed := want.DeepCopy()
	changed.Status = *node.Status.DeepCopy()
	if err := target.PatchNode(ctx, c.Target.Client, node, changed); err != nil {
		return fmt.Errorf("writing node %s: %w", node.Name, err)
	}
	return nil
}

// reportRefusal emits an Event on the Machine if the API server refuses the Node. It
// ignores that the Node does not exist any more.
func (c *Controller) reportRefusal(m *machinev1.Machine, err error) error {
	if apierrors.IsInvalid(err) {
		c.Events.Eventf(m, corev1.EventTypeWarning, eventNodeRefused,
			"spec.nodeTemplate and the virtualCapacity of the class could not be applied to the node: %v; correct the field "+
				"that the error names", err)
	}
	return client.IgnoreNotFound(err)
}

// templateFields are the paths of the node template in a Machine.
var templateFields = nodetemplate.Fields{
	Labels: "spec.nodeTemplate.metadata.labels", Annotations: "spec.nodeTemplate.metadata.annotations",
	Taints: "spec.nodeTemplate.spec.taints",
}

// desired returns the Node with the template of its Machine and the virtual capacity of
// its class applied, and the problems found. It changes only what they name or have
// named. A nil class leaves the capacity unchanged.
func desired(node *corev1.Node, m *machinev1.Machine, class *machinev1.MachineClass) (
	*corev1.Node, []nodetemplate.Problem,
) {
	want, problems := nodetemplate.Apply(node, &m.Spec.NodeTemplateSpec, templateFields)
	problems = append(problems, capacity(want, class)...)
	return want, append(problems, applyIdentity(want, m)...)
}

// applyIdentity writes on the Node which Machine it belongs to.
func applyIdentity(want *corev1.Node, m *machinev1.Machine) []nodetemplate.Problem {
	delete(want.Annotations, machinev1.NotManagedAnnotation)
	want.Annotations[machinev1.NodeMachineAnnotation] = m.Name
	want.Annotations[machinev1.NodeNamespaceAnnotation] = m.Namespace
	if !slices.Contains(want.Finalizers, machinev1.NodeFinalizer) {
		want.Finalizers = append(want.Finalizers, machinev1.NodeFinalizer)
	}
	if len(validation.IsValidLabelValue(m.Name)) > 0 {
		return []nodetemplate.Problem{{Text: "metadata.name is not a valid label value, so the node does not get label " +
			machinev1.MachineNameLabel + "; use a name of at most 63 characters"}}
	}
	want.Labels[machinev1.MachineNameLabel] = m.Name
	return nil
}
