// Package nodetemplate makes a Node what a template asks for: labels,
// annotations and taints. What was applied is recorded on the Node in MCM's form,
// so that a later template, of either API, takes away what it does not have any more.
package nodetemplate

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A Problem is a part of a template, class or Machine that cannot be applied to the Node or removed from it.
// Text has the field or annotation, and what to do.
type Problem struct {
	// Note is set when the record of what was applied is at fault, and not the
	// template. It is reported once: the record is rewritten.
	Note bool
	Text string
}

// Fields are the paths of a template's parts in the object that has it, for
// Problems.
type Fields struct{ Labels, Annotations, Taints string }

// Apply returns the Node with the template applied, and the problems found. It changes
// only what the template names or has named, and does not modify node. It is
// idempotent.
func Apply(node *corev1.Node, template *machinev1.NodeTemplateSpec, fields Fields) (*corev1.Node, []Problem) {
	want := node.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	accepted, problems := valid(template, fields)
	last, known, broken := lastOf(node)
	replace(want.Labels, last.Labels, template.Labels, accepted.Labels)
	replace(want.Annotations, last.Annotations, template.Annotations, accepted.Annotations)
	want.Spec.Taints = taints(want.Spec.Taints, last.Spec.Taints, accepted.Spec.Taints)
	restoreRecords(want, node)
	if broken != "" {
		problems = append(problems, Problem{Note: true, Text: broken})
	}
	if !known || !Same(last, template) {
		recordApplied(want, template, broken != "")
	}
	return want, problems
}

// Same reports whether two templates have the same labels, annotations and taints.
func Same(a, b *machinev1.NodeTemplateSpec) bool {
	return equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, sameTaint)
}

// Empty reports whether a template has no labels, annotations and taints.
func Empty(t *machinev1.NodeTemplateSpec) bool {
	return len(t.Labels) == 0 && len(t.Annotations) == 0 && len(t.Spec.Taints) == 0
}

// Unreadable is the text of a Problem with an annotation in which this manager
// records what it has applied; leftovers is what can no longer be told apart from others' entries.
func Unreadable(node *corev1.Node, annotation, leftovers string, err error) string {
	return "annotation " + annotation + " of node " + node.Name + " cannot be read (" + err.Error() +
		") and is written again; remove by hand from the node: " + leftovers
}

// replace removes what the last template had and the new one does not mention, and adds
// what is valid in the new one.
func replace(have, last, mentioned, wanted map[string]string) {
	for key := range last {
		if _, still := mentioned[key]; !still {
			delete(have, key)
		}
	}
	maps.Copy(have, wanted)
}

// recordKeys are the annotations that no template reaches.
func recordKeys() []string {
	return []string{machinev1.LastAppliedNodeTemplateAnnotation, machinev1.LastAppliedVirtualCapacityAnnotation}
}

// restoreRecords restores them, should the record list them as parts of a template.
func restoreRecords(want, node *corev1.Node) {
	for _, key := range recordKeys() {
		if value, ok := node.Annotations[key]; ok {
			want.Annotations[key] = value
		} else {
			delete(want.Annotations, key)
		}
	}
}

// lastOf returns what was applied last, and whether that is known. One that
// cannot be read counts as empty, and broken tells why.
func lastOf(node *corev1.Node) (last *machinev1.NodeTemplateSpec, known bool, broken string) {
	last = &machinev1.NodeTemplateSpec{}
	text, ok := node.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if !ok {
		return last, false, ""
	}
	if err := json.Unmarshal([]byte(text), last); err != nil {
		return &machinev1.NodeTemplateSpec{}, false, Unreadable(node, machinev1.LastAppliedNodeTemplateAnnotation,
			"labels, annotations and taints that are not in spec.nodeTemplate any more", err)
	}
	return last, true, ""
}

// recordApplied records the template as applied, in MCM's form: the JSON of the whole.
// An empty one needs no record unless it replaces one, or one that cannot be read.
func recordApplied(want *corev1.Node, template *machinev1.NodeTemplateSpec, always bool) {
	_, recorded := want.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if !recorded && !always && Empty(template) {
		return
	}
	text, err := json.Marshal(template)
	if err != nil {
		return // a type that was read from JSON
	}
	want.Annotations[machinev1.LastAppliedNodeTemplateAnnotation] = string(text)
}
