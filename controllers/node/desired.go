package node

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A problem is something in an object that keeps a part of it from reaching the
// Node.
type problem struct{ reason, text string }

// desired returns the Node as its Machine and class want it, and what of that
// cannot be had. It touches nothing that neither of them names or has named.
// class is nil if there is none: then the capacity stays as it is.
func desired(node *corev1.Node, m *machinev1.Machine, class *machinev1.MachineClass) (*corev1.Node, []problem) {
	want := node.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	template, problems := valid(&m.Spec.NodeTemplateSpec)
	last, known, broken := lastTemplate(node)
	problems = append(problems, broken...)

	replace(want.Labels, last.Labels, m.Spec.NodeTemplateSpec.Labels, template.Labels)
	replace(want.Annotations, last.Annotations, m.Spec.NodeTemplateSpec.Annotations, template.Annotations)
	want.Spec.Taints = taints(want.Spec.Taints, last.Spec.Taints, template.Spec.Taints)
	keep(want, node, machinev1.LastAppliedNodeTemplateAnnotation, machinev1.LastAppliedVirtualCapacityAnnotation)
	if !known || !sameTemplate(last, &m.Spec.NodeTemplateSpec) {
		noteTemplate(want, &m.Spec.NodeTemplateSpec, len(broken) > 0)
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

// replace takes away what the last template had and the new one does not
// mention, and puts in what the new one has and is valid.
func replace(have, last, mentioned, wanted map[string]string) {
	for key := range last {
		if _, still := mentioned[key]; !still {
			delete(have, key)
		}
	}
	maps.Copy(have, wanted)
}

// keep restores annotations that a template must not set.
func keep(want, node *corev1.Node, keys ...string) {
	for _, key := range keys {
		if value, ok := node.Annotations[key]; ok {
			want.Annotations[key] = value
		} else {
			delete(want.Annotations, key)
		}
	}
}

// lastTemplate returns what was applied last, and whether that is known. One
// that cannot be read counts as empty.
func lastTemplate(node *corev1.Node) (last *machinev1.NodeTemplateSpec, known bool, broken []problem) {
	last = &machinev1.NodeTemplateSpec{}
	text, ok := node.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if !ok {
		return last, false, nil
	}
	if err := json.Unmarshal([]byte(text), last); err != nil {
		return &machinev1.NodeTemplateSpec{}, false, []problem{{eventInvalidAnnotation, unreadable(node, machinev1.LastAppliedNodeTemplateAnnotation,
			"labels, annotations and taints that are not in spec.nodeTemplate any more", err)}}
	}
	return last, true, nil
}

// noteTemplate writes down the template as applied, in MCM's form: the JSON of the whole.
// An empty one needs no note unless it replaces one that cannot be read.
func noteTemplate(want *corev1.Node, template *machinev1.NodeTemplateSpec, always bool) {
	if !always && len(template.Labels) == 0 && len(template.Annotations) == 0 && len(template.Spec.Taints) == 0 {
		if _, noted := want.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]; !noted {
			return
		}
	}
	text, err := json.Marshal(template)
	if err != nil {
		return // a type that was read from JSON
	}
	want.Annotations[machinev1.LastAppliedNodeTemplateAnnotation] = string(text)
}

// sameTemplate compares what is applied of two templates.
func sameTemplate(a, b *machinev1.NodeTemplateSpec) bool {
	return equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, sameTaint)
}

func unreadable(node *corev1.Node, annotation, leftovers string, err error) string {
	return "annotation " + annotation + " of node " + node.Name + " cannot be read (" + err.Error() +
		") and is written anew; remove by hand from the node: " + leftovers
}
