package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
)

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
