package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
)

// A problem is something in an object that keeps a part of it from reaching the
// Node.
type problem struct{ reason, text string }

// templateFields is where a Machine has its template.
var templateFields = nodetemplate.Fields{
	Labels: "spec.nodeTemplate.metadata.labels", Annotations: "spec.nodeTemplate.metadata.annotations",
	Taints: "spec.nodeTemplate.spec.taints",
}

// desired returns the Node as its Machine and class want it, and what of that
// cannot be had. It touches nothing that neither of them names or has named.
// class is nil if there is none: then the capacity stays as it is.
func desired(node *corev1.Node, m *machinev1.Machine, class *machinev1.MachineClass) (*corev1.Node, []problem) {
	want, found := nodetemplate.Apply(node, &m.Spec.NodeTemplateSpec, templateFields)
	var problems []problem
	for _, p := range found {
		reason := eventInvalidTemplate
		if p.Note {
			reason = eventInvalidAnnotation
		}
		problems = append(problems, problem{reason, p.Text})
	}
	problems = append(problems, capacity(want, class)...)
	return want, append(problems, identify(want, m)...)
}

// identify says on the Node which Machine it belongs to.
func identify(want *corev1.Node, m *machinev1.Machine) []problem {
	delete(want.Annotations, machinev1.NotManagedAnnotation)
	want.Annotations[machinev1.NodeMachineAnnotation] = m.Name
	want.Annotations[machinev1.NodeNamespaceAnnotation] = m.Namespace
	if !slices.Contains(want.Finalizers, machinev1.NodeFinalizer) {
		want.Finalizers = append(want.Finalizers, machinev1.NodeFinalizer)
	}
	if len(validation.IsValidLabelValue(m.Name)) > 0 {
		return []problem{{eventInvalidTemplate, "metadata.name is no label value, so the node cannot carry it in label " +
			machinev1.MachineNameLabel + "; names of 63 characters or fewer can be found there"}}
	}
	want.Labels[machinev1.MachineNameLabel] = m.Name
	return nil
}
